"""What is expensive to count and shown everywhere, shared by all visits for a moment.

Counting a million jobs takes longer than a page may. So a count is kept for a second at least, and for many times as
long as it took; while an old one is there, nobody waits for a new one. When the store is away, the last one is shown,
with its time.
"""

from __future__ import annotations

import copy
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct

from headrace.app.alert_records import Alert
from headrace.app.app import Headrace
from headrace.app.metric_records import MetricSeries, MetricsSnapshot
from headrace.app.queues import QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.clock import Clock, to_datetime
from headrace.errors import EngineUnavailable

T = TypeVar("T")
_FRESH = 1.0  # seconds
_REST = 10.0  # times as long as it took
_MOST_CURVES = 500
_FOREVER = 3600.0
_PATIENCE = 0.1  # seconds that a page waits for what it can do without
_OLDEST = 15.0  # seconds that a look which is not fresh may stand in while the next is taken


class Seen(Struct, frozen=True):
    """What was seen, and when; `away` if the store could not be asked since."""

    value: Any
    at: datetime
    away: bool = False


class Look(Generic[T]):
    """One shared value."""

    def __init__(self, read: Callable[[], T], clock: Clock, fresh: float = _FRESH) -> None:
        self._read = read
        self._fresh = fresh
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._taken = 0.0
        self._cost = 0.0
        self._taking: Future[Seen] | None = None

    def get(self) -> Seen:
        """The value, not older than a moment, or than its cost demands."""
        with self._lock:
            seen, age = self._seen, time.monotonic() - self._taken
            if seen is not None and not seen.away and age < max(self._fresh, _REST * self._cost):
                return seen
            taking, mine = self._taking, False
            if taking is None:
                taking, mine = Future(), True
                self._taking = taking
        if not mine:
            return seen if seen is not None and age < _OLDEST else taking.result()
        if seen is not None and not seen.away and age < _OLDEST and self._cost > 0.05:
            threading.Thread(target=self._take, args=(taking,), name="headrace-glance", daemon=True).start()
            return seen
        self._take(taking)
        return taking.result()

    def soon(self, patience: float) -> Seen | None:
        """The value, or an older one if a new one takes longer than that; None if there is none at all yet."""
        with self._lock:
            seen, age = self._seen, time.monotonic() - self._taken
            if seen is not None and not seen.away and age < max(self._fresh, _REST * self._cost):
                return seen
            if (taking := self._taking) is None:
                taking = self._taking = Future()
                threading.Thread(target=self._take, args=(taking,), name="headrace-glance", daemon=True).start()
        try:
            return taking.result(patience)
        except TimeoutError:
            return seen

    def age(self) -> float:
        """For how many seconds the value has been known; 0 if nobody has asked for it."""
        with self._lock:
            return 0.0 if self._seen is None else min(time.monotonic() - self._taken, _FOREVER)

    def forget(self) -> None:
        """After a change: the next one who asks wants to see it."""
        with self._lock:
            self._taken = float("-inf")

    def _take(self, taking: Future[Seen]) -> None:
        began = time.monotonic()
        try:
            seen = Seen(self._read(), _moment(self._clock))
        except EngineUnavailable as error:
            if self._seen is None:
                self._end(taking, None, began)
                taking.set_exception(error)
                return
            seen = Seen(self._seen.value, self._seen.at, away=True)
        except BaseException as error:
            self._end(taking, None, began)
            taking.set_exception(error)
            return
        self._end(taking, seen, began)
        taking.set_result(seen)

    def _end(self, taking: Future[Seen], seen: Seen | None, began: float) -> None:
        with self._lock:
            self._taking = None
            if seen is not None:
                self._seen, self._taken, self._cost = seen, began, time.monotonic() - began


class Glance:
    """What all pages share of one app. A visit has its own, which knows what that visit has looked at."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._curves: dict[tuple[object, ...], Look[MetricSeries]] = {}
        self._others: dict[tuple[object, ...], Look[Any]] = {}
        self._metrics: Look[MetricsSnapshot] = Look(app.metrics.snapshot, app.clock)
        self._queues: Look[list[QueueStats]] = Look(app.queues, app.clock)
        self._workers: Look[list[WorkerInfo]] = Look(app.workers, app.clock)
        self._alerts: Look[list[Alert]] = Look(app.alerts.active, app.clock)
        self._used: set[Look[Any]] = set()

    def of_visit(self) -> Glance:
        """The same looks, for one more visit."""
        glance = copy.copy(self)
        glance._used = set()
        return glance

    def _see(self, look: Look[T]) -> T:
        self._used.add(look)
        seen: T = look.get().value
        return seen

    def queues(self) -> list[QueueStats]:
        seen: list[QueueStats] = self._see(self._queues)
        return list(seen)

    def workers(self) -> list[WorkerInfo]:
        seen: list[WorkerInfo] = self._see(self._workers)
        return list(seen)

    def alerts(self) -> list[Alert]:
        """Those that fire now, the gravest first."""
        seen: list[Alert] = self._see(self._alerts)
        return list(seen)

    def metrics(self) -> MetricsSnapshot:
        """The figures of the last minute."""
        return self._see(self._metrics)

    def series(self, metric: str, window: str, **where: str | None) -> MetricSeries:
        """One metric over time, for all who look at the same curve."""
        key = (metric, window, *sorted(where.items()))
        if key not in self._curves:
            if len(self._curves) >= _MOST_CURVES:
                self._curves.clear()
            read: Callable[[], MetricSeries] = functools.partial(
                self._app.metrics.series, metric, window=window, queue=where.get("queue"), worker=where.get("worker")
            )
            self._curves[key] = Look(read, self._app.clock, fresh=5.0)
        seen: MetricSeries = self._curves[key].get().value  # a curve has its own pace: it is not asked for again
        return seen

    def shared(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> T:
        """Whatever else is worth sharing: what a method of the app returns, for all who ask for the same."""
        seen: T = self._see(self._other(read, given, fresh))
        return seen

    def soon(self, read: Callable[..., T], *given: object, fresh: float = _FRESH) -> T | None:
        """The same of what may take longer than a page: None while it is being looked for the first time."""
        look = self._other(read, given, fresh)
        self._used.add(look)
        seen = look.soon(_PATIENCE)
        return None if seen is None else seen.value

    def _other(self, read: Callable[..., T], given: tuple[object, ...], fresh: float) -> Look[T]:
        key = (getattr(read, "__qualname__", ""), *given)
        if key not in self._others:
            if len(self._others) >= _MOST_CURVES:
                self._others.clear()
            self._others[key] = Look(functools.partial(read, *given), self._app.clock, fresh)
        return self._others[key]

    def away_since(self) -> datetime | None:
        """When the store was last seen, if it can't be asked now."""
        seen = self._queues.get()
        return seen.at if seen.away else None

    def age(self) -> float:
        """How old the oldest of the counts is that this visit has seen. Who knows of something newer asks again."""
        return max((look.age() for look in self._used), default=0.0)

    def forget(self) -> None:
        looks: list[Look[Any]] = [self._metrics, self._alerts, self._queues, self._workers, *self._others.values()]
        for look in looks:
            look.forget()


def _moment(clock: Clock) -> datetime:
    moment = to_datetime(clock.now())
    assert moment is not None
    return moment
