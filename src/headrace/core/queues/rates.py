"""Rates: how many jobs, or units of jobs, may start in a time. Pure.

A rate has one window or several; a job starts when all have room. Each window has a bucket, stored as the time when it
will be full again. A window of the clock counts in the same way, but from the end of its period instead of from now: so
a stored time is over only when the bucket can be deleted. All times are in microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, structs

from headrace.core.damaged_records import read_or
from headrace.core.jobs.queue_rules import Rate
from headrace.core.text import short
from headrace.errors import ConfigError, InvalidJob

_SECONDS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
}
_WRITTEN = {"s": 1, "min": 60, "h": 3600, "day": 86_400}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_ONE = rf"\s*{_NUMBER}(?:\s*[Uu]nits?)?\s*(?:/|\s+[Pp][Ee][Rr]\s+)\s*(?:{_NUMBER})?\s*[A-Za-z]+\s*"
RATES = re.compile(f"{_ONE}(?:,{_ONE})*")
_PARTS = re.compile(rf"\s*({_NUMBER})(\s*[Uu]nits?)?\s*(?:/|\s+[Pp][Ee][Rr]\s+)\s*({_NUMBER})?\s*([A-Za-z]+)\s*")
_MAX_WINDOWS = 5
MOST_UNITS = 1_000_000_000
_FASTEST, _SLOWEST = 1_000_000, 1 / (366 * 86400)  # starts per second; slower rates are mistakes, and overflow a store
_TOLERANCE, _LONGEST_DEBT = 60_000_000, 10 * 366 * 86_400_000_000


def _base(window: Rate, now: int) -> int:
    """The time from which a window counts."""
    return now - now % window.period + window.period if window.period else now


def allows(window: Rate, full_at: int, now: int) -> int:
    """How many may start now, where `full_at` is when the bucket will be full again."""
    base = _base(window, now)
    return max((base + window.burst * window.every - max(full_at, base)) // window.every, 0)


def spent(window: Rate, full_at: int, now: int, starts: int) -> int:
    """When the bucket will be full again after so many starts, or so many units."""
    return _capped(window, max(full_at, _base(window, now)) + starts * window.every, now)


def _capped(window: Rate, full_at: int, now: int) -> int:
    """The time, with a debt of units that a store can hold: ten years' worth."""
    return min(full_at, now + window.burst * window.every + _LONGEST_DEBT) if window.units else full_at


