"""The seam: what a store must do, each contract once, in sentences.

Engines are plain blocking classes, safe to call from any thread and, after a fork, from the child. Every method
that changes jobs is one atomic commit. `now` (milliseconds, UTC) is the store's own clock unless it is given.
An engine executes rows of `core.states.TRANSITIONS` and decides nothing else. Every transition expects a version
and leaves it one higher.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from headrace.core.admission import Candidate, Verdict
from headrace.core.clock import Clock
from headrace.core.model import (
    Changes,
    DeadRow,
    Depth,
    Exchanged,
    Filing,
    Filter,
    JobRow,
    Lease,
    LogLine,
    NewJob,
    Note,
    Notice,
    Outcome,
    Page,
    Parcel,
    QueueRow,
    Reaped,
    Renewal,
    Want,
    WorkerRow,
)
from headrace.core.regulation import QueueRules, TaskRow, TaskRules
from headrace.core.states import Event
from headrace.core.timetable import Firing, Occurrence, ScheduleRow


class Bell(Protocol):
    """Wakes one listener. A ring between a read of the store and the wait after it is never lost."""

    def wait(self, timeout: float | None) -> bool:
        """Sleep until rung or until the timeout; True if rung. Rings that came before count, once."""
        ...

    def ring(self) -> None:
        """Wake this listener from within its own process."""
        ...

    def close(self) -> None: ...


class Presence(Protocol):
    """A worker's sign of life, which the store may use to notice its death before the lease runs out."""

    def starting(self, slot: int, ref: int) -> None:
        """Remember, beyond a kill -9, that the claim `ref` was begun in this slot (0 clears it)."""
        ...

    def close(self) -> None: ...


