"""The options of a task and of a single call: what is allowed, and the errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType, structs

from headrace.core.codec.result_refs import is_result_ref
from headrace.core.jobs import ids
from headrace.core.jobs.dependencies import POLICIES, Policy
from headrace.core.jobs.queue_rules import Rate, TaskRules
from headrace.core.jobs.records import Isolation
from headrace.core.option_times import LONGEST_WAIT, SHORTEST, check_run_at, check_seconds, check_wait
from headrace.core.queues.rates import check_units
from headrace.core.queues.rules_text import changed, check_rule
from headrace.core.retention.lifecycle import Lifecycle
from headrace.core.retention.policy_fields import check_removal
from headrace.core.tasks.batches import LONGEST_WITHIN, check_batch, ensure_batchable
from headrace.core.tasks.labels import (
    LABEL,
    check_capabilities,
    check_index,
    check_label_or_none,
    check_labels,
    check_tags,
)
from headrace.core.tasks.other_libraries import option_hint
from headrace.core.tasks.retry import Retry, as_retry
from headrace.core.tasks.unique import Cache, Unique, check_key
from headrace.core.text import a_kind, nearest, short
from headrace.errors import ConfigError, InvalidJob

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
LONGEST_TIMEOUT = 86_400
GRACE = 5000  # milliseconds for an interrupted task to end
_MAX_ROWS = 10_000
QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}")
# Lone surrogates have no UTF-8, so no store could hold them.
TASK_NAME = re.compile(r"[^\s\x00-\x1f\x7f\ud800-\udfff]{1,100}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# The options that match a second call to the first. A job with dependencies can't be matched.
SAMENESS = ("unique", "idempotency_key", "debounce", "throttle", "cache")
_CONFLICTS = (
    ("unique", "idempotency_key"),
    ("unique", "cache"),
    ("debounce", "throttle"),
    *((one, other) for one in ("idempotency_key", "cache") for other in ("debounce", "throttle")),
    *((one, other) for one in SAMENESS for other in ("after", "parent")),
    ("idempotency_key", "cache"),
    ("delay", "debounce"),
    ("debounce", "run_at"),
)
_NOTHING = {"delay": 0}  # the value that unsets an option, where it is not None
CONNECTIONS = "a Connection of sqlite3, psycopg or SQLAlchemy, a Session of SQLAlchemy, or Django's connection"


class Options(Struct, frozen=True, kw_only=True):
    """Checked options; times in milliseconds. UNSET ones follow the next layer down."""

    queue: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    delay: int | UnsetType = UNSET
    run_at: int | UnsetType = UNSET
    expires: int | UnsetType | None = UNSET
    timeout: int | UnsetType | None = UNSET
    retry: Retry | int | UnsetType = UNSET
    isolation: Isolation | UnsetType = UNSET
    keep_result: bool | UnsetType = UNSET
    keep_logs: bool | UnsetType = UNSET
    interrupt: int | UnsetType = UNSET
    lifo: bool | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    job_id: str | UnsetType = UNSET
    unique: Unique | UnsetType | None = UNSET
    idempotency_key: str | UnsetType | None = UNSET
    debounce: int | UnsetType | None = UNSET
    throttle: int | UnsetType | None = UNSET
    cache: Cache | UnsetType | None = UNSET
    after: tuple[str, ...] | UnsetType = UNSET
    on_parent_failure: Policy | UnsetType = UNSET
    parent: str | UnsetType | None = UNSET
    needs: tuple[str, ...] | UnsetType = UNSET
    rate_key: str | UnsetType | None = UNSET
    concurrency_key: str | UnsetType | None = UNSET
    cost: int | UnsetType = UNSET
    budget: int | UnsetType = UNSET
    rate: Rate | UnsetType | None = UNSET
    burst: int | UnsetType | None = UNSET
    concurrency: int | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    index: tuple[str, ...] | UnsetType = UNSET
    metadata: Mapping[str, Any] | UnsetType = UNSET
    redact: tuple[str, ...] | UnsetType = UNSET
    batch: int | UnsetType = UNSET
    within: int | UnsetType = UNSET
    remove_on_complete: bool | int | UnsetType = UNSET
    remove_on_fail: bool | int | UnsetType = UNSET
    lifecycle: Lifecycle | UnsetType = UNSET
    connection: Any = UNSET

    def over(self, below: Options) -> Options:
        """These options, with unset ones taken from `below`."""
        given = {name: value for name, value in structs.asdict(self).items() if value is not UNSET}
        return structs.replace(below, **given)

    def rules(self) -> TaskRules:
        """The rules that a task declares with `rate`, `burst` and `concurrency`."""
        given = {"rate": self.rate, "burst": self.burst, "concurrency": self.concurrency}
        known = {name: value for name, value in given.items() if value not in (UNSET, None)}
        return changed(TaskRules(), known) if known else TaskRules()


OPTION_NAMES = Options.__struct_fields__


def checked(given: Mapping[str, Any]) -> Options:
    """A user's options, or InvalidJob that names the option, the value and the rule."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _CHECKS:
            text = f"unknown option {name!r}{_suggestion(name)}; options are {', '.join(OPTION_NAMES)}"
            raise InvalidJob(text, field=name)
        try:
            values[name] = _CHECKS[name](name, value)
        except InvalidJob as error:
            error.concerns(name, value)
            raise
    if "delay" in values and "run_at" in values:
        raise InvalidJob("delay and run_at exclude each other; give one of them", field="delay")
    options = Options(**values)
    ensure_agreement(options)
    return options


