"""A server's clock, carried on by this machine: the time of the store without asking it each time.

Hosts disagree about the time and step their clocks; leases need one time for all. So the server is asked now and
then, and in between the answer is carried on by a counter that nobody steps. An outage does not stop it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from headrace.errors import EngineUnavailable

_TRUSTED_FOR = 30.0
# Goes on while the machine sleeps, where there is such a counter.
_COUNTER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime") else None


def _elapsed() -> float:
    return time.monotonic() if _COUNTER is None else time.clock_gettime(_COUNTER)


class ServerClock:
    """Milliseconds of the store's time. As long as the store was never reached, those of this machine."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self.ask = ask
        self._ahead_of_counter: float | None = None
        self._asked = self._tried = -_TRUSTED_FOR

    def now(self) -> int:
        if self._ahead_of_counter is None:
            self._try_once()
        ahead = self._ahead_of_counter
        return time.time_ns() // 1_000_000 if ahead is None else int(_elapsed() * 1000 + ahead)

    def _try_once(self) -> None:
        """Ask before the first answer is given, but don't hold up everybody while the server is away."""
        if _elapsed() - self._tried >= _TRUSTED_FOR:
            self._tried = _elapsed()
            with contextlib.suppress(EngineUnavailable):
                self.keep_right()

    def keep_right(self) -> None:
        """Ask the server for its time if the last answer is no longer trusted."""
        before = _elapsed()
        if before - self._asked < _TRUSTED_FOR:
            return
        told = self.ask()
        after = _elapsed()
        # The server looked at its clock somewhere in between; nothing may run early, so late is the safe side. An
        # answer that was long under way tells little: what we know is changed by it only as far as it must be wrong.
        least, most = told - after * 1000, told - before * 1000
        known = self._ahead_of_counter
        # It told whole milliseconds: less than one more may have passed.
        if known is None or not least <= known < most + 1:
            known = least if known is None or known < least else most
        self._ahead_of_counter, self._asked = known, after
