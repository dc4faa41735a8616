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
from headrace.core.jobs.details import JobDetails
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
        """Insert the jobs in one commit and wake workers; the result of each. After an error nothing is stored.

        With `all_or_nothing`, a taken id or a refusing rule raises DuplicateJob. A queue that is too full for all of
        its jobs raises QueueFull, a store that has moved StoreMoved.

        `unique` has the rule of each job, or None. Inserts of one key are decided one after the other, over all
        processes and within the call.

        `edges` are dependencies of these jobs on each other and on existing ones; with them or a flow the call is all
        or nothing, and `unique` is empty. New children and existing ones that have not started wait; a dependency on a
        finished parent is decided at once, as at that parent's end. A finished child, an unknown job and a cycle raise
        InvalidJob; a taken id raises DuplicateJob, unless this very call stored all before and its answer was lost.
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
        """Store notes, settle outcomes and claim jobs. Settling and claiming are atomic each, but may be two commits.

        A worker that gets no answer cannot know which of them happened: see `release_unknown_claims`.

        `groups` are the worker's events: jobs that started, and the successes among these outcomes. A success event is
        stored only if the success is, in the same commit. The engine itself adds the events of all other outcomes.

        An outcome with an outdated version changes nothing but adds a `lease_lost` entry to the job's history.
        A claim first cancels expired jobs and promotes due ones. It skips paused queues and takes jobs by priority
        (high first), due time and submission, or in the order that the worker or the queue's rules ask for. It never
        exceeds the limits of queues and tasks, counted over all workers; lanes that share a limit take turns. While a
        store status is set, it claims nothing and returns no time to retry: the end of the status wakes the workers.

        The end of a job, here or in any other operation, settles its dependencies in the same commit: see
        `core.jobs.dependencies`. A successful job with open children becomes waiting, and completed with the end of the
        last child. Jobs without dependencies cost nothing extra.
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
        """Take jobs from workers that died or let their lease run out.

        A begun attempt is spent: the job retries at once, or fails as `worker_lost` when none is left. After the
        `max_crashes`th lost worker it fails as `crash_loop`, whatever is left, and its dead letter names these workers.
        `dead_letters` are the reasons that open a dead letter. A job that a dead worker had only prefetched gets its
        attempt back. With `alive` every lease ends now, and late outcomes of the workers are refused.

        While the store is being filled, nothing is reaped and no worker with jobs is removed.
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

        A revived job waits for its open parents only; finished ones, however they ended, no longer count. Its children
        wait again, also those that only its end had cancelled, and theirs. A promoted job waits for no parent; one
        whose own run is over cannot be promoted. To its dependents a deleted job counts as cancelled.
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

    def details(self, job_id: str, *, history: bool = True, logs: int = 1000, steps: bool = True) -> JobDetails:
        """The history of the job, its newest `logs` lines and its stored steps; empty if left out or unknown."""
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
