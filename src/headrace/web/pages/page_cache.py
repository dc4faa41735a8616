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
from headrace.app.queues.queues import QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.clock import Clock, to_datetime
from headrace.core.jobs.records import QueueRow
from headrace.core.jobs.states import State
from headrace.errors import EngineUnavailable, HeadraceError

T = TypeVar("T")
_FRESH = 1.0  # seconds
_REST = 3.0  # multiple of the time it took
_QUICK = 0.05  # seconds a request waits for a new value while an old one exists
_PATIENCE = 0.1  # and for all optional figures of a page together
_THREADS = 4
_FINISH = 5.0  # seconds that a read may take while the app closes
_MOST_CURVES = 500
_FOREVER = 3600.0
_OLDEST = 15.0  # seconds after which a page shows the age of a value


class CachedReading(Struct, frozen=True):
    """A value and its time; `away` if the store has been unavailable since, `late` if it is old and being refreshed."""

    value: Any
    at: datetime
    away: bool = False
    late: bool = False


class CachedValue(Generic[T]):
    """One shared value, read in a pool thread once for all concurrent requests."""

    def __init__(self, read: Callable[[], T], clock: Clock, pool: Executor, fresh: float = _FRESH) -> None:
        self._read = read
        self._clock = clock
        self._pool = pool
        self._fresh = fresh
        self._lock = threading.Lock()
        self._seen: CachedReading | None = None
        self._taken = 0.0
        self._cost = 0.0
        self._taking: Future[CachedReading] | None = None

    def get(self) -> CachedReading:
        """The value, refreshed when it is older than its cost allows."""
        seen = self.glimpse(None)
        assert seen is not None
        return seen

    def glimpse(self, patience: float | None) -> CachedReading | None:
        """The same; None if there is no value yet and reading takes longer than these seconds."""
        with self._lock:
            seen, age = self._seen, time.monotonic() - self._taken
            if seen is not None and not seen.away and age < max(self._fresh, _REST * self._cost):
                return seen
            if self._taking is None:
                self._taking = self._pool.submit(self._take)
            taking = self._taking
            if seen is not None and age < _OLDEST and (seen.away or self._cost > _QUICK):
                return seen  # the next request sees the new one
            if seen is not None and age < _FOREVER:
                seen = structs.replace(seen, late=age >= _OLDEST)
                patience = _PATIENCE if patience is None else min(patience, _PATIENCE)
        try:
            return taking.result(patience)
        except TimeoutError:
            return seen

    def finish(self) -> None:
        """Wait for the read that is under way, if there is one."""
        with self._lock:
            taking = self._taking
        if taking is not None:
            with contextlib.suppress(TimeoutError):  # of a store that does not answer
                taking.exception(_FINISH)

    def last(self) -> CachedReading | None:
        """The last value, however old. It does not query the store."""
        with self._lock:
            return self._seen

    def age(self) -> float:
        """The age of the value in seconds; 0 if it was never read, or is invalidated."""
        with self._lock:
            is_prompt = self._seen is not None and self._fresh <= _FRESH
            return min(time.monotonic() - self._taken, _FOREVER) if is_prompt else 0.0

    def forget(self) -> None:
        """Invalidate the value after a change."""
        with self._lock:
            self._taken = float("-inf")

    def _take(self) -> CachedReading:
        began = time.monotonic()
        seen = None
        try:
            seen = CachedReading(self._read(), _moment(self._clock))
        except EngineUnavailable:
            if self._seen is None:
                raise
            seen = CachedReading(self._seen.value, self._seen.at, away=True)
        finally:
            with self._lock:
                self._taking = None
                if seen is not None:
                    self._seen, self._taken, self._cost = seen, began, time.monotonic() - began
        return seen


