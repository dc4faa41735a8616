"""Times in options: durations and moments."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from headrace.core.clock import instant_ms, to_ms
from headrace.core.text import short
from headrace.errors import InvalidJob

SHORTEST, LONGEST_WAIT = 0.001, 100 * 365 * 86_400
_LAST_MOMENT = 253_402_300_799_999  # of the year 9999, after which Python has no dates


def check_moment(name: str, value: Any) -> int:
    if not isinstance(value, datetime):
        raise InvalidJob(f"{name}: expected a datetime with a time zone, got {short(value)}", value=value)
    if value.utcoffset() is None:
        raise InvalidJob(
            f"{name}: {short(value)} has no time zone; use datetime.now(UTC) or .replace(tzinfo=...)", value=value
        )
    return instant_ms(value)


def check_run_at(name: str, value: Any) -> int:
    moment = check_moment(name, value)
    if moment < 0:
        raise InvalidJob(
            f"{name}: {short(value)} lies before 1970; to run a job at once, leave {name} out", value=value
        )
    if moment > _LAST_MOMENT:
        raise InvalidJob(f"{name}: {short(value)} lies after the year 9999", value=value)
    return moment


def check_wait(name: str, value: Any) -> int:
    """How long a job waits, in seconds or as a timedelta."""
    return check_seconds(name, value, 0, LONGEST_WAIT)


def check_timeout(name: str, value: Any) -> float | None:
    """How long to wait, in seconds; None means forever, and so does a time too long to represent."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf <= value:  # nan
        raise InvalidJob(
            f"{name}: expected seconds, or None to wait for any length of time, got {short(value)}", value=value
        )
    return None if value > LONGEST_WAIT else max(value, 0)


def check_seconds(name: str, value: Any, least: float, most: float) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not least <= seconds <= most:
        raise InvalidJob(
            f"{name}: expected seconds (or a timedelta) from {least:g} to {most:g}, got {short(value)}", value=value
        )
    return to_ms(seconds)
