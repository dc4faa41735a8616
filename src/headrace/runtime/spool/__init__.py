"""The spool: jobs that wait in a local file while the store is away."""

from __future__ import annotations
