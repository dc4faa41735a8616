"""A job as pages show it: secrets redacted, and an error text in place of unreadable values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, json

from headrace.app.app import Headrace
from headrace.app.jobs.arguments import arguments_line
from headrace.core.codec import codec
from headrace.core.codec.payload_refs import is_reference
from headrace.core.dead_letters.records import DeadLetterFilter, snapshot_of
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import State
from headrace.errors import CorruptPayload, HeadraceError, PayloadStoreUnavailable
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.stored_result import LOST_RESULT
from headrace.web.pages.formatting import plain_json

_MAX_CHARS = 20_000  # characters shown of a call, a result or a log line


class JobSummary(Struct, frozen=True, kw_only=True):
    """A job in a list."""

    id: str
    task: str
    queue: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    reason: str | None
    tags: tuple[str, ...]
    flow: str | None
    archived: bool
    fraction: float | None
    progress_text: str
    ran: float | None
    recovered: bool
    arguments: str
    error: str = ""


def summary_of(job: Job[Any], error: str = "") -> JobSummary:
    fraction, progress_text = _progress(job)
    ran = (job.finished_at - job.started_at).total_seconds() if job.finished_at and job.started_at else None
    return JobSummary(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        created_at=job.created_at,
        run_at=job.run_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        worker=job.worker,
        reason=job.reason,
        tags=job.tags,
        flow=job.flow,
        archived=job.archived,
        fraction=fraction,
        progress_text=progress_text,
        ran=ran,
        recovered=job.row.crashes > 0 and job.state is State.COMPLETED,
        arguments=arguments_line(job),
        error=error,
    )


def summaries(jobs: Iterable[Job[Any]], app: Headrace) -> list[JobSummary]:
    """The jobs of a list; failed ones with the error of their dead letter, read in one query."""
    listed = list(jobs)
    errors = errors_of(app, listed)
    return [summary_of(job, errors.get(job.id, "")) for job in listed]


def errors_of(app: Headrace, jobs: Iterable[Job[Any]]) -> dict[str, str]:
    """The error of each failed job by id, where known."""
    failed = [job.id for job in jobs if job.state is State.FAILED and not job.archived]
    which = DeadLetterFilter(latest_of=tuple(failed))
    dead_letters = app.engine.dead_letters.find(which, len(failed)) if failed else []
    return {dead_letter.job_id: error_in(dead_letter) for dead_letter in dead_letters}


def error_in(dead_letter: DeadLetterRow) -> str:
    """The error of a dead letter in one line; empty if it has none."""
    snapshot = snapshot_of(dead_letter)
    return truncate(f"{snapshot.error_type}: {snapshot.error_message}", 300) if snapshot.error_type else ""


def _progress(job: Job[Any]) -> tuple[float | None, str]:
    if not job.row.progress:
        return None, ""
    try:
        value = job.redacted(job.progress)
    except HeadraceError:  # a list must not fail because of one damaged job or a missing key
        return None, "unreadable"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    return None, truncate(plain_json(value, indent=0), 200)


def arguments(job: Job[Any], most: int = 0) -> tuple[str, str, str | None]:
    """Arguments without a known name, and those by name, as JSON with secrets redacted; the error if unreadable."""
    try:
        named = job.redacted_arguments(most)
    except (CorruptPayload, PayloadStoreUnavailable) as error:
        return "", "" if is_reference(job.row.payload) else job.full_row.payload[:100], str(error)
    return *split_arguments(named), None


def split_arguments(named: Mapping[str, Any]) -> tuple[str, str]:
    """Both as JSON; empty if there are none."""
    unnamed = [value for name, value in named.items() if name.isdigit()]
    rest = {name: value for name, value in named.items() if not name.isdigit()}
    return truncate(plain_json(unnamed)) if unnamed else "", truncate(plain_json(rest)) if rest else ""


def result(job: Job[Any], most: int = 0) -> str | None:
    """The result of a completed job; None without one."""
    stored = job.full_row.result
    if stored is None:
        return None
    try:
        codec.verify(stored, job.row.result_checksum or 0)
        text = job.opened("result", stored, most)
        if text.startswith(f'{{"{LOST_RESULT}"'):
            return f"not stored: {json.decode(text)[LOST_RESULT]}"
        return truncate(plain_json(job.redacted(codec.decode(text))))
    except HeadraceError as error:
        return str(error)


def truncate(text: str, limit: int = _MAX_CHARS) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
