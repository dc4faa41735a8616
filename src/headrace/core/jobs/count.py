"""How many jobs match, where to know it exactly would take too long."""

from __future__ import annotations

from msgspec import Struct


class JobCount(Struct, frozen=True):
    """How many jobs match: all of them, or at least so many."""

    jobs: int
    is_exact: bool
