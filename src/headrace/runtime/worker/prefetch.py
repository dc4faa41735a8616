"""How many jobs a worker prefetches: none unless jobs are short, so that a long job never holds others behind it.

Prefetched jobs bridge the time of an exchange with the store, and make each exchange worth its cost: a worker claims
more at once from a slow or distant store.
"""

from __future__ import annotations

import time

_SHORT = 0.05  # seconds: the longest short job
_LEAST, _MOST = 0.05, 0.2  # seconds of work to prefetch
_EXCHANGES = 4  # exchanges that the prefetched work should last for
_TOO_SOON = 0.002  # seconds: too short a time to measure


class Prefetch:
    """Measures how fast jobs finish, and how long the store takes."""

    def __init__(self, concurrency: int, most: int) -> None:
        self._concurrency = concurrency
        self._most = most
        self._rate = 0.0
        self._exchange_time = 0.0
        self.idle()

    def note_exchange(self, seconds: float, *, all_idle: bool = False) -> None:
        """Record how long an exchange took; if no job ran meanwhile, that time is not counted for jobs."""
        self._exchange_time = (self._exchange_time + seconds) / 2
        if all_idle:
            self._since += seconds

    def finished(self, jobs: int) -> None:
        """Record how many jobs finished since the last call."""
        self._finished += jobs
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed < _TOO_SOON or not self._finished:
            return
        rate = self._finished / elapsed
        if rate > self._rate:
            self._rate = (self._rate + rate) / 2
        elif elapsed < _SHORT:
            return  # runners that just woke up have not reached their rate yet
        elif not self._starved:
            self._rate = rate
        self.idle()

    def starved(self) -> None:
        """Runners were idle for part of the time, so jobs are at least as short as measured."""
        self._starved = True

    def idle(self) -> None:
        """Nothing to do: the time until the next job does not count."""
        self._since, self._finished, self._starved = time.monotonic(), 0, False

    def stalled(self) -> None:
        """Prefetched jobs did not start: jobs are no longer short."""
        self._rate = 0.0
        self.idle()

    @property
    def ahead(self) -> int:
        """How many jobs to hold beyond the running ones."""
        if self._rate * _SHORT < self._concurrency:
            return 0
        horizon = min(max(self._exchange_time * _EXCHANGES, _LEAST), _MOST)
        return min(self._most, int(self._rate * horizon))
