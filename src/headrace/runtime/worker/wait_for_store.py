"""Waiting for an unavailable store, with growing pauses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from headrace.errors import EngineUnavailable
from headrace.runtime.process.outage_log import OutageLog

log = logging.getLogger("headrace.worker")
OUTAGE_FIRST, OUTAGE_LONGEST = 0.1, 2.0
_LOOK = 0.05  # seconds between two checks whether to give up


def await_store(write: Callable[[], object], gives_up: Callable[[], bool], outage_log: OutageLog) -> bool:
    """Wait until the store accepts a write; False if `gives_up` says so before.

    A permanent error is raised: a person has to fix it.
    """
    pause = OUTAGE_FIRST
    while True:
        try:
            write()
            outage_log.worked()
            return True
        except EngineUnavailable as error:
            if error.permanent:
                raise
            outage_log.failed(error)
        again = time.monotonic() + pause
        while time.monotonic() < again:
            if gives_up():
                log.info("stopped before the store became available")
                return False
            time.sleep(_LOOK)  # not an event: a signal handler of this thread may be the one that gives up
        pause = min(pause * 2, OUTAGE_LONGEST)


class Outage:
    """How long a worker pauses while its store is unavailable: twice as long each time."""

    def __init__(self, log: OutageLog) -> None:
        self.log = log
        self._pause = self._ends = 0.0

    @property
    def left(self) -> float:
        """The seconds left of the pause; 0 or less if it is over."""
        return self._ends - time.monotonic()

    def over(self) -> None:
        self._pause = 0.0
        self.log.worked()

    def longer(self, error: Exception) -> float:
        self.log.failed(error)
        return self.lasts(min(max(self._pause * 2, OUTAGE_FIRST), OUTAGE_LONGEST))

    def lasts(self, seconds: float) -> float:
        self._pause, self._ends = seconds, time.monotonic() + seconds
        return seconds
