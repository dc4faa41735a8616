"""Time zones as periods of constant offset. Knows IANA names and offsets; knows nothing of cron or schedules.

The standard library gives the offset at an instant but not when it changes, so the changes are searched, a year at a
time, and cached. All times are milliseconds since 1970 in UTC, all offsets milliseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from headrace.core.text import nearest, short
from headrace.errors import InvalidSchedule

FARTHEST_CHANGE = 2 * 86_400_000  # no zone ever moved its clocks by more: crossing the date line is a day
FIRST_YEAR, LAST_YEAR = 1900, 9990  # Python's calendar ends soon after, and neighboring years are looked at
# Beside the zones, the directories of a system hold `localtime`, `posixrules` and others, which follow the host.
_NAME = re.compile(r"[A-Z][A-Za-z0-9_+/-]{0,63}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DAY = 86_400_000


class OffsetChange(NamedTuple):
    """The first instant of a new offset."""

    at: int
    before: int
    after: int


class OffsetPeriod(NamedTuple):
    """start <= instant < end have this offset. A neighbor has the same one where no change was found on that side."""

    start: int
    end: int
    offset: int
    offset_before: int
    offset_after: int


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The zone of this name, or InvalidSchedule that suggests another."""
    try:
        if _NAME.fullmatch(name):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, malformed, a directory such as "Europe"
        pass
    raise InvalidSchedule(f"tz: {short(name)} is not a known time zone; {_suggestion(name)}", value=name)


def _suggestion(name: str) -> str:
    from zoneinfo import available_timezones

    by_folded_name = {known.lower(): known for known in available_timezones() if _NAME.fullmatch(known)}
    if not by_folded_name:
        return "this system has no time zones at all, install the package tzdata"
    meant = nearest(name[:64].lower(), by_folded_name)
    return f"did you mean {by_folded_name[meant]!r}?" if meant else "use an IANA name such as 'Europe/Vienna'"


def offset_at(name: str, instant: int) -> int:
    """The zone's offset from UTC."""
    offset = (_EPOCH + instant * _MILLISECOND).astimezone(zone(name)).utcoffset()
    return (offset or timedelta()) // _MILLISECOND


def period_at(name: str, instant: int) -> OffsetPeriod:
    """The period of this instant; cut short if no change comes in the next year."""
    periods = _stretches(name, _year_of(instant))
    return next((one for one in periods if instant < one.end), periods[-1])


def next_change(name: str, after: int, within: int) -> int | None:
    """The first change of the clocks later than `after`, or None."""
    for year in range(_year_of(after), _year_of(after + within) + 1):
        for change in _changes(name, year):
            if after < change.at <= after + within:
                return change.at
    return None


@lru_cache(maxsize=1024)
def _stretches(name: str, year: int) -> tuple[OffsetPeriod, ...]:
    """The periods of a year, with enough before and after to know their neighbors."""
    # The end keeps its distance from the first change beyond it, which may make the times before it ambiguous.
    first, end = _new_year(year - 1), _new_year(year + 2) - FARTHEST_CHANGE
    found = [change for near in (year - 1, year, year + 1) for change in _changes(name, near) if change.at < end]
    outer = offset_at(name, first), offset_at(name, end)
    edges = [OffsetChange(first, outer[0], outer[0]), *found, OffsetChange(end, outer[1], outer[1])]
    return tuple(OffsetPeriod(one.at, two.at, one.after, one.before, two.after) for one, two in pairwise(edges))


@lru_cache(maxsize=4096)
def _changes(name: str, year: int) -> tuple[OffsetChange, ...]:
    """Found by daily checks; two changes within a day would be seen as one."""
    days = range(_new_year(year), _new_year(year + 1) + 1, _DAY)
    offsets = [offset_at(name, day) for day in days]
    return tuple(
        OffsetChange(_change_between(name, day, day + _DAY, before), before, after)
        for day, (before, after) in zip(days, pairwise(offsets), strict=False)
        if before != after
    )


def _change_between(name: str, low: int, high: int, offset: int) -> int:
    """The first whole second of another offset; `low` still has this one, `high` no longer."""
    while high - low > 1000:
        middle = low + (high - low) // 2000 * 1000
        low, high = (middle, high) if offset_at(name, middle) == offset else (low, middle)
    return high


def _year_of(instant: int) -> int:
    try:
        return min(max((_EPOCH + instant * _MILLISECOND).year, FIRST_YEAR), LAST_YEAR)
    except OverflowError:
        return LAST_YEAR if instant > 0 else FIRST_YEAR


def _new_year(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLISECOND
