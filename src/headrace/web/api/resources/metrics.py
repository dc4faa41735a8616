"""Metrics of the store, current and past."""

from __future__ import annotations

import re
from datetime import datetime

from msgspec import Struct

from headrace.app.metrics.records import DayMetrics, MetricSeries, MetricsSnapshot, QueueMetrics, TaskMetrics
from headrace.errors import QueueNotFound
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Limit
from headrace.web.security.middleware import RequestContext

_SECONDS = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)
table = Table("metrics", "Metrics of the store, current and past.")


def _span(text: str) -> float | str:
    """A duration: seconds, or a text such as `15m`."""
    return float(text) if _SECONDS.fullmatch(text) else text


class Window(Struct, frozen=True):
    """The window: `90`, `15m`, `1h30m`."""

    window: str = "60"


class SeriesQuery(Struct, frozen=True, kw_only=True):
    """A metric over a window, with one point per step."""

    queue: str | None = None
    task: str | None = None
    worker: str | None = None
    window: str = "1h"
    step: str | None = None
    until: datetime | None = None


class TasksQuery(Struct, frozen=True, kw_only=True):
    """Filters of tasks."""

    queue: str | None = None
    window: str = "1h"
    limit: Limit = 10


class DaysQuery(Struct, frozen=True, kw_only=True):
    """The number of days, and a queue or a task."""

    count: Limit = 7
    queue: str | None = None
    task: str | None = None


@table.get("/metrics")
def system(visit: RequestContext, query: Window) -> MetricsSnapshot:
    """Return throughput, errors and times of the window by queue, task and worker, and the waiting jobs."""
    return visit.app.metrics.snapshot(_span(query.window))


@table.get("/metrics/queues")
def queues(visit: RequestContext, query: Window) -> list[QueueMetrics]:
    """Return the metrics of each queue."""
    return visit.app.metrics.snapshot(_span(query.window)).queues


@table.get("/metrics/queues/{queue}")
def queue(visit: RequestContext, queue: str, query: Window) -> QueueMetrics:
    """Return the metrics of one queue."""
    for found in visit.app.metrics.snapshot(_span(query.window)).queues:
        if found.queue == queue:
            return found
    raise QueueNotFound(queue, ", or it has no metrics")


@table.get("/metrics/tasks")
def tasks(visit: RequestContext, query: TasksQuery) -> list[TaskMetrics]:
    """Return the metrics of tasks: most failed attempts first, then the busiest."""
    return visit.app.metrics.tasks(query.queue, window=_span(query.window), limit=query.limit)


@table.get("/metrics/days")
def days(visit: RequestContext, query: DaysQuery) -> list[DayMetrics]:
    """Return daily totals in UTC, today last."""
    return visit.app.metrics.days(query.count, queue=query.queue, task=query.task)


@table.get("/metrics/series/{name}")
def series(visit: RequestContext, name: str, query: SeriesQuery) -> MetricSeries:
    """Return a metric over time, such as `throughput`, `error_rate`, `wait_p95` or `depth`."""
    return visit.app.metrics.series(
        name,
        queue=query.queue,
        task=query.task,
        worker=query.worker,
        window=_span(query.window),
        step=None if query.step is None else _span(query.step),
        until=query.until,
    )