class HotEngine(Protocol):
    """The path every job takes."""

    def insert(self, jobs: Sequence[NewJob], *, whole: bool = False, now: int | None = None) -> list[bool]:
        """Store the jobs and ring for them; answer for each whether it is new (False: its id was taken).

        With `whole`, a taken id raises DuplicateJob and nothing at all is stored. A queue whose rules leave no room
        for all of its jobs raises QueueFull, and nothing is stored. A store that has moved raises StoreMoved.
        """
        ...

    def admit(self, candidates: Sequence[Candidate], *, whole: bool = False, now: int | None = None) -> list[Verdict]:
        """Store the jobs as their rules allow, one after the other, so that one may be a duplicate of another.

        Of several at any time, in any process, with the same key only one finds none there. With `whole`, a taken id
        or a rule that refuses raises DuplicateJob and nothing at all is stored.
        """
        ...

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: Want | None,
        notes: Sequence[Note] = (),
        now: int | None = None,
    ) -> Exchanged:
        """Store notes, settle outcomes and claim jobs; each of the two is whole, also where they are two commits.

        A worker that gets no answer can't tell which of them happened: see `disown`.

        An outcome whose version is not the job's changes nothing but leaves a `lease lost` entry in its history.
        A claim first lets lapse what expired and promotes what is due, skips paused queues, and takes jobs in the
        order priority (high first), due time, submission, or in the order that the worker or the queue's rules ask
        for. It takes no more than the rules of queues and tasks allow at this moment, over all workers, and nothing
        through a gate that is shut; lanes that wait for the same get their turns one after the other.
        """
        ...

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> Renewal:
        """Extend the leases that are still held and not yet run out, and record the worker as alive.

        It answers with the leases that are lost, not with ids: the same job may be leased to this worker anew.
        """
        ...

    def reap(self, limit: int, now: int | None = None) -> list[Reaped]:
        """Take jobs from workers that died or let their lease run out.

        A begun attempt is spent: the job retries at once, or fails as `worker_lost` when none is left. A job that
        was only fetched ahead by a worker known to be dead gets its attempt back.
        """
        ...

    def disown(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        """Give back what the store has running under this worker beyond what it holds; the ids.

        For claims whose answer was lost on its way to the worker: they were never begun and get their attempt back.
        """
        ...


class Desk(Protocol):
    """What operators and waiting callers ask, and what an operator may do."""

    def move(self, which: Filter, event: Event, limit: int, by: str | None = None, now: int | None = None) -> list[str]:
        """Apply CANCEL, REVIVE, HURRY or DELETE to at most `limit` matching jobs in a legal state; their ids."""
        ...

    def amend(self, job_id: str, changes: Changes, by: str | None = None, now: int | None = None) -> bool:
        """Change a job that has not started; False if it is not in such a state."""
        ...

    def get(self, ids: Sequence[str]) -> list[JobRow]:
        """The jobs that exist of these, in no particular order."""
        ...

    def finished(self, ids: Collection[str]) -> set[str]:
        """Which of these are in a final state or do not exist."""
        ...

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> Page:
        """Matching jobs, newest first."""
        ...

    def peek(self, queue: str, limit: int) -> list[JobRow]:
        """The pending jobs of the queue in the order they will be claimed."""
        ...

    def count(self, which: Filter) -> int:
        """How many jobs match."""
        ...

    def depths(self) -> list[Depth]:
        """The number of jobs for each queue and state that has any."""
        ...

    def history(self, job_id: str) -> list[Filing]:
        """What was filed about the job, oldest first."""
        ...

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        """The newest `limit` lines the job logged, oldest first."""
        ...

    def queues(self) -> list[QueueRow]:
        """Every queue that ever had a job or a setting, by name."""
        ...

    def pause_queue(self, name: str, paused: bool) -> None:
        """Stop or restart claims from the queue, for every worker, from the next claim on."""
        ...

    def rule_queue(self, name: str, rules: QueueRules) -> None:
        """Give the queue these rules in place of those it had, for everybody within a second."""
        ...

    def rule_task(self, name: str, rules: TaskRules) -> None:
        """Give the task these rules in place of those it had, for every worker from its next claim on."""
        ...

    def tasks(self) -> list[TaskRow]:
        """Every task that has rules, by name."""
        ...

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        """How many jobs hold a live lease, by queue, task and lane."""
        ...

    def workers(self) -> list[WorkerRow]:
        """The workers that reported themselves and did not sign off, oldest first.

        `running` is told by the leases they hold, up to their concurrency: a report would be a heartbeat old.
        """
        ...

    def wish(self, worker_id: str, wish: str) -> bool:
        """Ask a worker to run, pause or stop; False if it is not known."""
        ...


class Timetable(Protocol):
    """The schedules of a store. Anybody may fire them at any time; a version decides who did."""

    def all(self) -> list[ScheduleRow]:
        """Every schedule, by id."""
        ...

    def get(self, schedule_id: str) -> ScheduleRow | None: ...

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        """Store the schedule; False if it is not at the row's version any more or, when `new`, is there already.

        A new one keeps the row's version, any other has one more afterwards.
        """
        ...

    def delete(self, schedule_id: str) -> bool:
        """Forget the schedule and its occurrences; False if it was not there."""
        ...

    def due(self, limit: int, now: int | None = None) -> list[ScheduleRow]:
        """Schedules whose `due_at` has come, the earliest first; none while a notice hangs at the door."""
        ...

    def next_due(self) -> int | None:
        """When the next one is due, None if none is."""
        ...

    def fire(self, firings: Sequence[Firing], now: int | None = None) -> list[bool]:
        """Store schedules with the jobs and occurrences that go with them, and ring for the jobs; whether it applied.

        One that is not at its row's version any more is left alone, with all that goes with it. A job whose id is
        taken is not stored again, and a full queue raises QueueFull. All that applies is one commit. Of each schedule
        the newest 1000 occurrences are kept.
        """
        ...

    def record(self, occurrences: Sequence[Occurrence]) -> None:
        """Store what became of times that fired elsewhere, the oldest first."""
        ...

    def occurrences(self, schedule_id: str, limit: int = 100) -> list[Occurrence]:
        """What became of its last times, the newest first."""
        ...


class Porter(Protocol):
    """Carries the contents of a store to another one, of whatever engine."""

    def notice(self) -> Notice | None:
        """What hangs at the door, None if the store is in use."""
        ...

    def post(self, notice: Notice | None) -> None:
        """Hang out a notice or take it away.

        From its return on the notice holds for everybody; no insert that began before is still under way.
        """
        ...

    def pack(self, after: int, limit: int) -> list[Parcel]:
        """The next jobs in the order of submission, from the one after `after` (a `seq`) on."""
        ...

    def unpack(self, parcels: Sequence[Parcel]) -> int:
        """Store the jobs as they are, in this order behind those that are there; how many ids were new.

        A job whose id is there already is left as it is. The sender's `seq` is not kept.
        """
        ...

    def pack_dead(self, after: str, limit: int) -> list[DeadRow]:
        """The next investigation records by id, from the one after `after` on."""
        ...

    def unpack_dead(self, records: Sequence[DeadRow]) -> int:
        """Store the records whose id is not there yet; how many."""
        ...

    def unpack_queues(self, queues: Sequence[QueueRow]) -> None:
        """Store queues with their settings, over those of the same names."""
        ...


class Joined(Protocol):
    """A transaction that belongs to the caller: what is stored in it exists if, and only if, the caller commits."""

    def insert(self, jobs: Sequence[NewJob]) -> None:
        """Store the jobs; a taken id raises DuplicateJob. Workers are rung after the commit."""
        ...

    async def ainsert(self, jobs: Sequence[NewJob]) -> None:
        """The same on an asynchronous connection."""
        ...

    def admit(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Store the jobs as their rules allow, all or none. Until the caller commits, others wait with these keys."""
        ...

    async def aadmit(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """The same on an asynchronous connection."""
        ...


class Engine(HotEngine, Protocol):
    """A store: the hot path, the desk, its workers, bells and tables."""

    @property
    def url(self) -> str:
        """Where the store is, without its password."""
        ...

    @property
    def clock(self) -> Clock:
        """The store's time, which is what `now` is unless it is given."""
        ...

    @property
    def desk(self) -> Desk: ...

    @property
    def timetable(self) -> Timetable: ...

    @property
    def porter(self) -> Porter: ...

    def joined(self, connection: Any) -> Joined:
        """The caller's own open transaction on this store; UnsupportedByEngine where there is no such thing."""
        ...

    def attend(self, worker: WorkerRow) -> Presence:
        """Sign a worker on."""
        ...

    def sign_off(self, worker_id: str) -> None:
        """Forget a worker that ended in order."""
        ...

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        """A bell for "work" (jobs may be claimable), "done" (jobs finished), "orders" (a worker is addressed) or
        "times" (a schedule changed).

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

    def check(self) -> list[str]:
        """Inspect the store for damage and hazards; one sentence for each finding."""
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
