"""Where the time comes from. The only module of this floor that may read a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Gives the wall-clock time as milliseconds since the epoch, in UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


def to_datetime(ms: int | None) -> datetime | None:
    """Milliseconds, as the store keeps them, to an aware datetime in UTC."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def to_ms(seconds: float | timedelta) -> int:
    """A duration in seconds or as a timedelta to whole milliseconds, rounded up: nothing runs early."""
    value = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    return -int(-value * 1000 // 1)


def instant_ms(moment: datetime) -> int:
    """An aware datetime to milliseconds, rounded up: nothing runs early."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return -(-(delta // timedelta(microseconds=1)) // 1000)
