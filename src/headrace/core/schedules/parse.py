"""Parses the times and choices that users write for a schedule, or refuses them with a sentence.

Knows durations, moments, counts and choices; `schedule` combines them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, get_args
from zoneinfo import ZoneInfo

from headrace.core.clock import instant_ms, to_ms
from headrace.core.schedules import cron, zones
from headrace.core.text import nearest, short
from headrace.errors import InvalidSchedule

LONGEST_DURATION = 100 * 366 * 86_400_000
LAST_MOMENT = 253_402_300_799_999  # of the year 9999, after which Python has no dates


def duration(name: str, value: Any, least: int) -> int:
    """Seconds or a timedelta to milliseconds."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise InvalidSchedule(f"{name}: expected seconds or a timedelta, got {short(value)}", value=value)
    if not least <= number * 1000 <= LONGEST_DURATION:  # nan is not in any range
        raise InvalidSchedule(
            f"{name}: {short(value)} is out of range; use {least / 1000:g} seconds to 100 years", value=value
        )
    return to_ms(number)


def moment(name: str, value: Any) -> int | None:
    """An aware datetime to milliseconds; None stays None."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidSchedule(f"{name}: expected a datetime with a time zone, got {short(value)}", value=value)
    if value.utcoffset() is None:
        raise InvalidSchedule(
            f"{name}: {short(value)} has no time zone; write datetime(..., tzinfo=UTC) or "
            ".replace(tzinfo=ZoneInfo('Europe/Vienna'))",
            value=value,
        )
    instant = instant_ms(value)
    if not 0 <= instant <= LAST_MOMENT:
        raise InvalidSchedule(f"{name}: {short(value)} is out of range; use the years 1970 to 9999", value=value)
    return instant


def count(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidSchedule(
            f"{name}: expected a whole number from {least} to {most}, got {short(value)}", value=value
        )
    return value


def choice(name: str, value: Any, kinds: Any) -> Any:
    """One of the values of a Literal type."""
    choices = get_args(kinds)
    if not isinstance(value, str) or value not in choices:
        meant = nearest(value, choices) if isinstance(value, str) else None
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise InvalidSchedule(
            f"{name}: expected one of {', '.join(map(repr, choices))}, got {short(value)}{hint}", value=value
        )
    return value


def zone_name(value: Any) -> str:
    """The IANA name of a zone given by its name or as a ZoneInfo; UTC for None."""
    if value is None:
        return "UTC"
    name = value.key if isinstance(value, ZoneInfo) else value
    if not isinstance(name, str):
        raise InvalidSchedule(f"tz: expected an IANA name such as 'Europe/Vienna', got {short(value)}", value=value)
    zones.zone(name)
    return name


def expression(value: Any) -> str:
    """A valid cron expression that occurs at all, with single blanks."""
    if not isinstance(value, str):
        raise InvalidSchedule(f"cron: expected text such as '0 9 * * MON', got {short(value)}", value=value)
    cron.parsed(value)
    return " ".join(value.split())
