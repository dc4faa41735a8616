"""Dead letters beyond their stored row: filters, requests, and how to make a job from one.

Pure. The stored row is `core.jobs.records.DeadLetterRow`; its id begins with the time of its entry, in twelve
hexadecimal digits of milliseconds, so that ids sort by time and a time range is an id range.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read, read_or, stored_tags
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, LogLine, NewJob
from headrace.core.jobs.states import FINAL, NOT_STARTED, State, Trigger
from headrace.core.tasks.options import HIGHEST_PRIORITY, LOWEST_PRIORITY
from headrace.core.text import counted

Status = Literal["pending", "requeued", "manually_resolved", "permanently_failed", "cancelled", "expired"]
STATUSES: tuple[Status, ...] = get_args(Status)
# The statuses that a person may set; the others are results of a requeue, or of expiry.
RESOLUTIONS: tuple[Status, ...] = ("manually_resolved", "permanently_failed", "cancelled")
REQUEUABLE = frozenset({State.FAILED, State.CANCELLED})
# The failure reasons that the setting `dead_letters` may name.
REASONS = (
    *("attempts_used_up", "permanent_error", "worker_lost", "crash_loop", "staleness_timeout"),
    *("corrupt_payload", "corrupt_options", "corrupt_record", "broken_backoff", "unstorable_outcome", "worker_error"),
    *("parent_result_missing", "parent_result_unfit"),
)
MAX_REQUEUES = 3
PRIORITY_BOOST = 10
BY_HAND = "by_hand"  # the reason of a dead letter that a person added


class DeadLetterFilter(Struct, frozen=True, omit_defaults=True):
    """A filter for dead letters. Every set field must match; times are those of the entry.

    `latest_of` are jobs: only the newest record of each. `ended_before` is the time of the resolution, or of the entry
    of a pending one.
    """

    ids: tuple[str, ...] = ()
    latest_of: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    reason: str | None = None
    task: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    requeues: int | None = None
    since: int | None = None
    until: int | None = None
    ended_before: int | None = None


class DeadLetterGroup(Struct, frozen=True, array_like=True):
    """Dead letters of one fingerprint. Task, reason, error and message are those of the newest."""

    fingerprint: str
    task: str
    reason: str
    error_type: str | None
    message: str | None
    count: int
    first_seen: int
    last_seen: int


class DeadLetterStats(Struct, frozen=True, array_like=True):
    """The number of dead letters with one reason and status, and the sum of their requeues."""

    reason: str
    status: str
    count: int
    requeues: int
    oldest: int
    newest: int


class RequeueRequest(Struct, frozen=True, array_like=True):
    """A request to run a dead letter's job again, at `run_at` or now, with the arguments of `payload` if given.

    The job is revived with a priority higher by `boost`, or inserted anew if it was deleted, and the dead letter is
    resolved as requeued, with one requeue more. One that was requeued `most` times becomes permanently failed instead.
    `tags`, if given, are all tags of the job from now on: those of indexed arguments change with these.
    """

    id: str
    boost: int = PRIORITY_BOOST
    most: int = MAX_REQUEUES
    run_at: int | None = None
    payload: str | None = None
    checksum: int | None = None
    tags: str | None = None


class NewDeadLetter(Struct, frozen=True, array_like=True):
    """A request to add a dead letter by hand. The error is the job's last one, if it has any."""

    job_id: str
    reason: str
    error_type: str | None = None
    error_message: str | None = None
    fingerprint: str = ""


# The result of such a request: "added", or why not: no such job, it is running or completed, or it has a pending dead
# letter.
Added = Literal["added", "missing", "busy", "pending"]
ADDABLE = NOT_STARTED | REQUEUABLE


class Requeued(Struct, frozen=True, array_like=True):
    """The result of a requeue request.

    `result` is "requeued", "stored_anew" if the job was gone, "used_up" if the dead letter ended as permanently failed
    instead, "resolved" if it was no longer pending, "missing" if it does not exist, or "busy" if the store has an open
    or completed job of that id, which is left alone.
    """

    id: str
    job_id: str
    result: Literal["requeued", "stored_anew", "used_up", "resolved", "missing", "busy"]
    requeues: int = 0


class DeadLetterResolution(Struct, frozen=True, array_like=True):
    """The new status of a dead letter."""

    id: str
    status: str
    resolved_at: int | None
    resolved_by: str | None
    requeues: int
    notes: str | None


class RequeueChange(Struct, frozen=True, array_like=True):
    """The changes to a job that is requeued."""

    seq: int
    boost: int
    run_at: int
    payload: str | None
    checksum: int | None
    tags: str | None = None


class DeadLetterNote(Struct, frozen=True):
    """One note on a dead letter."""

    at: int
    text: str
    by: str | None = None


class JobSnapshot(Struct, frozen=True):
    """The job as it was when it failed. Fields that older stores did not keep have defaults."""

    state: str = "running"
    payload: str = "[[],{}]"
    checksum: int = 0
    options: str | None = None
    tags: str | None = None
    metadata: str | None = None
    priority: int = 0
    attempt: int = 0
    max_attempts: int = 1
    created_at: int = 0
    started_at: int | None = None
    worker: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_traceback: str | None = None
    lifo: int = 0
    lane: str = ""
    unique_key: str | None = None
    flow: str | None = None
    parents: list[str] = []
    crashes: list[tuple[int, str]] = []
    history: list[HistoryRow] = []  # of the earlier runs, newest first; and the first failure
    version: int = 0
    progress: str | None = None
    steps: list[str] = []
    logs: list[LogLine] = []  # newest first


DAMAGED = JobSnapshot(payload="")  # an impossible payload
_snapshots = msgspec.json.Decoder(JobSnapshot)
_remarks = msgspec.json.Decoder(list[DeadLetterNote])


def snapshot_of(dead_letter: DeadLetterRow) -> JobSnapshot:
    """The job as it failed; for a damaged snapshot, only what the dead letter itself holds."""
    return read_or(_snapshots.decode, dead_letter.snapshot, DAMAGED)


class _Error(Struct, frozen=True):
    error_type: str | None = None
    error_message: str | None = None


_errors = msgspec.json.Decoder(_Error)


def group_of(
    fingerprint: str, task: str, reason: str, snapshot: str | bytes, count: int, first_seen: int, last_seen: int
) -> DeadLetterGroup:
    """A group, from the snapshot of its newest dead letter."""
    error = read_or(_errors.decode, snapshot, _Error())
    error_fields = (error.error_type, error.error_message, count, first_seen, last_seen)
    return DeadLetterGroup(fingerprint, task, reason, *error_fields)


def kept_history(dead_letter: DeadLetterRow) -> list[HistoryRow]:
    """The dead letter's copy of the job's history, oldest first, up to the failure."""
    job = snapshot_of(dead_letter)
    before = job.history[::-1]
    if job.state in FINAL:  # it had finished before it was added
        return before
    version = job.version or (before[-1].version + 1 if before else 2)
    end = (job.attempt, job.worker, job.started_at, dead_letter.entered_at, dead_letter.reason)
    error = (job.error_type, job.error_message, job.error_traceback)
    return [
        *before,
        HistoryRow(dead_letter.entered_at, Trigger.FAIL, job.state, State.FAILED, version + 1, *end, *error),
    ]


def history_anew(dead_letter: DeadLetterRow, job: NewJob, detail: str | None) -> list[HistoryRow]:
    """The history of a job that is inserted again: the copy in the dead letter, and the requeue."""
    before, snapshot = kept_history(dead_letter), snapshot_of(dead_letter)
    run = (snapshot.attempt, snapshot.worker, snapshot.started_at, dead_letter.entered_at)
    source = State.CANCELLED if snapshot.state == State.CANCELLED else State.FAILED
    nothing = (None, None, None)
    again = HistoryRow(job.version, Trigger.REVIVE, source, job.state, job.version, *run, detail, *nothing)
    return [*before, again]


