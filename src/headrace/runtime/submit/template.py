"""Resolves the options of a task to the template of its next job.

Must not know engines, handles or the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET

from headrace.core.codec import codec
from headrace.core.codec.redaction import MASK, redact
from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.jobs.records import JobOptions
from headrace.core.queues.limits import Limit, lane_limits_of, lane_of, unique_limit
from headrace.core.tasks.index import Places, index_tags
from headrace.core.tasks.job_template import JobTemplate
from headrace.core.tasks.options import Options, ensure_agreement
from headrace.core.tasks.unique import (
    Unique,
    UniquePolicy,
    for_cache,
    for_debounce,
    for_idempotency,
    for_throttle,
    for_unique,
    unique_key,
)
from headrace.engines.shared.sql_files import as_json
from headrace.errors import InvalidJob
from headrace.runtime.jobs.task import Task, retry_of

DEFAULT_QUEUE = "default"


def tags_of(template: JobTemplate, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The stored tags of a call with these arguments."""
    if not template.index:
        return template.tags
    tags = (*template.own_tags, *index_tags(template.task, template.index, args, kwargs))
    return as_json(tags) if tags else None


def lane_in(template: JobTemplate, unique_key: str | None, limits: Sequence[Limit] = ()) -> str:
    """The lane of a job that has these limits besides those of its template."""
    if template.alone:
        limits = (*limits, unique_limit(unique_key))
    return lane_of([*lane_limits_of(template.lane), *limits]) if limits else template.lane


def template_of(task: Task[..., Any, Any], max_payload: int) -> JobTemplate:
    """The template of the task's next job, or InvalidJob if its options conflict. The task keeps it."""
    if task.template is None:
        task.template = _resolved(task, task.overrides, max_payload)
    return task.template


def _resolved(task: Task[..., Any, Any], overrides: Options, max_payload: int) -> JobTemplate:
    options = overrides.over(task.options)
    ensure_agreement(options)
    if overrides.isolation not in (UNSET, "process") and overrides.isolation != task.isolation:
        raise InvalidJob(f"isolation: task {task.name!r} can run as {task.isolation!r} or 'process'")
    if overrides.lifecycle is not UNSET:
        raise InvalidJob("lifecycle: set it for the task, with @app.task(lifecycle=...) or app.lifecycle.configure()")
    if overrides.index is not UNSET:
        raise InvalidJob("index: set it for the task, with @app.task(index=...)", field="index")
    if overrides.keep_logs is not UNSET:
        raise InvalidJob("keep_logs: set it for the task, with @app.task(keep_logs=...)", field="keep_logs")
    if overrides.interrupt is not UNSET:
        raise InvalidJob("interrupt: set it for the task, with @app.task(interrupt=...)", field="interrupt")
    if overrides.batch is not UNSET or overrides.within is not UNSET:
        raise InvalidJob("batch and within: set them for the task, with @app.task(batch=...)", field="batch")
    if overrides.rules() != TaskRules():
        raise InvalidJob(
            "rate, burst and concurrency: set them for the task, with @app.task(rate=...) or app.configure_task(); for "
            "a single call there are rate_key and concurrency_key"
        )
    queue = _unless_unset(options.queue, DEFAULT_QUEUE)
    return JobTemplate(
        task=task.name,
        queue=queue,
        priority=_unless_unset(options.priority, 0),
        delay=options.debounce or _unless_unset(options.delay, 0),
        run_at=_unless_unset(options.run_at, None),
        expires=_unless_unset(options.expires, None),
        max_attempts=retry_of(task, options).max_attempts,
        lifo=_unless_unset(options.lifo, False),
        job_id=_unless_unset(options.job_id, None),
        options=_stored_options(task, overrides, options, task.submits.words),
        tags=as_json(options.tags) if options.tags else None,
        metadata=codec.encode(options.metadata, limit=max_payload, where="metadata") if options.metadata else None,
        unique=_unique_policy(task, options, queue),
        lane=lane_of(_lane_limits(options)),
        alone=isinstance(options.unique, Unique) and options.unique.runs_alone,
        after=_unless_unset(options.after, ()),
        policy=_unless_unset(options.on_parent_failure, "cancel"),
        parent=_unless_unset(options.parent, None),
        index=index_of(task, options),
        own_tags=_unless_unset(options.tags, ()),
    )


def index_of(task: Task[..., Any, Any], options: Options) -> Places:
    """The indexed arguments of a call with these options; not those that the call redacts."""
    hidden = options.redact or ()
    return tuple(place for place in task.indexed if place[0] not in hidden)


def _unless_unset(value: Any, default: Any) -> Any:
    return default if value is UNSET else value


def _lane_limits(options: Options) -> Iterator[Limit]:
    """The limits of such a job, besides those of its queue."""
    yield from (Limit("needs", capability) for capability in _unless_unset(options.needs, ()))
    if options.rate_key:
        yield Limit("rate", options.rate_key)
    if options.concurrency_key:
        yield Limit("key", options.concurrency_key)


def _unique_policy(task: Task[..., Any, Any], options: Options, queue: str) -> UniquePolicy | None:
    if options.idempotency_key:
        return for_idempotency(options.idempotency_key)
    if options.cache:
        return for_cache(options.cache, task.name, task.function)
    if not (options.unique or options.debounce or options.throttle):
        return None
    unique = options.unique or Unique()
    key = unique_key(unique, task.name, task.function, queue)
    if options.debounce:
        return for_debounce(key)
    return for_throttle(key, options.throttle) if options.throttle else for_unique(unique, key)


def _stored_options(
    task: Task[..., Any, Any], overrides: Options, options: Options, words: frozenset[str]
) -> str | None:
    """The options of this call that the worker needs beyond the task's definition; mostly none."""
    declared = _unless_unset(options.redact, ())
    # Also by position: the viewer of a job may not know the task, and so not its parameter names.
    places = _hidden_places(task.signature.positional, frozenset(declared), words)
    stored = JobOptions(
        timeout=overrides.timeout,
        retry=retry_of(task, overrides).policy() if overrides.retry is not UNSET else UNSET,
        keep_result=overrides.keep_result,
        isolation=overrides.isolation,
        preemptible=overrides.preemptible,
        remove_on_complete=overrides.remove_on_complete,
        remove_on_fail=overrides.remove_on_fail,
        cost=options.cost,  # the store charges it, and knows no definition
        budget=options.budget,  # pages show it, and know none
        redact=declared,
        redact_args=tuple(places),
    )
    return None if stored == JobOptions() else as_json(stored)


def _hidden_places(positional: tuple[str, ...], names: frozenset[str], words: frozenset[str]) -> Iterator[int]:
    """The positions of arguments to redact; ~position stands for that one and all that follow, as of `*secrets`."""
    for place, name in enumerate(positional):
        if MASK in redact({name.removeprefix("*"): ""}, names, words).values():
            yield ~place if name.startswith("*") else place
