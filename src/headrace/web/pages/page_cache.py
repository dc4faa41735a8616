"""A short-lived cache of expensive counts, shared by all requests.

Counting a million jobs takes too long for a page. So a count is kept for at least a second, and for a multiple of the
time it took; while an old one exists, no request waits for a new one, and the page shows its age. While the store is
unavailable, the last count is shown with its time.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct, structs

from headrace.app.alerts.records import Alert
from headrace.app.app import Headrace
from headrace.app.metrics.records import MetricSeries, MetricsSnapshot, TaskMetrics
from headrace.app.metrics.task_stats import TaskStats
from headrace.app.queues.queues import QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.clock import Clock, to_datetime
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.states import State
from headrace.errors import EngineUnavailable, HeadraceError

T = TypeVar("T")
_DEFAULT_MAX_AGE = 1.0  # seconds
_AGE_PER_READ_TIME = 3.0  # multiple of the time it took
_QUICK_READ = 0.05  # seconds a request waits for a new value while an old one exists
_TIMEOUT = 0.1  # and for all optional values of a page together
_THREADS = 4
_FINISH = 5.0  # seconds that a read may take while the app closes
_MAX_ENTRIES = 500
_EXPIRES_AFTER = 3600.0
_SHOW_AGE_AFTER = 15.0  # seconds after which a page shows the age of a value


class CachedReading(Struct, frozen=True):
    """A value and its time; `unavailable` if the store has been so since, `old` if it is old and being refreshed."""

    value: Any
    at: datetime
    unavailable: bool = False
    old: bool = False


class CachedValue(Generic[T]):
    """One shared value, read in a pool thread once for all concurrent requests."""

    def __init__(self, read: Callable[[], T], clock: Clock, pool: Executor, max_age: float = _DEFAULT_MAX_AGE) -> None:
        self._read = read
        self._clock = clock
        self._pool = pool
        self._max_age = max_age
        self._lock = threading.Lock()
        self._reading: CachedReading | None = None
        self._read_at = 0.0
        self._read_time = 0.0
        self._pending: Future[CachedReading] | None = None

    def get(self) -> CachedReading:
        """The value, refreshed when it is older than its cost allows."""
        reading = self.get_within(None)
        assert reading is not None
        return reading

    def get_within(self, timeout: float | None) -> CachedReading | None:
        """The same; None if there is no value yet and reading takes longer than these seconds."""
        with self._lock:
            reading, age = self._reading, time.monotonic() - self._read_at
            if (
                reading is not None
                and not reading.unavailable
                and age < max(self._max_age, _AGE_PER_READ_TIME * self._read_time)
            ):
                return reading
            if self._pending is None:
                self._pending = self._pool.submit(self._refresh)
            pending = self._pending
            if reading is not None and age < _SHOW_AGE_AFTER and (reading.unavailable or self._read_time > _QUICK_READ):
                return reading  # the next request sees the new one
            if reading is not None and age < _EXPIRES_AFTER:
                reading = structs.replace(reading, old=age >= _SHOW_AGE_AFTER)
                timeout = _TIMEOUT if timeout is None else min(timeout, _TIMEOUT)
        try:
            return pending.result(timeout)
        except TimeoutError:
            return reading

    def finish(self) -> None:
        """Wait for the read that is under way, if there is one."""
        with self._lock:
            pending = self._pending
        if pending is not None:
            with contextlib.suppress(TimeoutError):  # the store does not answer
                pending.exception(_FINISH)

    def last(self) -> CachedReading | None:
        """The last value, however old. It does not query the store."""
        with self._lock:
            return self._reading

    def age(self) -> float:
        """The age of the value in seconds; 0 if it was never read, or is invalidated."""
        with self._lock:
            has_age = self._reading is not None and self._max_age <= _DEFAULT_MAX_AGE
            return min(time.monotonic() - self._read_at, _EXPIRES_AFTER) if has_age else 0.0

    def invalidate(self) -> None:
        """Invalidate the value after a change."""
        with self._lock:
            self._read_at = float("-inf")

    def _refresh(self) -> CachedReading:
        started = time.monotonic()
        reading = None
        try:
            reading = CachedReading(self._read(), _moment(self._clock))
        except EngineUnavailable:
            if self._reading is None:
                raise
            reading = CachedReading(self._reading.value, self._reading.at, unavailable=True)
        finally:
            with self._lock:
                self._pending = None
                if reading is not None:
                    self._reading, self._read_at, self._read_time = reading, started, time.monotonic() - started
        return reading


class PageCache:
    """The cache of one app. Each request has its own view, which tracks the values it has used."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(_THREADS, "headrace-counts")
        # One thread: reading metrics first aggregates new events, and two threads would aggregate the same ones.
        self._metrics_pool = ThreadPoolExecutor(1, "headrace-metrics")
        self._series: dict[tuple[object, ...], CachedValue[Any]] = {}
        self._calls: dict[tuple[object, ...], CachedValue[Any]] = {}
        self._metrics: CachedValue[MetricsSnapshot] = CachedValue(app.metrics.snapshot, app.clock, self._metrics_pool)
        self._queues: CachedValue[list[QueueStats]] = CachedValue(app.queues, app.clock, self._pool)
        self._workers: CachedValue[list[WorkerInfo]] = CachedValue(app.workers, app.clock, self._pool)
        self._alerts: CachedValue[list[Alert]] = CachedValue(app.alerts.active, app.clock, self._pool)
        self._used: set[CachedValue[Any]] = set()
        app.background_reads.add(self)
        self._deadline: float | None = None  # deadline of this request for all metrics
        self.counted_at: datetime | None = None  # set if this request used an old count

    def for_request(self) -> PageCache:
        """A view of the cache for one more request."""
        page_cache = copy.copy(self)
        page_cache._used, page_cache._deadline, page_cache.counted_at = set(), None, None
        return page_cache

    def _value(self, cached: CachedValue[T]) -> T:
        return self._used_value(cached, cached.get())

    def _used_value(self, cached: CachedValue[T], reading: CachedReading) -> T:
        self._used.add(cached)
        if reading.old:
            self.counted_at = reading.at
        return cast(T, reading.value)

    def _value_within(self, cached: CachedValue[T]) -> T | None:
        self._used.add(cached)
        if self._deadline is None:
            self._deadline = time.monotonic() + _TIMEOUT
        # Otherwise a dozen charts would each wait while the first aggregates a backlog.
        reading = cached.get_within(max(self._deadline - time.monotonic(), 0.0))
        return None if reading is None else self._used_value(cached, reading)

    def start_counting(self) -> None:
        """Start counting the common values in the background."""
        with contextlib.suppress(HeadraceError):  # the first request reports an unavailable store
            self._queues.get_within(0.0)

    def prepare(self, read: Callable[..., T], *given: object, max_age: float = _DEFAULT_MAX_AGE) -> None:
        """Start reading values that the request needs soon."""
        self._deadline = self._deadline or time.monotonic() + _TIMEOUT
        self._cached_call(read, given, max_age).get_within(0.0)

    def queues(self) -> list[QueueStats]:
        value: list[QueueStats] = self._value(self._queues)
        return list(value)

    def queues_or_none(self) -> list[QueueStats] | None:
        """The same, optional; None during the first count of a large store."""
        return self._value_within(self._queues)

    def queue_rows(self) -> list[QueueRow]:
        """Names of queues and whether they are paused, without counts."""
        return sorted(self.shared(self._app.engine.queries.rules).queues, key=lambda row: row.name)

    def workers(self) -> list[WorkerInfo]:
        value: list[WorkerInfo] = self._value(self._workers)
        return list(value)

    def alerts(self) -> list[Alert]:
        """The firing alerts, most severe first."""
        value: list[Alert] = self._value(self._alerts)
        return list(value)

    def metrics(self) -> MetricsSnapshot | None:
        """The metrics of the last minute; None while they are aggregated, which is slow after a pause."""
        return self._value_within(self._metrics)

    def series(self, metric: str, window: str, **where: str | None) -> MetricSeries | None:
        """One metric over time, shared by equal requests; None as for metrics."""
        read: Callable[[], MetricSeries] = functools.partial(
            self._app.metrics.series, metric, window=window, queue=where.get("queue"), worker=where.get("worker")
        )
        return self._shared_metrics((metric, window, *sorted(where.items())), read)

    def tasks(self, queue: str) -> list[TaskMetrics] | None:
        """The tasks of a queue in the last hour, most failures first; None as for metrics."""
        return self._shared_metrics(("tasks", queue), lambda: self._app.metrics.tasks(queue, limit=8))

    def task_stats(self) -> list[TaskStats] | None:
        """Each task with its numbers; None as for metrics."""
        read = self._app.task_stats
        return self._value_within(self._cached(self._calls, ("task_stats",), read, self._metrics_pool, max_age=5.0))

    def _shared_metrics(self, key: tuple[object, ...], read: Callable[[], T]) -> T | None:
        return self._value_within(self._cached(self._series, key, read, self._metrics_pool, max_age=5.0))

    def shared(self, read: Callable[..., T], *given: object, max_age: float = _DEFAULT_MAX_AGE) -> T:
        """The cached return value of a method of the app, shared by equal calls."""
        value: T = self._value(self._cached_call(read, given, max_age))
        return value

    def shared_or_none(self, read: Callable[..., T], *given: object, max_age: float = _DEFAULT_MAX_AGE) -> T | None:
        """The same for slow methods: None during the first call."""
        return self._value_within(self._cached_call(read, given, max_age))

    def _cached_call(self, read: Callable[..., T], given: tuple[object, ...], max_age: float) -> CachedValue[T]:
        key = (getattr(read, "__qualname__", ""), *given)
        return self._cached(self._calls, key, functools.partial(read, *given), self._pool, max_age)

    def _cached(
        self,
        entries: dict[tuple[object, ...], CachedValue[Any]],
        key: tuple[object, ...],
        read: Callable[[], T],
        pool: Executor,
        max_age: float,
    ) -> CachedValue[T]:
        if (cached := entries.get(key)) is None:
            if len(entries) >= _MAX_ENTRIES:
                entries.clear()
            cached = entries[key] = CachedValue(read, self._app.clock, pool, max_age)
        return cached

    def unavailable_since(self) -> datetime | None:
        """When the store last responded, if it is unavailable now."""
        reading = self._queues.get_within(0.0)
        return reading.at if reading is not None and reading.unavailable else None

    def last_totals(self) -> tuple[dict[str, int], datetime] | None:
        """The last count of jobs by state, and its time; None without one."""
        reading = self._queues.last()
        return None if reading is None else (totals(reading.value), reading.at)

    def age(self) -> float:
        """The age of the oldest count this request used. A client that knows of a newer change asks again."""
        return max((cached.age() for cached in self._used), default=0.0)

    def invalidate(self) -> None:
        for cached in self._all_cached():
            cached.invalidate()

    def finish(self) -> None:
        for cached in [*self._all_cached(), *self._series.values()]:
            cached.finish()

    def _all_cached(self) -> list[CachedValue[Any]]:
        return [self._metrics, self._alerts, self._queues, self._workers, *self._calls.values()]


def totals(queues: Sequence[QueueStats]) -> dict[str, int]:
    """The number of jobs in each state, over all queues."""
    return {state.value: sum(getattr(stats, state) for stats in queues) for state in State}


def _moment(clock: Clock) -> datetime:
    moment = to_datetime(clock.now())
    assert moment is not None
    return moment