def first_failed_at(dead_letter: DeadLetterRow) -> int:
    """When the job failed for the first time, as far as the dead letter knows."""
    return next(
        (history_row.at for history_row in kept_history(dead_letter) if history_row.error_type is not None),
        dead_letter.entered_at,
    )


# The actor that closes a dead letter after too many requeues: not the actor of the last request.
REQUEUED_TOO_OFTEN = "system_max_retries"


def used_up_text(requeues: int, most: int) -> str:
    """Why a job is not requeued any more."""
    return f"it was requeued {counted(requeues, 'time')} already, of {most} allowed (max_requeues)"


def notes_of(notes: str | None) -> list[DeadLetterNote]:
    return (read(_remarks.decode, notes) or []) if notes else []


def with_note(notes: str | None, text: str | None, by: str | None, at: int) -> str | None:
    """The notes with one more, if there is one."""
    if not text:
        return notes
    return msgspec.json.encode([*notes_of(notes), DeadLetterNote(at, text, by)]).decode()


def id_at(moment: int) -> str:
    """The smallest id of a dead letter entered at this time or later."""
    return f"{max(moment, 0):012x}"


def entry_time(dead_letter_id: str) -> int:
    """When the dead letter of this id was entered."""
    return int(dead_letter_id[:12], 16)


_NO_END = "g"  # above every hexadecimal digit


def bounds(filter: DeadLetterFilter) -> tuple[str, str]:
    """The range of ids that the filter means: from the first on, before the second."""
    # No record is resolved before it is entered.
    ends = [end for end in (filter.until, filter.ended_before) if end is not None]
    last = id_at(min(ends)) if ends else _NO_END
    return ("" if filter.since is None else id_at(filter.since)), last


def is_matched(filter: DeadLetterFilter, row: DeadLetterRow) -> bool:
    """Whether the record matches every field of the filter but `latest_of`."""
    first, last = bounds(filter)
    named = ("task", "queue", "reason", "fingerprint", "requeues")
    return (
        (not filter.ids or row.id in filter.ids)
        and (not filter.statuses or row.status in filter.statuses)
        and all(getattr(filter, name) in (None, getattr(row, name)) for name in named)
        and first <= row.id
        and (row.id < last or last == _NO_END)
        and (filter.ended_before is None or (row.resolved_at or row.entered_at) < filter.ended_before)
    )


def raised(priority: int, boost: int) -> int:
    return max(LOWEST_PRIORITY, min(HIGHEST_PRIORITY, priority + boost))


def stored_anew(dead_letter: DeadLetterRow, request: RequeueRequest, now: int) -> NewJob:
    """The job of the dead letter, for a store that no longer has it. It has no flow: that may be gone as well."""
    snapshot = snapshot_of(dead_letter)
    run_at = max(request.run_at or now, now)
    payload: dict[str, Any] = {"payload": snapshot.payload, "checksum": snapshot.checksum}
    tags = snapshot.tags if request.tags is None else request.tags
    if request.payload is not None:
        payload = {"payload": request.payload, "checksum": request.checksum or 0}
    return NewJob(
        dead_letter.job_id,
        dead_letter.task,
        dead_letter.queue,
        State.PENDING if run_at <= now else State.SCHEDULED,
        raised(snapshot.priority, request.boost),
        -run_at if snapshot.lifo else run_at,
        **payload,
        created_at=snapshot.created_at or now,
        run_at=run_at,
        max_attempts=snapshot.max_attempts,
        options=snapshot.options,
        tags=tags if stored_tags(tags) else None,
        metadata=snapshot.metadata,
        version=now,  # above every version that a worker of the previous job may hold
        unique_key=snapshot.unique_key,
        lane=snapshot.lane,
    )
