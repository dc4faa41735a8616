"""Facts about the process of a worker: liveness, memory, its id."""

from __future__ import annotations
