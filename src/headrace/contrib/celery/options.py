"""Celery's options of tasks and calls, translated to those of headrace. Every refusal says what to use instead."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace import Retry
from headrace.contrib.celery.exceptions import CeleryError, refuse
from headrace.core.tasks.retry import LONGEST_LIMIT
from headrace.core.text import short

# Options that mean nothing here, because headrace always does or never needs it.
WITHOUT_EFFECT = frozenset({
    "acks_late", "acks_on_failure_or_timeout", "reject_on_worker_lost", "track_started", "send_events",
    "store_errors_even_if_ignored", "compression", "trail", "typing", "shared", "lazy", "throws", "abstract",
    "resultrepr_maxsize", "retry", "retry_policy", "add_to_parent", "shadow", "publisher", "producer",
    "ignore_result_errors", "root_id", "parent_id", "pydantic", "pydantic_strict", "priority_steps", "delivery_mode",
    "mandatory", "persistent", "argsrepr", "kwargsrepr", "replaced_task_nesting",
})  # fmt: skip
_INSTEAD = {
    "routing_key": "there are no exchanges; name the queue with queue=",
    "exchange": "there are no exchanges; name the queue with queue=",
    "exchange_type": "there are no exchanges; name the queue with queue=",
    "router": "give the queue with queue=, or set app.conf.task_routes",
    "connection": "leave it out: the app has the store; headrace's own `connection` joins your database transaction",
    "chord": "write chord(header, body)",
    "group_id": "write group(...)",
    "reply_to": "read the result with AsyncResult(id)",
}
_UNITS = {"s": "s", "m": "min", "h": "h"}


def refuse_foreign(given: Mapping[str, Any]) -> None:
    """Refuse options that do not carry over."""
    for name in given:
        if name in _INSTEAD:
            raise refuse(name, _INSTEAD[name])
    if given.get("serializer") not in (None, "json"):
        raise refuse(
            f"serializer={given['serializer']!r}", "arguments are stored as JSON, with dates, UUIDs and models"
        )


# -- of a task


def task_options(of: Callable[[str], Any]) -> dict[str, Any]:
    """The options of headrace for a task; `of` reads an option of Celery's, None if it is not set."""
    options: dict[str, Any] = {"retry": _retry(of)}
    for name in ("queue", "priority"):
        if of(name) is not None:
            options[name] = of(name)
    if of("ignore_result"):
        options["keep_result"] = False
    if of("expires") is not None:
        options["expires"] = of("expires")
    if of("rate_limit") is not None:
        options["rate"] = rate(of("rate_limit"))
    hard, soft = of("time_limit"), of("soft_time_limit")
    if hard is not None:
        options["timeout"] = hard
    if hard is not None or soft is not None:
        options["isolation"] = "process"  # where a task can be interrupted and killed
    return options


def rate(given: Any) -> str:
    """Celery's rate "10/m", or a number for each second, as headrace writes it."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return f"{given:g}/s"
    number, _, unit = str(given).partition("/")
    if not isinstance(given, str) or (unit and unit not in _UNITS):
        raise CeleryError(f"rate_limit: expected a number, '10/s', '10/m' or '10/h', got {short(given)}")
    return f"{number}/{_UNITS[unit or 's']}"


def _retry(of: Callable[[str], Any]) -> Retry:
    more = of("retry_kwargs") or {}
    limit = more["max_retries"] if "max_retries" in more else of("max_retries")
    # Like Celery, repeat only what is named and what calls retry(): headrace alone would repeat most errors.
    on = tuple(of("autoretry_for") or ()) or ("celery.exceptions.Retry",)
    delay = more.get("countdown", of("default_retry_delay"))
    backoff: Any = "fixed"
    if of("retry_backoff"):
        backoff = _Backoff(of("retry_backoff"), of("retry_backoff_max"), of("retry_jitter"))
    return Retry(
        limit=LONGEST_LIMIT if limit is None else limit,
        backoff=backoff,
        base=delay,
        cap=max(delay, 3600.0),
        floor=0.0,
        jitter=0.0,
        on=on,
        never=tuple(of("dont_autoretry_for") or ()),
        on_timeout=False,
    )


class _Backoff:
    """Celery's exponential backoff: `factor`, twice that, four times, up to `most`; with jitter, any time below it."""

    def __init__(self, factor: Any, most: float, jitter: bool) -> None:
        self._factor = 1 if factor is True else factor
        self._most = most
        self._jitter = jitter

    def __call__(self, attempt: int, error: BaseException) -> float:
        longest = float(min(self._most, self._factor * 2 ** min(attempt - 1, 60)))
        return random.uniform(0, longest) if self._jitter else longest


# -- of a call


def call_options(given: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The options of headrace for one call."""
    refuse_foreign(given)
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name in WITHOUT_EFFECT or name == "serializer":
            continue
        if name not in _CALL:
            raise CeleryError(f"apply_async: {name!r} is not an option; options are {', '.join(_CALL)}")
        options |= _CALL[name](value, now)
    return options


def _eta(value: Any, now: datetime) -> dict[str, Any]:
    if not isinstance(value, datetime):
        raise CeleryError(f"eta: expected a datetime, got {short(value)}")
    return {"run_at": value if value.tzinfo else value.replace(tzinfo=UTC)}


def _expires(value: Any, now: datetime) -> dict[str, Any]:
    if isinstance(value, datetime):
        value = max(((value if value.tzinfo else value.replace(tzinfo=UTC)) - now).total_seconds(), 0.001)
    return {"expires": value}


def _time_limit(value: Any, now: datetime) -> dict[str, Any]:
    return {"timeout": value, "isolation": "process"}


def _soft_time_limit(value: Any, now: datetime) -> dict[str, Any]:
    raise refuse("apply_async(soft_time_limit=...)", "set it for the task, with @app.task(soft_time_limit=...)")


_CALL: dict[str, Callable[[Any, datetime], dict[str, Any]]] = {
    "countdown": lambda value, now: {"delay": value},
    "eta": _eta,
    "expires": _expires,
    "queue": lambda value, now: {"queue": str(getattr(value, "name", value))},
    "priority": lambda value, now: {"priority": value},
    "task_id": lambda value, now: {"job_id": value},
    "ignore_result": lambda value, now: {"keep_result": not value},
    "time_limit": _time_limit,
    "soft_time_limit": _soft_time_limit,
    "headers": lambda value, now: {"metadata": dict(value)},
}


def seconds_of(value: float | timedelta | None) -> float | None:
    """A countdown in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else value
