"""Finds, lists and counts jobs in a SQL database, along the plan of search_plan.py."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from headrace.core.jobs.count import JobCount
from headrace.core.jobs.records import Filter, JobRow, JobRowPage
from headrace.core.jobs.states import State
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.decisions import position
from headrace.engines.shared.sql_files import as_json, most
from headrace.engines.sql.search_plan import (
    IndexSource,
    has_only_states_and_queue,
    indexes_of_states,
    plan_of,
    scan_limit_of,
)
from headrace.engines.sql.transaction import Database, Transaction

_rows = Rows(JobRow)
_numbers = msgspec.json.Decoder(list[int])

FEW = 2000  # jobs that can be looked up one by one and sorted in some milliseconds
_BEGINNING, _END = 0, 1 << 62  # in the order of submission
_ANY_NUMBER = 1 << 62
_ORDERS = ("tag", "flow")  # indexes in which jobs are in the order of submission
_FIELDS = ("queue", "task", "worker", "since", "until", "tag", "text", "flow")


def find(
    database: Database, which: Filter, limit: int, cursor: str | None, reach: int | None, light: bool
) -> JobRowPage:
    """The page after the cursor; see the protocol."""
    before = position(cursor)
    rows, floor = database.read(lambda tx: Search(tx, which, light).page(limit + 1, before, reach))
    if len(rows) > limit:
        return JobRowPage(rows[:limit], str(rows[limit - 1].seq))
    return JobRowPage(rows, None if floor is None else str(floor))


def count(database: Database, which: Filter) -> int:
    """The exact number, however long it takes."""
    return database.read(lambda tx: Search(tx, which).count())


def count_up_to(database: Database, which: Filter, reach: int) -> JobCount:
    """The number as far as the search gets; see the protocol."""
    return database.read(lambda tx: Search(tx, which).count_up_to(reach))


class Search:
    """One search in one transaction."""

    def __init__(self, tx: Transaction, which: Filter, light: bool = False) -> None:
        self._tx = tx
        self._light = light
        self._which = which
        self._plan = plan_of(which)
        self._values: dict[str, Any] = {name: value for name in _FIELDS if (value := getattr(which, name)) is not None}
        if which.ids:
            self._values["ids"] = as_json(which.ids)

    def page(self, limit: int, before: int | None, reach: int | None) -> tuple[list[JobRow], int | None]:
        """The newest matching jobs, and where the search stopped, None if at the end."""
        start = _END if before is None else before
        few = self._few()
        if few is not None:
            seqs = as_json([number for number in few if number < start])
            return self._rows("numbers", self._which, limit, seqs=seqs), None
        floor = None if reach is None else self._floor(start, reach)
        way = {"before": start, "floor": _BEGINNING if floor is None else floor}
        return self._rows(self._plan.walk, self._plan.left, limit, **way), floor

    def count(self) -> int:
        which = self._which
        if which == Filter():
            return int(self._tx.fetch("count_all"))
        if has_only_states_and_queue(which):
            return sum(self._held(source, _ANY_NUMBER) for source in indexes_of_states(which))
        return self._counted(self._plan.walk, self._plan.left, before=_END, floor=_BEGINNING)

    def count_up_to(self, reach: int) -> JobCount:
        if self._plan.is_straight and self._plan.walk != "id":
            return self._sum((IndexSource(self._plan.walk),), reach)
        few = self._few()
        if few is not None:
            return JobCount(self._counted("numbers", self._which, seqs=as_json(few)), True)
        lower_bound = (
            self._sum(indexes_of_states(self._which), reach)
            if has_only_states_and_queue(self._which)
            else JobCount(0, False)
        )
        if lower_bound.is_exact or lower_bound.jobs >= reach:
            return lower_bound
        floor = self._floor(_END, reach)
        way = {"before": _END, "floor": _BEGINNING if floor is None else floor}
        found = self._counted(self._plan.walk, self._plan.left, **way)
        return JobCount(max(found, lower_bound.jobs), floor is None)

    # -- small sets

    def _few(self) -> list[int] | None:
        """The numbers of a small set that includes all matching jobs; None if every set is too large."""
        if self._which.queue is not None and not self._tx.fetch("is_queue", queue=self._which.queue):
            return []  # a queue exists from its first job on
        return next((few for few in map(self._numbers_of, self._plan.sets) if few is not None), None)

    def _numbers_of(self, sources: tuple[IndexSource, ...]) -> list[int] | None:
        numbers: list[int] = []
        for source in sources:
            held, values = self._tx.fragment(f"in_{source.name}"), {**self._values, "state": source.state}
            numbers += _numbers.decode(self._tx.fetch("seqs_of", held, **values, limit=FEW + 1 - len(numbers)))
            if len(numbers) > FEW:
                return None
        return numbers

    def _held(self, source: IndexSource, limit: int, *, meant: bool = True) -> int:
        """How many jobs of an index match, or exist at all; at most `limit`."""
        conditions = self._conditions(self._which) if meant and not source.is_exact else []
        held = " AND ".join([self._tx.fragment(f"in_{source.name}"), *conditions])
        values = {**self._values, "state": source.state}
        return int(self._tx.fetch("count", f"({held}) AS held", **values, limit=limit))

    def _sum(self, sources: tuple[IndexSource, ...], reach: int) -> JobCount:
        """How many jobs of these indexes match, skipping an index with too many other jobs."""
        found, is_exact = 0, True
        for source in sources:
            if source.is_exact or self._held(source, reach + 1, meant=False) <= reach:
                found += self._held(source, reach + 1 - found)
            else:
                is_exact = False
            if found > reach:
                return JobCount(reach, False)
        return JobCount(found, is_exact)

    # -- the walk

    def _floor(self, before: int, reach: int) -> int | None:
        """The number of the last job to read; None if all can be read, or all match."""
        if self._plan.is_straight or self._plan.walk == "id":
            return None
        held = self._tx.fragment(f"in_{self._plan.walk}")
        scan_limit = scan_limit_of(self._plan.walk, reach)
        found = self._tx.fetch("lowest_seq", held, **self._values, before=before, reach=scan_limit)
        return None if found is None else int(found)

    def _rows(self, way: str, left: Filter, limit: int, **values: Any) -> list[JobRow]:
        order = self._tx.fragment(f"newest_by_{way if way in _ORDERS else 'number'}")
        text = f"{self._along(way, left)} {order}"
        how = {"limit": limit, "most": most(self._light)}
        return _rows.decode(self._tx.fetch("find", text, **self._values, **values, **how))

    def _counted(self, way: str, left: Filter, **values: Any) -> int:
        return int(self._tx.fetch("count", self._along(way, left), **self._values, **values, limit=_ANY_NUMBER))

    def _along(self, way: str, left: Filter) -> str:
        return " AND ".join([self._tx.fragment(f"by_{way}"), *self._conditions(left)])

    def _conditions(self, left: Filter) -> list[str]:
        """The conditions on each job. States are literals from our own enumeration."""
        given = [name for name in _FIELDS if getattr(left, name) is not None]
        conditions = [self._tx.fragment("where_tagged" if name == "tag" else f"where_{name}") for name in given]
        return [*conditions, in_states(left.states)] if left.states else conditions


def in_states(states: Collection[State]) -> str:
    """A condition on the state, in literals: a partial index is considered only if it follows from the text."""
    listed = ", ".join(f"'{State(state).value}'" for state in states)
    return f"job.state = {listed}" if len(states) == 1 else f"job.state IN ({listed})"
