"""How long jobs may stay, in a SQL database: the terms of tasks and queues, and the jobs that stay long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.core.damaged_records import DAMAGE, read_or
from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import Kind, Terms, TermsRow
from headrace.core.retention.staleness import Aged, AgedPage, Judgment, Watch
from headrace.engines.shared.damaged_records import made_of, whole_values
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.mark_stale import judge
from headrace.engines.sql.transaction import Ledger, Office

_said = msgspec.json.Decoder(list[tuple[str, str, str, str]])
_terms = msgspec.json.Decoder(Terms)
_Column = list[str] | None  # None if there are no jobs
_Moments = list[int] | None
_columns = msgspec.json.Decoder(list[list[Any] | None])
_aged = msgspec.json.Decoder(
    tuple[_Column, _Column, _Column, list[State] | None, _Moments, _Moments, _Moments, list[bool] | None]
)
_walked = msgspec.json.Decoder(tuple[int, list[Any] | None, list[int]])
_FOR_EVER = (1 << 63) - 1


class Walk(NamedTuple):
    """One stretch of the way through all open jobs. `key` names the parts of the place that it reached."""

    statement: str
    states: tuple[State, ...]
    key: tuple[str, ...]
    start: tuple[str | int, ...]
    where: str = ""


_IN_LINE = ("queue", "lane", "priority", "rank", "seq")
_PENDING = (State.PENDING,)
# The pending ones are in an order of which a part is descending, so no single comparison tells what is behind a job.
_WAYS = (
    Walk("walk_waiting", (State.WAITING,), ("queue", "seq"), ("", 0)),
    Walk("walk_put_off", (State.SCHEDULED, State.RETRYING), ("run_at", "queue", "state", "seq"), (-1, "", "", 0)),
    Walk("walk_running", (State.RUNNING,), ("seq",), (0,)),
    Walk("walk_pending", _PENDING, _IN_LINE, (), "where_after_job"),
    Walk("walk_pending", _PENDING, _IN_LINE, (), "where_after_priority"),
    Walk("walk_pending", _PENDING, _IN_LINE, (), "where_after_lane"),
    Walk("walk_pending", _PENDING, _IN_LINE, ("", "", 0, 0, 0), "where_after_queue"),
)
_PENDING_FROM, _PENDING_START = 3, 6


@timed_part
class SqlUpkeep:
    """Reads and writes terms, finds old jobs and carries out what is decided of them."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def terms(self) -> list[TermsRow]:
        found = _said.decode(self._office.read(lambda ledger: ledger.ask("terms")))
        return [_row(*fields) for fields in found]

    def declare_terms(self, rows: Sequence[TermsRow]) -> None:
        def declare(ledger: Ledger) -> None:
            ledger.run("declare_terms", t=as_json(rows))
            ledger.run("drop_empty_terms")

        if rows:
            self._office.write(declare)

    def order_terms(self, kind: Kind, name: str, terms: Terms | None) -> None:
        def order(ledger: Ledger) -> None:
            ledger.run("order_terms", t=as_json([TermsRow(kind, name, ordered=terms or Terms())]))
            ledger.run("drop_empty_terms")

        self._office.write(order)

    def aged(self, watch: Watch, limit: int, cursor: str | None = None) -> AgedPage:
        def look(ledger: Ledger) -> AgedPage:
            seqs, reached = _walk(ledger, watch, limit, msgspec.json.decode(cursor) if cursor else [0])
            found = _aged_in(ledger.ask("aged", seqs=as_json(seqs))) if seqs else []
            return AgedPage(found, None if reached is None else as_json(reached))

        return self._office.read(look)

    def judge(self, judgments: Sequence[Judgment], now: int | None = None) -> list[bool]:
        if not judgments:
            return []
        at = self._office.at(now)
        done, effects = self._office.write(lambda ledger: judge(ledger, judgments, at))
        for topic in {*effects.topics(), *(("orders",) if effects.done else ())}:
            self._office.ring(topic)
        return done


def _aged_in(told: str) -> list[Aged]:
    """The jobs of these columns; of one that is damaged, what can be read."""
    try:
        columns = _aged.decode(told)
    except DAMAGE:
        rows = zip(*(column or () for column in _columns.decode(told)), strict=True)
        return [made_of(Aged, whole_values(Aged, row)) for row in rows]
    return [Aged(*fields) for fields in zip(*(column or () for column in columns), strict=True)]


def _row(kind: str, name: str, *said: str) -> TermsRow:
    declared, ordered = (read_or(_terms.decode, text, Terms()) for text in said)
    return TermsRow("queue" if kind == "queue" else "task", name, declared, ordered)


def _walk(ledger: Ledger, watch: Watch, limit: int, reached: list[Any]) -> tuple[list[int], list[Any] | None]:
    """The numbers of jobs that may be old, and the place that was reached: a way, and how far it was gone."""
    step, *place = reached
    found: list[int] = []
    while step < len(_WAYS):
        way = _WAYS[step]
        if limit <= 0:
            return found, [step, *place]
        if watch.due is None and not any(state in watch.since for state in way.states):
            step, place = step + 1, []
            continue
        if way.statement == "walk_pending" and not place:
            step, place = _PENDING_START, list(_WAYS[_PENDING_START].start)
            way = _WAYS[step]
        looked, last, seqs = _stretch(ledger, way, watch, limit, place or way.start)
        found += seqs
        if looked == limit and last is not None:
            return found, [_PENDING_FROM if way.where else step, *last]
        # What is left of the way behind the last job of a stretch is told by the place before it.
        limit, step, place = limit - looked, step + 1, place if way.where else []
    return found, None


def _stretch(
    ledger: Ledger, way: Walk, watch: Watch, limit: int, place: Sequence[Any]
) -> tuple[int, list[Any] | None, list[int]]:
    values: dict[str, Any] = dict(zip(way.key, place, strict=True))
    values |= {f"{state}": watch.since.get(state) for state in way.states}
    if way.statement == "walk_put_off":  # those that are due later concern nobody who does not ask for ages
        latest = max((watch.since[state] for state in way.states if state in watch.since), default=-1)
        values["last"] = latest if watch.due is None else _FOR_EVER
    where = ledger.fragment(way.where) if way.where else ""
    return _walked.decode(ledger.ask(way.statement, where, **values, limit=limit, due=watch.due))
