"""The parts of a store beside the path that every job takes, each contract once, in sentences. See `protocol`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from headrace.core.codec.result_refs import ParentResult
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import Dependency, FlowRow, FlowSummary
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules
from headrace.core.jobs.records import (
    DeadLetterRow,
    Filter,
    HistoryRow,
    JobRow,
    JobRowPage,
    JobUpdate,
    LogLine,
    NewJob,
    QueueCount,
    QueueRow,
    WorkerRow,
)
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.jobs.unique_rules import UniqueInsert, UniqueResult
from headrace.core.schedules.records import Occurrence, ScheduleFire, ScheduleRow


class Queries(Protocol):
    """What operators and waiting callers ask, and what an operator may do."""

    def move(
        self, which: Filter, event: Trigger, limit: int, by: str | None = None, now: int | None = None
    ) -> list[str]:
        """Apply CANCEL, REVIVE, HURRY or DELETE to at most `limit` matching jobs in a legal state; their ids.

        A revived job waits for those of its parents that are open, and no more for those that have ended, however;
        one that is hurried waits for nobody. The children of a revived job wait again, also those that only its end
        had cancelled, and theirs. A deleted job counts as cancelled for those that wait for it. A waiting job whose
        run is over can't be hurried.
        """
        ...

    def amend(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        """Change a job that has not started; False if it is not in such a state."""
        ...

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        """The jobs that exist of these, in no particular order; with `light`, without what is long: see core.light."""
        ...

    def parent_results(self, ids: Sequence[str]) -> list[ParentResult]:
        """How those of these jobs stand that exist, with their results: less to read than all of them."""
        ...

    def finished(self, ids: Collection[str]) -> set[str]:
        """Which of these are in a final state or do not exist."""
        ...

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        """Matching jobs, newest first; with `light`, without what is long.

        Where no index leads to them, no more than about `reach` jobs are looked at; what is found among these is the
        page, and its cursor goes on behind them.
        """
        ...

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        """The pending jobs of the queue in the order they will be claimed; with `light`, without what is long."""
        ...

    def count(self, which: Filter) -> int:
        """How many jobs match."""
        ...

    def count_up_to(self, which: Filter, reach: int) -> JobCount:
        """The same, but where no index knows the number, no more than about `reach` jobs are looked at or counted.

        What was found by then is told as the least that it can be.
        """
        ...

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        """The number of jobs for each queue and state that has any; with `open_only`, of the states that do not last.

        Who asks every few seconds should not have all that is over counted.
        """
        ...

    def history(self, job_id: str) -> list[HistoryRow]:
        """What was filed about the job, oldest first."""
        ...

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        """The newest `limit` lines the job logged, oldest first."""
        ...

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        """Every bond of these jobs, as parent or as child, by the order of submission of child and parent."""
        ...

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        """Flows, newest first; with `before` those older than this id, with `ids` only these."""
        ...

    def steps(self, job_id: str) -> list[Step]:
        """What the job remembers, oldest first."""
        ...

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        """Leave the next event of this name for a job, and wake it if it is suspended for it; False if it is over."""
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

    def rate_state_at(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        """For queues with these rates: when, in microseconds, as many may start at once as ever.

        Those that have rested since long may be left out. See `core.limits.allows`.
        """
        ...

    def needing(self) -> list[tuple[str, str, int, str]]:
        """The lanes of pending jobs that need something of their worker: queue, lane, how many, the id of one."""
        ...

    def workers(self) -> list[WorkerRow]:
        """The workers that reported themselves and did not sign off, oldest first.

        `running` is told by the leases they hold, up to their concurrency: a report would be a heartbeat old.
        """
        ...

    def wish(self, worker_id: str, wish: str) -> bool:
        """Ask a worker to run, pause or stop; False if it is not known."""
        ...


class ScheduleStore(Protocol):
    """The schedules of a store. Anybody may fire them at any time; a version decides who did."""

    def all(self) -> list[ScheduleRow]:
        """Every schedule, by id."""
        ...

    def count(self) -> int:
        """How many schedules there are."""
        ...

    def get(self, schedule_id: str) -> ScheduleRow | None: ...

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        """Store the schedule; False if it is not at the row's version any more or, when `new`, is there already.

        A new one keeps the row's version, any other has one more afterwards.
        """
        ...

    def delete(self, schedule_id: str, version: int | None = None) -> bool:
        """Forget the schedule and its occurrences; False if it was not there, or not at this version any more."""
        ...

    def due(self, limit: int, now: int | None = None) -> list[ScheduleRow]:
        """Schedules whose `due_at` has come, the earliest first; none while a notice hangs at the door."""
        ...

    def next_due(self) -> int | None:
        """When the next one is due, None if none is."""
        ...

    def fire(self, firings: Sequence[ScheduleFire], now: int | None = None) -> list[bool]:
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


class Transfer(Protocol):
    """Carries the contents of a store to another one, of whatever engine."""

    def store_status(self) -> StoreStatus | None:
        """What hangs at the door, None if the store is in use."""
        ...

    def post(self, store_status: StoreStatus | None) -> None:
        """Hang out a notice or take it away.

        From its return on the notice holds for everybody; no insert that began before is still under way.
        """
        ...

    def swap(self, before: StoreStatus | None, store_status: StoreStatus | None) -> bool:
        """Post it if it is `before` that hangs there; whether it was. Of several who try at once, one succeeds."""
        ...

    def pack(self, after: int, limit: int) -> list[JobExport]:
        """The next jobs in the order of submission, from the one after `after` (a `seq`) on."""
        ...

    def unpack(self, job_exports: Sequence[JobExport], origin: str | None = None) -> int:
        """Store the jobs as they are, in this order behind those that are there; how many ids were new.

        A job whose id is there already is left as it is. The sender's `seq` is not kept. With an `origin`, only while a
        notice says that jobs arrive from there, else rulings.Opened: what was carried may have run and be gone since.
        At a store that has moved, StoreMoved.
        """
        ...

    def export_dead_letters(self, after: str, limit: int) -> list[DeadLetterRow]:
        """The next investigation records by id, from the one after `after` on."""
        ...

    def import_dead_letters(self, records: Sequence[DeadLetterRow], origin: str | None = None) -> int:
        """Store the records whose id is not there yet; how many. The `origin` is as in `unpack`."""
        ...

    def import_queues(self, queues: Sequence[QueueRow]) -> None:
        """Store queues with their settings, over those of the same names."""
        ...

    def import_flows(self, flows: Sequence[FlowRow]) -> None:
        """Store flows that are not there yet. Bonds are carried by `unpack_bonds`, behind all jobs."""
        ...

    def import_edges(self, edges: Sequence[Dependency]) -> None:
        """Store bonds between jobs that are there, as they are, where they are not there yet. Nothing is decided."""
        ...


class JoinedTransaction(Protocol):
    """A transaction that belongs to the caller: what is stored in it exists if, and only if, the caller commits."""

    def insert_graph(self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None) -> None:
        """Store jobs with their bonds, as Engine.plant does."""
        ...

    async def ainsert_graph(
        self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None
    ) -> None:
        """The same on an asynchronous connection."""
        ...

    def insert(self, jobs: Sequence[NewJob]) -> None:
        """Store the jobs; a taken id raises DuplicateJob. Workers are rung after the commit."""
        ...

    async def ainsert(self, jobs: Sequence[NewJob]) -> None:
        """The same on an asynchronous connection."""
        ...

    def insert_unique(self, candidates: Sequence[UniqueInsert]) -> list[UniqueResult]:
        """Store the jobs as their rules allow, all or none. Until the caller commits, others wait with these keys."""
        ...

    async def aadmit(self, candidates: Sequence[UniqueInsert]) -> list[UniqueResult]:
        """The same on an asynchronous connection."""
        ...
