"""Records of `app.metrics`. Times are in seconds.

A value is None without data: a share of nothing, a quantile of no durations, a gauge never read.
"""

from __future__ import annotations

from datetime import date, datetime

from msgspec import Struct

from headrace.core.metrics.cells import MetricCell
from headrace.core.metrics.values import counted, duration


class MetricDurations(Struct, frozen=True, kw_only=True):
    """How long something took: mean, shortest, longest and quantiles, which are within 5 %."""

    avg: float | None = None
    min: float | None = None
    max: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class MetricFigures(Struct, frozen=True, kw_only=True):
    """Metrics of jobs within a time.

    `failed` are jobs that failed for good, `errors` failed attempts, `retried` failed attempts whose job is retried.
    Rates are per second. `error_rate` is the share of failed attempts, `attempts_avg` the number of attempts of a job
    that completed or failed. `retry_success` is the share of completed jobs among those that ended after more than one
    attempt. `wait` is the time from when a job could run to its start, `run` from there to the end of the attempt.
    """

    enqueued: int
    started: int
    completed: int
    failed: int
    retried: int
    cancelled: int
    errors: int
    throughput: float
    enqueue_rate: float
    failure_rate: float
    error_rate: float | None
    attempts_avg: float | None
    retry_success: float | None
    wait: MetricDurations
    run: MetricDurations


class TaskMetrics(Struct, frozen=True, kw_only=True):
    """Metrics of one task in one queue."""

    task: str
    queue: str
    figures: MetricFigures


class WorkerMetrics(Struct, frozen=True, kw_only=True):
    """Metrics of one worker."""

    worker: str
    figures: MetricFigures


class QueueMetrics(Struct, frozen=True, kw_only=True):
    """Metrics and depth of a queue.

    `depth` is the number of jobs by open state. `oldest` is the age of the oldest pending job. `eta` is the
    seconds until the queue is empty at the current rates, None if it does not shrink.
    """

    queue: str
    figures: MetricFigures
    depth: dict[str, int]
    oldest: float
    workers: int
    eta: float | None


class MetricsSnapshot(Struct, frozen=True, kw_only=True):
    """Metrics of a store: those of the last `window` seconds, and the gauges read at `sampled_at`.

    `clients` are the connections of its server, None for a file.
    """

    at: datetime
    window: float
    total: MetricFigures
    queues: list[QueueMetrics]
    tasks: list[TaskMetrics]
    workers: list[WorkerMetrics]
    depth: dict[str, int]
    oldest: float | None
    workers_alive: int | None
    dead: int | None
    stale: int | None
    schedule_misses: float | None
    store_bytes: int | None
    busy: float | None
    clients: int | None
    schedules: int | None
    sampled_at: datetime | None


class MetricPoint(Struct, frozen=True):
    """The value of a metric for the step that begins at this moment."""

    at: datetime
    value: float | None


class MetricSeries(Struct, frozen=True, kw_only=True):
    """A metric over time, oldest point first; `step` is the seconds per point."""

    name: str
    step: float
    points: list[MetricPoint]
    queue: str | None = None
    task: str | None = None
    worker: str | None = None


class DayMetrics(Struct, frozen=True, kw_only=True):
    """A day in UTC. `max_depth` is the maximum of pending jobs."""

    day: date
    figures: MetricFigures
    max_depth: int | None
    queue: str | None = None
    task: str | None = None


def figures_of(cell: MetricCell, seconds: float) -> MetricFigures:
    """The metrics of a cell that spans so many seconds."""
    return MetricFigures(
        enqueued=cell.enqueued,
        started=cell.started,
        completed=cell.completed,
        failed=cell.failed,
        retried=cell.retried,
        cancelled=cell.cancelled,
        errors=cell.errors,
        throughput=cell.completed / seconds,
        enqueue_rate=cell.enqueued / seconds,
        failure_rate=cell.failed / seconds,
        error_rate=counted("error_rate", cell, seconds),
        attempts_avg=counted("attempts_avg", cell, seconds),
        retry_success=counted("retry_success", cell, seconds),
        wait=MetricDurations(**{how: duration(cell.wait, how) for how in MetricDurations.__struct_fields__}),
        run=MetricDurations(**{how: duration(cell.run, how) for how in MetricDurations.__struct_fields__}),
    )
