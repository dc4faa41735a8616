"""How far ahead a worker fetches: only while jobs prove short, so that a long one never holds others behind it."""

from __future__ import annotations

import time

_HORIZON = 0.05  # seconds of work to have at hand
_SHORT = 0.05  # what still counts as a short job


class Pace:
    """Measures how fast jobs finish."""

    def __init__(self, concurrency: int, most: int) -> None:
        self._concurrency = concurrency
        self._most = most
        self._rate = 0.0
        self._since = time.monotonic()
        self._finished = 0

    def finished(self, jobs: int, *, short_of_work: bool = False) -> None:
        """So many since the last time; if runners had nothing to do meanwhile, jobs are at least as short as that."""
        self._finished += jobs
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed >= 0.002 and self._finished:
            rate = self._finished / elapsed
            if rate > self._rate:
                self._rate = (self._rate + rate) / 2
            elif not short_of_work:
                self._rate = rate
            self._since, self._finished = now, 0

    def idle(self) -> None:
        """Nothing to do: the time until the next job says nothing about its length."""
        self._since, self._finished = time.monotonic(), 0

    def stalled(self) -> None:
        """What was fetched ahead did not get its turn: jobs are no longer short."""
        self._rate = 0.0
        self.idle()

    @property
    def ahead(self) -> int:
        """How many jobs to hold beyond those that run."""
        if self._rate * _SHORT < self._concurrency:
            return 0
        return min(self._most, int(self._rate * _HORIZON))
