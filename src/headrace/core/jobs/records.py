"""The frozen records of the engine protocol. They hold values and decide nothing.

Records marked `array_like` travel to and from the store as JSON arrays, a whole batch in one parameter and one
statement: fewer crossings between Python and the store, and no wait for the interpreter lock in between. Their field
order is therefore part of the protocol; statements name the fields, never the positions.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from headrace.core.clock import to_datetime
from headrace.core.damaged_records import items_of
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.known_tasks import KnownTasks
from headrace.core.jobs.queue_rules import Strategy
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Awaited

Isolation = Literal["thread", "async", "process"]


class RetryPolicy(Struct, frozen=True, omit_defaults=True):
    """A Retry as stored with a job: only data, exception classes by their dotted names."""

    limit: int = 3
    backoff: str | list[float] = "exponential"
    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    floor: float = 0.1
    jitter: float = 0.1
    on: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    on_timeout: bool = True


class JobOptions(Struct, frozen=True, omit_defaults=True):
    """The options of this one call; unset ones follow the task's definition in the worker."""

    timeout: int | UnsetType | None = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    keep_result: bool | UnsetType = UNSET
    isolation: Isolation | UnsetType = UNSET
    redact: tuple[str, ...] = ()
    redact_args: tuple[int, ...] = ()
    preemptible: bool | UnsetType = UNSET
    remove_on_complete: bool | int | UnsetType = UNSET
    remove_on_fail: bool | int | UnsetType = UNSET
    cost: int | UnsetType = UNSET
    budget: int | UnsetType = UNSET
    flow_budget: str | UnsetType = UNSET  # the flow whose budget counts for it


class NewJob(Struct, frozen=True, array_like=True, gc=False):
    """A job as submitted. The client makes the id, so that a repeated insert is recognized.

    `version` is the first version: 1, or the time for an id that the user gave, which may be used again after a delete.
    So no version of an id is ever given twice, and a worker of the deleted job is fenced from the new one.
    """

    id: str
    task: str
    queue: str
    state: State
    priority: int
    rank: int
    payload: str
    checksum: int
    created_at: int
    run_at: int
    max_attempts: int
    expires_at: int | None = None
    options: str | None = None
    tags: str | None = None
    metadata: str | None = None
    version: int = 1
    unique_key: str | None = None
    lane: str = ""
    flow: str | None = None
    has_dependencies: int = 0


class Lease(Struct, frozen=True, array_like=True, gc=False):
    """A worker's right to settle this version."""

    id: str
    version: int


class Claim(Struct, frozen=True, array_like=True, gc=False):
    """A job given to a worker. Only the holder of its version may settle it.

    `ref` is the engine's own short name for the job, unique among live claims.
    """

    id: str
    ref: int
    task: str
    queue: str
    priority: int
    version: int
    attempt: int
    max_attempts: int
    payload: str
    checksum: int
    created_at: int
    run_at: int
    crashes: int
    releases: int
    options: str | None
    metadata: str | None

    @property
    def lease(self) -> Lease:
        """The right that this claim gives."""
        return Lease(self.id, self.version)


class ErrorInfo(Struct, frozen=True, array_like=True):
    """The error of one failed attempt."""

    type: str
    message: str
    traceback: str = ""


class Outcome(Struct, frozen=True, array_like=True, gc=False):
    """The decision of one attempt. The only way in which a worker changes a running job.

    A quiet outcome leaves no history: the job was only fetched and released. A job that `awaits` events is pending at
    once if one of them, by its number, has come meanwhile. The store inserts the jobs that a success has `spawned`,
    with their `edges`, in the same commit or not at all. A failure creates a dead letter if `opens_dead_letter`.
    `units` are those that the attempt has used, None if they are what it was charged.
    """

    id: str
    version: int
    event: Trigger
    state: State
    at: int
    run_at: int | None = None
    attempt_refund: int = 0
    result: str | None = None
    result_checksum: int | None = None
    reason: str | None = None
    max_attempts: int | None = None
    finished_at: int | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_traceback: str | None = None
    quiet: bool = False
    awaits: Awaited | None = None
    spawned: tuple[NewJob, ...] = ()
    edges: tuple[Dependency, ...] = ()
    fingerprint: str = ""
    opens_dead_letter: bool = True
    units: int | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the attempt that it ends."""
        return Lease(self.id, self.version)


class JobNote(Struct, frozen=True, array_like=True):
    """Progress or a log line of a running job; stored only while its lease holds."""

    id: str
    version: int
    at: int
    progress: str | None = None
    level: str | None = None
    message: str | None = None
    fields: str | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the attempt that wrote it."""
        return Lease(self.id, self.version)


class QueueShare(Struct, frozen=True):
    """How many jobs of one queue a claim may take before the other queues had their share."""

    queue: str
    quota: int


