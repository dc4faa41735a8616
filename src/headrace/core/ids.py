"""Job ids: UUIDv7 text that sorts by time. Also the rule for ids that users give themselves.

Randomness, a lock and the fork hook are the only things here that are not pure. The time is handed in.
"""

from __future__ import annotations

import os
import re
import threading
from random import Random

from headrace.core.words import short
from headrace.errors import InvalidJob

_GIVEN = re.compile(r"[A-Za-z0-9_.:@/=-]{1,128}")
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_LAST_MS = 2**48 - 1
_COUNT_END = 2**26


class _Source:
    """Hands out strictly increasing ids, whatever the clock does.

    Behind the time come 26 bits that count up within a millisecond, from a random start, and then 48 that are random
    in each id: two processes do not meet. A clock that stands still or steps back only makes the count go on.

    Ids that differ in their last digit alone would do as well, were it not for Redis: its Lua finds a text by a hash
    of every third or fourth letter, and would take most of the records around such ids for one and the same.
    """

    __slots__ = ("_count", "_lock", "_ms", "_random", "_time")

    def __init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> None:
        """A forked child must not repeat its parent, nor wait for a lock that a thread of the parent held."""
        self._lock = threading.Lock()
        # Not the random module's own numbers: a user's random.seed() would make all processes alike.
        self._random = Random(os.urandom(32)).getrandbits
        self._ms = -1
        self._time = ""
        self._count = _COUNT_END

    def take(self, now_ms: int) -> str:
        with self._lock:
            if now_ms > self._ms or self._count == _COUNT_END:
                self._open(max(now_ms, self._ms + 1))
            count, tail = self._count, self._random(48)
            self._count = count + 1
            return f"{self._time}{count >> 14:03x}-{0x8000 | count & 0x3FFF:04x}-{tail:012x}"

    def _open(self, ms: int) -> None:
        if ms > _LAST_MS:
            raise ValueError(f"now_ms is {ms}; an id holds at most {_LAST_MS} milliseconds since 1970")
        # Half of the count's range stays free above its start.
        self._ms, self._count = ms, self._random(25)
        self._time = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7"


_source = _Source()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_source.start_afresh)


def new_id(now_ms: int) -> str:
    """An id greater than every id this process made before."""
    return _source.take(now_ms)


def time_of(job_id: str) -> int | None:
    """The milliseconds since 1970 in an id made here; None for an id of another kind."""
    match = _UUID7.fullmatch(job_id)
    return int(match[1] + match[2], 16) if match else None


def check_id(text: object, name: str = "job_id") -> str:
    """The id a user chose for a job, if it may be one."""
    if not isinstance(text, str) or not _GIVEN.fullmatch(text):
        raise InvalidJob(
            f"{name} is {short(text)}; use 1 to 128 letters, digits and _ - . : @ / = (letters without accents)"
        )
    return text
