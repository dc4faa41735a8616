"""Shows a job as a JSON record, a table row or a page of facts.

The names in the records are stable. Arguments are always redacted. A damaged payload is shown as such and does not
raise: an operator must be able to inspect the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.app.jobs import records
from headrace.app.jobs.arguments import arguments_line
from headrace.cli.output import Column, ago, stamp
from headrace.cli.resource import Output, table
from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.events.history import HistoryEntry
from headrace.core.jobs.budgets import Spending, budgets_of
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.errors import CorruptPayload, HeadraceError, PayloadStoreUnavailable
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry
from headrace.runtime.jobs.stored_result import LOST_RESULT

JOB_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("TASK", min_width=8),
    Column("ARGUMENTS", min_width=10),
    Column("QUEUE", min_width=7),
    Column("ATTEMPT", right=True),
    Column("AGE", right=True),
    Column("PRIO", right=True),
    Column("DETAIL", min_width=12),
)
_RELATED_SHOWN = 20
_MAX_CHARS = 4000  # characters shown of a call or a result
HISTORY_COLUMNS = (
    Column("AT"),
    Column("EVENT"),
    Column("FROM"),
    Column("TO"),
    Column("ATTEMPT", right=True),
    Column("MESSAGE", min_width=12),
    Column("WORKER", min_width=12),
)


def record(job: Job[Any]) -> dict[str, Any]:
    """The record of a job in a list."""
    return _plain(records.record_of(job))


def full_record(job: Job[Any], steps: Sequence[Step] = (), most: int = 0) -> dict[str, Any]:
    """The full record of a job, with payloads from the payload store up to `most` bytes each."""
    return _plain(records.full_record_of(job, steps, most=most))


def _plain(job_record: records.JobRecord) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(job_record).items() if value is not msgspec.UNSET}


def log_record(line: LogEntry, job: Job[Any]) -> dict[str, Any]:
    return msgspec.structs.asdict(records.log_of(line, job))


def row(job: Job[Any], now: datetime) -> Sequence[str]:
    """The table row of a job."""
    run = f"{job.attempt}/{job.max_attempts}"
    age, priority = ago(job.created_at, now), str(job.priority)
    return job.id, job.state, job.task, arguments_line(job), job.queue, run, age, priority, _detail(job, now)


def listing(jobs: Sequence[Job[Any]], empty: str) -> Output:
    """A table of jobs; with --json a list of their records."""
    now = datetime.now(UTC)
    return table(lambda: [record(job) for job in jobs], JOB_COLUMNS, (row(job, now) for job in jobs), empty)


def entry_row(entry: HistoryEntry) -> Sequence[str]:
    """The table row of a history entry."""
    return (
        stamp(entry.at),
        entry.event,
        entry.from_state or "-",
        entry.to_state,
        str(entry.attempt),
        entry.message or "",
        entry.worker or "-",
    )


def log_text(line: LogEntry, job: Job[Any]) -> str:
    return line_text(msgspec.structs.replace(line, fields=job.redacted(line.fields)))


def line_text(line: LogEntry) -> str:
    """A log line whose secrets are already redacted. Its further lines can't be taken for log lines."""
    fields = "".join(f" {name}={value!r}" for name, value in line.fields.items())
    first, *further = line.message.split("\n")
    return "\n  | ".join((f"{stamp(line.at)} {line.level.upper():7} {first}{fields}", *further))


def facts(job: Job[Any], steps: Sequence[Step] = (), most: int = 0) -> Iterator[tuple[str, str]]:
    """A page about the job: names and values."""
    yield "id", job.id
    yield "call", call_text(job, most)
    yield "state", f"{job.state} ({job.reason})" if job.reason else job.state
    yield "queue", job.queue
    yield "priority", str(job.priority)
    yield "attempt", f"{job.attempt} of {job.max_attempts}"
    yield from _times(job)
    yield from _other_facts(job)
    yield "why", job.why()
    for step in steps:
        again = f" ({step.number})" if step.number > 1 and step.kind != "cost" else ""
        yield step.kind, f"{step.name}{again}, {stamp(to_datetime(step.at))}"
    for error in job.errors:
        text = f"attempt {error.attempt}, {stamp(error.at)}: {error.type}: {error.message}"
        yield "error", f"{text}\n{error.traceback}".rstrip()


