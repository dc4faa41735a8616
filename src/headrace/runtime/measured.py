"""What was measured while jobs ran, for who asks for many figures at once: each window is read and added up once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.core import buckets, figures
from headrace.core.buckets import DAY, HOUR, Width, width_within
from headrace.core.tally import EMPTY, Cell
from headrace.runtime.meter import Meter

_LATELY = 3_600_000  # of what is listed
_Who = tuple[str | None, str | None, str | None]  # queue, task and worker; None for all of them
_LABELS = ("queue", "task", "worker")


class _Sums(NamedTuple):
    """What happened within a time, for every queue and task, for every worker, and for any of them."""

    cells: dict[_Who, Cell]
    began: int


class Measured:
    """Figures of one store at one moment. Events that came later, or are not counted yet, are not in them."""

    def __init__(self, meter: Meter, now: int) -> None:
        self._meter = meter
        self._now = now
        self._sums: dict[tuple[int, int], _Sums] = {}

    def value(self, name: str, labels: Mapping[str, str], window: int) -> float | None:
        """A metric over the last so many milliseconds; None without any data."""
        if name in figures.GAUGED:
            return self._meter.value(name, queue=labels.get("queue"), window=window)
        width = width_within(window)
        since = buckets.since(width, window, self._now)
        sums = self._within(width, since, self._now)
        return figures.tallied(name, sums.cells.get(_who(labels), EMPTY), (self._now - since) / 1000)

    def baseline(self, name: str, labels: Mapping[str, str]) -> float | None:
        """What is usual: the metric over the last day, without the hour that is not over; None without any data."""
        if name in figures.GAUGED:
            return self._meter.baseline(name, **{label: labels.get(label) for label in _LABELS})
        until = HOUR.start(self._now)
        sums = self._within(HOUR, max(until - DAY, 0), until)
        cell = sums.cells.get(_who(labels))
        return None if cell is None else figures.tallied(name, cell, (until - sums.began) / 1000)

    def labels(self, per: tuple[str, ...]) -> list[dict[str, str]]:
        """The queues, tasks or workers, or pairs of them, of which anything was counted lately."""
        sums = self._within(width_within(_LATELY), self._now - _LATELY, self._now)
        wanted = [_LABELS.index(label) for label in per if label in _LABELS]
        named = [who for who in sums.cells if [place for place in range(3) if who[place] is not None] == sorted(wanted)]
        return [{_LABELS[place]: who[place] or "" for place in wanted} for who in sorted(named, key=str)]

    def _within(self, width: Width, since: int, until: int) -> _Sums:
        key = (width.span, since)
        if key not in self._sums:
            self._sums[key] = self._added_up(width, since, until)
        return self._sums[key]

    def _added_up(self, width: Width, since: int, until: int) -> _Sums:
        cells: dict[_Who, Cell] = {}
        began = until
        for start, jobs in self._meter.jobs(width, since, until):
            began = min(began, start)
            for (queue, task), cell in jobs.items():
                _add(cells, cell, ((queue, task, None), (queue, None, None), (None, task, None), (None, None, None)))
        for _, workers in self._meter.workers(width, since, until):
            for worker, cell in workers.items():
                _add(cells, cell, ((None, None, worker),))
        return _Sums(cells, began)


def _add(cells: dict[_Who, Cell], cell: Cell, whom: Iterable[_Who]) -> None:
    for who in whom:
        known = cells.get(who)
        cells[who] = cell if known is None else known.plus(cell)


def _who(labels: Mapping[str, str]) -> _Who:
    return labels.get("queue"), labels.get("task"), labels.get("worker")
