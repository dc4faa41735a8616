"""`headrace archive`, `partitions`, `lifecycle` and `stale`."""

from __future__ import annotations
