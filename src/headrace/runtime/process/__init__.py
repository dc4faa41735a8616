"""Facts about the process of a worker: liveness, memory, recycling, its id."""

from __future__ import annotations
