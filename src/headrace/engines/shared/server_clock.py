"""A server's clock, extrapolated by this machine: the store's time without asking for it each time.

Clocks of hosts differ and jump, but leases need one time for all. So the server is asked now and then, and in between a
counter that never jumps is added to its answer. An outage does not stop it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

from headrace.errors import EngineUnavailable

_TRUSTED_FOR = 30.0
_PRECISE = 0.02
_MOST_READS = 3
# Continues while the machine sleeps, where the platform has such a counter.
_COUNTER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime") else None


_elapsed: Callable[[], float] = time.monotonic if _COUNTER is None else partial(time.clock_gettime, _COUNTER)


class ServerClock:
    """Milliseconds of the store's time; of this machine until the store was reached for the first time."""

    def __init__(self, read_time: Callable[[], int]) -> None:
        self.read_time = read_time
        self._ahead_of_counter: float | None = None
        self._read_at = self._tried = -_TRUSTED_FOR

    def now(self) -> int:
        ahead = self._ahead_of_counter
        if ahead is None:
            self._try_once()
            ahead = self._ahead_of_counter
        return time.time_ns() // 1_000_000 if ahead is None else int(_elapsed() * 1000 + ahead)

    def _try_once(self) -> None:
        """Ask before the first answer, but do not block every caller while the server is away."""
        if _elapsed() - self._tried >= _TRUSTED_FOR:
            self._tried = _elapsed()
            with contextlib.suppress(EngineUnavailable):
                self.refresh()

    def refresh(self) -> None:
        """Ask the server for its time if the last answer is too old, and again if the answer was slow."""
        if _elapsed() - self._read_at < _TRUSTED_FOR:
            return
        for _ in range(_MOST_READS):
            if self._read() <= _PRECISE:
                return

    def _read(self) -> float:
        """The seconds that the answer was under way. They are what is unknown of the server's time."""
        before = _elapsed()
        answer = self.read_time()
        after = _elapsed()
        # The server read its clock somewhere in between. Nothing may run early, so late is the safe side. A slow answer
        # is imprecise: it changes the known offset only as far as that must be wrong.
        least, most = answer - after * 1000, answer - before * 1000
        known = self._ahead_of_counter
        # The answer is in whole milliseconds: up to one more may have passed.
        if known is None or not least <= known < most + 1:
            known = least if known is None or known < least else most
        self._ahead_of_counter, self._read_at = known, after
        return after - before
