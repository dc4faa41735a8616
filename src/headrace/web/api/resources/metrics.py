"""Metrics: how the store does now, and how it did."""

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
table = Table("metrics", "Metrics: how the store does now, and how it did.")


def _span(text: str) -> float | str:
    """Seconds, or words for it."""
    return float(text) if _SECONDS.fullmatch(text) else text


class Window(Struct, frozen=True):
    """How far back: `90`, `15m`, `1h30m`."""

    window: str = "60"


class SeriesQuery(Struct, frozen=True, kw_only=True):
    """A metric over a window, a point for each step."""

    queue: str | None = None
    task: str | None = None
    worker: str | None = None
    window: str = "1h"
    step: str | None = None
    until: datetime | None = None


class TasksQuery(Struct, frozen=True, kw_only=True):
    """The tasks of a queue, or of all."""

    queue: str | None = None
    window: str = "1h"
    limit: Limit = 10


class DaysQuery(Struct, frozen=True, kw_only=True):
    """How many days back, of a queue, of a task, or of all."""

    count: Limit = 7
    queue: str | None = None
    task: str | None = None


@table.get("/metrics")
def system(visit: RequestContext, query: Window) -> MetricsSnapshot:
    """How the store does: what became of jobs in the window, by queue, task and worker, and what waits."""
    return visit.app.metrics.snapshot(_span(query.window))


@table.get("/metrics/queues")
def queues(visit: RequestContext, query: Window) -> list[QueueMetrics]:
    """How each queue does."""
    return visit.app.metrics.snapshot(_span(query.window)).queues


@table.get("/metrics/queues/{queue}")
def queue(visit: RequestContext, queue: str, query: Window) -> QueueMetrics:
    """How one queue does."""
    for found in visit.app.metrics.snapshot(_span(query.window)).queues:
        if found.queue == queue:
            return found
    raise QueueNotFound(queue, ", or nothing was measured of it")


@table.get("/metrics/tasks")
def tasks(visit: RequestContext, query: TasksQuery) -> list[TaskMetrics]:
    """Tasks with the most failed attempts first, and then the busiest."""
    return visit.app.metrics.tasks(query.queue, window=_span(query.window), limit=query.limit)


@table.get("/metrics/days")
def days(visit: RequestContext, query: DaysQuery) -> list[DayMetrics]:
    """What became of jobs on the last days, in UTC, today last."""
    return visit.app.metrics.days(query.count, queue=query.queue, task=query.task)


@table.get("/metrics/series/{name}")
def series(visit: RequestContext, name: str, query: SeriesQuery) -> MetricSeries:
    """A metric over time, such as `throughput`, `error_rate`, `wait_p95` or `depth`."""
    return visit.app.metrics.series(
        name,
        queue=query.queue,
        task=query.task,
        worker=query.worker,
        window=_span(query.window),
        step=None if query.step is None else _span(query.step),
        until=query.until,
    )
