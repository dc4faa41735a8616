"""Job ids: UUIDv7 text that sorts by time. Also the check of ids that users choose.

Randomness, a lock and the fork hook are the only impure parts. The caller passes the time.
"""

from __future__ import annotations

import os
import re
import threading
from random import Random

from headrace.core.text import short
from headrace.errors import InvalidJob

GIVEN = re.compile(r"[A-Za-z0-9_.:@/=-]{1,128}")
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_LAST_MS = 2**48 - 1
_LOW_END = 2**48
_STRIDE = 0x2545F491


class _Source:
    """Generates strictly increasing ids, whatever the clock does.

    The ids of one millisecond share a random head; their last 48 bits count up from a random start. With 73 random bits
    at each start, two processes do not collide. If the clock stands still or steps back, the count continues.

    They count in strides that change every digit. Steps of one would do as well, except on Redis: its Lua hashes a text
    by every third or fourth character, and most records around such ids would have the same hash.
    """

    __slots__ = ("_head", "_lock", "_low", "_ms", "_random")

    def __init__(self) -> None:
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """A forked child must neither repeat its parent's ids nor wait for a lock of a parent's thread."""
        self._lock = threading.Lock()
        # Not the random module's own state: a user's random.seed() would make all processes alike.
        self._random = Random(os.urandom(32)).getrandbits
        self._ms = -1
        self._head = ""
        self._low = _LOW_END

    def take(self, now_ms: int) -> str:
        with self._lock:
            if now_ms > self._ms or self._low >= _LOW_END:
                self._open(max(now_ms, self._ms + 1))
            low = self._low
            self._low = low + _STRIDE
            return f"{self._head}{low:012x}"

    def take_many(self, now_ms: int, count: int) -> list[str]:
        made: list[str] = []
        while len(made) < count:
            made.append(self.take(now_ms))
            with self._lock:
                end = min(self._low + (count - len(made)) * _STRIDE, _LOW_END)
                lows = range(self._low, end, _STRIDE)
                self._low += len(lows) * _STRIDE
                made += [f"{self._head}{low:012x}" for low in lows]
        return made

    def _open(self, ms: int) -> None:
        if ms > _LAST_MS:
            raise ValueError(f"now_ms is {ms}; an id holds at most {_LAST_MS} milliseconds since 1970")
        bits = self._random(73)
        # Half of the count's range stays free above its start.
        self._ms, self._low = ms, bits & 0x7FFF_FFFF_FFFF
        time, high = f"{ms:012x}", bits >> 47
        self._head = f"{time[:8]}-{time[8:]}-7{high >> 14:03x}-{0x8000 | high & 0x3FFF:04x}-"


_source = _Source()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_source.reset_after_fork)


def new_id(now_ms: int) -> str:
    """An id greater than every id this process generated before."""
    return _source.take(now_ms)


def new_ids(now_ms: int, count: int) -> list[str]:
    """`count` ids, each greater than every one before it in this process."""
    return _source.take_many(now_ms, count)


def time_of(job_id: str) -> int | None:
    """The milliseconds since 1970 in a generated id; None for an id of another kind."""
    match = _UUID7.fullmatch(job_id)
    return int(match[1] + match[2], 16) if match else None


def check_id(text: object, name: str = "job_id") -> str:
    """Check an id that a user chose for a job."""
    if not isinstance(text, str) or not GIVEN.fullmatch(text):
        raise InvalidJob(
            f"{name} is {short(text)}; use 1 to 128 letters, digits and _ - . : @ / = (letters without accents)",
            value=text,
        )
    return text
