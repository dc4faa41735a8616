"""Reads the load of each queue for `core.metrics.scaling`: the last sample, recent rates, and the workers now."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.jobs.queue_rules import QueueRow, queue_rules
from headrace.core.jobs.records import WorkerRow
from headrace.core.jobs.states import State
from headrace.core.metrics import buckets
from headrace.core.metrics.cells import EMPTY, MetricCell, add
from headrace.core.metrics.gauges import STORE, Gauge, Gauges, as_gauges, sample_of_jobs
from headrace.core.metrics.scaling import LONG_WINDOW, USUAL_WINDOW, QueueLoad, StoreScale, scale_of_store
from headrace.core.metrics.values import counted, duration
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.metrics.reader import MetricsReader
from headrace.runtime.retention.deleted_queues import deleted_queues

_MICROSECONDS = 1e6


def read_scale(
    engine: Engine, reader: MetricsReader, settings: Settings, target_wait: float, window: int = USUAL_WINDOW
) -> StoreScale:
    """How many workers are wanted for the queues of the store."""
    now = reader.catch_up()
    rows = {row.name: row for row in engine.queries.rules().queues}
    workers = [
        row for row in engine.queries.workers() if not row.is_silent(now) and row.state in ("running", "starting")
    ]
    gauges = _gauges(engine, reader, now)
    since, recent = _cells(reader, window, now)
    names = sorted({*gauges, *recent, *rows} - {STORE} - set(deleted_queues(engine)))
    known = _with_run_times(reader, recent, {name for name in names if "pending" in gauges.get(name, {})}, now)
    seconds = max((now - since) / 1000, 1.0)
    loads = [
        _load(
            name,
            gauges.get(name, {}),
            recent.get(name, EMPTY),
            known.get(name, EMPTY),
            seconds,
            rows.get(name),
            workers,
        )
        for name in names
    ]
    slots = sum(worker.concurrency for worker in workers)
    return scale_of_store(loads, target_wait, len(workers), slots, settings.concurrency)


def _load(
    name: str,
    gauges: Mapping[str, Gauge],
    recent: MetricCell,
    known: MetricCell,
    seconds: float,
    row: QueueRow | None,
    workers: list[WorkerRow],
) -> QueueLoad:
    rules = queue_rules(None if row is None else row.rules)
    serving = [worker for worker in workers if worker.serves(name)]
    return QueueLoad(
        queue=name,
        pending=_last(gauges, State.PENDING.value),
        running=_last(gauges, State.RUNNING.value),
        oldest=gauges["oldest"].last if "oldest" in gauges else 0.0,
        arrivals=recent.enqueued / seconds,
        run=duration(known.run, "avg"),
        attempts=counted("attempts_avg", known, seconds),
        workers=len(serving),
        slots=sum(worker.concurrency for worker in serving),
        paused=row is not None and row.paused,
        most_running=rules.concurrency,
        most_starts=None if rules.rate is None else _MICROSECONDS / rules.rate.every,
    )


def _last(gauges: Mapping[str, Gauge], name: str) -> int:
    return round(gauges[name].last) if name in gauges else 0


def _gauges(engine: Engine, reader: MetricsReader, now: int) -> Gauges:
    """The last sample, or a count of the jobs if there is none."""
    read = reader.latest_gauges(now)
    if read is not None:
        return read[1]
    return as_gauges(sample_of_jobs(engine.queries.queue_counts(open_only=True), (), (), now))


def _cells(reader: MetricsReader, window: int, now: int) -> tuple[int, dict[str, MetricCell]]:
    """The start of the window, and the counts of each queue in it."""
    width = buckets.width_within(window)
    since, found = buckets.since(width, window, now), dict[str, MetricCell]()
    for _, cells in reader.jobs(width, since, now):
        for (queue, _task), cell in cells.items():
            add(found, {queue: cell})
    return since, found


def _with_run_times(
    reader: MetricsReader, recent: Mapping[str, MetricCell], waiting: set[str], now: int
) -> Mapping[str, MetricCell]:
    """The cells whose run times count: of the last day for queues that wait and where none ran recently."""
    unknown = {name for name in waiting if not recent.get(name, EMPTY).run.count}
    if not unknown:
        return recent
    _, older = _cells(reader, LONG_WINDOW, now)
    return {**recent, **{name: older[name] for name in unknown if name in older}}
