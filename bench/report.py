"""The report of a run: a plain table for people, JSON for programs that compare runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.rounds import Failure, Row

_HEAD = ("", "median", "", "lowest – highest", "goal", "")


class Absence(msgspec.Struct, frozen=True):
    """A peer that was not measured, or not to the end, and why."""

    engine: str
    peer: str
    reason: str


class Report(msgspec.Struct, frozen=True):
    """Everything a run found out."""

    facts: dict[str, str]
    rows: list[Row]
    failures: list[Failure]
    absences: list[Absence]

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    def as_text(self) -> str:
        width = max(map(len, self.facts))
        facts = [f"{name:<{width}}  {value}" for name, value in self.facts.items()]
        absent = [f"{gone.peer} on {gone.engine} not measured: {gone.reason}" for gone in self.absences]
        failed = [f"\n{failure.measure} on {failure.engine} failed: {failure.error}" for failure in self.failures]
        return "\n".join([*facts, *_table(self.rows), "", *absent, *failed])


def _table(rows: Sequence[Row]) -> Iterable[str]:
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    place = ""
    yield ""
    yield _line(_HEAD, widths)
    for row in rows:
        if f"{row.engine}: {row.measure}" != place:
            place = f"{row.engine}: {row.measure}"
            yield f"\n{place}"
        yield _line(_cells(row), widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    title, median, unit, span, goal, verdict = cells
    a, b, c, d, e, _ = widths
    return f"  {title:<{a}}  {median:>{b}} {unit:<{c}}  {span:>{d}}  {goal:<{e}}  {verdict}".rstrip()


def _cells(row: Row) -> tuple[str, str, str, str, str, str]:
    span = f"{_number(min(row.values))} – {_number(max(row.values))}" if len(row.values) > 1 else ""
    goal = f"{row.goal.kind} {row.goal.value:g}" if row.goal else ""
    return row.title, _number(row.median), row.unit, span, goal, row.verdict


def _number(value: float) -> str:
    """Three digits that mean something, thousands set apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
