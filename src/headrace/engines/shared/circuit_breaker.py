"""Fails fast while a server is away, and finds out by itself when it is back.

After a few failures in a row nobody is sent to the server any more, until a pause is over; then one caller may try.
Its success lets everybody through again, its failure makes the pause longer.
"""

from __future__ import annotations

import random
import threading
import time

from headrace.errors import EngineUnavailable

_FAILURES = 5
_PAUSE_FIRST, _PAUSE_LONGEST = 0.25, 5.0


class CircuitBreaker:
    """Stands between callers and one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._closed_until = 0.0
        self._trying = False
        self._reason = ""

    def check(self) -> None:
        """Raise EngineUnavailable if it is of no use to ask the server now."""
        if self._failures < _FAILURES:
            return
        with self._lock:
            if self._failures < _FAILURES:  # somebody succeeded just now
                return
            left = self._closed_until - time.monotonic()
            if left > 0:
                raise EngineUnavailable(f"{self._reason}; it is asked again in {left:.1f} s")
            self._trying = True
            self._closed_until = time.monotonic() + self._pause  # the others wait for what this caller finds

    def succeeded(self) -> None:
        if self._failures:
            with self._lock:
                self._failures, self._pause, self._trying = 0, 0.0, False

    def failed(self, reason: str) -> None:
        with self._lock:
            self._failures += 1
            self._reason = reason
            # A crowd that was under way when the server left fails one after the other: only who was sent to try tells
            # something new. Otherwise one short outage would make the longest pause.
            if self._failures == _FAILURES or self._trying:
                self._trying = False
                self._pause = min(max(self._pause * 2, _PAUSE_FIRST), _PAUSE_LONGEST)
                # Not all processes at the same moment: a server that comes up is not met by a crowd.
                self._closed_until = time.monotonic() + self._pause * random.uniform(0.5, 1.0)
