"""Reads metrics: one figure over a window, or the buckets that figures are made of.

A reader first counts the latest events, so that a figure is never older than the events of the store. This module does
not know what the figures are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from headrace.core.metrics import buckets, values
from headrace.core.metrics.buckets import DAY, HOUR, TEN_SECONDS, Resolution, width_within
from headrace.core.metrics.cells import MetricCell
from headrace.core.metrics.gauges import STORE, Gauges
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.metrics.collector import MetricsCollector
from headrace.runtime.metrics.queries import Place, gauges_in, jobs_in, retention_runs_in, sums_in, workers_in

Label = Literal["queue", "task", "worker"]
_LOOKBACK = 300_000  # a store that is slow to count is not sampled every ten seconds


class MetricsReader:
    """Reads the metrics of one store."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._collector = MetricsCollector(engine, settings) if settings.metrics else None

    def catch_up(self) -> int:
        """Count all events so far; returns the current time."""
        if self._collector is not None:
            self._collector.catch_up()
        return self._engine.clock.now()

    # -- one figure

    def value(
        self,
        name: str,
        *,
        queue: str | None = None,
        task: str | None = None,
        worker: str | None = None,
        window: int = 60_000,
    ) -> float | None:
        """A metric over the last so many milliseconds, or its last sample in them; None without any data."""
        values.check_metric(name, queue=queue, task=task, worker=worker)
        now = self.catch_up()
        if name in values.GAUGED:
            lookback = window if name == "depth_max" else max(window, _LOOKBACK)
            width = width_within(lookback)
            read = self.gauges(width, buckets.since(width, lookback, now), now)
            return values.gauged(name, queue, (found for _, found in read))
        width = width_within(window)
        since = buckets.since(width, window, now)
        cells = (cell for _, cell in self.cells_of(name, width, since, now, queue=queue, task=task, worker=worker))
        return values.summed(name, cells, (now - since) / 1000)

    def baseline(
        self, name: str, *, queue: str | None = None, task: str | None = None, worker: str | None = None
    ) -> float | None:
        """The usual value: the metric over the last day, without the current hour; None without any data."""
        values.check_metric(name, queue=queue, task=task, worker=worker)
        until = HOUR.start(self.catch_up()) - 1
        since = max(until + 1 - DAY, 0)
        if name in values.GAUGED:
            means = [values.mean_of(found, name, queue) for _, found in self.gauges(HOUR, since, until)]
            return sum(means) / len(means) if means else None
        found = list(self.cells_of(name, HOUR, since, until, queue=queue, task=task, worker=worker))
        if not found:
            return None
        began = min(start for start, _ in found)
        return values.summed(name, (cell for _, cell in found), (until - began) / 1000)

    def latest_gauges(self, now: int) -> tuple[int, Gauges] | None:
        """The last sample, and the start of its bucket; None if it is too old."""
        read = list(self.gauges(TEN_SECONDS, buckets.since(TEN_SECONDS, _LOOKBACK, now), now))
        return read[-1] if read else None

    def labels(self, label: Label, *, window: int = 3_600_000) -> list[str]:
        """The names of queues, tasks or workers with any data in this time."""
        now = self.catch_up()
        width = width_within(window)
        if label == "worker":
            found = {
                name for _, cells in workers_in(self._engine.document_store, width, now - window, now) for name in cells
            }
        else:
            place = 0 if label == "queue" else 1
            jobs = self.jobs(width, now - window, now)
            found = {where[place] for _, cells in jobs for where in cells}
        if label == "queue":
            found |= {name for _, gauges in self.gauges(width, now - window, now) for name in gauges}
        return sorted(found - {STORE})

    # -- buckets

    def cells_of(
        self, name: str, width: Resolution, since: int, until: int, **which: str | None
    ) -> Iterator[tuple[int, MetricCell]]:
        """The starts of buckets, and their cells for this metric."""
        if name in values.OF_ARCHIVE:
            return self.retention_runs(width, since, until)
        return self.cells(width, since, until, **which)

    def cells(
        self, width: Resolution, since: int, until: int, *, queue: str | None, task: str | None, worker: str | None
    ) -> Iterator[tuple[int, MetricCell]]:
        """The starts of buckets, and their cells for this queue, task or worker; for all without any."""
        if worker is not None:
            for start, workers in workers_in(self._engine.document_store, width, since, until):
                if worker in workers:
                    yield start, workers[worker]
            return
        if task is None:
            yield from sums_in(self._engine.document_store, width, since, until, queue)
            return
        for start, cells in self.jobs(width, since, until, queue, task):
            yield from ((start, cell) for cell in cells.values())

    def jobs(
        self, width: Resolution, since: int, until: int, queue: str | None = None, task: str | None = None
    ) -> Iterator[tuple[int, dict[Place, MetricCell]]]:
        return jobs_in(self._engine.document_store, width, since, until, queue, task)

    def workers(self, width: Resolution, since: int, until: int) -> Iterator[tuple[int, dict[str, MetricCell]]]:
        return workers_in(self._engine.document_store, width, since, until)

    def retention_runs(self, width: Resolution, since: int, until: int) -> Iterator[tuple[int, MetricCell]]:
        return retention_runs_in(self._engine.document_store, width, since, until)

    def gauges(self, width: Resolution, since: int, until: int) -> Iterator[tuple[int, Gauges]]:
        return gauges_in(self._engine.document_store, width, since, until)
