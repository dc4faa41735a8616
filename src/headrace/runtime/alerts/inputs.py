"""The inputs of alert rules: gauges of the store now, and metrics over time.

An instance serves one round and reads each value once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import structs

from headrace.core.alerts.expressions import USUAL_WINDOW
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.health import stalls
from headrace.core.health.findings import StoreFacts
from headrace.core.jobs.queue_rules import QueueRules, queue_rules
from headrace.core.jobs.records import QueueCount, WorkerRow
from headrace.core.jobs.states import NOT_STARTED, OPEN, State
from headrace.core.metrics.scaling import QueueScale, StoreScale
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.metrics.reader import MetricsReader
from headrace.runtime.metrics.scaling import read_scale
from headrace.runtime.metrics.windows import WindowedMetrics
from headrace.runtime.retention.last_run import last_run
from headrace.runtime.retention.staleness import StaleScanResult, last_scan

_MAX_DEAD_LETTERS = 200


class AlertInputs:
    """Reads the gauges of one store, and its metrics if they are collected."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._now = engine.clock.now()
        is_measured = settings.metrics and settings.events
        self._reader = MetricsReader(engine, settings)
        self._measured = WindowedMetrics(self._reader, self._now) if is_measured else None

    def value(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        if name.startswith("depth") and window is None:
            return self._depth(name, labels.get("queue"))
        if name in _OF_QUEUES:
            return _OF_QUEUES[name](self, labels.get("queue"))
        if name in _OF_STORE:
            return _OF_STORE[name](self)
        if name in ("dead", "dead_entered"):
            return self._dead_letters(labels, window)
        if self._measured is None:
            return None
        return self._measured.value(name, labels, window or USUAL_WINDOW)

    def baseline(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        return None if self._measured is None else self._measured.baseline(name, labels, window or USUAL_WINDOW)

    def labels(self, per: tuple[str, ...], window: int | None) -> list[dict[str, str]]:
        if per == ("queue",):
            return [{"queue": name} for name in sorted(self._queues)]
        if "reason" in per:
            return self._dead_letter_labels(per, window or USUAL_WINDOW)
        return [] if self._measured is None else self._measured.labels(per, window or USUAL_WINDOW)

    # -- gauges of the store

    @cached_property
    def _queue_counts(self) -> list[QueueCount]:
        return self._engine.queries.queue_counts(open_only=True)

    @cached_property
    def _queues(self) -> dict[str, QueueRules]:
        rows = self._engine.queries.rules().queues
        known = {row.name: queue_rules(row.rules) for row in rows}
        return {**{depth.queue: QueueRules() for depth in self._queue_counts}, **known}

    @cached_property
    def _workers(self) -> list[WorkerRow]:
        return self._engine.queries.workers()

    @cached_property
    def _facts(self) -> StoreFacts:
        return self._engine.maintenance.facts(self._now)

    def _jobs(self, states: frozenset[State], queue: str | None) -> float:
        return sum(one.jobs for one in self._queue_counts if one.state in states and queue in (None, one.queue))

    def _depth(self, name: str, queue: str | None) -> float:
        return self._jobs(frozenset((State(name.partition(".")[2] or "pending"),)), queue)

    def _oldest(self, queue: str | None) -> float:
        since = [
            one.oldest
            for one in self._queue_counts
            if one.state is State.PENDING and one.oldest is not None and queue in (None, one.queue)
        ]
        return max(self._now - min(since), 0) / 1000 if since else 0.0

    def _fullness(self, queue: str | None) -> float | None:
        """The fill level of the queue, or of the fullest one; None where no queue has a limit."""
        names = [*self._queues] if queue is None else [queue]
        limits = {name: rules.max_length for name in names if (rules := self._queues.get(name)) and rules.max_length}
        return max((self._jobs(NOT_STARTED, name) / most for name, most in limits.items()), default=None)

    def _alive(self, queue: str | None) -> float:
        return sum(not one.is_silent(self._now) and (queue is None or one.serves(queue)) for one in self._workers)

    @cached_property
    def _scale(self) -> StoreScale:
        return read_scale(self._engine, self._reader, self._settings, self._settings.target_wait)

    def _scale_of(self, queue: str | None) -> StoreScale | QueueScale | None:
        return next((one for one in self._scale.queues if one.queue == queue), None) if queue else self._scale

    def _wanted(self, queue: str | None) -> float | None:
        return None if (found := self._scale_of(queue)) is None else found.workers_wanted

    def _behind(self, queue: str | None) -> float | None:
        return None if (found := self._scale_of(queue)) is None else found.seconds_behind

    def _healthy(self) -> float | None:
        if not self._workers:
            return None
        stalled = {stall.worker for stall in stalls.decode_stalls(self._engine.document_store.get(stalls.KIND))}
        healthy = sum(not one.is_silent(self._now) and one.id not in stalled for one in self._workers)
        return healthy / len(self._workers)

    # -- dead letters

    def _dead_letters(self, labels: Mapping[str, str], window: int | None) -> float:
        """The pending ones or, with a window, the new ones in it."""
        filter = (
            DeadLetterFilter(statuses=("pending",)) if window is None else DeadLetterFilter(since=self._now - window)
        )
        return self._engine.dead_letters.count(structs.replace(filter, **labels))

    def _dead_letter_labels(self, per: tuple[str, ...], window: int) -> list[dict[str, str]]:
        """The labels of recent dead letters, which are few."""
        recent = DeadLetterFilter(since=self._now - window)
        rows = (
            self._engine.dead_letters.find(recent, _MAX_DEAD_LETTERS) if self._engine.dead_letters.count(recent) else []
        )
        found = {tuple(getattr(row, label) for label in per) for row in rows}
        return [dict(zip(per, values, strict=True)) for values in sorted(found)]

    # -- maintenance

    @cached_property
    def _stale_scan(self) -> StaleScanResult | None:
        return last_scan(self._engine)

    def _stale(self) -> float | None:
        return None if self._stale_scan is None else self._stale_scan.stale

    def _stale_share(self) -> float | None:
        stale, open_ = self._stale(), self._jobs(OPEN, None)
        return None if stale is None else stale / open_ if open_ else 0.0

    def _stale_errors(self) -> float | None:
        return None if self._stale_scan is None else float(self._stale_scan.error is not None)

    def _schedule_errors(self) -> float:
        return sum(row.error is not None for row in self._engine.schedule_store.get())

    def _archive_errors(self) -> float | None:
        last = last_run(self._engine.document_store)
        return None if last is None else float(last.error is not None)

    def _partition_errors(self) -> float:
        return float(self._facts.details.get("partitions_missing", 0))

    def _store_bytes(self) -> float | None:
        return float(self._facts.size)

    def _clients(self) -> float | None:
        return self._facts.clients

    def _schedules(self) -> float:
        return self._facts.schedules

    def _busy(self) -> float | None:
        return self._facts.busy

    def _store_share(self) -> float | None:
        own = self._settings.max_size
        limit = own * 2**20 if own else self._number("size_limit")
        return self._facts.size / limit if limit else None

    def _disk_free(self) -> float | None:
        return self._number("disk_free")

    def _number(self, name: str) -> float | None:
        value = self._facts.details.get(name)
        return float(value) if isinstance(value, int) else None


_OF_QUEUES: dict[str, Callable[[AlertInputs, str | None], float | None]] = {
    "oldest": AlertInputs._oldest,
    "fullness": AlertInputs._fullness,
    "workers": AlertInputs._alive,
    "workers_wanted": AlertInputs._wanted,
    "seconds_behind": AlertInputs._behind,
}
_OF_STORE: dict[str, Callable[[AlertInputs], float | None]] = {
    "workers_healthy": AlertInputs._healthy,
    "stale": AlertInputs._stale,
    "stale_share": AlertInputs._stale_share,
    "stale_errors": AlertInputs._stale_errors,
    "schedule_errors": AlertInputs._schedule_errors,
    "archive_errors": AlertInputs._archive_errors,
    "partition_errors": AlertInputs._partition_errors,
    "store_bytes": AlertInputs._store_bytes,
    "store_share": AlertInputs._store_share,
    "disk_free": AlertInputs._disk_free,
    "busy": AlertInputs._busy,
    "clients": AlertInputs._clients,
    "schedules": AlertInputs._schedules,
}
