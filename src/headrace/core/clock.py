"""The source of time. The only module of core that may read a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

# The earliest and the latest time shown; a day from the limits, for other time zones.
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class Clock(Protocol):
    """Gives the wall-clock time as milliseconds since the epoch, in UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


def to_datetime(ms: int | None) -> datetime | None:
    """Milliseconds, as the store keeps them, to an aware datetime in UTC."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # no such time was ever stored: the record is damaged
        return _LAST if ms > 0 else _FIRST


def to_ms(seconds: float | timedelta) -> int:
    """A duration in seconds or as a timedelta to whole milliseconds, rounded up: nothing runs early."""
    value = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    return -int(-value * 1000 // 1)


def instant_ms(moment: datetime) -> int:
    """An aware datetime to milliseconds, rounded up: nothing runs early."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return -(-(delta // timedelta(microseconds=1)) // 1000)