def opens_at(window: Rate, full_at: int, starts: int = 1) -> int:
    """When so many more may start; more than the burst start when the bucket is full."""
    moment = full_at - max(window.burst - starts, 0) * window.every
    return (-(-moment // window.period) - 1) * window.period if window.period else moment


def has_room(window: Rate, full_at: int, now: int, units: int) -> bool:
    """Whether a job of so many units may start. One with more than the burst needs a full bucket."""
    return allows(window, full_at, now) >= min(units, window.burst)


def corrected(window: Rate, full_at: int, now: int, charged: int, used: int, started_at: int) -> int:
    """When the bucket will be full again, if a job used other units than it was charged when it started.

    Units of a period that is over are not given to the next one.
    """
    if used > charged:
        return spent(window, full_at, now, used - charged)
    is_over = window.period and started_at < _base(window, now) - window.period
    return full_at if is_over else full_at - (charged - used) * window.every


def plausible(window: Rate, full_at: int, now: int) -> int:
    """The time of a stored bucket; one that no start explains is corrected, since the clock was set back.

    Units may be charged afterwards, so that the bucket owes some.
    """
    # A claim that began before the end of a period may run after one that began later.
    latest = _base(window, now) + window.burst * window.every + window.period
    return latest if full_at > latest + (_LONGEST_DEBT if window.units else _TOLERANCE) else full_at


def starts_left(rate: Rate, full_at: Sequence[int], now: int) -> int:
    """How many jobs all windows allow to start now."""
    moments = full_at or [0] * len(rate.windows)
    return min(allows(window, moment, now) for window, moment in zip(rate.windows, moments, strict=True))


def check_units(name: str, value: Any, least: int = 1) -> int:
    if type(value) is not int or not least <= value <= MOST_UNITS:
        raise InvalidJob(
            f"{name}: expected a whole number of units from {least} to {MOST_UNITS:,}, got {short(value)}", value=value
        )
    return value


class _Cost(Struct):
    """What a job costs, in its stored options."""

    cost: Annotated[int, Meta(ge=1)] = 1


_cost = msgspec.json.Decoder(_Cost).decode


def units_of(options: str | bytes | None) -> int:
    """The units of a job with these stored options; 1 without any."""
    return read_or(_cost, options, _Cost()).cost if options else 1


# -- texts


class _Written(NamedTuple):
    """One window as written: so many in so many seconds."""

    number: float
    seconds: float
    units: bool

    @property
    def slowness(self) -> tuple[float, bool]:
        return self.seconds / self.number, self.units


def as_rate(text: str, burst: int | None = None) -> Rate:
    """A rate as a user writes it: "10/s", "5 per hour", "3/10s", "60/min, 1000/h", "60/min, 10000 units/min".

    The fastest of several is spread evenly, so it has the burst, by default one second's worth; likewise the fastest
    one that counts units. The others are windows of the clock: spread evenly, they would make the fastest pointless.
    """
    found = sorted(_written(text), key=lambda window: window.slowness)
    even = [next((one for one in found if one.units is units), None) for units in (False, True)]
    windows = [_even(one) for one in even if one is not None]
    windows += [_of_clock(one, text) for one in found if not any(one is other for other in even)]
    first = windows[0]
    return structs.replace(first, burst=first.burst if burst is None else burst, more=tuple(windows[1:]))


def _written(text: str) -> list[_Written]:
    parts = text.split(",") if RATES.fullmatch(text) else []
    found = [_read(match, text) for part in parts if (match := _PARTS.fullmatch(part))]
    if not found or None in found or len(found) > _MAX_WINDOWS:
        raise ConfigError(
            f"rate: {short(text)} is no rate; write so many per time, such as '10/s', '100/min' or '3/10s', or up to "
            f"{_MAX_WINDOWS} of them with commas, such as '60/min, 1000/h'",
            value=text,
        )
    return [window for window in found if window is not None]


def _read(match: re.Match[str], text: str) -> _Written | None:
    unit = _seconds_of(match[4].lower())
    if unit is None:
        return None
    number, seconds = float(match[1]), float(match[3] or 1) * unit
    if not seconds or not _SLOWEST <= number / seconds <= _FASTEST:
        raise ConfigError(
            f"rate: {short(text)} must be at least one a year and at most {_FASTEST} a second", value=text
        )
    return _Written(number, seconds, bool(match[2]))


def _seconds_of(name: str) -> int | None:
    """The seconds of a unit; only long names have plurals, so that "ms" is not read as minutes."""
    return _SECONDS.get(name) or (_SECONDS.get(name.removesuffix("s")) if len(name) > 2 else None)


def _even(window: _Written) -> Rate:
    every = max(round(1_000_000 * window.seconds / window.number), 1)
    # Not from `every`, whose rounding would turn "6/s" into five.
    return Rate(every, max(int(window.number / window.seconds + 1e-9), 1), units=window.units)


def _of_clock(window: _Written, text: str) -> Rate:
    period, number = round(1_000_000 * window.seconds), int(window.number)
    if number != window.number:
        raise ConfigError(f"rate: {short(text)}: only the fastest rate may have a fraction", value=text)
    return Rate(period // number, number, period, window.units)  # rounded down, so that a full window fits its period


def format_rate(rate: Rate) -> str:
    """The text of a rate, which `as_rate` reads as the same windows."""
    return ", ".join(map(_format_window, rate.windows))


def _format_window(window: Rate) -> str:
    unit = " units" if window.units else ""
    if not window.period:
        return _format_even(window, unit)
    whole = (name for name in reversed(_WRITTEN) if not window.period % (1_000_000 * _WRITTEN[name]))
    name = next(whole, "s")
    length = window.period / (1_000_000 * _WRITTEN[name])
    return f"{window.burst}{unit}/{'' if length == 1 else f'{length:.6g}'}{name}"


def _format_even(window: Rate, unit: str) -> str:
    """In the smallest unit that makes it a whole number; otherwise in one that makes it at least 1."""
    counts = [(1_000_000 * seconds / window.every, name) for name, seconds in _WRITTEN.items()]
    counts = [(starts, name) for starts, name in counts if starts >= 1] or counts[-1:]
    for starts, name in counts:
        if whole := _whole(starts, 0.51 * starts / window.every):
            return f"{whole}{unit}/{name}"
    starts, name = counts[0]
    return f"{starts:.6g}{unit}/{name}"


def _whole(starts: float, tolerance: float) -> int | None:
    """The roundest whole number that this may stand for, if any.

    A rate is stored as an interval in whole microseconds: that of 1500/s is 667, which makes it 1499.25.
    """
    numbers = (float(f"{starts:.{digits}g}") for digits in range(1, 8))
    return next((int(number) for number in numbers if number.is_integer() and abs(number - starts) <= tolerance), None)
