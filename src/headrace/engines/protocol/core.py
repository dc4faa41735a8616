"""The core of an engine: what it needs to run jobs. Start a new engine with this, and with the tests of the core.

Engines are plain blocking classes, safe to call from any thread and, after a fork, from the child. Every method
that changes jobs is one atomic commit. `now` (milliseconds, UTC) defaults to the store's own clock.
An engine only executes rows of `core.jobs.states.TRANSITIONS`. Every transition expects a version and increments it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.clock import Clock
from headrace.core.events.log import EventGroup
from headrace.core.health.findings import MigrationResult
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.details import JobDetails, StreamRange
from headrace.core.jobs.queue_rules import StoreRules
from headrace.core.jobs.records import (
    ClaimRequest,
    ExchangeResult,
    Filter,
    JobNote,
    JobRow,
    JobRowPage,
    JobUpdate,
    Lease,
    NewJob,
    Outcome,
    QueueCount,
    ReapedJob,
    RenewResult,
    WorkerRow,
)
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule


class Bell(Protocol):
    """Wakes one listener. A ring between a read of the store and the wait after it is never lost."""

    def wait(self, timeout: float | None) -> bool:
        """Sleep until rung or until the timeout; True if rung. Rings that came before count, once."""
        ...

    def ring(self) -> None:
        """Wake this listener from within its own process."""
        ...

    def close(self) -> None: ...


class WorkerLiveness(Protocol):
    """Lets a store notice a worker's death before its lease runs out."""

    def begin(self, ref: int) -> int | None:
        """Record, safe from a kill -9, that the claim `ref` has begun; its slot, None if there is none."""
        ...

    def ended(self, slot: int, ref: int) -> None:
        """Record that the claim in this slot has ended but is not settled yet."""
        ...

    def settled(self, slot: int) -> None:
        """Free the slot: the store has settled the claim."""
        ...

    def sees_dead(self) -> bool:
        """Whether a worker of this host has died and is not reaped yet. Reads no store."""
        ...

    def close(self) -> None: ...


class JobEngine(Protocol):
    """The operations on the path of every job, its workers, and what wakes them."""

    @property
    def url(self) -> str:
        """The URL of the store, without its password."""
        ...

    @property
    def clock(self) -> Clock:
        """The store's clock, the default of `now`."""
        ...

    @property
    def queries(self) -> Queries: ...

    def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
        all_or_nothing: bool = False,
        now: int | None = None,
    ) -> list[InsertResult]:
        """Insert the jobs, each by its rule in `unique` if it has one, and wake workers; the result of each.

        It is one commit: after an error nothing is stored, and with `all_or_nothing`, `edges` or a `flow` a taken id or
        a refusing rule raises DuplicateJob.
        """
        ...

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote] = (),
        now: int | None = None,
        groups: Sequence[EventGroup] = (),
    ) -> ExchangeResult:
        """Store notes and the worker's events, settle outcomes, then claim jobs.

        Settling and claiming are atomic each, but may be two commits.
        """
        ...

    def save_step(self, lease: Lease, step: Step, now: int | None = None) -> bool:
        """Store a step of a running job and its history entry; False, and nothing stored, if the lease is lost.

        A step that exists under the same kind, name and number is not changed.
        """
        ...

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> RenewResult:
        """Extend the leases that are held and have not run out, and store the worker's report; without a heartbeat,
        only that it was seen.

        Returns the lost leases, not ids: the same job may be leased to this worker again.
        """
        ...

    def reap(
        self,
        limit: int,
        max_crashes: int | None = None,
        now: int | None = None,
        *,
        alive: bool = False,
        dead_letters: bool | Collection[str] = True,
    ) -> list[ReapedJob]:
        """Take jobs from workers that died or let their lease run out, or with `alive` from all workers.

        A begun attempt is spent: the job retries at once, or fails, with a dead letter if `dead_letters` allows it.
        """
        ...

    def release_unknown_claims(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        """Release the running jobs of this worker that it does not hold; their ids.

        For claims whose answer never reached the worker: they were never begun and get their attempt back.
        """
        ...

    def register_worker(self, worker: WorkerRow) -> WorkerLiveness:
        """Register a worker."""
        ...

    def unregister_worker(self, worker_id: str) -> None:
        """Remove a worker that ended in order."""
        ...

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        """A bell for "work" (jobs may be claimable), "done" (jobs finished), "commands" (a worker has a command),
        "schedules" (a schedule changed) or "events" (any event was appended).

        A listener that names queues need not be woken for other queues.
        """
        ...

    def ring(self, topic: str) -> None:
        """Wake every listener of the topic, in any process."""
        ...

    def migrate(self, *, dry_run: bool = False) -> MigrationResult:
        """Migrate the tables to the current version; with `dry_run` nothing changes, and no store is refused."""
        ...

    def close(self) -> None:
        """Release everything. A closed engine reopens when it is used."""
        ...


class Queries(Protocol):
    """Queries of operators and waiting callers, and commands of operators."""

    def move(
        self, which: Filter, event: Trigger, limit: int, by: str | None = None, now: int | None = None
    ) -> list[str]:
        """Apply CANCEL, REVIVE, PROMOTE_NOW or DELETE to at most `limit` matching jobs in a legal state; their ids.

        The same commit changes their dependencies and dependents as `core.jobs.dependencies` says.
        """
        ...

    def update(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        """Change a job that has not started; False if it has."""
        ...

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        """Those of these jobs that exist, in no order; with `light`, without long values: see core.jobs.light_rows."""
        ...

    def finished(self, ids: Collection[str]) -> set[str]:
        """Which of these are in a final state or do not exist."""
        ...

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        """Matching jobs, newest first; with `light`, without long values.

        Without a suitable index the search reads at most about `reach` jobs; the page holds the matches among them, and
        its cursor continues behind them.
        """
        ...

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        """The pending jobs of the queue in the order of their claim; with `light`, without long values."""
        ...

    def count(self, which: Filter, reach: int | None = None) -> JobCount:
        """How many jobs match.

        With `reach` and no index that knows the number, about `reach` jobs are read, and the count is a lower bound.
        """
        ...

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        """The number of jobs for each queue and state that has any; with `open_only`, of the open states only.

        Frequent callers should not have all finished jobs counted.
        """
        ...

    def details(
        self,
        job_id: str,
        *,
        history: bool = True,
        logs: int = 1000,
        steps: bool = True,
        stream: StreamRange | None = None,
    ) -> JobDetails:
        """The history of the job, its newest `logs` lines, its steps and a range of its stream; empty if left out or
        unknown."""
        ...

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        """Store the next event of this name for a job, and wake it if it is suspended for it; False if finished."""
        ...

    def rules(self) -> StoreRules:
        """Every queue that ever had a job or a setting, and every task that has rules, by name."""
        ...

    def pause_queue(self, name: str, paused: bool) -> None:
        """Pause or resume claims from the queue, for every worker from its next claim on."""
        ...

    def workers(self) -> list[WorkerRow]:
        """The registered workers, oldest first.

        `running` counts the leases they hold, up to their concurrency: a report would be one heartbeat old.
        """
        ...

    def command_worker(self, worker_id: str, command: str) -> bool:
        """Send a worker the command to run, pause or stop; False if it is not known."""
        ...
