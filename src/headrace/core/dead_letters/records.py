"""Dead letters beyond their stored row: which are meant, what is asked of them, and how a job is made of one again.

Pure. What a record is in a store is `core.model.DeadRow`; its id begins with the time it was entered, in twelve
hexadecimal digits of milliseconds, so that ids sort by time and a span of time is a span of ids.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read, read_or, tags_of
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, LogLine, NewJob
from headrace.core.jobs.states import FINAL, NOT_STARTED, State, Trigger
from headrace.core.tasks.options import HIGHEST_PRIORITY, LOWEST_PRIORITY

Status = Literal["pending", "requeued", "manually_resolved", "permanently_failed", "cancelled", "expired"]
STATUSES: tuple[Status, ...] = get_args(Status)
# What a record may end as by the word of a person; the others are ends of a requeue, or of its time on the desk.
RESOLUTIONS: tuple[Status, ...] = ("manually_resolved", "permanently_failed", "cancelled")
REQUEUABLE = frozenset({State.FAILED, State.CANCELLED})
# Why a job fails for good, which a switch of the settings may name.
REASONS = (
    *("attempts_used_up", "permanent_error", "worker_lost", "crash_loop", "staleness_timeout"),
    *("corrupt_payload", "corrupt_options", "corrupt_record", "broken_backoff", "unstorable_outcome", "worker_error"),
    *("parent_result_missing", "parent_result_unfit"),
)
MAX_REQUEUES = 3
PRIORITY_BOOST = 10
BY_HAND = "by_hand"  # the reason of a record that a person opened


class DeadLetterFilter(Struct, frozen=True, omit_defaults=True):
    """Which records are meant. Every field that is set must match; times are those of the entry."""

    statuses: tuple[Status, ...] = ()
    reason: str | None = None
    task: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    requeues: int | None = None
    since: int | None = None
    until: int | None = None


class DeadLetterGroup(Struct, frozen=True, array_like=True):
    """Records of one fingerprint. Task, reason, error and message are those of the newest."""

    fingerprint: str
    task: str
    reason: str
    error_type: str | None
    message: str | None
    count: int
    first_seen: int
    last_seen: int


class DeadLetterStats(Struct, frozen=True, array_like=True):
    """How many records of one reason have one status, with the sum of their requeues."""

    reason: str
    status: str
    count: int
    requeues: int
    oldest: int
    newest: int


class RequeueRequest(Struct, frozen=True, array_like=True):
    """The order to run a record's job again, at `run_at` or now. With a `payload`, those are its arguments then."""

    id: str
    boost: int = PRIORITY_BOOST
    most: int = MAX_REQUEUES
    run_at: int | None = None
    payload: str | None = None
    checksum: int | None = None


class NewDeadLetter(Struct, frozen=True, array_like=True):
    """The order to open a record by hand. The error is the job's last one, if it has any."""

    job_id: str
    reason: str
    error_type: str | None = None
    error_message: str | None = None
    fingerprint: str = ""


# What became of such an order: "added", or why not: there is no such job, it runs or is completed, or it has a pending
# record.
Added = Literal["added", "missing", "busy", "pending"]
ADDABLE = NOT_STARTED | REQUEUABLE


class Requeued(Struct, frozen=True, array_like=True):
    """What became of such an order.

    `verdict` is "requeued", "stored_anew" if the job was gone, "used_up" if the record ended as permanently failed
    instead, "resolved" if it was not pending any more, "missing" if it is nowhere, or "busy" if the store has an open
    or a completed job of that id, which is left alone.
    """

    id: str
    job_id: str
    verdict: Literal["requeued", "stored_anew", "used_up", "resolved", "missing", "busy"]
    requeues: int = 0


class DeadLetterResolution(Struct, frozen=True, array_like=True):
    """How a record is to stand from now on."""

    id: str
    status: str
    resolved_at: int | None
    resolved_by: str | None
    requeues: int
    notes: str | None


class RequeueChange(Struct, frozen=True, array_like=True):
    """What a job gets with its revival from the desk."""

    seq: int
    boost: int
    run_at: int
    payload: str | None
    checksum: int | None


class DeadLetterNote(Struct, frozen=True):
    """One note on a record."""

    at: int
    text: str
    by: str | None = None


class JobSnapshot(Struct, frozen=True):
    """The job as it was when it failed. What older stores did not keep has a default."""

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
    history: list[HistoryRow] = []  # of what came before, the newest first; and the first failure
    version: int = 0
    progress: str | None = None
    steps: list[str] = []
    logs: list[LogLine] = []  # the newest first


DAMAGED = JobSnapshot(payload="")  # which is no payload at all
_snapshots = msgspec.json.Decoder(JobSnapshot)
_remarks = msgspec.json.Decoder(list[DeadLetterNote])