def ensure_agreement(options: Options) -> None:
    """Refuse options that conflict about a second call like this one."""
    for one, other in _CONFLICTS:
        if getattr(options, one) and getattr(options, other):
            raise InvalidJob(
                f"{one} and {other} exclude each other; give one of them. "
                f"A call can unset an option of its task: using({one}={_NOTHING.get(one)})",
                field=one,
            )
    if options.unique and not options.unique.is_key_only and (options.debounce or options.throttle):
        name = "debounce" if options.debounce else "throttle"
        raise InvalidJob(f"unique: {name} decides about a second call itself; with it, give only by or key")
    ensure_batchable(options)
    options.rules()  # a burst needs a rate
    if options.cache and options.keep_result is False:
        raise InvalidJob("cache and keep_result=False exclude each other: the cache needs the result", field="cache")


def check_queue(name: str, value: Any) -> str:
    if not isinstance(value, str) or not QUEUE_NAME.fullmatch(value):
        raise InvalidJob(
            f"{name}: {short(value)} is not a queue name; use 1 to 50 letters, digits, '_', '-' or '.', "
            "beginning with a letter or digit",
            value=value,
        )
    return value


def check_task_name(value: Any) -> str:
    if not isinstance(value, str) or not TASK_NAME.fullmatch(value):
        raise InvalidJob(
            f"task name: {short(value)} must have 1 to 100 characters and no blanks", field="task", value=value
        )
    return value


