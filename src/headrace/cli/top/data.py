"""Samples of the store for `headrace top`, and rates computed from them.

A sample is a few queries whose cost grows with queues and workers, not jobs. Rates come from the difference of two
samples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.app.app import Headrace
from headrace.app.jobs.arguments import arguments_line
from headrace.app.queues.queues import QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.clock import to_datetime
from headrace.core.jobs.states import FINAL, State
from headrace.core.tasks.arguments import line_of
from headrace.core.urls import redacted_url
from headrace.runtime.jobs.job import Job

_WINDOW = 10.0  # seconds over which rates are averaged
_JOBS = 20  # running jobs shown, the newest
_FAILURES = 10
_MAX_CALL = 60  # characters of its arguments


class QueueSample(Struct, frozen=True, kw_only=True):
    """A queue. `arriving` and `leaving` are jobs per second; `empty_in` is seconds until the queue is empty."""

    queue: str
    state: str
    pending: int
    running: int
    retrying: int
    scheduled: int
    waiting: int
    failed: int
    oldest: float | None
    arriving: float | None
    leaving: float | None

    @property
    def empty_in(self) -> float | None:
        if not self.pending:
            return 0.0
        if self.arriving is None or self.leaving is None or self.leaving <= self.arriving:
            return None
        return self.pending / (self.leaving - self.arriving)


class WorkerSample(Struct, frozen=True, kw_only=True):
    """A worker, the tasks of its running jobs and their calls, and the jobs per second it finishes."""

    id: str
    state: str
    running: int
    concurrency: int
    completed: int
    failed: int
    rate: float | None
    up: float
    jobs: list[str]
    calls: list[str]


class FailureSample(Struct, frozen=True, kw_only=True):
    """A recent final failure."""

    at: datetime
    task: str
    arguments: str
    queue: str
    job_id: str
    error: str


class AlertSample(Struct, frozen=True, kw_only=True):
    """An active alert."""

    severity: str
    summary: str


class StoreSample(Struct, frozen=True, kw_only=True):
    """One sample of the store."""

    at: datetime
    store: str
    queues: list[QueueSample]
    workers: list[WorkerSample]
    failures: list[FailureSample]
    alerts: list[AlertSample]


class Rates:
    """Growth rates of counters, from their values over time."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, at: float, counters: dict[str, int]) -> None:
        self._samples.append((at, counters))
        while len(self._samples) > 2 and self._samples[1][0] <= at - _WINDOW:
            self._samples.popleft()

    def per_second(self, name: str) -> float | None:
        """Growth per second; None before two samples. A counter that shrank (retention removed jobs) counts as 0."""
        if len(self._samples) < 2:
            return None
        (began, first), (at, last) = self._samples[0], self._samples[-1]
        if at <= began:
            return None
        return max(last.get(name, 0) - first.get(name, 0), 0) / (at - began)


class StoreSampler:
    """Samples one store repeatedly."""

    def __init__(self, app: Headrace, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._monotonic = monotonic
        self._rates = Rates()
        self._worker_rates: dict[str, Rates] = {}

    def sample(self) -> StoreSample:
        queues, workers = self._app.queues(), self._app.workers()
        busy = any(stats.running for stats in queues)
        running = self._app.jobs.find(state=State.RUNNING, limit=_JOBS) if busy else ()
        self._rates.add(self._monotonic(), dict(_counters(queues)))
        self._add_worker_samples(workers)
        now = to_datetime(self._app.clock.now())
        assert now is not None
        return StoreSample(
            at=now,
            store=redacted_url(self._app.engine.url),
            queues=[self._queue(stats, now) for stats in queues],
            workers=[self._worker(worker, running, now) for worker in workers],
            failures=list(_failures(self._app)),
            alerts=list(_alerts(self._app)),
        )

    def _queue(self, stats: QueueStats, now: datetime) -> QueueSample:
        return QueueSample(
            queue=stats.queue,
            state=stats.condition,
            pending=stats.pending,
            running=stats.running,
            retrying=stats.retrying,
            scheduled=stats.scheduled,
            waiting=stats.waiting,
            failed=stats.failed,
            oldest=None if stats.oldest_pending is None else max((now - stats.oldest_pending).total_seconds(), 0.0),
            arriving=self._rates.per_second(f"all {stats.queue}"),
            leaving=self._rates.per_second(f"over {stats.queue}"),
        )

    def _add_worker_samples(self, workers: Sequence[WorkerInfo]) -> None:
        """A worker's counters date from its last heartbeat, not from the sample."""
        known, self._worker_rates = self._worker_rates, {}
        for worker in workers:
            rates = self._worker_rates[worker.id] = known.get(worker.id) or Rates()
            if worker.seen_at is not None:
                rates.add(worker.seen_at.timestamp(), {"over": worker.completed + worker.failed})

    def _worker(self, worker: WorkerInfo, running: Iterable[Job[Any]], now: datetime) -> WorkerSample:
        own = [job for job in running if job.worker == worker.id]
        return WorkerSample(
            id=worker.id,
            state=worker.condition,
            running=worker.running,
            concurrency=worker.concurrency,
            completed=worker.completed,
            failed=worker.failed,
            rate=self._worker_rates[worker.id].per_second("over"),
            up=0.0 if worker.started_at is None else (now - worker.started_at).total_seconds(),
            jobs=[job.task for job in own],
            calls=[f"{job.task}({arguments_line(job, _MAX_CALL)})" for job in own],
        )


def _counters(queues: Sequence[QueueStats]) -> Iterator[tuple[str, int]]:
    for stats in queues:
        yield f"all {stats.queue}", sum(getattr(stats, state.value) for state in State)
        yield f"over {stats.queue}", sum(getattr(stats, state.value) for state in FINAL)


def _failures(app: Headrace) -> Iterator[FailureSample]:
    for dead_letter in app.dead.list(limit=_FAILURES):
        error = (
            f"{dead_letter.error_type}: {dead_letter.error_message}" if dead_letter.error_type else dead_letter.reason
        )
        yield FailureSample(
            at=dead_letter.entered_at,
            task=dead_letter.task,
            arguments=line_of(dead_letter.arguments, _MAX_CALL),
            queue=dead_letter.queue,
            job_id=dead_letter.job_id,
            error=error,
        )


def _alerts(app: Headrace) -> Iterator[AlertSample]:
    alerts = getattr(app, "alerts", None)
    for alert in () if alerts is None else alerts.active():
        yield AlertSample(severity=alert.severity, summary=alert.summary)
