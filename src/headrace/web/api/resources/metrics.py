"""Metrics of the store, current and past."""

from __future__ import annotations

import re
from datetime import datetime

from msgspec import Struct

from headrace.app.metrics.records import DayMetrics, MetricSeries, MetricsSnapshot, QueueMetrics, TaskMetrics
from headrace.core.metrics.scaling import StoreScale
from headrace.errors import QueueNotFound
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Limit
from headrace.web.security.middleware import RequestContext

_SECONDS = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)
table = Table("metrics", "Metrics of the store, current and past.")


def _window(text: str) -> float | str:
    """A duration: seconds, or a text such as `15m`."""
    return float(text) if _SECONDS.fullmatch(text) else text


class WindowQuery(Struct, frozen=True):
    """The window: `90`, `15m`, `1h30m`."""

    window: str = "60"


class ScaleQuery(Struct, frozen=True, kw_only=True):
    """The wait to aim for, by default that of the settings, and the window of rates and run times."""

    target_wait: str | None = None
    window: str = "300"


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
def system(context: RequestContext, query: WindowQuery) -> MetricsSnapshot:
    """Return throughput, errors and times of the window by queue, task and worker, and the waiting jobs."""
    return context.app.metrics.snapshot(_window(query.window))


@table.get("/metrics/queues")
def queues(context: RequestContext, query: WindowQuery) -> list[QueueMetrics]:
    """Return the metrics of each queue."""
    return context.app.metrics.snapshot(_window(query.window)).queues


@table.get("/metrics/queues/{queue}")
def queue(context: RequestContext, queue: str, query: WindowQuery) -> QueueMetrics:
    """Return the metrics of one queue."""
    for found in context.app.metrics.snapshot(_window(query.window)).queues:
        if found.queue == queue:
            return found
    raise QueueNotFound(queue, ", or it has no metrics")


@table.get("/metrics/scale")
def scale(context: RequestContext, query: ScaleQuery) -> StoreScale:
    """Return how many workers each queue wants, and how many seconds it is behind."""
    target_wait = None if query.target_wait is None else _window(query.target_wait)
    return context.app.metrics.scale(target_wait=target_wait, window=_window(query.window))


@table.get("/metrics/tasks")
def tasks(context: RequestContext, query: TasksQuery) -> list[TaskMetrics]:
    """Return the metrics of tasks: most failed attempts first, then the busiest."""
    return context.app.metrics.tasks(query.queue, window=_window(query.window), limit=query.limit)


@table.get("/metrics/days")
def days(context: RequestContext, query: DaysQuery) -> list[DayMetrics]:
    """Return daily totals in UTC, today last."""
    return context.app.metrics.days(query.count, queue=query.queue, task=query.task)


@table.get("/metrics/series/{name}")
def series(context: RequestContext, name: str, query: SeriesQuery) -> MetricSeries:
    """Return a metric over time, such as `throughput`, `error_rate`, `wait_p95` or `depth`."""
    return context.app.metrics.series(
        name,
        queue=query.queue,
        task=query.task,
        worker=query.worker,
        window=_window(query.window),
        step=None if query.step is None else _window(query.step),
        until=query.until,
    )
