"""Lengths of time: 60, "15m", "1h30m" or a timedelta, as whole milliseconds; and milliseconds as text."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any, Final

from headrace.core.text import short
from headrace.errors import InvalidJob

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|[smhdw])", re.ASCII)
_MAX_MS = 366 * 86_400_000


def window_ms(name: str, value: Any) -> int:
    """A length of time, up to a year; InvalidJob if it is none."""
    ms = _parse(value)
    if ms is None or not math.isfinite(ms):
        raise InvalidJob(
            f"{name}: expected seconds, a timedelta or text such as '15m' or '1h', got {short(value)}", value=value
        )
    if not 1000 <= ms <= _MAX_MS:
        raise InvalidJob(f"{name}: {short(value)} is out of range; use a second to a year", value=value)
    return round(ms)


def _parse(value: Any) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * 1000.0
    if not isinstance(value, str):
        return None
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def span_text(ms: int) -> str:
    """A duration in its two largest units."""
    seconds = max(ms, 0) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"
