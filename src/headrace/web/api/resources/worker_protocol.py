"""The protocol of workers in other languages: claim, heartbeat, steps, settle."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.app.jobs.records import lowered
from headrace.core.clock import to_datetime
from headrace.core.jobs.known_tasks import is_reserved
from headrace.core.jobs.records import JobNote, Lease, WorkerRow
from headrace.core.tasks.labels import check_capabilities
from headrace.core.tasks.option_fields import Word
from headrace.core.tasks.options import check_name, check_queue
from headrace.errors import InvalidJob
from headrace.web.api.resources.new_job import JobRequest, call_of
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import decoded
from headrace.web.remote_steps import StoredSteps, store_step, stored_steps
from headrace.web.remote_workers import (
    AttemptResult,
    RemoteClaim,
    RemoteSettleResult,
    claim_request,
    clean,
    clean_error,
    job_note,
    json_text,
)
from headrace.web.security.middleware import RequestContext

table = Table("worker", "For workers in any language: claim jobs, renew their leases, settle them.")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_JOB = "0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"
Seconds = Annotated[float, Meta(ge=0)]
Weight = Annotated[int, Meta(ge=1, le=2**31)]
Version = Annotated[int, Meta(ge=0, le=2**62)]
WorkerId = Annotated[str, Meta(min_length=1, max_length=128, description="The worker's own id, unique and stable.")]


class HeldLease(Struct, frozen=True, forbid_unknown_fields=True):
    """A job that the worker holds."""

    id: str
    version: Version


class ClaimParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim: the tasks a worker can run, its queues by weight (none: all), and the lease in seconds.

    `holding` lists all jobs that the worker runs; jobs of a lost response are released. A worker that sends it must
    make one claim at a time.
    """

    worker: WorkerId
    tasks: Annotated[list[str], Meta(min_length=1, max_length=1000)]
    queues: dict[str, Weight] = {}
    capabilities: list[str] = []
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    wait: Annotated[float, Meta(ge=0, le=60, description="Seconds to wait if no job is available.")] = 0.0
    holding: Annotated[list[HeldLease], Meta(max_length=1000)] | None = None


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A claimed job. The worker holds it until `lease_until`, while its `version` is unchanged."""

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
    """The claimed jobs."""

    jobs: list[ClaimedJob]


class ReportedLogLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a job's log."""

    message: Annotated[str, Meta(max_length=10_000)]
    level: Literal["debug", "info", "warning", "error"] = "info"
    fields: dict[str, Any] = {}


class RunningJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that the worker runs, with its progress and log lines."""

    id: str
    version: Version
    progress: Any | UnsetType = UNSET
    logs: Annotated[list[ReportedLogLine], Meta(max_length=1000)] = []


class HeartbeatRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A heartbeat, sent every third of the lease: facts about the worker, and the jobs it runs."""

    worker: WorkerId
    jobs: Annotated[list[RunningJob], Meta(max_length=1000)] = []
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
    """Jobs that the worker has lost and must stop, and an operator's command."""

    lost: list[str]
    command: Literal["run", "pause", "stop"]


class Failure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The error of an attempt."""

    type: str = "Error"
    message: str = ""
    traceback: str = ""


class OutcomeReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of an attempt.

    `success` has a `result`, and in `spawn` jobs that are inserted with it and that this job waits for. `failure` has
    an `error`; the retry policy of the task or the call decides, unless the failure is `permanent` or gives a `delay`.
    `snooze` runs the job again after `delay` seconds, `wait` when the `number`-th event of the name `event` has come,
    or after `delay` seconds; `release` returns it to the queue. These three do not count as an attempt. `cancel`
    cancels it.
    """

    id: str
    version: Version
    outcome: Literal["success", "failure", "snooze", "wait", "release", "cancel"]
    result: Any = None
    spawn: Annotated[list[JobRequest], Meta(max_length=1000)] = []
    event: Word | None = None
    number: Annotated[int, Meta(ge=1, le=2**31)] = 1
    error: Failure | None = None
    permanent: bool = False
    delay: Seconds | None = None
    reason: Annotated[str, Meta(max_length=1000)] | None = None


class SettleRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Outcomes to settle."""

    worker: WorkerId
    outcomes: Annotated[list[OutcomeReport], Meta(max_length=1000)]


class StepsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A job that the worker runs."""

    worker: WorkerId
    id: str
    version: Version


class FinishedStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finished step of a job that the worker runs."""

    worker: WorkerId
    id: str
    version: Version
    name: Word
    result: Any = None


class SettledJobs(Struct, frozen=True):
    """For each outcome, in order: whether it was accepted. It is refused if the worker no longer held the job."""

    results: list[RemoteSettleResult]


class Unregister(Struct, frozen=True, forbid_unknown_fields=True):
    """The worker that ends."""

    worker: WorkerId


_CLAIM = {"worker": "node-1", "tasks": ["emails.send"], "queues": {"emails": 1}, "limit": 4, "wait": 20}
_RENEW = {"worker": "node-1", "jobs": [{"id": _JOB, "version": 2, "progress": 0.5}], "lease": 30}
_RUN = {"worker": "node-1", "id": _JOB, "version": 2}
_STEP = {**_RUN, "name": "charge", "result": {"receipt": 7}}
_SETTLE = {
    "worker": "node-1",
    "outcomes": [
        {"id": _JOB, "version": 2, "outcome": "success", "result": {"sent": 1}},
        {"id": _JOB, "version": 5, "outcome": "failure", "error": {"type": "ECONNRESET", "message": "connection lost"}},
    ],
}


@table.post("/worker/claim", role="worker", example=_CLAIM, writes=False, waits=True)
def claim(context: RequestContext, body: ClaimParameters) -> ClaimedJobs:
    """Claim jobs, or wait for some.

    Jobs of other tasks are left to workers that know them. A waiting claim ends with its connection: a disconnected
    worker gets no jobs.
    """
    if reserved := [name for name in body.tasks if is_reserved(name)]:
        raise InvalidJob(f"tasks: {reserved[0]!r} is headrace's own; only Python workers run it")
    worker_fields: dict[str, Any] = {"capabilities": body.capabilities, "concurrency": body.limit}
    row = _row(context, body.worker, tasks=body.tasks, queues=body.queues, **worker_fields)
    request = claim_request(body.worker, body.queues, body.limit, body.lease, body.capabilities)
    held = None if body.holding is None else [Lease(job.id, job.version) for job in body.holding]
    remote_claims = context.remote_workers.claim(row, body.tasks, request, body.wait, held, context.is_disconnected)
    return ClaimedJobs(
        [_claimed(remote_claim, context.app.clock.now() + request.lease) for remote_claim in remote_claims]
    )


@table.post("/worker/renew", role="worker", example=_RENEW, writes=False)
def renew(context: RequestContext, body: HeartbeatRequest) -> HeartbeatResult:
    """Renew the leases of running jobs, store their progress and logs, and return the lost ones."""
    names = ("tasks", "queues", "capabilities", "concurrency", "completed", "failed", "host", "pid")
    worker_fields = {name: getattr(body, name) for name in names}
    row = _row(context, body.worker, running=len(body.jobs), heartbeat=round(body.lease * 1000 / 3), **worker_fields)
    leases = [Lease(job.id, job.version) for job in body.jobs]
    lost, command = context.remote_workers.renew(row, leases, _notes(context, body.jobs), round(body.lease * 1000))
    return HeartbeatResult(sorted(lost), command)  # type: ignore[arg-type]  # stores know no other commands


@table.post("/worker/steps", role="worker", example=_RUN, writes=False)
def steps(context: RequestContext, body: StepsRequest) -> StoredSteps:
    """Read the steps that earlier runs of a job stored, and the events that came for it.

    A worker that does not hold the job gets 409: it must stop working on it.
    """
    return _lowered(stored_steps(context.app, _check_worker_id(body.worker), Lease(body.id, body.version)))


@table.post("/worker/step", role="worker", example=_STEP, writes=False)
def step(context: RequestContext, body: FinishedStep) -> None:
    """Store the result of a step, for good, before the run continues.

    A step that exists is not changed. A worker that does not hold the job gets 409: it must stop working on it.
    """
    lease = Lease(body.id, body.version)
    store_step(context.app, _check_worker_id(body.worker), lease, body.name, decoded(body.result))


@table.post("/worker/settle", role="worker", example=_SETTLE, writes=False)
def settle(context: RequestContext, body: SettleRequest) -> SettledJobs:
    """Settle attempts.

    A repeated request after a lost response is safe: its outcomes are refused.
    """
    ids = [report.id for report in body.outcomes]
    if len(ids) != len(set(ids)):
        raise InvalidJob("outcomes: a job may occur only once")
    return SettledJobs(
        context.remote_workers.settle(
            _check_worker_id(body.worker), [_attempt_result(context, report) for report in body.outcomes]
        )
    )


@table.post("/worker/leave", role="worker", example={"worker": "node-1"}, writes=False)
def leave(context: RequestContext, body: Unregister) -> None:
    """Unregister a worker, after it has settled or released its jobs."""
    context.remote_workers.unregister(_check_worker_id(body.worker))


def _check_worker_id(worker: str) -> str:
    if not _ID.fullmatch(worker):
        raise InvalidJob("worker: use 1 to 128 letters, digits and _ - . : @")
    return worker


def _row(
    context: RequestContext, worker: str, *, tasks: list[str], queues: dict[str, int], **worker_fields: Any
) -> WorkerRow:
    for queue in queues:
        check_queue("queues", queue)
    capabilities = check_capabilities("capabilities", worker_fields.pop("capabilities"))
    now = context.app.clock.now()
    # A claim only registers the worker; facts from earlier heartbeats stay.
    defaults = {"host": "", "pid": 0, "running": 0, "completed": 0, "failed": 0, "heartbeat": 0}
    return WorkerRow(
        id=_check_worker_id(worker),
        started_at=now,
        seen_at=now,
        state="running",
        command="run",
        queues=json_text(queues),
        tasks=json_text(sorted(tasks)),
        capabilities=json_text(capabilities),
        **{**defaults, **worker_fields},
    )


def _claimed(remote_claim: RemoteClaim, lease_until: int) -> ClaimedJob:
    claim = remote_claim.claim
    return ClaimedJob(
        id=claim.id,
        version=claim.version,
        task=claim.task,
        queue=claim.queue,
        priority=claim.priority,
        attempt=claim.attempt,
        max_attempts=remote_claim.run_spec.retry.max_attempts,
        args=lowered(remote_claim.args),
        kwargs=lowered(remote_claim.kwargs),
        timeout=remote_claim.run_spec.timeout,
        metadata=remote_claim.metadata,
        created_at=to_datetime(claim.created_at),
        lease_until=to_datetime(lease_until),
    )


def _notes(context: RequestContext, jobs: list[RunningJob]) -> list[JobNote]:
    now, notes = context.app.clock.now(), []
    for job in jobs:
        lease = Lease(job.id, job.version)
        if job.progress is not UNSET:
            notes.append(job_note(lease, now, progress=decoded(job.progress)))
        for line in job.logs:
            fields = decoded(line.fields)
            notes.append(job_note(lease, now, level=line.level, message=clean(line.message), fields=fields))
    return notes


def _lowered(kept: StoredSteps) -> StoredSteps:
    return StoredSteps(
        {name: lowered(value) for name, value in kept.steps.items()},
        {name: lowered(values) for name, values in kept.events.items()},
    )


def _attempt_result(context: RequestContext, report: OutcomeReport) -> AttemptResult:
    if report.spawn and report.outcome != "success":
        raise InvalidJob("spawn: only a success has new jobs", field="spawn")
    if report.outcome == "wait":
        check_name("event", report.event)
    error = (
        None if report.error is None else clean_error(report.error.type, report.error.message, report.error.traceback)
    )
    return AttemptResult(
        id=report.id,
        version=report.version,
        outcome=report.outcome,
        result=decoded(report.result),
        error=error,
        is_permanent=report.permanent,
        delay=report.delay,
        reason=None if report.reason is None else clean(report.reason),
        event=report.event,
        event_number=report.number,
        spawn=lambda: [call_of(context.app, job) for job in report.spawn],
    )
