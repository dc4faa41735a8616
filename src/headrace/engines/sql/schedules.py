"""The schedules of a SQL database."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from headrace.core.damaged_records import read
from headrace.core.events.log import fired, page
from headrace.core.schedules.records import DueSchedules, Occurrence, ScheduleFire, ScheduleRow, damaged
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import unique_insert
from headrace.engines.sql.events import append_events
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sql.transaction import Database, Transaction

_rows = msgspec.json.Decoder(list[tuple[str, Any, Any, str]])
_version_and_due = partial(msgspec.convert, type=tuple[int, int | None])
_row = msgspec.json.Decoder(ScheduleRow)
_names = msgspec.json.Decoder(list[str])
_occurrences = Rows(Occurrence)
_KEPT = 1000
_TRIM_EVERY = 100  # versions of a schedule: trimming costs more than adding


@timed_part
class SqlScheduleStore:
    """Reads schedules and fires them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, ids: Sequence[str] | None = None) -> list[ScheduleRow]:
        def read_them(tx: Transaction) -> Any:
            return tx.fetch("all_schedules") if ids is None else tx.fetch("schedules", ids=as_json(ids))

        return _schedules(self._database.read(read_them))

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        put = self._database.write(lambda tx: _add(tx, row) if new else _put(tx, row))
        if put:
            self._database.ring("schedules")
        return put

    def delete(self, schedule_id: str, version: int | None = None) -> bool:
        def delete(tx: Transaction) -> bool:
            existed = tx.run("delete_schedule", id=schedule_id, version=version) == 1
            if existed or version is None:
                tx.run("delete_occurrences", id=schedule_id)
            return existed

        deleted = self._database.write(delete)
        if deleted:
            self._database.ring("schedules")
        return deleted

    def due(self, limit: int, now: int | None = None) -> DueSchedules:
        at = self._database.at(now)

        def read_them(tx: Transaction) -> DueSchedules:
            rows = _schedules(tx.fetch("due_schedules", now=at, limit=limit)) if limit > 0 else []
            return DueSchedules(rows, tx.fetch("next_due"))

        return self._database.read(read_them)

    def fire(self, firings: Sequence[ScheduleFire], now: int | None = None) -> list[bool]:
        def fire_them(tx: Transaction) -> list[bool]:
            tx.run("hold_inserts")  # the store status must not change until the jobs are stored
            if tx.fetch("store_status") is not None:  # it was set after they were found to be due
                return [False] * len(firings)
            # Only the first fire of a schedule can apply; the version refuses the others.
            rows = {firing.row.id: firing.row for firing in reversed(firings)}
            batch = as_json([_next_row(row) for row in rows.values()])
            ready = set(_names.decode(tx.fetch("lock_schedules", s=batch)))
            tx.run("fire_schedules", s=batch)
            applied = [firing.row.id in ready and firing.row is rows[firing.row.id] for firing in firings]
            _apply(tx, [firing for firing, is_applied in zip(firings, applied, strict=True) if is_applied])
            return applied

        applied = self._database.write(fire_them)
        if any(firing.jobs for firing, is_applied in zip(firings, applied, strict=True) if is_applied):
            self._database.ring("work")
        return applied

    def occurrences(self, schedule_id: str, limit: int = 100) -> list[Occurrence]:
        most = min(limit, _KEPT)
        return _occurrences.decode(self._database.read(lambda tx: tx.fetch("occurrences", id=schedule_id, limit=most)))


def _schedules(rows: str) -> list[ScheduleRow]:
    """The stored schedules; version and due time of the columns win over those in the body."""
    found = []
    for schedule_id, version, due_at, body in _rows.decode(rows):
        version_and_due = read(_version_and_due, (version, due_at))
        row = None if version_and_due is None else read(_row.decode, body)
        if version_and_due is None or row is None:
            row = damaged(schedule_id, body)
        version, due_at = version_and_due or (row.version, None)
        found.append(structs.replace(row, id=schedule_id, version=version, due_at=due_at))
    return found


def _add(tx: Transaction, row: ScheduleRow) -> bool:
    return tx.run("add_schedule", id=row.id, version=row.version, due_at=row.due_at, body=as_json(row)) == 1


def _put(tx: Transaction, row: ScheduleRow) -> bool:
    id_, version, due_at, body = _next_row(row)
    return tx.run("put_schedule", id=id_, version=version, due_at=due_at, body=body) == 1


def _next_row(row: ScheduleRow) -> tuple[str, int, int | None, str]:
    """The schedule as it is to be stored, and the version it must have."""
    return row.id, row.version, row.due_at, as_json(structs.replace(row, version=row.version + 1))


def _apply(tx: Transaction, firings: Sequence[ScheduleFire]) -> None:
    if occurrences := [occurrence for firing in firings for occurrence in firing.occurrences]:
        tx.run("add_occurrences", c=as_json(occurrences))
        append_events(tx, page([group for firing in firings for group in fired(firing.row, firing.occurrences)]))
    if jobs := [job for firing in firings for job in firing.jobs]:
        rules = RulesCache()
        rules.refresh(tx)
        unique_insert.run(unique_insert.refuse_if_full(jobs, rules.lengths_of({job.queue for job in jobs})), tx)
        tx.insert(rules.with_lanes(jobs))
    for firing in firings:
        if firing.row.version % _TRIM_EVERY == 0:
            tx.run("trim_occurrences", id=firing.row.id, keep=_KEPT)
