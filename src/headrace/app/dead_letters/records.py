"""Dead letters as users see them: times as datetimes, arguments decoded and redacted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, overload

from msgspec import Struct, structs

from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.damaged_records import tags_of
from headrace.core.dead_letters.records import (
    STATUSES,
    DeadLetterGroup,
    DeadLetterStats,
    Requeued,
    RequeueRequest,
    first_failed_at,
    notes_of,
    snapshot_of,
    stored_anew,
    used_up_text,
)
from headrace.core.jobs.records import DeadLetterRow, LogLine
from headrace.core.settings.requeue_times import next_requeue_at
from headrace.core.tasks.arguments import by_name
from headrace.errors import CorruptPayload
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry


class DeadNote(Struct, frozen=True):
    """A note on a dead letter."""

    at: datetime
    text: str
    by: str | None = None


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A job that failed for good, as it was at the failure.

    `args` and `kwargs` are redacted, and `arguments` are both by the names of their parameters; if the payload no
    longer decodes they are empty, and `damage` is the reason.
    `crashes` are the times and names of the workers that crashed while running the job. `progress`, the names of its
    `steps` and the last lines of its `logs` date from the failure. `requeues` counts the requeues so far;
    `next_requeue_at` is the time of the automatic requeue under the settings of this app.
    """

    id: str
    job_id: str
    task: str
    queue: str
    reason: str
    status: str
    entered_at: datetime
    fingerprint: str
    original_state: str
    priority: int
    attempts: int
    max_attempts: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    damage: str | None
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    worker: str | None
    error_type: str | None
    error_message: str | None
    error_traceback: str | None
    flow: str | None
    parents: tuple[str, ...]
    crashes: tuple[tuple[datetime, str], ...]
    progress: Any
    steps: tuple[str, ...]
    logs: tuple[LogEntry, ...]
    first_failed_at: datetime
    requeues: int
    next_requeue_at: datetime | None
    notes: tuple[DeadNote, ...]
    resolved_at: datetime | None
    resolved_by: str | None

    @property
    def is_pending(self) -> bool:
        """Whether it is pending."""
        return self.status == "pending"


class DeadPage(Sequence[DeadLetter]):
    """Some dead letters, newest first. `cursor` continues after them, None at the end."""

    def __init__(self, dead_letters: list[DeadLetter], cursor: str | None) -> None:
        self.dead_letters = dead_letters
        self.cursor = cursor

    @overload
    def __getitem__(self, index: int) -> DeadLetter: ...
    @overload
    def __getitem__(self, index: slice) -> list[DeadLetter]: ...
    def __getitem__(self, index: int | slice) -> DeadLetter | list[DeadLetter]:
        return self.dead_letters[index]

    def __len__(self) -> int:
        return len(self.dead_letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.dead_letters)

    def __repr__(self) -> str:
        return f"<DeadPage of {len(self.dead_letters)}{', more follow' if self.cursor else ''}>"


class DeadGroup(Struct, frozen=True):
    """Dead letters of one fingerprint. Task, reason, error and message are from the newest."""

    fingerprint: str
    task: str
    reason: str
    error_type: str | None
    message: str | None
    count: int
    first_seen: datetime
    last_seen: datetime


class DeadStats(Struct, frozen=True):
    """The counts of one reason."""

    reason: str
    total: int
    pending: int
    requeued: int
    manually_resolved: int
    permanently_failed: int
    cancelled: int
    expired: int
    average_requeues: float
    oldest: datetime
    newest: datetime


class RequeueResult(Struct, frozen=True):
    """The result of a requeue. For a job requeued too often, `requeued` is False and the record permanently_failed."""

    id: str
    job_id: str
    requeued: bool
    status: str
    requeues: int
    message: str


class BulkRequeue(Struct, frozen=True):
    """The result of a bulk requeue, or of a `dry_run`.

    `matched` are pending and match the filters. `skipped` were handled by others meanwhile, or their job is no longer
    failed. `until` is the start of the last job, if a rate spreads them.
    """

    matched: int
    requeued: int
    permanently_failed: int
    skipped: int
    dry_run: bool
    until: datetime | None = None


