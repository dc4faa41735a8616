"""The SQLite engine's answers to operators and waiting callers, and what they may do to jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from headrace.core.model import (
    Changes,
    Depth,
    Filing,
    Filter,
    JobRow,
    LogLine,
    Page,
    QueueRow,
    WorkerRow,
)
from headrace.core.states import TRANSITIONS, Event, State, sources
from headrace.engines.sql import as_json
from headrace.engines.sqlite.reaper import file_moves
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.store import Store, scalar
from headrace.errors import InvalidJob

_rows = msgspec.json.Decoder(list[JobRow])
_names = msgspec.json.Decoder(list[str])
_JOB = ", ".join(f"job.{field}" for field in JobRow.__struct_fields__)

_LONGEST_CURSOR = 18  # digits that fit the store's integers

_MOVES = {
    Event.CANCEL: "move_cancel",
    Event.REVIVE: "move_revive",
    Event.HURRY: "move_hurry",
    Event.DELETE: "move_delete",
}


class Office(Protocol):
    """What the desk needs of its engine."""

    store: Store

    def prepare(self) -> None: ...
    def at(self, now: int | None) -> int: ...
    def ring(self, topic: str) -> None: ...


class SqliteDesk:
    """Reads and moves by hand."""

    def __init__(self, office: Office) -> None:
        self._office = office

    # -- moves

    def move(self, which: Filter, event: Event, limit: int, by: str | None = None, now: int | None = None) -> list[str]:
        self._office.prepare()
        at = self._office.at(now)
        with self._office.store.writing() as db:
            seqs = _matching(db, which, sources(event), limit)
            if not seqs:
                return []
            ids = _names.decode(scalar(db, SQL["ids_of"], {"seqs": as_json(seqs)}))
            _move(db, seqs, event, by, at)
        for topic in _topics(event):
            self._office.ring(topic)
        return ids

    def amend(self, job_id: str, changes: Changes, by: str | None = None, now: int | None = None) -> bool:
        self._office.prepare()
        at = self._office.at(now)
        with self._office.store.writing() as db:
            seqs = _matching(db, Filter(ids=(job_id,)), sources(Event.AMEND), 1)
            if not seqs:
                return False
            if changes.queue is not None:
                db.execute(SQL["add_queues"], {"names": as_json([changes.queue]), "now": at})
            told = changes.in_words()
            source = State(scalar(db, SQL["state_of"], {"seq": seqs[0]}))
            target = _state_after(source, changes.run_at, at)
            file_moves(db, seqs, Event.AMEND, target, told + _signed(by), at)
            amended = {**msgspec.structs.asdict(changes), "state": target, "seqs": as_json(seqs)}
            db.execute(SQL["amend"], amended)
        self._office.ring("work")
        return True

    # -- jobs

    def get(self, ids: Sequence[str]) -> list[JobRow]:
        return _rows.decode(self._ask("get", ids=as_json(ids)))

    def finished(self, ids: Collection[str]) -> set[str]:
        return set(ids) - set(_names.decode(self._ask("unfinished", ids=as_json(list(ids)))))

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> Page:
        before = _position(cursor)
        where, values = _conditions(which, which.states)
        if before is not None:
            where, values = f"{where} AND job.seq < :before", {**values, "before": before}
        inner = f"SELECT * FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq DESC LIMIT :limit"
        sql = f"SELECT json_group_array(json_array({_JOB})) FROM ({inner}) AS job"
        rows = _rows.decode(self._query(sql, {**values, "limit": limit + 1}))
        more = len(rows) > limit
        return Page(rows[:limit], str(rows[limit - 1].seq) if more else None)

    def count(self, which: Filter) -> int:
        where, values = _conditions(which, which.states)
        return int(self._query(f"SELECT count(*) FROM headrace_jobs AS job WHERE {where}", values))

    def peek(self, queue: str, limit: int) -> list[JobRow]:
        return _rows.decode(self._ask("peek", queue=queue, limit=limit))

    def depths(self) -> list[Depth]:
        return msgspec.json.decode(self._ask("depths"), type=list[Depth])

    def history(self, job_id: str) -> list[Filing]:
        return msgspec.json.decode(self._ask("history", id=job_id), type=list[Filing])

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        return msgspec.json.decode(self._ask("logs", id=job_id, limit=limit), type=list[LogLine])

    # -- queues and workers

    def queues(self) -> list[QueueRow]:
        return msgspec.json.decode(self._ask("queues"), type=list[QueueRow])

    def pause_queue(self, name: str, paused: bool) -> None:
        self._office.prepare()
        with self._office.store.writing() as db:
            db.execute(SQL["pause_queue"], {"name": name, "paused": paused, "now": self._office.at(None)})
        self._office.ring("work")

    def workers(self) -> list[WorkerRow]:
        return msgspec.json.decode(self._ask("workers"), type=list[WorkerRow])

    def wish(self, worker_id: str, wish: str) -> bool:
        self._office.prepare()
        try:
            with self._office.store.writing() as db:
                known = db.execute(SQL["wish"], {"id": worker_id, "wish": wish}).rowcount == 1
        except UnicodeEncodeError:  # a lone surrogate: there is no such worker
            return False
        self._office.ring("orders")
        return known

    def _ask(self, statement: str, **values: Any) -> Any:
        return self._query(SQL[statement], values)

    def _query(self, sql: str, values: dict[str, Any]) -> Any:
        self._office.prepare()
        with self._office.store.reading() as db:
            return scalar(db, sql, values)


def _signed(by: str | None) -> str:
    return f" (by {by})" if by else ""


def _topics(event: Event) -> tuple[str, ...]:
    """Whom a move concerns: waiting callers, idle workers, or the worker that runs the job."""
    if event is Event.CANCEL:
        return "done", "orders"
    return ("done",) if event is Event.DELETE else ("work",)


def _move(db: sqlite3.Connection, seqs: list[int], event: Event, by: str | None, at: int) -> None:
    batch = {"seqs": as_json(seqs), "now": at}
    if event is not Event.DELETE:
        target = next(iter(TRANSITIONS[event].targets))
        file_moves(db, seqs, event, target, f"by {by}" if by else None, at)
    if event is Event.REVIVE:
        db.execute(SQL["requeue_dead"], {**batch, "by": by})
    if event is Event.CANCEL:
        batch["reason"] = f"cancelled{_signed(by)}"
    db.execute(SQL[_MOVES[event]], batch)


def _state_after(source: State, run_at: int | None, now: int) -> State:
    """Where a change of its time leads a job that has not started."""
    if run_at is None or source is State.WAITING:
        return source
    if run_at <= now:
        return State.PENDING
    return State.RETRYING if source is State.RETRYING else State.SCHEDULED


def _matching(db: sqlite3.Connection, which: Filter, legal: frozenset[State], limit: int) -> list[int]:
    states = tuple(state for state in (which.states or legal) if state in legal)
    if not states:
        return []
    where, values = _conditions(which, states)
    inner = f"SELECT job.seq FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq LIMIT :limit"
    found = scalar(db, f"SELECT json_group_array(seq) FROM ({inner})", {**values, "limit": limit})
    return msgspec.json.decode(found, type=list[int])


_CONDITIONS = {
    "queue": "job.queue = :queue",
    "task": "job.task = :task",
    "worker": "job.worker = :worker",
    "since": "job.created_at >= :since",
    "until": "job.created_at < :until",
    "tag": "job.seq IN (SELECT tags.job FROM headrace_tags AS tags WHERE tags.tag = :tag)",
    "text": "(instr(job.id, :text) OR instr(job.task, :text) OR instr(job.payload, :text) "
    "OR instr(coalesce(job.reason, ''), :text) OR instr(coalesce(job.metadata, ''), :text))",
}


def _conditions(which: Filter, states: Collection[State]) -> tuple[str, dict[str, Any]]:
    """A WHERE of fixed fragments and its parameters.

    States are written out as literals, and only ever from our own enumeration: a partial index is considered only
    if its condition can be proven from the text of the statement.
    """
    values = {name: value for name in _CONDITIONS if (value := getattr(which, name)) is not None}
    terms = [_CONDITIONS[name] for name in values]
    if states:
        listed = ", ".join(f"'{State(state).value}'" for state in states)
        terms.append(f"job.state = {listed}" if len(states) == 1 else f"job.state IN ({listed})")
    if which.ids:
        terms.append("job.id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = as_json(which.ids)
    return " AND ".join(terms) or "true", values


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isdecimal() or len(cursor) > _LONGEST_CURSOR:
        raise InvalidJob(f"cursor {cursor!r} is not one that find() returned")
    return int(cursor)
