"""The protocol of workers that are not written in Python: claim, renew, settle."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.app.jobs.records import lowered
from headrace.core.clock import to_datetime
from headrace.core.jobs.known_tasks import is_reserved
from headrace.core.jobs.records import JobNote, Lease, WorkerRow
from headrace.core.tasks.options import check_capabilities, check_queue
from headrace.errors import InvalidJob
from headrace.web.api.routes import Table
from headrace.web.api.schemas import lifted
from headrace.web.remote_workers import (
    AttemptResult,
    RemoteClaim,
    RemoteSettleResult,
    clean,
    clean_error,
    note_of,
    text_of,
    want_of,
)
from headrace.web.security.middleware import RequestContext

table = Table("worker", "For workers of any language: claim jobs, renew their leases, settle them.")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_JOB = "0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"
Seconds = Annotated[float, Meta(ge=0)]
Weight = Annotated[int, Meta(ge=1, le=2**31)]
Version = Annotated[int, Meta(ge=0, le=2**62)]
WorkerId = Annotated[str, Meta(min_length=1, max_length=128, description="The worker's own id, unique and stable.")]


class HeldLease(Struct, frozen=True, forbid_unknown_fields=True):
    """A job that the worker runs."""

    id: str
    version: Version


class ClaimParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker could run now: these tasks, from these queues by weight (none: from all), for `lease` seconds.

    With `holding`, all that it runs, it gives back what it was handed in an answer that never came. A worker that does
    so makes one claim at a time.
    """

    worker: WorkerId
    tasks: Annotated[list[str], Meta(min_length=1, max_length=1000)]
    queues: dict[str, Weight] = {}
    capabilities: list[str] = []
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    wait: Annotated[float, Meta(ge=0, le=60, description="Seconds to wait for a job if there is none.")] = 0.0
    holding: Annotated[list[HeldLease], Meta(max_length=1000)] | None = None


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A job that is the worker's until `lease_until`, as long as it is at this `version`."""

    id: str
    version: int
    task: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    args: list[Any]
    kwargs: dict[str, Any]
    timeout: float | None
    metadata: Any
    created_at: datetime | None
    lease_until: datetime | None


class ClaimedJobs(Struct, frozen=True):
    """Jobs to run now."""

    jobs: list[ClaimedJob]


class ReportedLogLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a job's log."""

    message: Annotated[str, Meta(max_length=10_000)]
    level: Literal["debug", "info", "warning", "error"] = "info"
    fields: dict[str, Any] = {}


class Held(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that the worker runs, with what there is to tell of it."""

    id: str
    version: Version
    progress: Any | UnsetType = UNSET
    logs: Annotated[list[ReportedLogLine], Meta(max_length=1000)] = []


class HeartbeatRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign of life, every third of the lease: what the worker is, and the jobs it runs."""

    worker: WorkerId
    jobs: Annotated[list[Held], Meta(max_length=1000)] = []
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    tasks: list[str] = []
    queues: dict[str, Weight] = {}
    capabilities: list[str] = []
    concurrency: Annotated[int, Meta(ge=1, le=100_000)] = 1
    completed: Annotated[int, Meta(ge=0, le=2**62)] = 0
    failed: Annotated[int, Meta(ge=0, le=2**62)] = 0
    host: Annotated[str, Meta(max_length=255)] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31)] = 0


class HeartbeatResult(Struct, frozen=True):
    """Jobs that are the worker's no more, and are to be stopped; and what an operator wishes of it."""

    lost: list[str]
    wish: Literal["run", "pause", "stop"]


class Failure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What went wrong."""

    type: str = "Error"
    message: str = ""
    traceback: str = ""


class End(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an attempt ended.

    `success` with a `result`; `failure` with an `error`, after which the retry policy of the task or of the call
    decides, unless it is `permanent` or asks for a `delay` itself; `snooze` to run again after `delay` seconds,
    `release` to give it back, both without spending the attempt; `cancel`.
    """

    id: str
    version: Version
    outcome: Literal["success", "failure", "snooze", "release", "cancel"]
    result: Any = None
    error: Failure | None = None
    permanent: bool = False
    delay: Seconds | None = None
    reason: Annotated[str, Meta(max_length=1000)] | None = None


class SettleRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Attempts that ended."""

    worker: WorkerId
    outcomes: Annotated[list[End], Meta(max_length=1000)]


class SettledJobs(Struct, frozen=True):
    """For each outcome, in their order: whether it counted. One that did not was not the worker's any more."""

    results: list[RemoteSettleResult]


class Unregister(Struct, frozen=True, forbid_unknown_fields=True):
    """Who leaves."""

    worker: WorkerId


_CLAIM = {"worker": "node-1", "tasks": ["emails.send"], "queues": {"emails": 1}, "limit": 4, "wait": 20}
_RENEW = {"worker": "node-1", "jobs": [{"id": _JOB, "version": 2, "progress": 0.5}], "lease": 30}
_SETTLE = {
    "worker": "node-1",
    "outcomes": [
        {"id": _JOB, "version": 2, "outcome": "success", "result": {"sent": 1}},
        {"id": _JOB, "version": 5, "outcome": "failure", "error": {"type": "ECONNRESET", "message": "connection lost"}},
    ],
}


