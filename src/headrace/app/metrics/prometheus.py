"""Metrics for Prometheus: counters and histograms since the store began to count, and the last sample of each gauge.

They describe the store, not a process: every process gives the same answer, so one target is enough, and a new process
does not reset a counter. Needs the extra `web`, and is imported on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from headrace.app.metrics.records import MetricsSnapshot
from headrace.core.metrics.catalog import DURATIONS, METRICS, sentence
from headrace.core.metrics.cells import COMPLETED_AFTER_RETRY, FAILED_AFTER_RETRY, OTHERS, MetricCell, total
from headrace.core.metrics.histogram import BOUNDS, Histogram
from headrace.core.metrics.scaling import StoreScale
from headrace.runtime.metrics.queries import Place

_LABELS: Final = ("queue", "task")
# Every eighth bound, from about a millisecond to half a day: each is about twice the one before, and exact.
_EDGES: Final = (1, 2, 4, *(bound for bound in BOUNDS[8::8] if bound <= 50_000_000))
_EDGE_NAMES: Final = [str(edge / 1000) for edge in _EDGES]
_COUNTERS: Final = {
    "enqueued": "headrace_jobs_enqueued",
    "started": "headrace_attempts_started",
    "completed": "headrace_jobs_completed",
    "errors": "headrace_attempts_failed",
    "failed": "headrace_jobs_failed",
    "retried": "headrace_attempts_retried",
    "cancelled": "headrace_jobs_cancelled",
}
_ARCHIVE: Final = {
    "archived": "headrace_jobs_archived",
    "archive_failures": "headrace_archive_failures",
    "partitions_created": "headrace_partitions_created",
    "partitions_detached": "headrace_partitions_detached",
    "partition_failures": "headrace_partition_failures",
    "stale_dead": "headrace_stale_dead_letters",
    "stale_failed": "headrace_stale_failed",
    "stale_failures": "headrace_stale_check_failures",
}
_AFTER_RETRY: Final = {
    COMPLETED_AFTER_RETRY: ("headrace_retried_jobs_completed", "Jobs that completed after more than one attempt."),
    FAILED_AFTER_RETRY: ("headrace_retried_jobs_failed", "Jobs that failed for good after more than one attempt."),
}
_BOUND: Final = f" The busiest tasks have lines of their own; the others of a queue are summed as {OTHERS!r}."


def exposition(
    jobs: dict[Place, MetricCell],
    retention_run: MetricCell,
    now: MetricsSnapshot,
    scale: StoreScale,
    accept: str,
    most: int,
) -> tuple[str, bytes]:
    """The content type and the text, in the newest format that the client accepts.

    `jobs` and `retention_run` are sums since the store began to count. At most `most` tasks have lines of their own.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Store(jobs, retention_run, now, scale, most))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


def bounded(jobs: dict[Place, MetricCell], most: int) -> dict[Place, MetricCell]:
    """The cells of the busiest tasks, and one cell per queue for its other tasks."""
    if len(jobs) <= most:
        return jobs
    # Compare powers of two: a slightly busier task must not replace another. That would decrease the sum of the others,
    # and Prometheus takes a counter that decreases for a restarted one.
    busiest = sorted(jobs, key=lambda place: (-_traffic(jobs[place]).bit_length(), place))
    shown = {place: jobs[place] for place in busiest[:most]}
    rest: dict[Place, list[MetricCell]] = {}
    for place in busiest[most:]:
        rest.setdefault((place[0], OTHERS), []).append(jobs[place])
    return shown | {place: total(cells) for place, cells in rest.items()}


def _traffic(cell: MetricCell) -> int:
    return cell.enqueued + cell.started


class _Store(Collector):
    def __init__(
        self,
        jobs: dict[Place, MetricCell],
        retention_run: MetricCell,
        now: MetricsSnapshot,
        scale: StoreScale,
        most: int,
    ) -> None:
        self._jobs = bounded({place: cell for place, cell in jobs.items() if place[1]}, most)
        self._all = jobs.values()
        self._retention_run = retention_run
        self._now = now
        self._scale = scale

    def collect(self) -> Iterable[Metric]:
        yield from _counters(self._jobs)
        yield _histogram("headrace_job_wait_seconds", DURATIONS["wait"], self._waits())
        yield _histogram("headrace_job_run_seconds", DURATIONS["run"], self._runs())
        yield _events(self._all)
        yield from _of_archive(self._retention_run)
        yield from _of_queues(self._now)
        yield from _of_scale(self._scale)
        yield from _of_store(self._now)

    def _waits(self) -> Iterator[tuple[Place, Histogram]]:
        return ((place, cell.wait) for place, cell in self._jobs.items())

    def _runs(self) -> Iterator[tuple[Place, Histogram]]:
        return ((place, cell.run) for place, cell in self._jobs.items())


