"""A count of matching jobs, which may be a lower bound where an exact count would take too long."""

from __future__ import annotations

from msgspec import Struct


class JobCount(Struct, frozen=True):
    """How many jobs match: exactly, or at least so many."""

    jobs: int
    is_exact: bool
