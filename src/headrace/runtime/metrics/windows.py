"""Metrics over time for many figures at once: each window is read and summed once."""

from __future__ import annotations

from collections.abc import Container, Mapping

from headrace.core.metrics import buckets, values
from headrace.core.metrics.buckets import DAY, HOUR, Resolution, width_within
from headrace.core.metrics.catalog import METRICS
from headrace.core.metrics.cells import EMPTY, MetricCell
from headrace.runtime.metrics.reader import MetricsReader

_LABELS = ("queue", "task", "worker")
_Who = tuple[str | None, ...]  # queue, task and worker; None for all of them
_Shape = tuple[bool, ...]  # which of them are grouped by


class _Span:
    """The cells within a time, summed for a grouping at its first use."""

    def __init__(self, cells: list[tuple[_Who, MetricCell]], began: int) -> None:
        self._cells = cells
        self.began = began
        self._sums: dict[_Shape, dict[_Who, MetricCell]] = {}

    def grouped(self, shape: _Shape) -> dict[_Who, MetricCell]:
        """By queue, by task, by both, by worker, or in total."""
        if shape not in self._sums:
            sums: dict[_Who, MetricCell] = {}
            of_workers = shape[2]
            for who, cell in self._cells:
                if of_workers == (who[2] is not None):
                    key = tuple(name if is_grouped else None for name, is_grouped in zip(who, shape, strict=True))
                    known = sums.get(key)
                    sums[key] = cell if known is None else known.plus(cell)
            self._sums[shape] = sums
        return self._sums[shape]


class WindowedMetrics:
    """Figures of one store at one moment, without later or uncounted events."""

    def __init__(self, reader: MetricsReader, now: int) -> None:
        self._reader = reader
        self._now = now
        self._spans: dict[tuple[bool, int, int], _Span] = {}

    def value(self, name: str, labels: Mapping[str, str], window: int) -> float | None:
        """A metric over the last so many milliseconds; None without any data."""
        if name in values.GAUGED:
            return self._reader.value(name, queue=labels.get("queue"), window=window)
        since, span = self._recent(window, of_archive=name in values.OF_ARCHIVE)
        cell = span.grouped(_shape(labels)).get(_who(labels), EMPTY)
        return values.counted(name, cell, (self._now - since) / 1000)

    def baseline(self, name: str, labels: Mapping[str, str], window: int) -> float | None:
        """The usual value: the metric over the last day, without the current hour; None without any data.

        A count is scaled to such a window.
        """
        if name in values.GAUGED:
            return self._reader.baseline(name, queue=labels.get("queue"))
        end = HOUR.start(self._now)
        span = self._within(HOUR, max(end - DAY, 0), end - 1, of_archive=name in values.OF_ARCHIVE)
        cell = span.grouped(_shape(labels)).get(_who(labels))
        lasted = end - span.began
        usual = None if cell is None else values.counted(name, cell, lasted / 1000)
        return usual * window / lasted if usual is not None and METRICS[name].is_count else usual

    def labels(self, per: tuple[str, ...], window: int) -> list[dict[str, str]]:
        """The queues, tasks or workers, or pairs of them, with any data in this time."""
        _, span = self._recent(window, of_archive=False)
        found = span.grouped(_shape(per))
        named = sorted(
            who for who in found if all(name for name, is_grouped in zip(who, _shape(per), strict=True) if is_grouped)
        )
        return [{label: str(who[_LABELS.index(label)]) for label in per} for who in named]

    def _recent(self, window: int, *, of_archive: bool) -> tuple[int, _Span]:
        width = width_within(window)
        since = buckets.since(width, window, self._now)
        return since, self._within(width, since, self._now, of_archive=of_archive)

    def _within(self, width: Resolution, since: int, until: int, *, of_archive: bool) -> _Span:
        key = (of_archive, width.span, since)
        if key not in self._spans:
            self._spans[key] = (self._archived if of_archive else self._worked)(width, since, until)
        return self._spans[key]

    def _worked(self, width: Resolution, since: int, until: int) -> _Span:
        """The cells of jobs, by queue and task, and by worker."""
        jobs = list(self._reader.jobs(width, since, until))
        cells: list[tuple[_Who, MetricCell]] = [
            ((*place, None), cell) for _, some in jobs for place, cell in some.items()
        ]
        for _, workers in self._reader.workers(width, since, until):
            cells += [((None, None, name), cell) for name, cell in workers.items()]
        return _Span(cells, min((start for start, _ in jobs), default=until))

    def _archived(self, width: Resolution, since: int, until: int) -> _Span:
        """The cell of retention runs, which has no queue."""
        found = list(self._reader.retention_runs(width, since, until))
        everywhere: _Who = (None, None, None)
        return _Span([(everywhere, cell) for _, cell in found], min((start for start, _ in found), default=until))


def _who(labels: Mapping[str, str]) -> _Who:
    return tuple(labels.get(label) for label in _LABELS)


def _shape(labels: Container[str]) -> _Shape:
    return tuple(label in labels for label in _LABELS)
