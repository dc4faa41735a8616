"""How a worker comes back to a store that was away: one job first, then twice as many each time. Pure.

A server that has just come up has everybody at its door. Who asks for all he could run, and loses it again because that
was too much, helps nobody; who asks for a little and gets it is at full speed a few turns later.
"""

from __future__ import annotations


class SlowStart:
    """What one worker may ask for. As long as nothing is wrong, that is whatever it has room for."""

    def __init__(self) -> None:
        self._most: int | None = None

    def lost(self) -> None:
        """The store could not be reached, or did not answer."""
        self._most = 1

    def allows(self, room: int) -> int:
        """How many of `room` jobs to ask for."""
        return room if self._most is None else min(room, self._most)

    def answered(self, asked: int) -> None:
        """The store has answered to who asked for so many. Who had no room for all it may have is back."""
        if self._most is not None and asked > 0:
            self._most = 2 * self._most if asked == self._most else None
