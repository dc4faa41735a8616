"""The rules of queues and tasks as users write them: their names, bounds, texts and checks."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from msgspec import Struct

from headrace.core.fields import checked, entry, fields_of
from headrace.core.jobs.queue_rules import Rate, Strategy
from headrace.core.option_times import SHORTEST
from headrace.core.queues.limits import STRATEGIES
from headrace.core.queues.rates import RATES, as_rate
from headrace.core.text import short
from headrace.errors import ConfigError, InvalidJob

MAX_JOBS, MAX_WEIGHT = 1_000_000_000, 1000
MAX_AGEING = 365 * 86_400
_NAMES = ", ".join(STRATEGIES)


def check_count(name: str, value: Any, most: int = MAX_JOBS, lifted: str = "no limit") -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise InvalidJob(
            f"{name}: expected a whole number from 1 to {most:,}, or None for {lifted}, got {short(value)}", value=value
        )
    return value


def _weight(name: str, value: Any) -> int:
    return check_count(name, value, MAX_WEIGHT, "the usual weight of 1")


def _burst(name: str, value: Any) -> int:
    return check_count(name, value, lifted="what starts in a second")


def _strategy(name: str, value: Any) -> str:
    if value not in STRATEGIES:
        raise InvalidJob(f"{name}: expected one of {_NAMES}, got {short(value)}", value=value)
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
    text = ", ".join(value) if isinstance(value, list | tuple) and all(isinstance(x, str) for x in value) else value
    if not isinstance(text, str):
        raise InvalidJob(f"{name}: expected text such as '10/s', '100/min' or '3/10s', got {short(value)}", value=value)
    try:
        return as_rate(text)
    except ConfigError as error:
        raise InvalidJob(str(error).replace("rate:", f"{name}:", 1)) from None


RateText = Annotated[str, checked(_rate, pattern=f"^(?:{RATES.pattern})$")]
_Count = Annotated[int, checked(check_count, minimum=1, maximum=MAX_JOBS)]
_Burst = Annotated[int, checked(_burst, minimum=1, maximum=MAX_JOBS)]
_Weight = Annotated[int, checked(_weight, minimum=1, maximum=MAX_WEIGHT)]
_Ageing = Annotated[float, checked(_ageing, minimum=SHORTEST, maximum=MAX_AGEING)]
_Strategy = Annotated[Strategy, checked(_strategy)]
_RateEntry = entry("Maximum start rates, such as 10/s, or 60/min with 1000/h.", "RATE", "Rate", "10/s, 1000/h")
_BurstEntry = entry("Maximum starts at once after a pause.", "N", "Burst", "a second’s worth")


class QueueRuleFields(Struct, frozen=True, kw_only=True):
    """The rules of a queue; null is no rule."""

    max_length: Annotated[
        _Count | None,
        entry(
            "Maximum number of waiting jobs; beyond it, enqueuing raises QueueFull.",
            "N",
            "Maximum waiting jobs",
            "no limit",
        ),
    ] = None
    weight: Annotated[_Weight | None, entry("Share of claims relative to other queues.", "N", "Weight", "1")] = None
    strategy: Annotated[
        _Strategy | None, entry(f"Order of its jobs: {_NAMES}.", "NAME", "Strategy", "priority (default)")
    ] = None
    ageing: Annotated[
        _Ageing | None,
        entry(
            "Waiting time worth one point of priority",
            "TIME",
            "Ageing, seconds",
            "off",
            typed=": seconds or 10m, 2h.",
        ),
    ] = None
    rate: Annotated[RateText | None, _RateEntry] = None
    burst: Annotated[_Burst | None, _BurstEntry] = None
    concurrency: Annotated[
        _Count | None, entry("Maximum running jobs, over all workers.", "N", "Concurrency", "no limit")
    ] = None
    key_rate: Annotated[
        RateText | None, entry("Maximum start rates of each rate_key.", "RATE", "Rate of a key", "no limit")
    ] = None
    key_burst: Annotated[
        _Burst | None,
        entry("Maximum starts at once of each rate_key after a pause.", "N", "Burst of a key", "a second’s worth"),
    ] = None
    key_concurrency: Annotated[
        _Count | None, entry("Maximum running jobs of each concurrency_key.", "N", "Concurrency of a key", "1")
    ] = None


class KeyRuleFields(Struct, frozen=True, kw_only=True):
    """The rules of one key of a queue, in place of those of every key; null is no rule of its own."""

    rate: Annotated[
        RateText | None, entry("Maximum start rates of this key.", "RATE", "Rate of this key", "that of every key")
    ] = None
    burst: Annotated[
        _Burst | None,
        entry("Maximum starts at once of this key after a pause.", "N", "Burst of this key", "a second’s worth"),
    ] = None
    concurrency: Annotated[
        _Count | None,
        entry("Maximum running jobs with this key.", "N", "Concurrency of this key", "that of every key"),
    ] = None
    weight: Annotated[
        _Weight | None, entry("Starts in each of its turns among the keys.", "N", "Weight of this key", "1")
    ] = None


class TaskRuleFields(Struct, frozen=True, kw_only=True):
    """The rules of a task; null is no rule."""

    rate: Annotated[RateText | None, _RateEntry] = None
    burst: Annotated[_Burst | None, _BurstEntry] = None
    concurrency: Annotated[
        _Count | None, entry("Maximum running jobs, over all queues and workers.", "N", "Concurrency", "no limit")
    ] = None
    strategy: Annotated[
        _Strategy | None,
        entry(
            f"Order among its own jobs; overrides that of the queue: {_NAMES}.", "NAME", "Strategy", "the queue’s own"
        ),
    ] = None


QUEUE_RULES, TASK_RULES = fields_of(QueueRuleFields), fields_of(TaskRuleFields)
KEY_RULES = fields_of(KeyRuleFields)
