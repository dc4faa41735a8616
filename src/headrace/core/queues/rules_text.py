"""The rules of queues and tasks as an operator writes them: what is allowed, and the errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from msgspec import structs

from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRules
from headrace.core.option_times import SHORTEST
from headrace.core.queues.limits import STRATEGIES, as_rate
from headrace.core.text import nearest, short
from headrace.errors import ConfigError, InvalidJob

Rules = TypeVar("Rules", QueueRules, TaskRules)
Check = Callable[[str, Any], Any]
MAX_JOBS, MAX_WEIGHT = 1_000_000_000, 1000
MAX_AGEING = 365 * 86_400
_UNITS = {"s": 1, "min": 60, "h": 3600, "day": 86_400}


def _count(name: str, value: Any, most: int = MAX_JOBS, lifted: str = "no limit") -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise InvalidJob(
            f"{name}: expected a whole number from 1 to {most:,}, or None for {lifted}, got {short(value)}", value=value
        )
    return value


def _weight(name: str, value: Any) -> int:
    return _count(name, value, MAX_WEIGHT, "the usual weight of 1")


def _burst(name: str, value: Any) -> int:
    return _count(name, value, lifted="what starts in a second")


def _strategy(name: str, value: Any) -> str:
    if value not in STRATEGIES:
        raise InvalidJob(f"{name}: expected one of {', '.join(STRATEGIES)}, got {short(value)}", value=value)
    return str(value)


def _ageing(name: str, value: Any) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not SHORTEST <= seconds <= MAX_AGEING:
        raise InvalidJob(
            f"{name}: expected the seconds of waiting that count as one point of priority, got {short(value)}",
            value=value,
        )
    return round(1000 * seconds)


def _rate(name: str, value: Any) -> Rate:
    if isinstance(value, Rate):
        return value
    if not isinstance(value, str):
        raise InvalidJob(f"{name}: expected text such as '10/s', '100/min' or '3/10s', got {short(value)}", value=value)
    try:
        return as_rate(value)
    except ConfigError as error:
        raise InvalidJob(str(error).replace("rate:", f"{name}:", 1)) from None


_OF_QUEUES: dict[str, Check] = {
    "max_length": _count,
    "weight": _weight,
    "strategy": _strategy,
    "ageing": _ageing,
    "rate": _rate,
    "burst": _burst,
    "concurrency": _count,
    "key_rate": _rate,
    "key_burst": _burst,
    "key_concurrency": _count,
}
_OF_TASKS: dict[str, Check] = {"rate": _rate, "burst": _burst, "concurrency": _count, "strategy": _strategy}
_CHECKS: dict[type, dict[str, Check]] = {QueueRules: _OF_QUEUES, TaskRules: _OF_TASKS}
QUEUE_RULES, TASK_RULES = tuple(_OF_QUEUES), tuple(_OF_TASKS)


def check_rule(name: str, value: Any) -> Any:
    """The value of one rule as stored."""
    return _OF_QUEUES[name](name, value)


def changed(rules: Rules, given: Mapping[str, Any]) -> Rules:
    """The rules with the given changes; None removes a rule."""
    values = _checked(_CHECKS[type(rules)], given)
    for rate, burst in (("rate", "burst"), ("key_rate", "key_burst")):
        if rate in values or burst in values:
            _join(rules, values, rate, burst)
    return structs.replace(rules, **values)


def _checked(checks: Mapping[str, Check], given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        raise InvalidJob(f"configure() needs at least one rule; rules are {', '.join(checks)}")
    for name in given:
        if name not in checks:
            near = nearest(name, checks)
            meant = f" (did you mean {near!r}?)" if near else ""
            raise InvalidJob(f"unknown rule {short(name)}{meant}; rules are {', '.join(checks)}", field=name)
    return {name: None if value is None else _one(checks[name], name, value) for name, value in given.items()}


def _one(check: Check, name: str, value: Any) -> Any:
    try:
        return check(name, value)
    except InvalidJob as error:
        error.concerns(name, value)
        raise


def _join(rules: QueueRules | TaskRules, values: dict[str, Any], rate: str, burst: str) -> None:
    """A burst belongs to its rate: alone, it changes the present one, and a new rate brings its own."""
    new: Rate | None = values.get(rate, getattr(rules, rate))
    if burst in values:
        most = values.pop(burst)
        if new is not None:
            new = Rate(new.every, as_rate(format_rate(new)).burst if most is None else most)
        elif most is not None:
            raise InvalidJob(f"{burst}: it belongs to a {rate}; give that too")
    values[rate] = new


def format_rules(rules: QueueRules | TaskRules) -> str:
    """The rules as an operator reads them: `rate=10/s burst=20 concurrency=5`."""
    parts = []
    for name, value in structs.asdict(rules).items():
        if isinstance(value, Rate):
            parts.append(f"{name}={format_rate(value)} {name.replace('rate', 'burst')}={value.burst}")
        elif value is not None and value is not False:
            parts.append(f"{name}={value / 1000:g}s" if name == "ageing" else f"{name}={str(value).lower()}")
    return " ".join(parts)


def format_rate(rate: Rate) -> str:
    """A rate in the smallest unit that makes it a whole number; otherwise one that makes it at least 1."""
    counts = [(1_000_000 * seconds / rate.every, unit) for unit, seconds in _UNITS.items()]
    counts = [(starts, unit) for starts, unit in counts if starts >= 1] or counts[-1:]
    for starts, unit in counts:
        if whole := _whole(starts, 0.51 * starts / rate.every):
            return f"{whole}/{unit}"
    starts, unit = counts[0]
    return f"{starts:.6g}/{unit}"


def _whole(starts: float, tolerance: float) -> int | None:
    """The roundest whole number that this may stand for, if any.

    A rate is stored as an interval in whole microseconds: that of 1500/s is 667, which makes it 1499.25.
    """
    numbers = (float(f"{starts:.{digits}g}") for digits in range(1, 8))
    return next((int(number) for number in numbers if number.is_integer() and abs(number - starts) <= tolerance), None)
