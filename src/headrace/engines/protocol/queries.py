"""Queries and commands of operators, schedules, transfers between stores, and joined transactions."""

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

    def parent_results(self, ids: Sequence[str]) -> list[ParentResult]:
        """The state and result of those of these jobs that exist: cheaper than reading all of the jobs."""
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

    def count(self, which: Filter) -> int:
        """How many jobs match."""
        ...

    def count_up_to(self, which: Filter, reach: int) -> JobCount:
        """Like `count`, but without an index that knows the number it reads or counts at most about `reach` jobs.

        The result is then a lower bound.
        """
        ...

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        """The number of jobs for each queue and state that has any; with `open_only`, of the open states only.

        Frequent callers should not have all finished jobs counted.
        """
        ...

    def history(self, job_id: str) -> list[HistoryRow]:
        """The history of the job, oldest first."""
        ...

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        """The newest `limit` lines the job logged, oldest first."""
        ...

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        """Every dependency of these jobs, as parent or as child, sorted by submission of child and parent."""
        ...

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        """Flows, newest first; with `before` those older than this id, with `ids` only these."""
        ...

    def steps(self, job_id: str) -> list[Step]:
        """The stored steps of the job, oldest first."""
        ...

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        """Store the next event of this name for a job, and wake it if it is suspended for it; False if finished."""
        ...

    def queues(self) -> list[QueueRow]:
        """Every queue that ever had a job or a setting, by name."""
        ...

    def pause_queue(self, name: str, paused: bool) -> None:
        """Pause or resume claims from the queue, for every worker from its next claim on."""
        ...

    def set_queue_rules(self, name: str, rules: QueueRules) -> None:
        """Replace the rules of the queue; every process follows within a second."""
        ...

    def set_task_rules(self, name: str, rules: TaskRules) -> None:
        """Replace the rules of the task; every worker follows with its next claim."""
        ...

    def tasks(self) -> list[TaskRow]:
        """Every task that has rules, by name."""
        ...

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        """How many jobs hold a live lease, by queue, task and lane."""
        ...

    def rate_state(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        """For queues with these rates: when, in microseconds, the full burst is available again.

        Queues that have not started anything for long may be missing. See `core.queues.limits.allows`.
        """
        ...

    def lanes_needing(self) -> list[tuple[str, str, int, str]]:
        """The lanes of pending jobs that need a capability of their worker: queue, lane, how many, the id of one."""
        ...

    def workers(self) -> list[WorkerRow]:
        """The registered workers, oldest first.

        `running` counts the leases they hold, up to their concurrency: a report would be one heartbeat old.
        """
        ...

    def command_worker(self, worker_id: str, command: str) -> bool:
        """Send a worker the command to run, pause or stop; False if it is not known."""
        ...


class ScheduleStore(Protocol):
    """The schedules of a store. Any process may fire them at any time; a version decides which one succeeds."""

    def all(self) -> list[ScheduleRow]:
        """Every schedule, by id."""
        ...

    def count(self) -> int:
        """How many schedules there are."""
        ...

    def get(self, schedule_id: str) -> ScheduleRow | None: ...

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        """Store the schedule; False if it is at another version than the row's or, when `new`, exists already.

        A new schedule keeps the row's version; otherwise the version increases by one.
        """
        ...

    def delete(self, schedule_id: str, version: int | None = None) -> bool:
        """Delete the schedule and its occurrences; False if it does not exist, or not at this version."""
        ...

    def due(self, limit: int, now: int | None = None) -> list[ScheduleRow]:
        """Schedules whose `due_at` has come, the earliest first; none while a store status is set."""
        ...

    def next_due(self) -> int | None:
        """The time when the next one is due, None if none is."""
        ...

    def fire(self, firings: Sequence[ScheduleFire], now: int | None = None) -> list[bool]:
        """Store schedules with their jobs and occurrences, and wake workers; for each, whether it was applied.

        A schedule at another version than its row's is skipped, with its jobs and occurrences. A job whose id is taken
        is not stored again, and a full queue raises QueueFull. Everything applied is one commit. Each schedule keeps
        its newest 1000 occurrences.
        """
        ...

    def record(self, occurrences: Sequence[Occurrence]) -> None:
        """Store the results of times that fired in another store, the oldest first."""
        ...

    def occurrences(self, schedule_id: str, limit: int = 100) -> list[Occurrence]:
        """The results of its last times, the newest first."""
        ...


class Transfer(Protocol):
    """Copies the contents of a store to another one, of any engine."""

    def store_status(self) -> StoreStatus | None:
        """The store status, None if the store is in use."""
        ...

    def set_status(self, store_status: StoreStatus | None) -> None:
        """Set or clear the store status.

        On return the status holds for every process, and no insert that began before is still running.
        """
        ...

    def replace_status(self, before: StoreStatus | None, store_status: StoreStatus | None) -> bool:
        """Replace the store status if it equals `before`; whether it did. Of several concurrent calls one succeeds."""
        ...

    def export_jobs(self, after: int, limit: int) -> list[JobExport]:
        """The next jobs in the order of submission, after the `seq` `after`."""
        ...

    def import_jobs(self, job_exports: Sequence[JobExport], origin: str | None = None) -> int:
        """Store the jobs as they are, in this order after the existing ones; how many ids were new.

        A job whose id exists is not changed. The sender's `seq` is not kept. With an `origin`, the store status must
        say that jobs arrive from there; otherwise this raises CopyFinished, because copied jobs may have run and been
        deleted since. A store that has moved raises StoreMoved.
        """
        ...

    def export_dead_letters(self, after: str, limit: int) -> list[DeadLetterRow]:
        """The next dead letters by id, after the id `after`."""
        ...

    def import_dead_letters(self, records: Sequence[DeadLetterRow], origin: str | None = None) -> int:
        """Store the dead letters whose id does not exist yet; how many. The `origin` is as in `import_jobs`."""
        ...

    def import_queues(self, queues: Sequence[QueueRow]) -> None:
        """Store queues with their settings, over existing ones of the same names."""
        ...

    def import_flows(self, flows: Sequence[FlowRow]) -> None:
        """Store flows that do not exist yet. Dependencies follow by `import_edges`, after all jobs."""
        ...

    def import_edges(self, edges: Sequence[Dependency]) -> None:
        """Store missing dependencies between existing jobs, as they are. No dependency is decided."""
        ...


class JoinedTransaction(Protocol):
    """A transaction of the caller: its inserts exist if, and only if, the caller commits."""

    def insert_graph(self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None) -> None:
        """Insert jobs with their dependencies, like `Engine.insert_graph`."""
        ...

    async def ainsert_graph(
        self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None
    ) -> None:
        """The same on an asynchronous connection."""
        ...

    def insert(self, jobs: Sequence[NewJob]) -> None:
        """Insert the jobs; a taken id raises DuplicateJob. Workers are woken after the commit."""
        ...

    async def ainsert(self, jobs: Sequence[NewJob]) -> None:
        """The same on an asynchronous connection."""
        ...

    def insert_unique(self, candidates: Sequence[UniqueInsert]) -> list[UniqueResult]:
        """Insert jobs under their unique rules, all or none. Until the commit, other inserts of these keys wait."""
        ...

    async def ainsert_unique(self, candidates: Sequence[UniqueInsert]) -> list[UniqueResult]:
        """The same on an asynchronous connection."""
        ...