def snapshot_of(letter: DeadLetterRow) -> JobSnapshot:
    """The job as it failed; of one that is damaged nothing is known but what the record itself tells."""
    return read_or(_snapshots.decode, letter.snapshot, DAMAGED)


class _Error(Struct, frozen=True):
    error_type: str | None = None
    error_message: str | None = None


_errors = msgspec.json.Decoder(_Error)


def group_of(
    fingerprint: str, task: str, reason: str, snapshot: str | bytes, count: int, first_seen: int, last_seen: int
) -> DeadLetterGroup:
    """A group, told by the snapshot of its newest record."""
    error = read_or(_errors.decode, snapshot, _Error())
    told = (error.error_type, error.error_message, count, first_seen, last_seen)
    return DeadLetterGroup(fingerprint, task, reason, *told)


def kept_history(letter: DeadLetterRow) -> list[HistoryRow]:
    """What the record itself has of the job's history, oldest first, up to the failure."""
    job = snapshot_of(letter)
    before = job.history[::-1]
    if job.state in FINAL:  # it was over before it was added
        return before
    version = job.version or (before[-1].version + 1 if before else 2)
    end = (job.attempt, job.worker, job.started_at, letter.entered_at, letter.reason)
    error = (job.error_type, job.error_message, job.error_traceback)
    return [*before, HistoryRow(letter.entered_at, Trigger.FAIL, job.state, State.FAILED, version + 1, *end, *error)]


def history_anew(letter: DeadLetterRow, job: NewJob, detail: str | None) -> list[HistoryRow]:
    """What is filed of a job that is stored anew: what the record has kept, and that it is to run again."""
    before, was = kept_history(letter), snapshot_of(letter)
    run = (was.attempt, was.worker, was.started_at, letter.entered_at)
    source = State.CANCELLED if was.state == State.CANCELLED else State.FAILED
    nothing = (None, None, None)
    again = HistoryRow(job.version, Trigger.REVIVE, source, job.state, job.version, *run, detail, *nothing)
    return [*before, again]


def first_failed_at(letter: DeadLetterRow) -> int:
    """When the job failed for the first time, as far as the record knows."""
    return next(
        (history_row.at for history_row in kept_history(letter) if history_row.error_type is not None),
        letter.entered_at,
    )


# Who ends a record that was requeued too often: not whoever asked for it once more.
REQUEUED_TOO_OFTEN = "system_max_retries"


def used_up_in_words(requeues: int, most: int) -> str:
    """Why a job is not requeued any more."""
    return f"it was requeued {requeues} times already, of {most} allowed (max_requeues)"


def remarks_of(notes: str | None) -> list[DeadLetterNote]:
    return (read(_remarks.decode, notes) or []) if notes else []


def with_note(notes: str | None, text: str | None, by: str | None, at: int) -> str | None:
    """The notes with one more, if there is one."""
    if not text:
        return notes
    return msgspec.json.encode([*remarks_of(notes), DeadLetterNote(at, text, by)]).decode()


def id_at(moment: int) -> str:
    """What every id of a record that is entered at this time, or later, is not below."""
    return f"{max(moment, 0):012x}"


def moment_of(letter_id: str) -> int:
    """When the record of this id was entered."""
    return int(letter_id[:12], 16)


def bounds(which: DeadLetterFilter) -> tuple[str, str]:
    """The span of ids that the filter means: from the first on, before the second."""
    last = "g" if which.until is None else id_at(which.until)  # beyond every hexadecimal digit
    return ("" if which.since is None else id_at(which.since)), last


def raised(priority: int, boost: int) -> int:
    return max(LOWEST_PRIORITY, min(HIGHEST_PRIORITY, priority + boost))


def stored_anew(letter: DeadLetterRow, order: RequeueRequest, now: int) -> NewJob:
    """The job of the record, for a store that has it no more. It is of no flow: that may be gone as well."""
    was = snapshot_of(letter)
    run_at = max(order.run_at or now, now)
    payload: dict[str, Any] = {"payload": was.payload, "checksum": was.checksum}
    if order.payload is not None:
        payload = {"payload": order.payload, "checksum": order.checksum or 0}
    return NewJob(
        letter.job_id,
        letter.task,
        letter.queue,
        State.PENDING if run_at <= now else State.SCHEDULED,
        raised(was.priority, order.boost),
        -run_at if was.lifo else run_at,
        **payload,
        created_at=was.created_at or now,
        run_at=run_at,
        max_attempts=was.max_attempts,
        options=was.options,
        tags=was.tags if tags_of(was.tags) else None,
        metadata=was.metadata,
        version=now,  # above every version that a worker of the job before may hold
        unique_key=was.unique_key,
        lane=was.lane,
    )
