"""Queries and commands of operators and waiting callers in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headrace.core.events.log import EventGroup, page
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import DELETED, Dependency
from headrace.core.jobs.details import JobDetails, StreamRange
from headrace.core.jobs.queue_rules import QueueRow, StoreRules, TaskRow, task_rules
from headrace.core.jobs.records import Filter, HistoryRow, JobRow, JobRowPage, JobUpdate, LogLine, QueueCount, WorkerRow
from headrace.core.jobs.states import TRANSITIONS, State, Trigger, sources
from headrace.core.jobs.steps import Step
from headrace.core.queues.limits import QueuedJob, round_robin
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.decisions import actor_suffix, movable_states, state_after, topics_of
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json, most
from headrace.engines.sql import dependencies, search, steps
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.events import append_events, append_move_events
from headrace.engines.sql.lease_recovery import record_moves
from headrace.engines.sql.retry_finished import revive
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import refuse_if_closed, run

_rows = Rows(JobRow)
_heads = Rows(QueuedJob)
_queue_counts, _history_rows, _lines, _steps = Rows(QueueCount), Rows(HistoryRow), Rows(LogLine), Rows(Step)
_queues, _workers, _edges = Rows(QueueRow), Rows(WorkerRow), Rows(Dependency)
_tasks = msgspec.json.Decoder(list[tuple[str, str]])
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

    def finished(self, ids: Collection[str]) -> set[str]:
        return set(ids) - set(_names.decode(self._fetch("unfinished", ids=as_json(list(ids)))))

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        return search.find(self._database, which, limit, cursor, reach, light)

    def count(self, which: Filter, reach: int | None = None) -> JobCount:
        if reach is None:
            return JobCount(search.count(self._database, which), True)
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

    def details(
        self,
        job_id: str,
        *,
        history: bool = True,
        logs: int = 1000,
        steps: bool = True,
        stream: StreamRange | None = None,
    ) -> JobDetails:
        def read(tx: Transaction) -> JobDetails:
            return JobDetails(
                _history_rows.decode(tx.fetch("history", id=job_id)) if history else [],
                _lines.decode(tx.fetch("logs", id=job_id, limit=logs)) if logs > 0 else [],
                _steps.decode(tx.fetch("steps", id=job_id)) if steps else [],
                [] if stream is None else _lines.decode(_stream(tx, job_id, stream)),
            )

        return self._database.read(read)

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        return steps.signal(self._database, job_id, name, value, checksum, self._database.at(now))

    # -- queues and workers

    def rules(self) -> StoreRules:
        def read(tx: Transaction) -> StoreRules:
            tasks = [TaskRow(name, task_rules(rules)) for name, rules in _tasks.decode(tx.fetch("tasks"))]
            return StoreRules(_queues.decode(tx.fetch("queues")), tasks)

        return self._database.read(read)

    def pause_queue(self, name: str, paused: bool) -> None:
        now = self._database.at(None)
        events = page([EventGroup("queue.paused" if paused else "queue.resumed", now, name)])

        def write(tx: Transaction) -> None:
            tx.run("pause_queue", name=name, paused=paused, now=now)
            append_events(tx, events)

        self._database.write(write)
        self._database.ring("work")

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


def _stream(tx: Transaction, job_id: str, wanted: StreamRange) -> Any:
    if wanted.first is None:
        return tx.fetch("newest_of_stream", id=job_id, limit=wanted.limit)
    return tx.fetch("stream", id=job_id, first=wanted.first, limit=wanted.limit)


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
    tx.run("update_job", **msgspec.structs.asdict(changes), state=target.value, seqs=as_json(seqs), now=at)
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
