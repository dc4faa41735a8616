"""Staleness in a SQL database: jobs by their age in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.core.damaged_records import DAMAGE
from headrace.core.jobs.states import State
from headrace.core.retention.staleness import AgeQuery, JobAge, JobAgePage, StaleAction
from headrace.engines.shared.damaged_records import record_from, valid_values
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.mark_stale import mark_stale
from headrace.engines.sql.transaction import Database, Transaction

_Column = list[str] | None  # None if there are no jobs
_Moments = list[int] | None
_columns = msgspec.json.Decoder(list[list[Any] | None])
_ages = msgspec.json.Decoder(
    tuple[_Column, _Column, _Column, list[State] | None, _Moments, _Moments, _Moments, list[bool] | None]
)
_section = msgspec.json.Decoder(tuple[int, list[Any] | None, list[int]])
_FOR_EVER = (1 << 63) - 1


class StalenessScan(NamedTuple):
    """One section of the scan over all open jobs. `key` names the columns of the reached position."""

    statement: str
    states: tuple[State, ...]
    key: tuple[str, ...]
    start: tuple[str | int, ...]
    where: str = ""


_IN_LINE = ("queue", "lane", "priority", "rank", "seq")
_PENDING = (State.PENDING,)
# The order of pending jobs is partly descending, so no single comparison selects the jobs after a given one.
_SECTIONS = (
    StalenessScan("walk_waiting", (State.WAITING,), ("queue", "seq"), ("", 0)),
    StalenessScan(
        "walk_put_off", (State.SCHEDULED, State.RETRYING), ("run_at", "queue", "state", "seq"), (-1, "", "", 0)
    ),
    StalenessScan("walk_running", (State.RUNNING,), ("seq",), (0,)),
    StalenessScan("walk_pending", _PENDING, _IN_LINE, (), "where_after_job"),
    StalenessScan("walk_pending", _PENDING, _IN_LINE, (), "where_after_priority"),
    StalenessScan("walk_pending", _PENDING, _IN_LINE, (), "where_after_lane"),
    StalenessScan("walk_pending", _PENDING, _IN_LINE, ("", "", 0, 0, 0), "where_after_queue"),
)
_PENDING_FROM, _PENDING_START = 3, 6


@timed_part
class SqlStalenessStore:
    """Finds old jobs and applies staleness decisions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def by_age(self, query: AgeQuery, limit: int, cursor: str | None = None) -> JobAgePage:
        def read(tx: Transaction) -> JobAgePage:
            seqs, reached = _scan(tx, query, limit, msgspec.json.decode(cursor) if cursor else [0])
            found = _ages_in(tx.fetch("job_ages", seqs=as_json(seqs))) if seqs else []
            return JobAgePage(found, None if reached is None else as_json(reached))

        return self._database.read(read)

    def mark_stale(self, actions: Sequence[StaleAction], now: int | None = None) -> list[bool]:
        if not actions:
            return []
        at = self._database.at(now)
        done, effects = self._database.write(lambda tx: mark_stale(tx, actions, at))
        for topic in {*effects.topics(), *(("commands",) if effects.done else ())}:
            self._database.ring(topic)
        return done


def _ages_in(text: str) -> list[JobAge]:
    """The jobs of these columns; of a damaged job, the readable part."""
    try:
        columns = _ages.decode(text)
    except DAMAGE:
        rows = zip(*(column or () for column in _columns.decode(text)), strict=True)
        return [record_from(JobAge, valid_values(JobAge, row)) for row in rows]
    return [JobAge(*fields) for fields in zip(*(column or () for column in columns), strict=True)]


def _scan(tx: Transaction, query: AgeQuery, limit: int, reached: list[Any]) -> tuple[list[int], list[Any] | None]:
    """The numbers of jobs that may be old, and the reached position: a section, and the place in it."""
    step, *place = reached
    found: list[int] = []
    while step < len(_SECTIONS):
        section = _SECTIONS[step]
        if limit <= 0:
            return found, [step, *place]
        if query.due is None and not any(state in query.since for state in section.states):
            step, place = step + 1, []
            continue
        if section.statement == "walk_pending" and not place:
            step, place = _PENDING_START, list(_SECTIONS[_PENDING_START].start)
            section = _SECTIONS[step]
        scanned, last, seqs = _scan_section(tx, section, query, limit, place or section.start)
        found += seqs
        if scanned == limit and last is not None:
            return found, [_PENDING_FROM if section.where else step, *last]
        # The remaining sections of pending jobs continue from the same position.
        limit, step, place = limit - scanned, step + 1, place if section.where else []
    return found, None


def _scan_section(
    tx: Transaction, section: StalenessScan, query: AgeQuery, limit: int, place: Sequence[Any]
) -> tuple[int, list[Any] | None, list[int]]:
    values: dict[str, Any] = dict(zip(section.key, place, strict=True))
    values |= {f"{state}": query.since.get(state) for state in section.states}
    if section.statement == "walk_put_off":  # jobs due later matter only to queries for their age
        latest = max((query.since[state] for state in section.states if state in query.since), default=-1)
        values["last"] = latest if query.due is None else _FOR_EVER
    where = tx.fragment(section.where) if section.where else ""
    return _section.decode(tx.fetch(section.statement, where, **values, limit=limit, due=query.due))
