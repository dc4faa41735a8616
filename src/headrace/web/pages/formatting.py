"""Formats numbers, durations and times. Pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.core.codec import codec
from headrace.errors import HeadraceError

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_LARGE = ((1_000_000_000, "B"), (1_000_000, "M"), (10_000, "k"))
_BYTES = ("B", "KB", "MB", "GB", "TB")


def exact(number: float) -> str:
    """1234567 as 1,234,567."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}".rstrip("0").rstrip(".")


def brief(number: float | None) -> str:
    """A count in few characters: 1,234, then 12.3k and 1.2M. Small fractions keep two digits."""
    if number is None:
        return "–"
    for size, unit in _LARGE:
        if abs(number) >= size:
            scale = 1000 if unit == "k" else size
            return f"{number / scale:.3g}{unit}" if abs(number) / scale < 999.5 else f"{number / scale:,.0f}{unit}"
    if isinstance(number, int) or float(number).is_integer():
        return f"{int(number):,}"
    return (
        f"{number:.2f}".rstrip("0") if abs(number) < 10 else f"{number:,.1f}" if abs(number) < 100 else f"{number:,.0f}"
    )


def share(part: float | None) -> str:
    """A share from 0 to 1 in percent."""
    if part is None:
        return "–"
    percent = 100 * part
    return f"{percent:.0f}%" if percent >= 10 or percent in (0, 1) else f"{percent:.1f}%"


def size(count: float | None) -> str:
    """A number of bytes."""
    if count is None:
        return "–"
    for unit in _BYTES:
        if abs(count) < 1024 or unit == _BYTES[-1]:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def span(seconds: float | None) -> str:
    """A duration in its two largest units: 820 ms, 3.2 s, 4 min 10 s, 2 d 3 h."""
    if seconds is None:
        return "–"
    seconds = max(seconds, 0.0)
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.00095 or seconds == 0 else f"{1000 * seconds:.1g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    for index, (length, unit) in enumerate(_UNITS[:-1]):
        if whole >= length:
            first, rest = divmod(whole, int(length))
            second, second_unit = int(rest // _UNITS[index + 1][0]), _UNITS[index + 1][1]
            return f"{first} {unit} {second} {second_unit}" if second and first < 100 else f"{first} {unit}"
    return f"{whole} s"


def distance(moment: datetime, now: datetime) -> str:
    """A time relative to now in one unit: 5 s ago, in 3 min, 2 d ago. The scripts update it in the same format."""
    seconds = (now - moment).total_seconds()
    length = abs(seconds)
    if length < 1:
        return "now"
    unit_length, unit = next((candidate for candidate in _UNITS if length >= candidate[0]), _UNITS[-1])
    text = f"{int(length // unit_length)} {unit}"
    return f"{text} ago" if seconds > 0 else f"in {text}"


def stamp(moment: datetime) -> str:
    """The exact time in UTC; scripts show it in the reader's zone."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short_id(job_id: str) -> str:
    """The end of a long id, which is distinct: ids begin with their time."""
    return job_id if len(job_id) <= 14 else f"…{job_id[-8:]}"


def plain_json(value: Any, *, indent: int = 2) -> str:
    """A value as indented JSON, with tags for types that JSON lacks; the enqueue form accepts the same."""
    try:
        text = codec.encode(list(value) if isinstance(value, tuple) else value)
    except HeadraceError:
        return repr(value)
    return msgspec.json.format(text.encode(), indent=indent).decode()
