"""The schedules of a SQL database."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from headrace.core.timetable import Firing, Occurrence, ScheduleRow
from headrace.engines.relational.ledger import Ledger, Office
from headrace.engines.sql import as_json

_rows = msgspec.json.Decoder(list[ScheduleRow])
_row = msgspec.json.Decoder(ScheduleRow)
_occurrences = msgspec.json.Decoder(list[Occurrence])
_KEPT = 1000
_TRIM_EVERY = 100  # versions of a schedule: to trim costs more than to add


class SqlTimetable:
    """Reads schedules and fires them."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def all(self) -> list[ScheduleRow]:
        return _rows.decode(self._office.read(lambda ledger: ledger.ask("schedules")))

    def get(self, schedule_id: str) -> ScheduleRow | None:
        told = self._office.read(lambda ledger: ledger.ask("schedule", id=schedule_id))
        return None if told is None else _row.decode(told)

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        put = self._office.write(lambda ledger: _add(ledger, row) if new else _put(ledger, row))
        if put:
            self._office.ring("times")
        return put

    def delete(self, schedule_id: str) -> bool:
        def forget(ledger: Ledger) -> bool:
            ledger.run("delete_occurrences", id=schedule_id)
            return ledger.run("delete_schedule", id=schedule_id) == 1

        deleted = self._office.write(forget)
        if deleted:
            self._office.ring("times")
        return deleted

    def due(self, limit: int, now: int | None = None) -> list[ScheduleRow]:
        at = self._office.at(now)
        return _rows.decode(self._office.read(lambda ledger: ledger.ask("due_schedules", now=at, limit=limit)))

    def next_due(self) -> int | None:
        due: int | None = self._office.read(lambda ledger: ledger.ask("next_due"))
        return due

    def fire(self, firings: Sequence[Firing], now: int | None = None) -> list[bool]:
        def fire_them(ledger: Ledger) -> list[bool]:
            if ledger.ask("notice") is not None:  # put up since they were found to be due
                return [False] * len(firings)
            # In one order for everybody, so that nobody waits for somebody who waits for him.
            order = sorted(range(len(firings)), key=lambda place: firings[place].row.id)
            applied = {place for place in order if _put(ledger, firings[place].row)}
            _carry_out(ledger, [firings[place] for place in sorted(applied)])
            return [place in applied for place in range(len(firings))]

        applied = self._office.write(fire_them)
        fired = [firing for firing, is_applied in zip(firings, applied, strict=True) if is_applied]
        for topic in ("times" if fired else "", "work" if any(firing.jobs for firing in fired) else ""):
            if topic:
                self._office.ring(topic)
        return applied

    def occurrences(self, schedule_id: str, limit: int = 100) -> list[Occurrence]:
        most = min(limit, _KEPT)
        return _occurrences.decode(
            self._office.read(lambda ledger: ledger.ask("occurrences", id=schedule_id, limit=most))
        )


def _add(ledger: Ledger, row: ScheduleRow) -> bool:
    return ledger.run("add_schedule", id=row.id, version=row.version, due_at=row.due_at, body=as_json(row)) == 1


def _put(ledger: Ledger, row: ScheduleRow) -> bool:
    body = as_json(structs.replace(row, version=row.version + 1))
    return ledger.run("put_schedule", id=row.id, version=row.version, due_at=row.due_at, body=body) == 1


def _carry_out(ledger: Ledger, firings: Sequence[Firing]) -> None:
    if jobs := [job for firing in firings for job in firing.jobs]:
        ledger.insert(jobs)
    if occurrences := [occurrence for firing in firings for occurrence in firing.occurrences]:
        ledger.run("add_occurrences", c=as_json(occurrences))
    for firing in firings:
        if firing.row.version % _TRIM_EVERY == 0:
            ledger.run("trim_occurrences", id=firing.row.id, keep=_KEPT)
