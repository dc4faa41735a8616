"""The seam: what a store must do, each contract once, in sentences.

Engines are plain blocking classes, safe to call from any thread and, after a fork, from the child. Every method
that changes jobs is one atomic commit. `now` (milliseconds, UTC) is the store's own clock unless it is given.
An engine executes rows of `core.states.TRANSITIONS` and decides nothing else. Every transition expects a version
and leaves it one higher.
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
    """A worker's sign of life, which the store may use to notice its death before the lease runs out."""

    def begin(self, ref: int) -> int | None:
        """Remember, beyond a kill -9, that the claim `ref` was begun: in this place, if there was one."""
        ...

    def ended(self, place: int, ref: int) -> None:
        """Remember that it has ended, and that the store does not know it yet."""
        ...

    def settled(self, place: int) -> None:
        """Forget it: the store knows what became of it."""
        ...

    def sees_dead(self) -> bool:
        """Whether a worker of this host has died that nobody has reaped. It does not ask the store."""
        ...

    def close(self) -> None: ...


class JobEngine(Protocol):
    """The path every job takes."""

    def insert(self, jobs: Sequence[NewJob], *, whole: bool = False, now: int | None = None) -> list[bool]:
        """Store the jobs and ring for them; answer for each whether it is new (False: its id was taken).

        With `whole`, a taken id raises DuplicateJob and nothing at all is stored. A queue whose rules leave no room
        for all of its jobs raises QueueFull, and nothing is stored. A store that has moved raises StoreMoved.
        """
        ...

    def insert_unique(
        self, candidates: Sequence[UniqueInsert], *, whole: bool = False, now: int | None = None
    ) -> list[UniqueResult]:
        """Store the jobs as their rules allow, one after the other, so that one may be a duplicate of another.

        Of several at any time, in any process, with the same key only one finds none there. With `whole`, a taken id
        or a rule that refuses raises DuplicateJob and nothing at all is stored.
        """
        ...

    def insert_graph(
        self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None, now: int | None = None
    ) -> None:
        """Store jobs, the bonds between them and to jobs that are there, and the flow they are of: all or nothing.

        A new job that is a child is submitted as waiting. Bonds to parents that have ended already are decided at
        once, as they would be at that end. A child that is there and has not started goes back to waiting; one that
        has ended raises InvalidJob, and so do a parent or a child that is nowhere, and a bond that closes a circle.
        A taken id raises DuplicateJob, unless all of it was stored by this very call, whose answer was lost.
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
        """Store notes, settle outcomes and claim jobs; each of the two is whole, also where they are two commits.

        A worker that gets no answer can't tell which of them happened: see `disown`.

        `groups` is what the worker tells: what began, and that these outcomes are successes. The latter is told if it
        is so, in the commit that makes it so. What else comes of outcomes is told by itself.

        An outcome whose version is not the job's changes nothing but leaves a `lease lost` entry in its history.
        A claim first lets lapse what expired and promotes what is due, skips paused queues, and takes jobs in the
        order priority (high first), due time, submission, or in the order that the worker or the queue's rules ask
        for. It takes no more than the rules of queues and tasks allow at this moment, over all workers, and nothing
        through a gate that is shut; lanes that wait for the same get their turns one after the other. While a notice
        hangs at the door it does nothing of all that, and does not tell when to come again: the notice's end is rung.

        The end of a job, here or by any other operation, decides in the same commit over those that wait for it: see
        `core.kinship`. A success of a job that has to wait for others itself leads to waiting, and to completed with
        the end of the last of them. Jobs without kin pay nothing for it.
        """
        ...

    def save_step(self, lease: Lease, step: Step, now: int | None = None) -> bool:
        """Store what a running job is to remember, and file it; False, and nothing stored, if the lease is lost.

        What is remembered already under the same kind, name and number stays as it is.
        """
        ...

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> RenewResult:
        """Extend the leases that are still held and not yet run out, and record the worker as alive, as it reports
        itself; of one without a heartbeat, that it has shown up.

        It answers with the leases that are lost, not with ids: the same job may be leased to this worker anew.
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

        A begun attempt is spent: the job retries at once, or fails as `worker_lost` when none is left. With the
        `max_crashes`th worker that is lost under it, it fails as `crash_loop`, whatever is left, and its dead letter
        names these workers; `letters` are the reasons that open one. A job that was only fetched ahead by a worker
        known to be dead gets its attempt back.
        With `alive` every lease ends now, and what the workers bring later is refused.

        At a store where jobs still arrive nothing is taken, and no worker with jobs is forgotten, until all are there.
        """
        ...

    def release_unknown_claims(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        """Give back what the store has running under this worker beyond what it holds; the ids.

        For claims whose answer was lost on its way to the worker: they were never begun and get their attempt back.
        """
        ...


class Engine(JobEngine, StoreView, Protocol):
    """A store: the hot path, what a view of it shows, the dead letters, its workers, bells and tables."""

    @property
    def url(self) -> str:
        """Where the store is, without its password."""
        ...

    @property
    def clock(self) -> Clock:
        """The store's time, which is what `now` is unless it is given."""
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
        """The caller's own open transaction on this store; UnsupportedByEngine where there is no such thing."""
        ...

    def register_worker(self, worker: WorkerRow) -> WorkerLiveness:
        """Sign a worker on."""
        ...

    def unregister_worker(self, worker_id: str) -> None:
        """Forget a worker that ended in order."""
        ...

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        """A bell for "work" (jobs may be claimable), "done" (jobs finished), "orders" (a worker is addressed), "times"
        (a schedule changed) or "events" (something was told, whatever it is).

        Who names queues need not be rung for the work of others.
        """
        ...

    def ring(self, topic: str) -> None:
        """Wake every listener of the topic, in any process."""
        ...

    def schema(self) -> tuple[int, int]:
        """The version of the store's tables and the one this headrace works with."""
        ...

    def migrate(self) -> list[str]:
        """Bring the tables to the current version; the names of the migrations that ran."""
        ...

    def facts(self) -> dict[str, str | int]:
        """What an operator should know of the store: file, sizes, versions, settings."""
        ...

    def disconnect(self) -> None:
        """Close every connection; the store stays."""
        ...

    def close(self) -> None:
        """Release everything. A closed engine opens itself again when it is used."""
        ...
