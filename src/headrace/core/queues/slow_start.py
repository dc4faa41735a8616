"""Slow start after an outage: claim 1 job, then 2, 4, ... so that a recovering server is not flooded. Pure."""

from __future__ import annotations


class SlowStart:
    """How many jobs a worker may claim: without an outage, as many as it has room for."""

    def __init__(self) -> None:
        self._most: int | None = None

    def lost(self) -> None:
        """The store was unavailable, or did not answer."""
        self._most = 1

    def allows(self, room: int) -> int:
        """How many of `room` jobs to claim."""
        return room if self._most is None else min(room, self._most)

    def answered(self, asked: int) -> None:
        """The store has answered a claim for so many. The slow start ends when the worker has no room for more."""
        if self._most is not None and asked > 0:
            self._most = 2 * self._most if asked == self._most else None