def check_priority(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY:
        raise InvalidJob(
            f"{name}: {short(value)} is not a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY} "
            "(higher runs first)",
            value=value,
        )
    return value


def check_text(name: str, value: Any) -> str:
    """Text that a store can search for."""
    if not isinstance(value, str):
        raise InvalidJob(f"{name}: expected text, got {short(value)}", value=value)
    if _SURROGATE.search(value):
        raise InvalidJob(
            f"{name}: {short(value)} has a lone surrogate, which is no character; decode it properly", value=value
        )
    return value


def check_limit(name: str, value: Any) -> int:
    """How many rows to read at once."""
    if type(value) is not int or not 1 <= value <= _MAX_ROWS:
        raise InvalidJob(f"{name}: expected 1 to {_MAX_ROWS}, got {short(value)}", value=value)
    return value


def check_name(name: str, value: Any) -> str:
    """A name that a user gives, without control characters."""
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        raise InvalidJob(
            f"{name}: expected a name of 1 to 100 characters, none of them a control character, got {short(value)}",
            value=value,
        )
    return value


def _suggestion(name: str) -> str:
    if hint := option_hint(name):
        return f" ({hint})"
    near = nearest(name, OPTION_NAMES)
    return f" (did you mean {near!r}?)" if near else ""


def _timeout(name: str, value: Any) -> int | None:
    return None if value is None else check_seconds(name, value, SHORTEST, LONGEST_TIMEOUT)


def _retry(name: str, value: Any) -> Retry | int:
    try:
        retry = as_retry(value)
        return value if isinstance(value, Retry) else retry.limit
    except ConfigError as error:
        raise InvalidJob(str(error)) from None


def _isolation(name: str, value: Any) -> Isolation:
    if value not in ("thread", "async", "process"):
        raise InvalidJob(f"{name}: expected 'thread', 'async' or 'process', got {short(value)}", value=value)
    return cast(Isolation, value)


def _interrupt(name: str, value: Any) -> int:
    """The milliseconds to end in after an interrupt; 0 for none."""
    if isinstance(value, bool):
        return GRACE if value else 0
    if isinstance(value, int | float | timedelta):
        return check_seconds(name, value, SHORTEST, LONGEST_TIMEOUT)
    raise InvalidJob(f"{name}: expected True, False or seconds to end in, got {short(value)}", value=value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(f"{name}: expected True or False, got {short(value)}", value=value)
    return value


def _id(name: str, value: Any) -> str:
    return str(ids.check_id(value))


def _unique(name: str, value: Any) -> Unique | None:
    if value is None or isinstance(value, bool):
        return Unique() if value else None
    if not isinstance(value, Unique):
        raise InvalidJob(
            f"{name}: expected True or a Unique, such as Unique(by=('args',)), got {short(value)}", value=value
        )
    return value


def _idempotency_key(name: str, value: Any) -> str | None:
    try:
        return None if value is None else check_key(name, value)
    except ConfigError as error:
        raise InvalidJob(str(error)) from None


def _span(name: str, value: Any) -> int | None:
    return None if value is None else check_seconds(name, value, SHORTEST, LONGEST_WAIT)


def _rule(name: str, value: Any) -> Any:
    return None if value is None else check_rule(name, value)


def _cache(name: str, value: Any) -> Cache | None:
    if value is not None and not isinstance(value, Cache):
        raise InvalidJob(f"{name}: expected a Cache, such as Cache(ttl=60), got {short(value)}", value=value)
    return value


def _job(name: str, value: Any) -> str | None:
    return None if value is None else _one_job(name, value)


def check_jobs(name: str, value: Any) -> tuple[str, ...]:
    """Each of them once. A single one need not be in a list."""
    if isinstance(value, str) or is_result_ref(value):
        value = (value,)
    if not isinstance(value, Iterable):
        raise InvalidJob(f"{name}: expected jobs or their ids, got {short(value)}", value=value)
    return tuple(dict.fromkeys(_one_job(name, job) for job in value))


def _one_job(name: str, value: Any) -> str:
    job_id = value.result_ref_id if is_result_ref(value) else value
    if not isinstance(job_id, str):
        raise InvalidJob(f"{name}: expected a job or its id, got {short(value)}", value=value)
    return ids.check_id(job_id, name)


def check_policy(name: str, value: Any) -> Policy:
    if value not in POLICIES:
        raise InvalidJob(f"{name}: expected {', '.join(map(repr, POLICIES))}, got {short(value)}", value=value)
    return cast(Policy, value)


def _metadata(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidJob(f"{name}: expected a dict with text keys, got {short(value)}", value=value)
    return dict(value)


def _lifecycle(name: str, value: Any) -> Lifecycle:
    if not isinstance(value, Lifecycle):
        raise InvalidJob(
            f"{name}: expected Lifecycle(...), such as Lifecycle(max_pending=600), got {short(value)}", value=value
        )
    return value


def _connection(name: str, value: Any) -> Any:
    # Only an engine knows the library, and whether the connection leads to the store. The value is not shown: it may be
    # a URL with a password.
    if not (hasattr(value, "execute") or hasattr(value, "cursor")):
        raise InvalidJob(f"{name}: expected {CONNECTIONS}, got {a_kind(value)}")
    return value


_CHECKS = {
    "queue": check_queue,
    "priority": check_priority,
    "delay": check_wait,
    "run_at": check_run_at,
    "expires": _span,
    "timeout": _timeout,
    "retry": _retry,
    "isolation": _isolation,
    "interrupt": _interrupt,
    **dict.fromkeys(("keep_result", "keep_logs", "lifo", "preemptible"), _flag),
    "job_id": _id,
    "unique": _unique,
    "idempotency_key": _idempotency_key,
    "debounce": _span,
    "throttle": _span,
    "cache": _cache,
    "after": check_jobs,
    "on_parent_failure": check_policy,
    "parent": _job,
    "needs": check_capabilities,
    "rate_key": check_label_or_none,
    "concurrency_key": check_label_or_none,
    "cost": check_units,
    "budget": check_units,
    **dict.fromkeys(("rate", "burst", "concurrency"), _rule),
    "tags": check_tags,
    "index": check_index,
    "metadata": _metadata,
    "redact": check_labels,
    "batch": check_batch,
    "within": lambda name, value: check_seconds(name, value, 0, LONGEST_WITHIN),
    "remove_on_complete": check_removal,
    "remove_on_fail": check_removal,
    "lifecycle": _lifecycle,
    "connection": _connection,
}
