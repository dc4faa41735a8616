"""Slow start after an outage: claim 1 job, then 2, 4, ... so that a recovering server is not flooded. Pure."""

from __future__ import annotations


class SlowStart:
    """How many jobs a worker may claim: without an outage, as many as it has capacity for."""

    def __init__(self) -> None:
        self._limit: int | None = None

    def lost(self) -> None:
        """The store was unavailable, or did not answer."""
        self._limit = 1

    def allows(self, capacity: int) -> int:
        """How many jobs to claim with this capacity."""
        return capacity if self._limit is None else min(capacity, self._limit)

    def answered(self, requested: int) -> None:
        """The store has answered a claim for so many jobs. The slow start ends when the worker can run no more."""
        if self._limit is not None and requested > 0:
            self._limit = 2 * self._limit if requested == self._limit else None