def dead_letter_of(row: DeadLetterRow, services: Services) -> DeadLetter:
    """The record for users."""
    snapshot = snapshot_of(row)
    job: Job[Any] = Job(services, stored_anew(row, RequeueRequest(row.id), row.entered_at))
    args, kwargs, damage = _shown_call(job)
    return DeadLetter(
        id=row.id,
        job_id=row.job_id,
        task=row.task,
        queue=row.queue,
        reason=row.reason,
        status=row.status if row.status in STATUSES else "pending",  # a damaged status counts as pending
        entered_at=moment(row.entered_at),
        fingerprint=row.fingerprint,
        original_state=snapshot.state,
        priority=snapshot.priority,
        attempts=snapshot.attempt,
        max_attempts=snapshot.max_attempts,
        args=args,
        kwargs=kwargs,
        arguments=by_name(services.parameter_names(row.task), args, kwargs),
        damage=damage,
        tags=tags_of(snapshot.tags),
        metadata=job.redacted(job.metadata),
        created_at=moment(snapshot.created_at),
        started_at=to_datetime(snapshot.started_at),
        worker=snapshot.worker,
        error_type=snapshot.error_type,
        error_message=snapshot.error_message,
        error_traceback=snapshot.error_traceback,
        flow=snapshot.flow,
        parents=tuple(snapshot.parents),
        crashes=tuple((moment(at), worker) for at, worker in snapshot.crashes),
        progress=_shown_progress(job, snapshot.progress),
        steps=tuple(snapshot.steps),
        logs=tuple(_shown_logs(job, services, snapshot.logs)),
        first_failed_at=moment(first_failed_at(row)),
        requeues=row.requeues,
        next_requeue_at=to_datetime(next_requeue_at(row, services.settings)),
        notes=tuple(DeadNote(moment(note.at), note.text, note.by) for note in notes_of(row.notes)),
        resolved_at=to_datetime(row.resolved_at),
        resolved_by=row.resolved_by,
    )


def _shown_call(job: Job[Any]) -> tuple[tuple[Any, ...], dict[str, Any], str | None]:
    try:
        return *job.redacted_call(), None
    except CorruptPayload as error:  # an operator must be able to inspect it
        return (), {}, str(error)


def _shown_progress(job: Job[Any], stored: str | None) -> Any:
    with contextlib.suppress(CorruptPayload):
        return None if stored is None else job.redacted(codec.decode(job.opened("progress", stored)))
    return None


def _shown_logs(job: Job[Any], services: Services, newest: Sequence[LogLine]) -> Iterator[LogEntry]:
    """Oldest first, without unreadable entries."""
    for line in reversed(newest):
        with contextlib.suppress(CorruptPayload):
            entry = services.log_entry(job.id, line)
            yield structs.replace(entry, fields=job.redacted(entry.fields))


def group_of(group: DeadLetterGroup) -> DeadGroup:
    values = (group.fingerprint, group.task, group.reason, group.error_type, group.message, group.count)
    return DeadGroup(*values, moment(group.first_seen), moment(group.last_seen))


def stats_of(rows: Sequence[DeadLetterStats]) -> list[DeadStats]:
    """The counts by reason, largest first."""
    found = []
    for reason in {row.reason for row in rows}:
        own = [row for row in rows if row.reason == reason]
        counts = {row.status: row.count for row in own}
        total = sum(counts.values())
        found.append(
            DeadStats(
                reason,
                total,
                counts.get("pending", 0),
                counts.get("requeued", 0),
                counts.get("manually_resolved", 0),
                counts.get("permanently_failed", 0),
                counts.get("cancelled", 0),
                counts.get("expired", 0),
                sum(row.requeues for row in own) / total,
                moment(min(row.oldest for row in own)),
                moment(max(row.newest for row in own)),
            )
        )
    return sorted(found, key=lambda stats: (-stats.total, stats.reason))


def result_of(done: Requeued, most: int) -> RequeueResult:
    """The result of one requeue."""
    if done.result == "used_up":
        message = (
            f"job {done.job_id}: {used_up_text(done.requeues, most)}; its record is now permanently_failed and the "
            "job does not change"
        )
        return RequeueResult(done.id, done.job_id, False, "permanently_failed", done.requeues, message)
    stored_again = " It was deleted, and is stored again." if done.result == "stored_anew" else ""
    message = f"job {done.job_id} is queued again (requeue {done.requeues} of {most}).{stored_again}"
    return RequeueResult(done.id, done.job_id, True, "requeued", done.requeues, message)


def moment(ms: int) -> datetime:
    found = to_datetime(ms)
    assert found is not None
    return found
