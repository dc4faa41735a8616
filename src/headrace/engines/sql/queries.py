"""Queries and commands of operators and waiting callers in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.codec.result_refs import ParentResult
from headrace.core.events.log import EventGroup, page
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import DELETED, Dependency, FlowSummary
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules, task_rules
from headrace.core.jobs.records import (
    Filter,
    HistoryRow,
    JobRow,
    JobRowPage,
    JobUpdate,
    LogLine,
    QueueCount,
    QueueRow,
    WorkerRow,
)
from headrace.core.jobs.states import TRANSITIONS, State, Trigger, sources
from headrace.core.jobs.steps import Step
from headrace.core.queues.limits import QueuedJob, needs_of, round_robin
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.decisions import actor_suffix, movable_states, state_after, topics_of
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json, most
from headrace.engines.sql import dependencies, search, steps
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.events import append_events, append_move_events
from headrace.engines.sql.lease_recovery import record_moves
from headrace.engines.sql.limited_claim import bucket_of
from headrace.engines.sql.retry_finished import revive
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import refuse_if_closed, run

_rows = Rows(JobRow)
_parent_results = Rows(ParentResult)
_heads = Rows(QueuedJob)
_queue_counts, _history_rows, _lines, _steps = Rows(QueueCount), Rows(HistoryRow), Rows(LogLine), Rows(Step)
_queues, _workers, _edges = Rows(QueueRow), Rows(WorkerRow), Rows(Dependency)
_names = msgspec.json.Decoder(list[str])
_numbers = msgspec.json.Decoder(list[int])

_LANES_TO_PEEK = 50
_ASSIGN_BATCH_SIZE = 20_000  # numbers of jobs, most of them likely of other tasks
_FILTERS = ("queue", "task", "worker", "since", "until", "tag", "text", "flow")


@timed_part
class SqlQueries:
    """Reads jobs and applies manual moves."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- moves

    def move(
        self, which: Filter, event: Trigger, limit: int, by: str | None = None, now: int | None = None
    ) -> list[str]:
        at = self._database.at(now)
        states = movable_states(which, sources(event))
        if not states:
            return []

        effects = Wakeups()

        def move_matching(tx: Transaction) -> list[str]:
            nonlocal effects
            tx.fetch("lock_dependencies")
            refuse_if_closed(tx, deleting=event is Trigger.DELETE)  # a copy of moved jobs may be deleted here
            where, values = _conditions(tx, which, states)
            if event is Trigger.PROMOTE_NOW:  # a waiting job whose own run is over has nothing to start
                where = f"{where} AND {tx.fragment('where_startable')}"
            seqs = _numbers.decode(tx.fetch("lock_matching", where, **values, limit=limit))
            if not seqs:
                return []
            ids = _names.decode(tx.fetch("ids_of", seqs=as_json(seqs)))
            effects = _move(tx, seqs, event, by, at)
            return ids

        ids = self._database.write(move_matching)
        for topic in {*topics_of(event), *effects.topics()} if ids else ():
            self._database.ring(topic)
        return ids

    def update(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        at = self._database.at(now)
        updated = self._database.write(lambda tx: _update_job(tx, job_id, changes, by, at))
        if updated:
            self._database.ring("work")
        return updated

    # -- jobs

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        return _rows.decode(self._fetch("get", ids=as_json(ids), most=most(light)))

    def parent_results(self, ids: Sequence[str]) -> list[ParentResult]:
        return _parent_results.decode(self._fetch("parent_results", ids=as_json(ids)))

    def finished(self, ids: Collection[str]) -> set[str]:
        return set(ids) - set(_names.decode(self._fetch("unfinished", ids=as_json(list(ids)))))

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        return search.find(self._database, which, limit, cursor, reach, light)

    def count(self, which: Filter) -> int:
        return search.count(self._database, which)

    def count_up_to(self, which: Filter, reach: int) -> JobCount:
        return search.count_up_to(self._database, which, reach)

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        def read(tx: Transaction) -> Any:
            names = ["", *_names.decode(tx.fetch("lanes", queue=queue, beyond="", limit=_LANES_TO_PEEK))]
            lanes = [_heads.decode(tx.fetch("lane_heads", queue=queue, lane=lane, limit=limit)) for lane in names]
            seqs = as_json([head.seq for head in round_robin(lanes)[:limit]])
            return tx.fetch("rows", seqs=seqs, most=most(light))

        return _rows.decode(self._database.read(read))

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        return _queue_counts.decode(self._fetch("queue_counts", finished=not open_only))

    def history(self, job_id: str) -> list[HistoryRow]:
        return _history_rows.decode(self._fetch("history", id=job_id))

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        return _lines.decode(self._fetch("logs", id=job_id, limit=limit))

    # -- steps

    def steps(self, job_id: str) -> list[Step]:
        return _steps.decode(self._fetch("steps", id=job_id))

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        return steps.signal(self._database, job_id, name, value, checksum, self._database.at(now))

    # -- flows

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        return _edges.decode(self._fetch("edges", ids=as_json(ids)))

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        found = self._fetch("flows", limit=limit, before=before, ids=as_json(ids))
        return msgspec.json.decode(found, type=list[FlowSummary])

    # -- queues and workers

    def queues(self) -> list[QueueRow]:
        return _queues.decode(self._fetch("queues"))

    def pause_queue(self, name: str, paused: bool) -> None:
        now = self._database.at(None)
        events = page([EventGroup("queue.paused" if paused else "queue.resumed", now, name)])

        def write(tx: Transaction) -> None:
            tx.run("pause_queue", name=name, paused=paused, now=now)
            append_events(tx, events)

        self._database.write(write)
        self._database.ring("work")

    def set_queue_rules(self, name: str, rules: QueueRules) -> None:
        now, text = self._database.at(None), None if rules == QueueRules() else as_json(rules)
        self._database.write(lambda tx: tx.run("set_queue_rules", name=name, rules=text, now=now))
        self._database.forget_rules()
        self._database.ring("work")

    def set_task_rules(self, name: str, rules: TaskRules) -> None:
        def write(tx: Transaction) -> int:
            if rules == TaskRules():
                return tx.run("drop_task_rules", name=name)
            return tx.run("set_task_rules", name=name, rules=as_json(rules))

        self._database.write(write)
        self._database.forget_rules()
        if rules.strategy is not None:
            self._assign_task_lanes(name)
        self._database.ring("work")

    def _assign_task_lanes(self, task: str) -> None:
        """Move the open jobs of the task into lanes, where its order applies; in batches, to keep locks short."""
        first, last = msgspec.json.decode(self._fetch("span"), type=tuple[int, int])
        for after in range(first - 1, last, _ASSIGN_BATCH_SIZE):
            self._assign_some_lanes(task, after)

    def _assign_some_lanes(self, task: str, after: int) -> None:
        lane_limit, until = as_json(f"t:{task}"), after + _ASSIGN_BATCH_SIZE
        self._database.write(
            lambda tx: tx.run("assign_lanes", task=task, lane_limit=lane_limit, after=after, until=until)
        )

    def tasks(self) -> list[TaskRow]:
        found = msgspec.json.decode(self._fetch("tasks"), type=list[tuple[str, str]])
        return [TaskRow(name, task_rules(rules)) for name, rules in found]

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        found = self._fetch("running", now=self._database.at(now))
        return msgspec.json.decode(found, type=list[tuple[str, str, str, int]])

    def rate_state(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        queues = {bucket_of(rate, "queue", name): name for name, rate in rates.items()}
        found = self._fetch("rate_buckets", names=as_json(list(queues)))
        return {queues[bucket]: moment for bucket, moment in msgspec.json.decode(found, type=list[tuple[str, int]])}

    def lanes_needing(self) -> list[tuple[str, str, int, str]]:
        found = msgspec.json.decode(self._fetch("lanes_needing"), type=list[tuple[str, str, int, str]])
        return sorted(lane for lane in found if needs_of(lane[1]))

    def workers(self) -> list[WorkerRow]:
        return _workers.decode(self._fetch("workers"))

    def command_worker(self, worker_id: str, command: str) -> bool:
        try:
            known = self._database.write(lambda tx: tx.run("set_worker_command", id=worker_id, command=command)) == 1
        except UnicodeEncodeError:  # a lone surrogate: there is no such worker
            return False
        self._database.ring("commands")
        return known

    def _fetch(self, statement: str, **values: Any) -> Any:
        def read(tx: Transaction) -> Any:
            return tx.fetch(statement, **values)

        return self._database.read(read)


def _move(tx: Transaction, seqs: list[int], event: Trigger, by: str | None, at: int) -> Wakeups:
    """Move the jobs; the wake-ups of other jobs."""
    steps.forget(tx, seqs, event)
    if event is Trigger.DELETE:
        return _delete(tx, seqs, at)
    if event is Trigger.REVIVE:
        tx.run("requeue_dead_letters", seqs=as_json(seqs), now=at, by=by)
        revive(tx, seqs, _actor_detail(by), at)
        return Wakeups()
    target = next(iter(TRANSITIONS[event].targets))
    record_moves(tx, seqs, event, target, _actor_detail(by), at)
    batch: dict[str, Any] = {"seqs": as_json(seqs), "now": at}
    if event is Trigger.CANCEL:
        tx.run("move_cancel", **batch, reason=f"cancelled{actor_suffix(by)}")
        return dependencies.propagate_failures(tx, seqs, at)
    tx.run("ignore_edges", seqs=as_json(seqs), all=True)  # it runs without the parents it waited for
    tx.run("move_promote_now", **batch)
    return Wakeups()


def _delete(tx: Transaction, seqs: list[int], at: int) -> Wakeups:
    """Delete the jobs. To its dependents a deleted job counts as cancelled."""
    append_move_events(tx, "job.removed", seqs, at)
    flows, linked, effects = tx.fetch("flows_of", seqs=as_json(seqs)), dependencies.with_dependents(tx, seqs), Wakeups()
    if linked:
        open_seqs = _numbers.decode(tx.fetch("open_among", seqs=as_json(linked)))
        tx.run("move_cancel", seqs=as_json(open_seqs), now=at, reason=DELETED)
        effects = run(dependencies.propagate([], open_seqs, at), tx)
    tx.run("move_delete", seqs=as_json(seqs))
    if flows != "[]":
        tx.run("drop_flows", ids=flows)
    return effects


def _actor_detail(by: str | None) -> str | None:
    return f"by {by}" if by else None


def _update_job(tx: Transaction, job_id: str, changes: JobUpdate, by: str | None, at: int) -> bool:
    refuse_if_closed(tx)
    where, values = _conditions(tx, Filter(ids=(job_id,)), sorted(sources(Trigger.UPDATE)))
    seqs = _numbers.decode(tx.fetch("lock_matching", where, **values, limit=1))
    if not seqs:
        return False
    if changes.queue is not None:
        tx.run("add_queues", names=as_json([changes.queue]), now=at)
    source = State(tx.fetch("state_of", seq=seqs[0]))
    target = state_after(source, changes.run_at, at)
    record_moves(tx, seqs, Trigger.UPDATE, target, changes.format_changes() + actor_suffix(by), at)
    tx.run("update_job", **msgspec.structs.asdict(changes), state=target.value, seqs=as_json(seqs))
    return True


def _conditions(tx: Transaction, which: Filter, states: Collection[State]) -> tuple[str, dict[str, Any]]:
    """A WHERE of fixed fragments and its parameters."""
    values = {name: value for name in _FILTERS if (value := getattr(which, name)) is not None}
    conditions = [tx.fragment(f"where_{name}") for name in values]
    if states:
        conditions.append(search.in_states(states))
    if which.ids:
        conditions.append(tx.fragment("where_ids"))
        values["ids"] = as_json(which.ids)
    return " AND ".join(conditions) or "true", values
