"""What is expensive to count and shown everywhere, shared by all visits for a moment.

Counting a million jobs takes longer than a page may. So a count is kept for a second at least, and for some times as
long as it took; while an old one is there, nobody waits for a new one, and the page says how old it is. When the store
is away, the last one is shown, with its time.
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
_REST = 3.0  # times as long as it took
_QUICK = 0.05  # seconds that somebody may wait for a new value while there is an old one
_PATIENCE = 0.1  # and for all figures together that a page can do without
_THREADS = 4
_FINISH = 5.0  # seconds that a read may take while the app closes
_MOST_CURVES = 500
_FOREVER = 3600.0
_OLDEST = 15.0  # seconds after which a page has to say that a look is old, while the next is taken


class CachedReading(Struct, frozen=True):
    """What was seen, and when; `away` if the store could not be asked since, `late` if it is old and the next is on
    its way."""

    value: Any
    at: datetime
    away: bool = False
    late: bool = False


class CachedValue(Generic[T]):
    """One shared value. It is read in a thread of the pool, once for all who ask meanwhile."""

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
        """The value, not older than a moment, or than its cost demands."""
        seen = self.glimpse(None)
        assert seen is not None
        return seen

    def glimpse(self, patience: float | None) -> CachedReading | None:
        """The same; None if nothing is known yet and it takes longer than these seconds to find out."""
        with self._lock:
            seen, age = self._seen, time.monotonic() - self._taken
            if seen is not None and not seen.away and age < max(self._fresh, _REST * self._cost):
                return seen
            if self._taking is None:
                self._taking = self._pool.submit(self._take)
            taking = self._taking
            if seen is not None and age < _OLDEST and (seen.away or self._cost > _QUICK):
                return seen  # and whoever looks next sees the new one
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
        """What was seen last, however long ago. The store is not asked."""
        with self._lock:
            return self._seen

    def age(self) -> float:
        """For how many seconds the value has been known; 0 if nobody has asked for it, or if it may be old."""
        with self._lock:
            is_prompt = self._seen is not None and self._fresh <= _FRESH
            return min(time.monotonic() - self._taken, _FOREVER) if is_prompt else 0.0

    def forget(self) -> None:
        """After a change: the next one who asks wants to see it."""
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
    """What all pages share of one app. A visit has its own, which knows what that visit has looked at."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._pool = ThreadPoolExecutor(_THREADS, "headrace-glance")
        # One thread: whoever reads figures counts the newest events first, and two would count the same ones.
        self._figures = ThreadPoolExecutor(1, "headrace-figures")
        self._curves: dict[tuple[object, ...], CachedValue[Any]] = {}
        self._others: dict[tuple[object, ...], CachedValue[Any]] = {}
        self._metrics: CachedValue[MetricsSnapshot] = CachedValue(app.metrics.snapshot, app.clock, self._figures)
        self._queues: CachedValue[list[QueueStats]] = CachedValue(app.queues, app.clock, self._pool)
        self._workers: CachedValue[list[WorkerInfo]] = CachedValue(app.workers, app.clock, self._pool)
        self._alerts: CachedValue[list[Alert]] = CachedValue(app.alerts.active, app.clock, self._pool)
        self._used: set[CachedValue[Any]] = set()
        app.background_reads.add(self)
        self._until: float | None = None  # how long this visit waits for figures, from the first one on
        self.counted_at: datetime | None = None  # if this visit was shown an old count

    def of_visit(self) -> PageCache:
        """The same looks, for one more visit."""
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
        # One after the other, a dozen curves would each take their time while the first of them counts a backlog.
        seen = look.glimpse(max(self._until - time.monotonic(), 0.0))
        return None if seen is None else self._shown(look, seen)

    def begin(self) -> None:
        """Count what most pages show, behind whoever calls."""
        with contextlib.suppress(HeadraceError):  # a store that is away is the first visit's to tell
            self._queues.glimpse(0.0)

    def prepare(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> None:
        """Begin with what will be asked for `soon`, while the visit looks at something else."""
        self._until = self._until or time.monotonic() + _PATIENCE
        self._other(read, given, fresh).glimpse(0.0)

    def queues(self) -> list[QueueStats]:
        seen: list[QueueStats] = self._see(self._queues)
        return list(seen)

    def counted(self) -> list[QueueStats] | None:
        """The same where a page can do without; None while a large store is counted for the first time."""
        return self._glimpse(self._queues)

    def names(self) -> list[QueueRow]:
        """Queues as they are called and whether they are paused, where nobody asks how much is in them."""
        return sorted(self.shared(self._app.engine.queries.queues), key=lambda row: row.name)

    def workers(self) -> list[WorkerInfo]:
        seen: list[WorkerInfo] = self._see(self._workers)
        return list(seen)

    def alerts(self) -> list[Alert]:
        """Those that fire now, the gravest first."""
        seen: list[Alert] = self._see(self._alerts)
        return list(seen)

    def metrics(self) -> MetricsSnapshot | None:
        """The figures of the last minute; None while they are gathered, which takes a while after a rest."""
        return self._glimpse(self._metrics)

    def series(self, metric: str, window: str, **where: str | None) -> MetricSeries | None:
        """One metric over time, for all who look at the same curve; None as for metrics."""
        read: Callable[[], MetricSeries] = functools.partial(
            self._app.metrics.series, metric, window=window, queue=where.get("queue"), worker=where.get("worker")
        )
        return self._shared((metric, window, *sorted(where.items())), read)

    def tasks(self, queue: str) -> list[TaskMetrics] | None:
        """The tasks of a queue in the last hour, those that fail most first; None as for metrics."""
        return self._shared(("tasks", queue), lambda: self._app.metrics.tasks(queue, limit=8))

    def _shared(self, key: tuple[object, ...], read: Callable[[], T]) -> T | None:
        return self._glimpse(self._look(self._curves, key, read, self._figures, fresh=5.0))

    def shared(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> T:
        """Whatever else is worth sharing: what a method of the app returns, for all who ask for the same."""
        seen: T = self._see(self._other(read, given, fresh))
        return seen

    def soon(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> T | None:
        """The same of what may take longer than a page: None while it is being looked for the first time."""
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
        """When the store was last seen, if it can't be asked now."""
        seen = self._queues.glimpse(0.0)
        return seen.at if seen is not None and seen.away else None

    def last_totals(self) -> tuple[dict[str, int], datetime] | None:
        """How many jobs were in each state, and when, by the last count; None if there was none."""
        seen = self._queues.last()
        return None if seen is None else (totals(seen.value), seen.at)

    def age(self) -> float:
        """How old the oldest of the counts is that this visit has seen. Who knows of something newer asks again."""
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
    """How many jobs are in each state, over all queues."""
    return {state.value: sum(getattr(stats, state) for stats in queues) for state in State}


def _moment(clock: Clock) -> datetime:
    moment = to_datetime(clock.now())
    assert moment is not None
    return moment
