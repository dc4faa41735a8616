"""Waiting for a store that is away, with growing pauses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from headrace.errors import EngineUnavailable

log = logging.getLogger("headrace.worker")
OUTAGE_FIRST, OUTAGE_LONGEST = 0.1, 2.0
_LOOK = 0.05  # how often to look whether to give up


def await_store(write: Callable[[], object], gives_up: Callable[[], bool]) -> bool:
    """Wait until the store takes a write; False if this is given up before.

    What won't pass by itself is raised: somebody has to put it right.
    """
    pause = OUTAGE_FIRST
    while True:
        try:
            write()
            return True
        except EngineUnavailable as error:
            if error.permanent:
                raise
            log.warning("the store is not available: %s; trying again in %.1f s", error, pause)
        again = time.monotonic() + pause
        while time.monotonic() < again:
            if gives_up():
                log.info("stopped before the store was there")
                return False
            time.sleep(_LOOK)  # no event: who gives up may be a signal handler of this very thread
        pause = min(pause * 2, OUTAGE_LONGEST)


class Outage:
    """How long a worker pauses while its store is away: twice as long each time."""

    def __init__(self) -> None:
        self._pause = self._ends = 0.0

    @property
    def left(self) -> float:
        """The seconds that are left of the pause; none, or less, if it is over."""
        return self._ends - time.monotonic()

    def over(self) -> None:
        self._pause = 0.0

    def longer(self) -> float:
        return self.lasts(min(max(self._pause * 2, OUTAGE_FIRST), OUTAGE_LONGEST))

    def lasts(self, seconds: float) -> float:
        self._pause, self._ends = seconds, time.monotonic() + seconds
        return seconds