class ClaimRequest(Struct, frozen=True):
    """How many jobs a worker can start now, and which.

    `others` allows queues without a share. `capabilities` are those of the worker, "*" is all. `strategy` is the
    preferred order. Only jobs of `known` tasks are claimed; None is all.
    """

    worker: str
    limit: int
    lease: int
    shares: tuple[QueueShare, ...] = ()
    others: bool = True
    capabilities: tuple[str, ...] = ()
    strategy: Strategy | None = None
    known: KnownTasks | None = None


class ExchangeResult(Struct, frozen=True):
    """The store's answer to one exchange.

    `refused` are the outcomes with an outdated version, which only add `lease_lost` to the history of their jobs.
    `next_at` is when another claim could find more, None if a bell will ring then. `queues` are the open queues the
    claim saw, `weights` those of them with a weight in their rules.
    """

    refused: list[Outcome]
    claims: list[Claim]
    next_at: int | None = None
    queues: tuple[str, ...] = ()
    weights: dict[str, int] = {}


class ReapedJob(Struct, frozen=True, array_like=True):
    """A job taken from a worker that died or became silent."""

    id: str
    queue: str
    state: State
    worker: str | None


class JobRow(Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """Everything in a job's own row. `has_dependencies` says that it has dependencies.

    `updated_at` is the time of its newest version, None for the first.
    """

    seq: int
    id: str
    task: str
    queue: str
    state: State
    priority: int
    rank: int
    version: int
    attempt: int
    max_attempts: int
    crashes: int
    releases: int
    payload: str
    checksum: int
    created_at: int
    run_at: int
    expires_at: int | None
    started_at: int | None
    finished_at: int | None
    worker: str | None
    lease_until: int | None
    result: str | None
    result_checksum: int | None
    progress: str | None
    reason: str | None
    options: str | None
    tags: str | None
    metadata: str | None
    unique_key: str | None = None
    lane: str = ""
    flow: str | None = None
    has_dependencies: int = 0
    updated_at: int | None = None


class HistoryRow(Struct, frozen=True, array_like=True):
    """A stored history row: what the job's own row held before it was overwritten."""

    at: int
    event: str
    source: str
    target: str
    version: int
    attempt: int
    worker: str | None
    started_at: int | None
    finished_at: int | None
    detail: str | None
    error_type: str | None
    error_message: str | None
    error_traceback: str | None


class LogLine(Struct, frozen=True, array_like=True):
    """One line a job logged about itself."""

    at: int
    attempt: int
    level: str
    message: str
    fields: str | None


class Filter(Struct, frozen=True, omit_defaults=True):
    """A filter for jobs. Every set field must match; the empty filter matches all."""

    ids: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    worker: str | None = None
    text: str | None = None
    since: int | None = None
    until: int | None = None
    flow: str | None = None


class JobRowPage(Struct, frozen=True):
    """Jobs, newest first, and the cursor that continues after the last one (None at the end)."""

    jobs: list[JobRow]
    cursor: str | None


class QueueCount(Struct, frozen=True, array_like=True):
    """How many jobs of one queue are in one state, and when the oldest was due."""

    queue: str
    state: State
    jobs: int
    oldest: int | None


class WorkerRow(Struct, frozen=True, array_like=True):
    """A worker as it reported itself. `heartbeat` is its interval in ms, 0 if unknown; `command` is its command."""

    id: str
    host: str
    pid: int
    started_at: int
    seen_at: int
    state: str
    command: str
    queues: str
    concurrency: int
    running: int
    completed: int
    failed: int
    tasks: str
    heartbeat: int
    capabilities: str = "[]"

    def serves(self, queue: str) -> bool:
        """Whether it claims from this queue."""
        return queue in (names := items_of(self.queues, dict, list)) or not names

    def is_silent(self, now: int) -> bool:
        """Whether it has missed more than a few heartbeats, at its own interval or at the default one."""
        return now - self.seen_at > 3 * (self.heartbeat or 30_000)


class RenewResult(Struct, frozen=True):
    """The answer to a renewal: lost leases, the operator's command, and when any lease expires next."""

    lost: frozenset[Lease]
    command: str
    next_expiry: int | None = None


class DeadLetterRow(Struct, frozen=True, array_like=True):
    """A dead letter as stored; see `core.dead_letters`. `snapshot` is the job as it failed, in JSON."""

    id: str
    job_id: str
    task: str
    queue: str
    reason: str
    entered_at: int
    status: str
    resolved_at: int | None
    resolved_by: str | None
    snapshot: str
    fingerprint: str = ""
    requeues: int = 0
    notes: str | None = None


class JobUpdate(Struct, frozen=True):
    """What an operator may change in a job that has not started."""

    priority: int | None = None
    run_at: int | None = None
    queue: str | None = None

    def format_changes(self) -> str:
        changes = {"priority": self.priority, "run_at": to_datetime(self.run_at), "queue": self.queue}
        return ", ".join(f"{name}={value}" for name, value in changes.items() if value is not None)