def _counters(jobs: dict[Place, MetricCell]) -> Iterator[Metric]:
    for field, name in _COUNTERS.items():
        family = CounterMetricFamily(name, f"{METRICS[field].sentence}{_BOUND}", labels=_LABELS)
        for place, cell in jobs.items():
            family.add_metric(place, getattr(cell, field))
        yield family
    for kind, (name, meaning) in _AFTER_RETRY.items():
        family = CounterMetricFamily(name, f"{meaning}{_BOUND}", labels=_LABELS)
        for place, cell in jobs.items():
            family.add_metric(place, cell.other.get(kind, 0))
        yield family


def _histogram(name: str, meaning: str, found: Iterable[tuple[Place, Histogram]]) -> Metric:
    family = HistogramMetricFamily(name, f"{sentence(meaning)}{_BOUND}", labels=_LABELS)
    for place, histogram in found:
        family.add_metric(place, _counts(histogram), histogram.total / 1000)
    return family


def _events(cells: Iterable[MetricCell]) -> Metric:
    family = CounterMetricFamily("headrace_events", "Other events by type.", labels=("type",))
    counts: dict[str, int] = {}
    for cell in cells:
        for kind, count in cell.other.items():
            counts[kind] = counts.get(kind, 0) + count
    for kind in sorted(counts.keys() - _AFTER_RETRY):
        family.add_metric([kind], counts[kind])
    return family


def _of_archive(retention_run: MetricCell) -> Iterator[Metric]:
    for metric, name in _ARCHIVE.items():
        count = retention_run.other.get(METRICS[metric].stored_name, 0)
        yield CounterMetricFamily(name, METRICS[metric].sentence, value=count)
    took = HistogramMetricFamily("headrace_archive_seconds", sentence(DURATIONS["archive"]))
    took.add_metric([], _counts(retention_run.run), retention_run.run.total / 1000)
    yield took
    stale = HistogramMetricFamily(
        "headrace_stale_after_seconds", "Time that stale jobs had been in their state, or open."
    )
    stale.add_metric([], _counts(retention_run.wait), retention_run.wait.total / 1000)
    yield stale


def _counts(histogram: Histogram) -> list[tuple[str, int]]:
    return [*zip(_EDGE_NAMES, histogram.cumulative(_EDGES), strict=True), ("+Inf", histogram.count)]


def _of_queues(now: MetricsSnapshot) -> Iterator[Metric]:
    depth = GaugeMetricFamily("headrace_jobs", "Open jobs by state.", labels=("queue", "state"))
    oldest = GaugeMetricFamily("headrace_oldest_pending_seconds", METRICS["oldest"].sentence, labels=("queue",))
    workers = GaugeMetricFamily("headrace_queue_workers", "Live workers that serve a queue.", labels=("queue",))
    drain = GaugeMetricFamily(
        "headrace_queue_drain_seconds", "Time until a queue is empty; +Inf: never.", labels=("queue",)
    )
    for queue in now.queues:
        for state, jobs in queue.depth.items():
            depth.add_metric([queue.queue, state], jobs)
        oldest.add_metric([queue.queue], queue.oldest)
        workers.add_metric([queue.queue], queue.workers)
        drain.add_metric([queue.queue], float("inf") if queue.eta is None else queue.eta)
    yield from (depth, oldest, workers, drain)


def _of_scale(scale: StoreScale) -> Iterator[Metric]:
    wanted = GaugeMetricFamily("headrace_workers_wanted", METRICS["workers_wanted"].sentence, labels=("queue",))
    behind = GaugeMetricFamily("headrace_seconds_behind", METRICS["seconds_behind"].sentence, labels=("queue",))
    slots = GaugeMetricFamily("headrace_slots_wanted", "The slots of the workers that are wanted.", labels=("queue",))
    for queue in scale.queues:
        wanted.add_metric([queue.queue], queue.workers_wanted)
        behind.add_metric([queue.queue], queue.seconds_behind)
        slots.add_metric([queue.queue], queue.slots_wanted)
    yield from (wanted, behind, slots)


def _of_store(now: MetricsSnapshot) -> Iterator[Metric]:
    values = {
        "headrace_workers": ("workers", now.workers_alive),
        "headrace_dead_letters": ("dead", now.dead),
        "headrace_stale_jobs": ("stale", now.stale),
        "headrace_store_bytes": ("store_bytes", now.store_bytes),
        "headrace_store_clients": ("clients", now.clients),
        "headrace_schedules": ("schedules", now.schedules),
        "headrace_store_busy_ratio": ("busy", now.busy),
    }
    for name, (metric, value) in values.items():
        if value is not None:
            yield GaugeMetricFamily(name, METRICS[metric].sentence, value=value)
    if now.sampled_at is not None:
        sampled = now.sampled_at.timestamp()
        yield GaugeMetricFamily("headrace_sample_timestamp_seconds", "When gauges were last sampled.", value=sampled)
