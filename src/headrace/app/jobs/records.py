"""A job as one record, for whatever shows jobs as JSON: the command line and the REST API. The names are stable.

Arguments are always the redacted ones. A payload that is damaged is told, not raised: an operator must be able to look
at it. What JSON has no word for is tagged, as it is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.damaged_records import DAMAGE
from headrace.core.events.history import AttemptError
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.tasks import trace_context
from headrace.errors import CorruptPayload, HeadraceError
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry


class DependencyRecord(Struct, frozen=True):
    """A job that another one waits for, or that waits for it."""

    id: str
    task: str
    state: State


class StepRecord(Struct, frozen=True):
    """What a job remembers, without the value: nobody said which of them are secrets."""

    kind: str
    name: str
    number: int
    at: datetime | None


class JobRecord(Struct, frozen=True, kw_only=True):
    """A job. What follows `correlation_id` is told of a single one, and left out of lists.

    `args` and `kwargs` are None where `unreadable` tells why.
    """

    id: str
    task: str
    queue: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    expires_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    reason: str | None
    progress: Any
    flow: str | None
    archived: bool
    tags: tuple[str, ...]
    metadata: Any
    correlation_id: str | None
    args: list[Any] | UnsetType | None = UNSET
    kwargs: dict[str, Any] | UnsetType | None = UNSET
    unreadable: str | UnsetType = UNSET
    result: Any | UnsetType = UNSET
    steps: list[StepRecord] | UnsetType = UNSET
    errors: list[AttemptError] | UnsetType = UNSET
    version: int | UnsetType = UNSET
    crashes: int | UnsetType = UNSET
    lease_until: datetime | UnsetType | None = UNSET
    options: Any | UnsetType = UNSET
    parents: list[DependencyRecord] | UnsetType = UNSET
    children: list[DependencyRecord] | UnsetType = UNSET
    why: str | UnsetType = UNSET


def record_of(job: Job[Any]) -> JobRecord:
    """What a list shows of a job."""
    return JobRecord(**_outline(job))


def full_record_of(job: Job[Any], steps: Sequence[Step] = ()) -> JobRecord:
    """Everything about a job."""
    row = job.row
    return JobRecord(
        **_outline(job),
        **_call(job),
        result=result_of(job),
        steps=[StepRecord(step.kind, step.name, step.number, to_datetime(step.at)) for step in steps],
        errors=job.errors,
        version=row.version,
        crashes=row.crashes,
        lease_until=to_datetime(row.lease_until),
        options=plain(row.options) or {},
        parents=[_kin(parent) for parent in job.parents()],
        children=[_kin(child) for child in job.children()],
        why=job.why(),
    )


def result_of(job: Job[Any]) -> Any:
    """What a completed job returned, as JSON with tags for what JSON has no word for."""
    return _shown(job, "result", job.whole.result)


def log_of(line: LogEntry, job: Job[Any]) -> LogEntry:
    """A line of its log as it may be shown."""
    return msgspec.structs.replace(line, fields=lowered(job.redacted(line.fields)))


def lowered(value: Any) -> Any:
    """The value as plain JSON, tagged where JSON has no word for it; `headrace enqueue` takes the same."""
    listed = list(value) if isinstance(value, tuple) else value
    return msgspec.json.decode(codec.encode(listed))


def plain(stored: str | None) -> Any:
    """Stored JSON as it is, tags and all; what is no JSON is told as text."""
    if stored is None:
        return None
    try:
        return msgspec.json.decode(stored)
    except DAMAGE:
        return stored


def _outline(job: Job[Any]) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state,
        "priority": job.priority,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "created_at": job.created_at,
        "run_at": job.run_at,
        "expires_at": job.expires_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "worker": job.worker,
        "reason": job.reason,
        "progress": _shown(job, "progress", job.row.progress),
        "flow": job.flow,
        "archived": job.archived,
        "tags": job.tags,
        "metadata": _shown(job, "metadata", trace_context.plain(job.row.metadata)) or {},
        "correlation_id": job.correlation_id,
    }


def _call(job: Job[Any]) -> dict[str, Any]:
    try:
        args, kwargs = job.redacted_call()
        return {"args": lowered(args), "kwargs": lowered(kwargs)}
    except CorruptPayload as error:
        return {"args": None, "kwargs": None, "unreadable": str(error)}


def shown_texts(job: Job[Any]) -> str:
    """What a search by text may look at, each on a line: id, task, reason, and arguments and metadata as shown."""
    texts = [
        job.id,
        job.task,
        job.reason or "",
        _compact(_shown(job, "metadata", trace_context.plain(job.row.metadata))),
    ]
    with contextlib.suppress(HeadraceError):  # damaged, or sealed with a key that is not here
        texts += map(_compact, job.redacted_call())
    return "\n".join(texts)


def _compact(value: Any) -> str:
    return msgspec.json.encode(lowered(value)).decode()


def _kin(job: Job[Any]) -> DependencyRecord:
    return DependencyRecord(job.id, job.task, job.state)


def _shown(job: Job[Any], what: str, stored: str | None) -> Any:
    """What is stored of a job as plain JSON, secrets starred out; what can't be read is told, or shown as it is."""
    if stored is None:
        return None
    try:
        text = job.opened(what, stored)
    except CorruptPayload as error:
        return {"$unreadable": str(error)}
    try:
        return lowered(job.redacted(codec.decode(text)))
    except HeadraceError:
        return plain(text)
