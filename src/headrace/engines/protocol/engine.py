"""The engine interface: every operation that a store must implement.

Engines are plain blocking classes, safe to call from any thread and, after a fork, from the child. Every method
that changes jobs is one atomic commit. `now` (milliseconds, UTC) defaults to the store's own clock.
An engine only executes rows of `core.jobs.states.TRANSITIONS`. Every transition expects a version and increments it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from headrace.core.clock import Clock
from headrace.core.events.log import EventGroup
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import (
    ClaimRequest,
    ExchangeResult,
    JobNote,
    Lease,
    NewJob,
    Outcome,
    ReapedJob,
    RenewResult,
    WorkerRow,
)
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import UniqueInsert, UniqueResult
from headrace.engines.protocol.archive import Archive, RetentionStore
from headrace.engines.protocol.dead_letters import DeadLetterStore
from headrace.engines.protocol.events import EventStore
from headrace.engines.protocol.maintenance import Maintenance, StoreView
from headrace.engines.protocol.queries import JoinedTransaction


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
    """The operations on the path of every job."""

    def insert(self, jobs: Sequence[NewJob], *, all_or_nothing: bool = False, now: int | None = None) -> list[bool]:
        """Insert the jobs and wake workers; for each, whether it is new (False: its id was taken).

        With `all_or_nothing`, a taken id raises DuplicateJob and nothing is stored. If a queue is too full for
        all of its jobs, this raises QueueFull and stores nothing. A store that has moved raises StoreMoved.
        """
        ...

    def insert_unique(
        self, candidates: Sequence[UniqueInsert], *, all_or_nothing: bool = False, now: int | None = None
    ) -> list[UniqueResult]:
        """Insert jobs under their unique rules, one after the other: a job may be a duplicate of an earlier one.

        Concurrent inserts of one key are serialized over all processes: only one finds no existing job. With
        `all_or_nothing`, a taken id or a refusing rule raises DuplicateJob and nothing is stored.
        """
        ...

    def insert_graph(
        self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None, now: int | None = None
    ) -> None:
        """Insert jobs, their dependencies on each other and on existing jobs, and their flow: all or nothing.

        A new child starts as waiting. A dependency on a finished parent is decided at once, as at that parent's end. An
        existing child that has not started goes back to waiting. A finished child, an unknown parent or child, and a
        cycle raise InvalidJob. A taken id raises DuplicateJob, unless this very call stored everything before and its
        answer was lost.
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


class Engine(JobEngine, StoreView, Protocol):
    """A store: the operations on jobs, its parts, its workers, bells and tables."""

    @property
    def url(self) -> str:
        """The URL of the store, without its password."""
        ...

    @property
    def clock(self) -> Clock:
        """The store's clock, the default of `now`."""
        ...

    @property
    def dead_letters(self) -> DeadLetterStore: ...

    @property
    def retention_store(self) -> RetentionStore: ...

    @property
    def archive(self) -> Archive | None:
        """The store's own archive; None where finished jobs can only be archived in another store."""
        ...

    @property
    def maintenance(self) -> Maintenance: ...

    @property
    def events(self) -> EventStore: ...

    def joined(self, connection: Any) -> JoinedTransaction:
        """The caller's own open transaction on this store; UnsupportedByEngine where the store has no transactions."""
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

    def schema(self) -> tuple[int, int]:
        """The version of the store's tables and the one this headrace works with."""
        ...

    def migrate(self) -> list[str]:
        """Migrate the tables to the current version; the names of the migrations that ran."""
        ...

    def facts(self) -> dict[str, str | int]:
        """Facts for operators: file, sizes, versions, settings."""
        ...

    def disconnect(self) -> None:
        """Close every connection; the store stays."""
        ...

    def close(self) -> None:
        """Release everything. A closed engine reopens when it is used."""
        ...