def call_text(job: Job[Any], most: int = 0) -> str:
    """The call in Python syntax, with the names of its parameters and secrets redacted."""
    try:
        named = job.redacted_arguments(most)
    except (CorruptPayload, PayloadStoreUnavailable) as error:
        return f"{job.task}(…)  {error}"
    return _truncate(f"{job.task}({arguments_text(named)})")


def arguments_text(named: Mapping[str, Any]) -> str:
    """All arguments in Python syntax; one without a known name stands alone."""
    return ", ".join(repr(value) if name.isdigit() else f"{name}={value!r}" for name, value in named.items())


def result_text(job: Job[Any], most: int = 0) -> str:
    """The result of a completed job, as its repr."""
    stored = job.full_row.result
    if stored is None:
        return "None"
    try:
        codec.verify(stored, job.row.result_checksum or 0)
        text = job.opened("result", stored, most)
        if text.startswith(f'{{"{LOST_RESULT}"'):
            return f"not stored: {msgspec.json.decode(text)[LOST_RESULT]}"
        return _truncate(repr(job.redacted(codec.decode(text))))
    except HeadraceError as error:
        return str(error)


def result_record(job: Job[Any], most: int = 0) -> Any:
    """The result of a completed job as JSON, with tags for types that JSON lacks."""
    return records.result_of(job, most)


def _times(job: Job[Any]) -> Iterator[tuple[str, str]]:
    yield "created", stamp(job.created_at)
    if job.run_at != job.created_at:
        yield "run at", stamp(job.run_at)
    if job.expires_at:
        yield "expires", stamp(job.expires_at)
    if job.started_at:
        yield "started", stamp(job.started_at)
    if job.finished_at:
        took = f" (ran {(job.finished_at - job.started_at).total_seconds():.3f} s)" if job.started_at else ""
        yield "finished", stamp(job.finished_at) + took


def _other_facts(job: Job[Any]) -> Iterator[tuple[str, str]]:
    if job.worker:
        yield "worker", job.worker
    if (budgets := budgets_of(job.row.options)) is not None:
        yield "cost", Spending(job.cost, budgets.budget or None).text
    if job.row.progress:
        yield "progress", _progress(job)
    if job.tags:
        yield "tags", ", ".join(job.tags)
    if job.metadata:
        yield "metadata", ", ".join(f"{name}={value!r}" for name, value in job.redacted(job.metadata).items())
    if job.correlation_id != job.id:
        yield "correlation", job.correlation_id
    if options := _options(job):
        yield "options", options
    yield from _dependencies(job)
    if job.state is State.COMPLETED:
        yield "result", result_text(job)


def _dependencies(job: Job[Any]) -> Iterator[tuple[str, str]]:
    if job.flow:
        yield "flow", job.flow
    for title, others in (("parents", job.parents()), ("children", job.children())):
        if others:
            more = [f"… and {len(others) - _RELATED_SHOWN} more"] if len(others) > _RELATED_SHOWN else []
            shown = [f"{other.id} {other.task} {other.state}" for other in others[:_RELATED_SHOWN]]
            yield title, "\n".join([*shown, *more])


def _truncate(text: str) -> str:
    excess = len(text) - _MAX_CHARS
    return text if excess <= 0 else f"{text[:_MAX_CHARS]}… ({excess:,} more characters; --json shows all)"


def _options(job: Job[Any]) -> str:
    """Options of this call that override the task's definition."""
    stored = records.plain(job.row.options) or {}
    return ", ".join(f"{name}={value!r}" for name, value in stored.items() if not name.startswith("redact"))


def _detail(job: Job[Any], now: datetime) -> str:
    if job.state is State.RUNNING:
        since = f"for {ago(job.started_at, now)}" if job.started_at else ""
        return f"{_progress(job)} {since}".strip() if job.row.progress else since
    if job.state in (State.SCHEDULED, State.RETRYING):
        when = ago(job.run_at, now) if job.run_at > now else "due"
        return f"{when} {job.reason or ''}".strip()
    return job.reason or ""


def _progress(job: Job[Any]) -> str:
    try:
        value = job.redacted(job.progress)
    except CorruptPayload:  # a list must not fail because of one damaged job or a missing key
        return "unreadable"
    return f"{value:.0%}" if isinstance(value, int | float) else repr(value)
