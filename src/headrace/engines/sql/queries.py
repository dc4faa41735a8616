"""The answers of a SQL database to operators and waiting callers, and what they may do to jobs."""

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
from headrace.core.queues.limits import QueuedJob, in_turn, needs_of
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.decisions import movable, signed, state_after, topics_of
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json, most
from headrace.engines.sql import dependencies, search, steps
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.events import tell, tell_moved
from headrace.engines.sql.lease_recovery import file_moves
from headrace.engines.sql.limited_claim import bucket_of
from headrace.engines.sql.retry_finished import revive
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import hold_open, run

_rows = Rows(JobRow)
_endings = Rows(ParentResult)
_heads = Rows(QueuedJob)
_depths, _filings, _lines, _steps = Rows(QueueCount), Rows(HistoryRow), Rows(LogLine), Rows(Step)
_queues, _workers, _bonds = Rows(QueueRow), Rows(WorkerRow), Rows(Dependency)
_names = msgspec.json.Decoder(list[str])
_numbers = msgspec.json.Decoder(list[int])

_LANES_TO_PEEK = 50
_GATHERED_AT_ONCE = 20_000  # numbers of jobs, most of them likely of others
_FILTERS = ("queue", "task", "worker", "since", "until", "tag", "text", "flow")


@timed_part
class SqlQueries:
    """Reads and moves by hand."""

    def __init__(self, office: Database) -> None:
        self._office = office

    # -- moves

    def move(
        self, which: Filter, event: Trigger, limit: int, by: str | None = None, now: int | None = None
    ) -> list[str]:
        at = self._office.at(now)
        states = movable(which, sources(event))
        if not states:
            return []

        effects = Wakeups()

        def move_them(ledger: Transaction) -> list[str]:
            nonlocal effects
            ledger.ask("alone_with_kin")
            hold_open(ledger, deleting=event is Trigger.DELETE)  # what lives on elsewhere may be cleared away here
            where, values = _conditions(ledger, which, states)
            if event is Trigger.HURRY:  # what waits with its own run behind it has nothing to start
                where = f"{where} AND {ledger.fragment('where_startable')}"
            seqs = _numbers.decode(ledger.ask("lock_matching", where, **values, limit=limit))
            if not seqs:
                return []
            ids = _names.decode(ledger.ask("ids_of", seqs=as_json(seqs)))
            effects = _move(ledger, seqs, event, by, at)
            return ids

        ids = self._office.write(move_them)
        for topic in {*topics_of(event), *effects.topics()} if ids else ():
            self._office.ring(topic)
        return ids

    def amend(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        at = self._office.at(now)
        amended = self._office.write(lambda ledger: _amend(ledger, job_id, changes, by, at))
        if amended:
            self._office.ring("work")
        return amended

    # -- jobs

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        return _rows.decode(self._ask("get", ids=as_json(ids), most=most(light)))

    def endings(self, ids: Sequence[str]) -> list[ParentResult]:
        return _endings.decode(self._ask("endings", ids=as_json(ids)))

    def finished(self, ids: Collection[str]) -> set[str]:
        return set(ids) - set(_names.decode(self._ask("unfinished", ids=as_json(list(ids)))))

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        return search.find(self._office, which, limit, cursor, reach, light)

    def count(self, which: Filter) -> int:
        return search.count(self._office, which)

    def count_up_to(self, which: Filter, reach: int) -> JobCount:
        return search.count_up_to(self._office, which, reach)

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        def look(ledger: Transaction) -> Any:
            names = ["", *_names.decode(ledger.ask("lanes", queue=queue, beyond="", limit=_LANES_TO_PEEK))]
            lanes = [_heads.decode(ledger.ask("heads", queue=queue, lane=lane, limit=limit)) for lane in names]
            seqs = as_json([head.seq for head in in_turn(lanes)[:limit]])
            return ledger.ask("rows", seqs=seqs, most=most(light))

        return _rows.decode(self._office.read(look))

    def depths(self, *, open_only: bool = False) -> list[QueueCount]:
        return _depths.decode(self._ask("depths", finished=not open_only))

    def history(self, job_id: str) -> list[HistoryRow]:
        return _filings.decode(self._ask("history", id=job_id))

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        return _lines.decode(self._ask("logs", id=job_id, limit=limit))

    # -- what jobs remember

    def steps(self, job_id: str) -> list[Step]:
        return _steps.decode(self._ask("steps", id=job_id))

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        return steps.signal(self._office, job_id, name, value, checksum, self._office.at(now))

    # -- flows

    def bonds(self, ids: Sequence[str]) -> list[Dependency]:
        return _bonds.decode(self._ask("bonds", ids=as_json(ids)))

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        told = self._ask("flows", limit=limit, before=before, ids=as_json(ids))
        return msgspec.json.decode(told, type=list[FlowSummary])

    # -- queues and workers

    def queues(self) -> list[QueueRow]:
        return _queues.decode(self._ask("queues"))

    def pause_queue(self, name: str, paused: bool) -> None:
        now = self._office.at(None)
        told = page([EventGroup("queue.paused" if paused else "queue.resumed", now, name)])

        def write(ledger: Transaction) -> None:
            ledger.run("pause_queue", name=name, paused=paused, now=now)
            tell(ledger, told)

        self._office.write(write)
        self._office.ring("work")

    def rule_queue(self, name: str, rules: QueueRules) -> None:
        now, text = self._office.at(None), None if rules == QueueRules() else as_json(rules)
        self._office.write(lambda ledger: ledger.run("rule_queue", name=name, rules=text, now=now))
        self._office.forget_rules()
        self._office.ring("work")

    def rule_task(self, name: str, rules: TaskRules) -> None:
        def write(ledger: Transaction) -> int:
            if rules == TaskRules():
                return ledger.run("unrule_task", name=name)
            return ledger.run("rule_task", name=name, rules=as_json(rules))

        self._office.write(write)
        self._office.forget_rules()
        if rules.strategy is not None:
            self._gather(name)
        self._office.ring("work")

    def _gather(self, task: str) -> None:
        """Put the open jobs of the task into lanes where its order holds; a few at a time, lest others wait long."""
        first, last = msgspec.json.decode(self._ask("span"), type=tuple[int, int])
        for after in range(first - 1, last, _GATHERED_AT_ONCE):
            self._gather_some(task, after)

    def _gather_some(self, task: str, after: int) -> None:
        gate, until = as_json(f"t:{task}"), after + _GATHERED_AT_ONCE
        self._office.write(lambda ledger: ledger.run("gather", task=task, gate=gate, after=after, until=until))

    def tasks(self) -> list[TaskRow]:
        found = msgspec.json.decode(self._ask("tasks"), type=list[tuple[str, str]])
        return [TaskRow(name, task_rules(rules)) for name, rules in found]

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        told = self._ask("running", now=self._office.at(now))
        return msgspec.json.decode(told, type=list[tuple[str, str, str, int]])

    def rested_at(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        queues = {bucket_of(rate, "queue", name): name for name, rate in rates.items()}
        told = self._ask("buckets", names=as_json(list(queues)))
        return {queues[bucket]: moment for bucket, moment in msgspec.json.decode(told, type=list[tuple[str, int]])}

    def needing(self) -> list[tuple[str, str, int, str]]:
        found = msgspec.json.decode(self._ask("needing"), type=list[tuple[str, str, int, str]])
        return sorted(lane for lane in found if needs_of(lane[1]))

    def workers(self) -> list[WorkerRow]:
        return _workers.decode(self._ask("workers"))

    def wish(self, worker_id: str, wish: str) -> bool:
        try:
            known = self._office.write(lambda ledger: ledger.run("wish", id=worker_id, wish=wish)) == 1
        except UnicodeEncodeError:  # a lone surrogate: there is no such worker
            return False
        self._office.ring("orders")
        return known

    def _ask(self, statement: str, **values: Any) -> Any:
        def look(ledger: Transaction) -> Any:
            return ledger.ask(statement, **values)

        return self._office.read(look)


def _move(ledger: Transaction, seqs: list[int], event: Trigger, by: str | None, at: int) -> Wakeups:
    """Move the jobs; whom it concerns beyond themselves."""
    steps.forget(ledger, seqs, event)
    if event is Trigger.DELETE:
        return _delete(ledger, seqs, at)
    if event is Trigger.REVIVE:
        ledger.run("requeue_dead", seqs=as_json(seqs), now=at, by=by)
        revive(ledger, seqs, _by(by), at)
        return Wakeups()
    target = next(iter(TRANSITIONS[event].targets))
    file_moves(ledger, seqs, event, target, _by(by), at)
    batch: dict[str, Any] = {"seqs": as_json(seqs), "now": at}
    if event is Trigger.CANCEL:
        ledger.run("move_cancel", **batch, reason=f"cancelled{signed(by)}")
        return dependencies.follow_lost(ledger, seqs, at)
    ledger.run("waive", seqs=as_json(seqs), all=True)  # it runs without those it waited for
    ledger.run("move_hurry", **batch)
    return Wakeups()


def _delete(ledger: Transaction, seqs: list[int], at: int) -> Wakeups:
    """To those who wait for a job, its disappearance is as if it had been cancelled."""
    tell_moved(ledger, "job.removed", seqs, at)
    flows, kin, effects = ledger.ask("flows_of", seqs=as_json(seqs)), dependencies.kin_among(ledger, seqs), Wakeups()
    if kin:
        open_ones = _numbers.decode(ledger.ask("open_among", seqs=as_json(kin)))
        ledger.run("move_cancel", seqs=as_json(open_ones), now=at, reason=DELETED)
        effects = run(dependencies.follow([], open_ones, at), ledger)
    ledger.run("move_delete", seqs=as_json(seqs))
    if flows != "[]":
        ledger.run("drop_flows", ids=flows)
    return effects


def _by(by: str | None) -> str | None:
    return f"by {by}" if by else None


def _amend(ledger: Transaction, job_id: str, changes: JobUpdate, by: str | None, at: int) -> bool:
    hold_open(ledger)
    where, values = _conditions(ledger, Filter(ids=(job_id,)), sorted(sources(Trigger.AMEND)))
    seqs = _numbers.decode(ledger.ask("lock_matching", where, **values, limit=1))
    if not seqs:
        return False
    if changes.queue is not None:
        ledger.run("add_queues", names=as_json([changes.queue]), now=at)
    source = State(ledger.ask("state_of", seq=seqs[0]))
    target = state_after(source, changes.run_at, at)
    file_moves(ledger, seqs, Trigger.AMEND, target, changes.in_words() + signed(by), at)
    ledger.run("amend", **msgspec.structs.asdict(changes), state=target.value, seqs=as_json(seqs))
    return True


def _conditions(ledger: Transaction, which: Filter, states: Collection[State]) -> tuple[str, dict[str, Any]]:
    """A WHERE of fixed fragments and its parameters."""
    values = {name: value for name in _FILTERS if (value := getattr(which, name)) is not None}
    terms = [ledger.fragment(f"where_{name}") for name in values]
    if states:
        terms.append(search.in_states(states))
    if which.ids:
        terms.append(ledger.fragment("where_ids"))
        values["ids"] = as_json(which.ids)
    return " AND ".join(terms) or "true", values
