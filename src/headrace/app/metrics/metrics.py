"""`app.metrics`: current and past metrics, and baselines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args

from headrace.app.metrics.records import (
    DayMetrics,
    MetricFigures,
    MetricPoint,
    MetricSeries,
    MetricsSnapshot,
    QueueMetrics,
    TaskMetrics,
    WorkerMetrics,
    figures_of,
)
from headrace.app.services.services import Services
from headrace.core.clock import instant_ms
from headrace.core.durations import window_ms
from headrace.core.jobs.states import OPEN, State
from headrace.core.metrics import buckets
from headrace.core.metrics import values as metric_values
from headrace.core.metrics.buckets import DAY
from headrace.core.metrics.cells import EMPTY, MetricCell, add, total
from headrace.core.metrics.gauges import STORE, Gauge, Gauges
from headrace.core.metrics.scaling import StoreScale
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_limit, check_queue, check_task_name
from headrace.core.text import short
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, InvalidJob
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.metrics.queries import Place
from headrace.runtime.metrics.reader import Label, MetricsReader
from headrace.runtime.metrics.scaling import read_scale

Window = float | str | timedelta
_MAX_DAYS = 366


class Metrics:
    """`app.metrics`."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings
        self._reader_of: tuple[Engine, MetricsReader] | None = None

    @property
    def _reader(self) -> MetricsReader:
        """The reader of the app's current store."""
        if self._reader_of is None or self._reader_of[0] is not self._services.engine:
            self._reader_of = self._services.engine, MetricsReader(self._services.engine, self._settings)
        return self._reader_of[1]

    # -- now

    def snapshot(self, window: Window = 60.0) -> MetricsSnapshot:
        """Throughput, errors and times of the window by queue, task and worker, and the waiting jobs."""
        span = window_ms("window", window)
        now = self._reader.catch_up()
        since, jobs = self._jobs(span, now)
        seconds = (now - since) / 1000
        read = self._reader.latest_gauges(now)
        gauges = {} if read is None else read[1]
        everything = total(jobs.values())
        return MetricsSnapshot(
            at=_moment(now),
            window=span / 1000,
            total=figures_of(everything, seconds),
            queues=_queues(jobs, gauges, seconds),
            tasks=_tasks(jobs, seconds),
            workers=self._workers(span, now),
            depth=_depth(gauges.get(STORE, {})),
            oldest=None if read is None else metric_values.reading(gauges, "oldest", None).last,
            workers_alive=_whole(gauges, "workers"),
            dead=_whole(gauges, "dead"),
            stale=_whole(gauges, "stale"),
            schedule_misses=metric_values.counted("schedule_misses", everything, seconds),
            store_bytes=_whole(gauges, "store_bytes"),
            busy=metric_values.gauged("busy", None, [gauges] if gauges else []),
            clients=_whole(gauges, "clients"),
            schedules=_whole(gauges, "schedules"),
            sampled_at=None if read is None else _moment(read[0]),
        )

    def scale(self, *, target_wait: Window | None = None, window: Window = 300.0) -> StoreScale:
        """How many workers each queue, and all together, want so that jobs wait no longer than this, and the waits now.

        The default of `target_wait` is the setting. Rates and run times are those of the window; where nothing ran in
        it, those of the last day.
        """
        wait = self._settings.target_wait if target_wait is None else window_ms("target_wait", target_wait) / 1000
        return read_scale(self._services.engine, self._reader, self._settings, wait, window_ms("window", window))

    def tasks(self, queue: str | None = None, *, window: Window = 3600.0, limit: int = 10) -> list[TaskMetrics]:
        """The tasks of a queue, or of all: most failed attempts first, then the busiest."""
        span, most = window_ms("window", window), check_limit("limit", limit)
        now = self._reader.catch_up()
        since, jobs = self._jobs(span, now, _queue(queue))
        return _tasks(jobs, (now - since) / 1000)[:most]

    def by_task(self, *, window: Window = 3600.0) -> dict[str, MetricFigures]:
        """The metrics of each task over all queues, by name."""
        span = window_ms("window", window)
        now = self._reader.catch_up()
        since, jobs = self._jobs(span, now)
        by_task: dict[str, MetricCell] = {}
        for (_, task), cell in jobs.items():
            add(by_task, {task: cell} if task else {})
        return {name: figures_of(by_task[name], (now - since) / 1000) for name in sorted(by_task)}

    def value(
        self,
        name: str,
        *,
        queue: str | None = None,
        task: str | None = None,
        worker: str | None = None,
        window: Window = 60.0,
    ) -> float | None:
        """A metric over the window or, for a gauge, its current value; None without data."""
        return self._reader.value(name, queue=queue, task=task, worker=worker, window=window_ms("window", window))

    def baseline(
        self, name: str, *, queue: str | None = None, task: str | None = None, worker: str | None = None
    ) -> float | None:
        """The baseline of a metric: its value over the last day without the current hour; None without data."""
        return self._reader.baseline(name, queue=queue, task=task, worker=worker)

    def labels(self, label: Label, *, window: Window = 3600.0) -> list[str]:
        """The names of each "queue", "task" or "worker" with metrics in this time."""
        if label not in get_args(Label):
            raise InvalidJob(f"label: expected queue, task or worker, got {short(label)}", value=label)
        return self._reader.labels(label, window=window_ms("window", window))

    def prometheus(self, accept: str = "", *, tasks: int = 200) -> tuple[str, bytes]:
        """All metrics in a Prometheus format: the content type, by what the client accepts, and the text.

        Only the busiest `tasks` tasks have their own lines; the others of a queue are summed as "all others".
        """
        most = check_limit("tasks", tasks)
        try:  # deferred: an extra, and many never need it
            from headrace.app.metrics.prometheus import exposition
        except ImportError as error:
            raise ConfigError(
                f"metrics for Prometheus need a package ({error}); install it: pip install 'headrace[web]'"
            ) from None
        now, ever = self.snapshot(), dict[Place, MetricCell]()
        for _, cells in self._reader.jobs(buckets.EVER, 0, 1):
            add(ever, cells)
        retention_run = total(cell for _, cell in self._reader.retention_runs(buckets.EVER, 0, 1))
        return exposition(ever, retention_run, now, self.scale(), accept, most)

    # -- over time

    def series(
        self,
        name: str,
        *,
        queue: str | None = None,
        task: str | None = None,
        worker: str | None = None,
        window: Window = 3600.0,
        step: Window | None = None,
        until: datetime | None = None,
    ) -> MetricSeries:
        """A metric over time: a point per `step`, by default about a hundredth of the window.

        Steps are multiples of ten seconds, aligned in UTC; the last one may be incomplete.
        """
        metric_values.check_metric(name, queue=queue, task=task, worker=worker)
        span = window_ms("window", window)
        size = buckets.checked_step(buckets.usual_step(span) if step is None else window_ms("step", step), span)
        now = self._reader.catch_up()
        end = now if until is None else min(_instant("until", until) - 1, now)
        first = max(end + 1 - span, 0) // size * size
        values = (
            self._gauged(name, _queue(queue), first, end, size)
            if name in metric_values.GAUGED
            else self._tallied(name, first, end, size, queue=_queue(queue), task=task, worker=worker)
        )
        points = [MetricPoint(_moment(start), values.get(start)) for start in range(first, end + 1, size)]
        return MetricSeries(name=name, step=size / 1000, points=points, queue=queue, task=task, worker=worker)

    def _tallied(self, name: str, first: int, end: int, size: int, **which: str | None) -> dict[int, float | None]:
        cells: defaultdict[int, list[MetricCell]] = defaultdict(list)
        for start, cell in self._reader.cells_of(name, buckets.width_for(size), first, end, **which):
            cells[start // size * size].append(cell)
        spans = {start: max(min(start + size, end) - start, 1000) / 1000 for start in range(first, end + 1, size)}
        return {start: metric_values.summed(name, cells[start], seconds) for start, seconds in spans.items()}

    def _gauged(self, name: str, queue: str | None, first: int, end: int, size: int) -> dict[int, float | None]:
        found: defaultdict[int, list[Gauges]] = defaultdict(list)
        for start, gauges in self._reader.gauges(buckets.width_for(size), first, end):
            found[start // size * size].append(gauges)
        return {start: metric_values.gauged(name, queue, some) for start, some in found.items()}

    def totals(self, day: date | str | None = None, *, queue: str | None = None, task: str | None = None) -> DayMetrics:
        """The totals of a day in UTC, by default today; kept for 90 days by default."""
        chosen = _day(day, self._services.clock.now())
        [found] = self._days(chosen, 1, _queue(queue), task)
        return found

    def days(self, count: int = 7, *, queue: str | None = None, task: str | None = None) -> list[DayMetrics]:
        """The totals of each of the last days in UTC, today last."""
        most = check_limit("count", count)
        if most > _MAX_DAYS:
            raise InvalidJob(f"count: {most} days are more than {_MAX_DAYS}", value=most)
        return self._days(_day(None, self._services.clock.now()) - timedelta(days=most - 1), most, _queue(queue), task)

    def _days(self, first: date, count: int, queue: str | None, task: str | None) -> list[DayMetrics]:
        if task is not None:
            check_task_name(task)
        now, since = self._reader.catch_up(), _midnight(first)
        until = since + count * DAY - 1
        cells: defaultdict[int, MetricCell] = defaultdict(MetricCell)
        queue_counts: dict[int, float] = {}
        for start, cell in self._reader.cells(buckets.HOUR, since, until, queue=queue, task=task, worker=None):
            cells[start // DAY] = cells[start // DAY].plus(cell)
        for start, gauges in self._reader.gauges(buckets.HOUR, since, until):
            most = metric_values.reading(gauges, "depth_max", queue).most
            queue_counts[start // DAY] = max(queue_counts.get(start // DAY, 0.0), most)
        return [
            DayMetrics(
                day=first + timedelta(days=number),
                figures=figures_of(cells[place], max(min(DAY, now - place * DAY), 1000) / 1000),
                max_depth=round(queue_counts[place]) if place in queue_counts and task is None else None,
                queue=queue,
                task=task,
            )
            for number, place in enumerate(range(since // DAY, since // DAY + count))
        ]

    # -- sums

    def _jobs(self, window: int, now: int, queue: str | None = None) -> tuple[int, dict[Place, MetricCell]]:
        """The start of the window, and the counts of jobs by queue and task."""
        width = buckets.width_within(window)
        since, found = buckets.since(width, window, now), dict[Place, MetricCell]()
        for _, cells in self._reader.jobs(width, since, now, queue):
            add(found, cells)
        return since, found

    def _workers(self, window: int, now: int) -> list[WorkerMetrics]:
        width = buckets.width_within(window)
        since, found = buckets.since(width, window, now), dict[str, MetricCell]()
        for _, cells in self._reader.workers(width, since, now):
            add(found, cells)
        seconds = (now - since) / 1000
        return [WorkerMetrics(worker=name, figures=figures_of(found[name], seconds)) for name in sorted(found)]

    asnapshot = twin(snapshot)
    ascale = twin(scale)
    atasks = twin(tasks)
    aby_task = twin(by_task)
    avalue = twin(value)
    abaseline = twin(baseline)
    alabels = twin(labels)
    aprometheus = twin(prometheus)
    aseries = twin(series)
    atotals = twin(totals)
    adays = twin(days)


def _queues(jobs: Mapping[Place, MetricCell], gauges: Gauges, seconds: float) -> list[QueueMetrics]:
    by_queue: dict[str, MetricCell] = {}
    for (queue, _), cell in jobs.items():
        add(by_queue, {queue: cell})
    names = sorted({*by_queue, *gauges} - {STORE})
    return [_queue_figures(name, by_queue.get(name, EMPTY), gauges.get(name, {}), seconds) for name in names]


def _queue_figures(name: str, cell: MetricCell, gauges: Mapping[str, Gauge], seconds: float) -> QueueMetrics:
    figures, depth = figures_of(cell, seconds), _depth(gauges)
    finish_rate = (cell.completed + cell.failed + cell.cancelled) / seconds
    return QueueMetrics(
        queue=name,
        figures=figures,
        depth=depth,
        oldest=gauges["oldest"].last if "oldest" in gauges else 0.0,
        workers=round(gauges["workers"].last) if "workers" in gauges else 0,
        eta=metric_values.seconds_to_drain(depth["pending"], figures.enqueue_rate, finish_rate),
    )


def _tasks(jobs: Mapping[Place, MetricCell], seconds: float) -> list[TaskMetrics]:
    named = {place: cell for place, cell in jobs.items() if place[1]}
    return [
        TaskMetrics(task=place[1], queue=place[0], figures=figures_of(named[place], seconds))
        for place in metric_values.worst_first(named)
    ]


def _depth(gauges: Mapping[str, Gauge]) -> dict[str, int]:
    return {state.value: round(gauges[state].last) if state in gauges else 0 for state in State if state in OPEN}


def _whole(gauges: Gauges, name: str) -> int | None:
    found = gauges.get(STORE, {}).get(name)
    return None if found is None else round(found.last)


# -- arguments


def _queue(name: str | None) -> str | None:
    return None if name is None else check_queue("queue", name)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _instant(name: str, value: Any) -> int:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidJob(f"{name}: expected a datetime with a time zone, got {short(value)}", value=value)
    return max(instant_ms(value), 1)


def _midnight(day: date) -> int:
    return instant_ms(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _day(value: Any, now: int) -> date:
    if value is None:
        return _moment(now).date()
    if isinstance(value, datetime):
        raise InvalidJob(f"day: expected a date, got {short(value)}: which day it is depends on the zone", value=value)
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidJob(f"day: expected a date such as '2026-03-01', got {short(value)}", value=value) from None
