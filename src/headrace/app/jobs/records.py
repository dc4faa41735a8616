"""A job as a JSON record for the command line and the REST API. The names are stable.

Arguments are always redacted. A damaged payload is reported in the record and does not raise: an operator must be able
to inspect it. Types that JSON lacks are tagged, as stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.app.jobs.arguments import arguments_in_list
from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.codec.payload_refs import reference_in
from headrace.core.damaged_records import DAMAGE
from headrace.core.events.history import AttemptError
from headrace.core.events.stream import Chunk
from headrace.core.jobs.budgets import costs_of
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.tasks import trace_context
from headrace.errors import CorruptPayload, HeadraceError, PayloadStoreUnavailable
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry


class DependencyRecord(Struct, frozen=True):
    """A parent or child of a job."""

    id: str
    task: str
    state: State


class StepRecord(Struct, frozen=True):
    """A step of a job, without its value, which may be secret."""

    kind: str
    name: str
    number: int
    at: datetime | None


class PayloadRecord(Struct, frozen=True):
    """A payload in the payload store: its path there, its size in bytes, and the hash of its file."""

    path: str
    size: int
    sha256: str


class JobRecord(Struct, frozen=True, kw_only=True):
    """A job. Lists omit the fields after `arguments`.

    `arguments` are all arguments by the names of their parameters. A positional one without a known name has its
    position, such as "0". In a list it is None for arguments that are long, encrypted or damaged. If the payload is
    damaged or not loaded, `args` and `kwargs` are None and `unreadable` is the reason. `stored_call` and
    `stored_result` say where they are if that is the payload store. `cost` are the units that its runs have reported if
    it, or its flow, has a budget.
    """

    id: str
    task: str
    queue: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    created_at: datetime
    updated_at: datetime
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
    arguments: dict[str, Any] | None
    args: list[Any] | UnsetType | None = UNSET
    kwargs: dict[str, Any] | UnsetType | None = UNSET
    unreadable: str | UnsetType = UNSET
    stored_call: PayloadRecord | UnsetType = UNSET
    stored_result: PayloadRecord | UnsetType = UNSET
    result: Any | UnsetType = UNSET
    steps: list[StepRecord] | UnsetType = UNSET
    errors: list[AttemptError] | UnsetType = UNSET
    cost: int | UnsetType = UNSET
    version: int | UnsetType = UNSET
    crashes: int | UnsetType = UNSET
    lease_until: datetime | UnsetType | None = UNSET
    options: Any | UnsetType = UNSET
    parents: list[DependencyRecord] | UnsetType = UNSET
    children: list[DependencyRecord] | UnsetType = UNSET
    why: str | UnsetType = UNSET


def record_of(job: Job[Any]) -> JobRecord:
    """The record of a job in a list."""
    return JobRecord(**_outline(job), arguments=_listed(job))


def full_record_of(job: Job[Any], steps: Sequence[Step] = (), *, most: int = 0) -> JobRecord:
    """The full record of a job. Payloads in the payload store are loaded up to `most` bytes each."""
    row = job.full_row
    return JobRecord(
        **_outline(job),
        **_call(job, most),
        stored_call=_payload(row.payload),
        stored_result=_payload(row.result),
        result=result_of(job, most),
        steps=[StepRecord(step.kind, step.name, step.number, to_datetime(step.at)) for step in steps],
        errors=job.errors,
        cost=sum(costs_of(steps).values()),
        version=row.version,
        crashes=row.crashes,
        lease_until=to_datetime(row.lease_until),
        options=plain(row.options) or {},
        parents=[_dependency(parent) for parent in job.parents()],
        children=[_dependency(child) for child in job.children()],
        why=job.why(),
    )


def result_of(job: Job[Any], most: int = 0) -> Any:
    """The result of a completed job as JSON, with tags for types that JSON lacks."""
    return _shown(job, "result", job.full_row.result, most)


def _payload(stored: str | None) -> PayloadRecord | UnsetType:
    with contextlib.suppress(CorruptPayload):
        if stored is not None and (ref := reference_in(stored)) is not None:
            return PayloadRecord(ref.path, ref.size, ref.sha256)
    return UNSET


def log_of(line: LogEntry, job: Job[Any]) -> LogEntry:
    """A log line, redacted."""
    return msgspec.structs.replace(line, fields=lowered(job.redacted(line.fields)))


def chunk_of(chunk: Chunk, job: Job[Any]) -> Chunk:
    """A chunk of a stream, redacted."""
    return msgspec.structs.replace(chunk, data=lowered(job.redacted(chunk.data)))


def lowered(value: Any) -> Any:
    """The value as plain JSON, with tags for types that JSON lacks; `headrace enqueue` accepts the same."""
    listed = list(value) if isinstance(value, tuple) else value
    return msgspec.json.decode(codec.encode(listed))


def plain(stored: str | None) -> Any:
    """Stored JSON with its tags; invalid JSON as text."""
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
        "updated_at": job.updated_at,
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


def _call(job: Job[Any], most: int) -> dict[str, Any]:
    try:
        args, kwargs = job.redacted_call(most)
        return {"args": lowered(args), "kwargs": lowered(kwargs), "arguments": lowered(job.redacted_arguments(most))}
    except (CorruptPayload, PayloadStoreUnavailable) as error:
        return {"args": None, "kwargs": None, "arguments": None, "unreadable": str(error)}


def _listed(job: Job[Any]) -> Any:
    found = arguments_in_list(job)
    return None if isinstance(found, str) else lowered(found)


def shown_texts(job: Job[Any]) -> str:
    """The searchable text of a job, one value per line: id, task, reason, redacted arguments and metadata."""
    texts = [
        job.id,
        job.task,
        job.reason or "",
        _compact(_shown(job, "metadata", trace_context.plain(job.row.metadata))),
    ]
    with contextlib.suppress(HeadraceError):  # damaged, or encrypted with a missing key
        texts += map(_compact, job.redacted_call())
    return "\n".join(texts)


def _compact(value: Any) -> str:
    return msgspec.json.encode(lowered(value)).decode()


def _dependency(job: Job[Any]) -> DependencyRecord:
    return DependencyRecord(job.id, job.task, job.state)


def _shown(job: Job[Any], what: str, stored: str | None, most: int = 0) -> Any:
    """The stored values of a job as plain JSON, redacted; unreadable ones as an error text or as stored."""
    if stored is None:
        return None
    try:
        text = job.opened(what, stored, most)
    except (CorruptPayload, PayloadStoreUnavailable) as error:
        return {"$unreadable": str(error)}
    try:
        return lowered(job.redacted(codec.decode(text)))
    except HeadraceError:
        return plain(text)