@table.post("/worker/claim", role="worker", example=_CLAIM, writes=False, waits=True)
def claim(visit: RequestContext, body: ClaimParameters) -> ClaimedJobs:
    """Claim jobs, and wait for some if there are none.

    A job of another task than those named is left to a worker that knows it. A claim that waits is over when its
    connection is: nothing is handed to who has left.
    """
    if own := [name for name in body.tasks if is_reserved(name)]:
        raise InvalidJob(f"tasks: {own[0]!r} is headrace's own, and run by its own workers alone")
    told: dict[str, Any] = {"capabilities": body.capabilities, "concurrency": body.limit}
    row = _row(visit, body.worker, tasks=body.tasks, queues=body.queues, **told)
    want = want_of(body.worker, body.queues, body.limit, body.lease, body.capabilities)
    held = None if body.holding is None else [Lease(job.id, job.version) for job in body.holding]
    handed = visit.remote.claim(row, body.tasks, want, body.wait, held, visit.has_left)
    return ClaimedJobs([_claimed(one, visit.app.clock.now() + want.lease) for one in handed])


@table.post("/worker/renew", role="worker", example=_RENEW, writes=False)
def renew(visit: RequestContext, body: HeartbeatRequest) -> HeartbeatResult:
    """Renew the leases of running jobs, store their progress and logs, and learn which are lost."""
    known = ("tasks", "queues", "capabilities", "concurrency", "completed", "failed", "host", "pid")
    told = {name: getattr(body, name) for name in known}
    row = _row(visit, body.worker, running=len(body.jobs), heartbeat=round(body.lease * 1000 / 3), **told)
    leases = [Lease(job.id, job.version) for job in body.jobs]
    lost, wish = visit.remote.renew(row, leases, _notes(visit, body.jobs), round(body.lease * 1000))
    return HeartbeatResult(sorted(lost), wish)  # type: ignore[arg-type]  # stores know no other wishes


@table.post("/worker/settle", role="worker", example=_SETTLE, writes=False)
def settle(visit: RequestContext, body: SettleRequest) -> SettledJobs:
    """Tell how attempts ended.

    Telling it again after a lost answer does no harm: the second time it does not count.
    """
    ids = [end.id for end in body.outcomes]
    if len(ids) != len(set(ids)):
        raise InvalidJob("outcomes: one job may come once")
    return SettledJobs(visit.remote.settle(_checked(body.worker), [_ending(end) for end in body.outcomes]))


@table.post("/worker/leave", role="worker", example={"worker": "node-1"}, writes=False)
def leave(visit: RequestContext, body: Unregister) -> None:
    """Forget a worker that ends in order, after it has settled or released its jobs."""
    visit.remote.leave(_checked(body.worker))


def _checked(worker: str) -> str:
    if not _ID.fullmatch(worker):
        raise InvalidJob("worker: use 1 to 128 letters, digits and _ - . : @")
    return worker


def _row(visit: RequestContext, worker: str, *, tasks: list[str], queues: dict[str, int], **told: Any) -> WorkerRow:
    for queue in queues:
        check_queue("queues", queue)
    capabilities = check_capabilities("capabilities", told.pop("capabilities"))
    now = visit.app.clock.now()
    # Without a heartbeat it only shows up: a claim tells nothing of what renewals tell, and takes nothing of it back.
    known = {"host": "", "pid": 0, "running": 0, "completed": 0, "failed": 0, "heartbeat": 0}
    return WorkerRow(
        id=_checked(worker),
        started_at=now,
        seen_at=now,
        state="running",
        wish="run",
        queues=text_of(queues),
        tasks=text_of(sorted(tasks)),
        capabilities=text_of(capabilities),
        **{**known, **told},
    )


def _claimed(handed: RemoteClaim, lease_until: int) -> ClaimedJob:
    claim = handed.claim
    return ClaimedJob(
        id=claim.id,
        version=claim.version,
        task=claim.task,
        queue=claim.queue,
        priority=claim.priority,
        attempt=claim.attempt,
        max_attempts=handed.plan.retry.max_attempts,
        args=lowered(handed.args),
        kwargs=lowered(handed.kwargs),
        timeout=handed.plan.timeout,
        metadata=handed.metadata,
        created_at=to_datetime(claim.created_at),
        lease_until=to_datetime(lease_until),
    )


def _notes(visit: RequestContext, jobs: list[Held]) -> list[JobNote]:
    now, notes = visit.app.clock.now(), []
    for job in jobs:
        lease = Lease(job.id, job.version)
        if job.progress is not UNSET:
            notes.append(note_of(lease, now, progress=lifted(job.progress)))
        for line in job.logs:
            fields = lifted(line.fields)
            notes.append(note_of(lease, now, level=line.level, message=clean(line.message), fields=fields))
    return notes


def _ending(end: End) -> AttemptResult:
    error = None if end.error is None else clean_error(end.error.type, end.error.message, end.error.traceback)
    return AttemptResult(
        id=end.id,
        version=end.version,
        outcome=end.outcome,
        result=lifted(end.result),
        error=error,
        is_permanent=end.permanent,
        delay=end.delay,
        reason=None if end.reason is None else clean(end.reason),
    )