class PageCache:
    """The cache of one app. Each request has its own view, which tracks the values it has used."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(_THREADS, "headrace-glance")
        # One thread: reading figures first aggregates new events, and two threads would aggregate the same ones.
        self._figures = ThreadPoolExecutor(1, "headrace-figures")
        self._curves: dict[tuple[object, ...], CachedValue[Any]] = {}
        self._others: dict[tuple[object, ...], CachedValue[Any]] = {}
        self._metrics: CachedValue[MetricsSnapshot] = CachedValue(app.metrics.snapshot, app.clock, self._figures)
        self._queues: CachedValue[list[QueueStats]] = CachedValue(app.queues, app.clock, self._pool)
        self._workers: CachedValue[list[WorkerInfo]] = CachedValue(app.workers, app.clock, self._pool)
        self._alerts: CachedValue[list[Alert]] = CachedValue(app.alerts.active, app.clock, self._pool)
        self._used: set[CachedValue[Any]] = set()
        app.background_reads.add(self)
        self._until: float | None = None  # deadline of this request for all figures
        self.counted_at: datetime | None = None  # set if this request used an old count

    def of_visit(self) -> PageCache:
        """A view of the cache for one more request."""
        page_cache = copy.copy(self)
        page_cache._used, page_cache._until, page_cache.counted_at = set(), None, None
        return page_cache

    def _see(self, look: CachedValue[T]) -> T:
        return self._shown(look, look.get())

    def _shown(self, look: CachedValue[T], seen: CachedReading) -> T:
        self._used.add(look)
        if seen.late:
            self.counted_at = seen.at
        return cast(T, seen.value)

    def _glimpse(self, look: CachedValue[T]) -> T | None:
        self._used.add(look)
        if self._until is None:
            self._until = time.monotonic() + _PATIENCE
        # Otherwise a dozen charts would each wait while the first aggregates a backlog.
        seen = look.glimpse(max(self._until - time.monotonic(), 0.0))
        return None if seen is None else self._shown(look, seen)

    def begin(self) -> None:
        """Start counting the common values in the background."""
        with contextlib.suppress(HeadraceError):  # the first request reports an unavailable store
            self._queues.glimpse(0.0)

    def prepare(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> None:
        """Start reading values that the request needs soon."""
        self._until = self._until or time.monotonic() + _PATIENCE
        self._other(read, given, fresh).glimpse(0.0)

    def queues(self) -> list[QueueStats]:
        seen: list[QueueStats] = self._see(self._queues)
        return list(seen)

    def counted(self) -> list[QueueStats] | None:
        """The same, optional; None during the first count of a large store."""
        return self._glimpse(self._queues)

    def names(self) -> list[QueueRow]:
        """Names of queues and whether they are paused, without counts."""
        return sorted(self.shared(self._app.engine.queries.queues), key=lambda row: row.name)

    def workers(self) -> list[WorkerInfo]:
        seen: list[WorkerInfo] = self._see(self._workers)
        return list(seen)

    def alerts(self) -> list[Alert]:
        """The firing alerts, most severe first."""
        seen: list[Alert] = self._see(self._alerts)
        return list(seen)

    def metrics(self) -> MetricsSnapshot | None:
        """The metrics of the last minute; None while they are aggregated, which is slow after a pause."""
        return self._glimpse(self._metrics)

    def series(self, metric: str, window: str, **where: str | None) -> MetricSeries | None:
        """One metric over time, shared by equal requests; None as for metrics."""
        read: Callable[[], MetricSeries] = functools.partial(
            self._app.metrics.series, metric, window=window, queue=where.get("queue"), worker=where.get("worker")
        )
        return self._shared((metric, window, *sorted(where.items())), read)

    def tasks(self, queue: str) -> list[TaskMetrics] | None:
        """The tasks of a queue in the last hour, most failures first; None as for metrics."""
        return self._shared(("tasks", queue), lambda: self._app.metrics.tasks(queue, limit=8))

    def _shared(self, key: tuple[object, ...], read: Callable[[], T]) -> T | None:
        return self._glimpse(self._look(self._curves, key, read, self._figures, fresh=5.0))

    def shared(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> T:
        """The cached return value of a method of the app, shared by equal calls."""
        seen: T = self._see(self._other(read, given, fresh))
        return seen

    def soon(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> T | None:
        """The same for slow methods: None during the first call."""
        return self._glimpse(self._other(read, given, fresh))

    def _other(self, read: Callable[..., T], given: tuple[object, ...], fresh: float) -> CachedValue[T]:
        key = (getattr(read, "__qualname__", ""), *given)
        return self._look(self._others, key, functools.partial(read, *given), self._pool, fresh)

    def _look(
        self,
        known: dict[tuple[object, ...], CachedValue[Any]],
        key: tuple[object, ...],
        read: Callable[[], T],
        pool: Executor,
        fresh: float,
    ) -> CachedValue[T]:
        if (look := known.get(key)) is None:
            if len(known) >= _MOST_CURVES:
                known.clear()
            look = known[key] = CachedValue(read, self._app.clock, pool, fresh)
        return look

    def away_since(self) -> datetime | None:
        """When the store last responded, if it is unavailable now."""
        seen = self._queues.glimpse(0.0)
        return seen.at if seen is not None and seen.away else None

    def last_totals(self) -> tuple[dict[str, int], datetime] | None:
        """The last count of jobs by state, and its time; None without one."""
        seen = self._queues.last()
        return None if seen is None else (totals(seen.value), seen.at)

    def age(self) -> float:
        """The age of the oldest count this request used. A client that knows of a newer change asks again."""
        return max((look.age() for look in self._used), default=0.0)

    def forget(self) -> None:
        for look in self._looks():
            look.forget()

    def finish(self) -> None:
        for look in [*self._looks(), *self._curves.values()]:
            look.finish()

    def _looks(self) -> list[CachedValue[Any]]:
        return [self._metrics, self._alerts, self._queues, self._workers, *self._others.values()]


def totals(queues: Sequence[QueueStats]) -> dict[str, int]:
    """The number of jobs in each state, over all queues."""
    return {state.value: sum(getattr(stats, state) for stats in queues) for state in State}


def _moment(clock: Clock) -> datetime:
    moment = to_datetime(clock.now())
    assert moment is not None
    return moment
