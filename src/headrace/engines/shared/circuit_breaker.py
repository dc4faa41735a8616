"""Fails fast while a server is unreachable, and detects when it is back.

After a few failures in a row, calls fail at once until a pause is over; then one caller may try. Its success closes
the circuit again; its failure doubles the pause.
"""

from __future__ import annotations

import random
import threading
import time

from headrace.errors import EngineUnavailable

_FAILURES = 5
_PAUSE_FIRST, _PAUSE_LONGEST = 0.25, 5.0


class CircuitBreaker:
    """Guards the calls of one process to one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._closed_until = 0.0
        self._trying = False
        self._reason = ""

    def check(self) -> None:
        """Raise EngineUnavailable while calls to the server are suspended."""
        if self._failures < _FAILURES:
            return
        with self._lock:
            if self._failures < _FAILURES:  # another caller has just succeeded
                return
            left = self._closed_until - time.monotonic()
            if left > 0:
                raise EngineUnavailable(f"{self._reason}; next try in {left:.1f} s")
            self._trying = True
            self._closed_until = time.monotonic() + self._pause  # the other callers wait for the result of this one

    def succeeded(self) -> None:
        if self._failures:
            with self._lock:
                self._failures, self._pause, self._trying = 0, 0.0, False

    def failed(self, reason: str) -> None:
        with self._lock:
            self._failures += 1
            self._reason = reason
            # Calls that were running when the server failed all fail one after the other. Only the failure of the trial
            # call extends the pause; otherwise one short outage would lead to the longest pause.
            if self._failures == _FAILURES or self._trying:
                self._trying = False
                self._pause = min(max(self._pause * 2, _PAUSE_FIRST), _PAUSE_LONGEST)
                # With jitter, so that a recovering server is not flooded by all processes at once.
                self._closed_until = time.monotonic() + self._pause * random.uniform(0.5, 1.0)
