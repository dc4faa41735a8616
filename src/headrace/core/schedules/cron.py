"""Cron expressions over wall-clock times. Owns their syntax; knows no zone, no schedule, no now.

cronsim does the search. It only gets wall-clock times, written as UTC, so that its own rules for daylight saving never
apply: `dst` decides which instant a wall-clock time is.

Syntax: five fields (minute, hour, day of month, month, day of week) or six (seconds first), names in any case,
lists, ranges and steps; `L` and `LW` for the last day and the last workday of the month, `5L` or `FRIL` for the last
Friday, `2#3` for the third Tuesday, `L` alone for the last day of the week, which is Saturday, `?` for `*`, 0 and 7 for
Sunday; or one of `ALIASES`. As in any cron, a day has to match the day of month OR the day of week if both are given,
but both if one of them begins with `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.core.text import nearest, short
from headrace.errors import InvalidSchedule

if TYPE_CHECKING:
    from cronsim import CronSim

LONGEST_TEXT = 200
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (
    ("a second", "0-59"),
    ("a minute", "0-59"),
    ("an hour", "0-23"),
    ("a day of month", "1-31, L for the last day or LW for the last workday"),
    ("a month", "1-12 or JAN-DEC"),
    ("a day of week", "0-7 or SUN-SAT, 5L for the last Friday or 2#3 for the third Tuesday"),
)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NAMED_LAST = re.compile(rf"\b({'|'.join(_DAYS)})L\b")
# cronsim takes the single value of `5-5/2` for the start of `5/2`.
_RANGE_OF_ONE = re.compile(r"\b(\w+)-\1/0*[1-9]\d*\b")
_UP_TO_SUNDAY = re.compile(r"(?<!SUN)-SUN\b")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DAY = 86_400_000


class Cron:
    """One expression. Wall-clock times are milliseconds since 1970, without a zone."""

    __slots__ = ("_expression", "_sets", "every_hour")

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._sets = _walker(expression, _EPOCH)
        self.every_hour = len(self._sets.hours) == 24

    def rising(self, after: int) -> Iterator[int]:
        """The wall times later than this one. Ends where nothing matches for fifty years."""
        return self._walk(after, reverse=False)

    def falling(self, before: int) -> Iterator[int]:
        """The wall times earlier than this one, the latest first."""
        return self._walk(before, reverse=True)

    def _walk(self, wall: int, reverse: bool) -> Iterator[int]:
        try:
            for moment in _walker(self._expression, _EPOCH + wall * _MILLISECOND, reverse):
                yield (moment - _EPOCH) // _MILLISECOND
        except OverflowError:  # the end of the calendar
            return

    def count(self, first: int, end: int) -> int:
        """How many wall times lie in first <= time < end, without walking through them."""
        if end <= first:
            return 0
        per_day = self._on_a_day_before(_DAY)
        whole = sum(map(self._has_day, range(first // _DAY, end // _DAY)))
        return whole * per_day + self._earlier_that_day(end) - self._earlier_that_day(first)

    def _earlier_that_day(self, wall: int) -> int:
        day, time = divmod(wall, _DAY)
        return self._on_a_day_before(time) if time and self._has_day(day) else 0

    def _has_day(self, number: int) -> bool:
        day = (_EPOCH + timedelta(days=number)).date()
        return day.month in self._sets.months and self._sets.match_day(day)

    def _on_a_day_before(self, time: int) -> int:
        """How many times of a matching day come before this one, counted from the widest field inwards."""
        minutes, second = divmod(-(-time // 1000), 60)
        hour, minute = divmod(minutes, 60)
        count = 1
        total = 0
        fields = ((self._sets.seconds, second), (self._sets.minutes, minute), (self._sets.hours, hour))
        for values, value in fields:
            total = sum(one < value for one in values) * count + (total if value in values else 0)
            count *= len(values)
        return total


@lru_cache(maxsize=1024)
def parsed(text: str) -> Cron:
    """The parsed expression, or InvalidSchedule that names the field."""
    if len(text) > LONGEST_TEXT:
        raise InvalidSchedule(
            f"cron: {short(text)} has {len(text)} characters; at most {LONGEST_TEXT} are allowed", value=text
        )
    fields = _RANGE_OF_ONE.sub(r"\1", _spelled_out(text).upper()).split()
    if len(fields) not in (5, 6):
        raise InvalidSchedule(
            f"cron: {short(text)} has {len(fields)} fields; use five (minute, hour, day of month, month, day of week) "
            "or six (seconds first)",
            value=text,
        )
    if len(fields) == 5:
        fields.insert(0, "0")
    fields[3] = "*" if fields[3] == "?" else fields[3]
    fields[5] = "*" if fields[5] == "?" else _plain_weekdays(fields[5])
    return _checked(text, fields)


def _spelled_out(text: str) -> str:
    alias = text.strip().lower()
    if not alias.startswith("@"):
        return text
    if alias not in ALIASES:
        meant = nearest(alias, ALIASES)
        hint = f"did you mean {meant!r}?" if meant else f"use one of {', '.join(ALIASES)}"
        raise InvalidSchedule(f"cron: {short(text)} is not known; {hint}", value=text)
    return ALIASES[alias]


def _plain_weekdays(field: str) -> str:
    """Replace what cronsim does not read: FRIL, L, and a range that ends on SUN, which it takes for day 0."""
    field = _NAMED_LAST.sub(lambda match: f"{_DAYS.index(match[1])}L", field)
    field = ",".join("6" if part == "L" else part for part in field.split(","))
    return _UP_TO_SUNDAY.sub("-7", field)


def _checked(text: str, fields: list[str]) -> Cron:
    from cronsim import CronSimError

    for place, (field, (name, allowed)) in enumerate(zip(fields, _FIELDS, strict=True)):
        alone = ["*"] * len(_FIELDS)
        alone[place] = field
        try:
            _walker(" ".join(alone), _EPOCH)
        except CronSimError as error:
            raise InvalidSchedule(
                f"cron: {short(field)} in {short(text)} is not {name}; use {allowed}, "
                "or lists, ranges and steps of these such as 1,5 or 1-5 or */5"
            ) from error
    try:
        cron = Cron(" ".join(fields))
    except CronSimError as error:  # each field is sound, but no month has such a day
        raise _never(text) from error
    if next(cron.rising(0), None) is None:
        raise _never(text)
    return cron


def _never(text: str) -> InvalidSchedule:
    return InvalidSchedule(
        f"cron: {short(text)} never occurs: no such day is in the calendar; change the day or month", value=text
    )


def _walker(expression: str, wall: datetime, reverse: bool = False) -> CronSim:
    # Deferred: a program that only enqueues has no use for it.
    from cronsim import CronSim

    return CronSim(expression, wall, reverse)
