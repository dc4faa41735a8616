"""How far ahead a worker fetches: only while jobs prove short, so that a long one never holds others behind it.

A stock is for the time that a turn with the store takes, and for turns to be worth what each of them costs: a store
that is slow, or far away, is asked for more at once.
"""

from __future__ import annotations

import time

_SHORT = 0.05  # seconds: what still counts as a short job
_LEAST, _MOST = 0.05, 0.2  # seconds of work to have at hand
_TURNS = 4  # turns that the work at hand should last for
_TOO_SOON = 0.002  # seconds that tell nothing


class Prefetch:
    """Measures how fast jobs finish, and how long the store takes."""

    def __init__(self, concurrency: int, most: int) -> None:
        self._concurrency = concurrency
        self._most = most
        self._rate = 0.0
        self._turn = 0.0
        self.idle()

    def turned(self, seconds: float, *, all_idle: bool = False) -> None:
        """So long the store took to settle and to give more; if no job ran meanwhile, that says nothing about jobs."""
        self._turn = (self._turn + seconds) / 2
        if all_idle:
            self._since += seconds

    def finished(self, jobs: int) -> None:
        """So many since the last time."""
        self._finished += jobs
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed < _TOO_SOON or not self._finished:
            return
        rate = self._finished / elapsed
        if rate > self._rate:
            self._rate = (self._rate + rate) / 2
        elif elapsed < _SHORT:
            return  # runners that were just woken have not shown yet what they can
        elif not self._starved:
            self._rate = rate
        self.idle()

    def starved(self) -> None:
        """Runners had nothing to do for a part of the time: jobs are at least as short as it looks."""
        self._starved = True

    def idle(self) -> None:
        """Nothing to do: the time until the next job says nothing about its length."""
        self._since, self._finished, self._starved = time.monotonic(), 0, False

    def stalled(self) -> None:
        """What was fetched ahead did not get its turn: jobs are no longer short."""
        self._rate = 0.0
        self.idle()

    @property
    def ahead(self) -> int:
        """How many jobs to hold beyond those that run."""
        if self._rate * _SHORT < self._concurrency:
            return 0
        horizon = min(max(self._turn * _TURNS, _LEAST), _MOST)
        return min(self._most, int(self._rate * horizon))
