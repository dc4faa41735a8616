"""Metrics as Prometheus reads them: counters and histograms since the beginning, and gauges as they were last read.

All of it is of the store, and not of a process: whoever is asked gives the same answer, so one target is enough, and
counters do not begin anew with a process. Needs the extra `web`, and is loaded only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from headrace.app.metrics.records import MetricsSnapshot
from headrace.core.metrics.cells import COMPLETED_AFTER_RETRY, FAILED_AFTER_RETRY, OTHERS, MetricCell, total
from headrace.core.metrics.histogram import BOUNDS, Histogram
from headrace.runtime.metrics.queries import Place

_LABELS: Final = ("queue", "task")
# Every eighth bound, from about a millisecond to half a day: each is about twice the one before, and exact.
_EDGES: Final = (1, 2, 4, *(bound for bound in BOUNDS[8::8] if bound <= 50_000_000))
_EDGE_NAMES: Final = [str(edge / 1000) for edge in _EDGES]
_COUNTERS: Final = {
    "enqueued": ("headrace_jobs_enqueued", "Jobs that were submitted."),
    "started": ("headrace_attempts_started", "Attempts that began."),
    "completed": ("headrace_jobs_completed", "Jobs that completed."),
    "errors": ("headrace_attempts_failed", "Attempts that failed."),
    "failed": ("headrace_jobs_failed", "Jobs that failed for good."),
    "retried": ("headrace_attempts_retried", "Attempts that failed and are made again."),
    "cancelled": ("headrace_jobs_cancelled", "Jobs that were cancelled."),
}


_ARCHIVE: Final = {
    "archived": ("headrace_jobs_archived", "Jobs that were archived."),
    "archive.failed": ("headrace_archive_failures", "Walks over finished jobs that failed."),
    "partitions_created": ("headrace_partitions_created", "Partitions of the archive that were made."),
    "partitions_detached": ("headrace_partitions_detached", "Partitions of the archive that were removed."),
    "partition_failures": ("headrace_partition_failures", "Partitions that could not be made, each counted once."),
    "stale_dead": ("headrace_stale_dead_letters", "Stale jobs that became dead letters."),
    "stale_failed": ("headrace_stale_failed", "Stale jobs that only failed."),
    "stale.failed": ("headrace_stale_check_failures", "Checks for stale jobs that failed."),
}
_AFTER_RETRY: Final = {
    COMPLETED_AFTER_RETRY: ("headrace_retried_jobs_completed", "Jobs that completed after more than one attempt."),
    FAILED_AFTER_RETRY: ("headrace_retried_jobs_failed", "Jobs that failed for good after more than one attempt."),
}
_BOUND: Final = f" Where tasks are many, all but the busiest are one of each queue: {OTHERS}."


def exposition(
    jobs: dict[Place, MetricCell], retention_run: MetricCell, now: MetricsSnapshot, accept: str, most: int
) -> tuple[str, bytes]:
    """The content type and the text, in the newest format that the reader accepts.

    `jobs` and `swept` are the sums since the beginning. At most so many tasks have lines of their own.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Store(jobs, retention_run, now, most))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


def bounded(jobs: dict[Place, MetricCell], most: int) -> dict[Place, MetricCell]:
    """The busiest of these, and the others of each queue as one."""
    if len(jobs) <= most:
        return jobs
    # By the power of two: who is a little busier today must not trade places with another, for then the sum of the
    # others falls, and Prometheus takes a counter that falls for one that began anew.
    busiest = sorted(jobs, key=lambda place: (-_traffic(jobs[place]).bit_length(), place))
    told = {place: jobs[place] for place in busiest[:most]}
    rest: dict[Place, list[MetricCell]] = {}
    for place in busiest[most:]:
        rest.setdefault((place[0], OTHERS), []).append(jobs[place])
    return told | {place: total(cells) for place, cells in rest.items()}


def _traffic(cell: MetricCell) -> int:
    return cell.enqueued + cell.started


class _Store(Collector):
    def __init__(
        self, jobs: dict[Place, MetricCell], retention_run: MetricCell, now: MetricsSnapshot, most: int
    ) -> None:
        self._jobs = bounded({place: cell for place, cell in jobs.items() if place[1]}, most)
        self._all = jobs.values()
        self._retention_run = retention_run
        self._now = now

    def collect(self) -> Iterable[Metric]:
        yield from _counters(self._jobs)
        yield _histogram("headrace_job_wait_seconds", "From when a job could run to its start.", self._waits())
        yield _histogram("headrace_job_run_seconds", "From the start of an attempt to its end.", self._runs())
        yield _events(self._all)
        yield from _of_archive(self._retention_run)
        yield from _of_queues(self._now)
        yield from _of_store(self._now)

    def _waits(self) -> Iterator[tuple[Place, Histogram]]:
        return ((place, cell.wait) for place, cell in self._jobs.items())

    def _runs(self) -> Iterator[tuple[Place, Histogram]]:
        return ((place, cell.run) for place, cell in self._jobs.items())


def _counters(jobs: dict[Place, MetricCell]) -> Iterator[Metric]:
    for field, (name, meaning) in _COUNTERS.items():
        family = CounterMetricFamily(name, f"{meaning}{_BOUND}", labels=_LABELS)
        for place, cell in jobs.items():
            family.add_metric(place, getattr(cell, field))
        yield family
    for kind, (name, meaning) in _AFTER_RETRY.items():
        family = CounterMetricFamily(name, f"{meaning}{_BOUND}", labels=_LABELS)
        for place, cell in jobs.items():
            family.add_metric(place, cell.other.get(kind, 0))
        yield family


def _histogram(name: str, meaning: str, found: Iterable[tuple[Place, Histogram]]) -> Metric:
    family = HistogramMetricFamily(name, f"{meaning}{_BOUND}", labels=_LABELS)
    for place, histogram in found:
        family.add_metric(place, _counts(histogram), histogram.total / 1000)
    return family


def _events(cells: Iterable[MetricCell]) -> Metric:
    family = CounterMetricFamily("headrace_events", "Other events, by their type.", labels=("type",))
    counts: dict[str, int] = {}
    for cell in cells:
        for kind, count in cell.other.items():
            counts[kind] = counts.get(kind, 0) + count
    for kind in sorted(counts.keys() - _AFTER_RETRY):
        family.add_metric([kind], counts[kind])
    return family


def _of_archive(retention_run: MetricCell) -> Iterator[Metric]:
    for kind, (name, meaning) in _ARCHIVE.items():
        yield CounterMetricFamily(name, meaning, value=retention_run.other.get(kind, 0))
    took = HistogramMetricFamily("headrace_archive_seconds", "Walks over finished jobs that found some.")
    took.add_metric([], _counts(retention_run.run), retention_run.run.total / 1000)
    yield took
    stale = HistogramMetricFamily("headrace_stale_after_seconds", "How long jobs had lasted that were found stale.")
    stale.add_metric([], _counts(retention_run.wait), retention_run.wait.total / 1000)
    yield stale


def _counts(histogram: Histogram) -> list[tuple[str, int]]:
    return [*zip(_EDGE_NAMES, histogram.cumulative(_EDGES), strict=True), ("+Inf", histogram.count)]


def _of_queues(now: MetricsSnapshot) -> Iterator[Metric]:
    depth = GaugeMetricFamily("headrace_jobs", "Jobs that are not over, by state.", labels=("queue", "state"))
    oldest = GaugeMetricFamily("headrace_oldest_pending_seconds", "Age of the oldest pending job.", labels=("queue",))
    workers = GaugeMetricFamily("headrace_queue_workers", "Live workers that serve a queue.", labels=("queue",))
    drain = GaugeMetricFamily("headrace_queue_drain_seconds", "Until a queue is empty; +Inf: never.", labels=("queue",))
    for queue in now.queues:
        for state, jobs in queue.depth.items():
            depth.add_metric([queue.queue, state], jobs)
        oldest.add_metric([queue.queue], queue.oldest)
        workers.add_metric([queue.queue], queue.workers)
        drain.add_metric([queue.queue], float("inf") if queue.eta is None else queue.eta)
    yield from (depth, oldest, workers, drain)


def _of_store(now: MetricsSnapshot) -> Iterator[Metric]:
    read = {
        "headrace_workers": ("Workers that are alive.", now.workers_alive),
        "headrace_dead_letters": ("Dead letters that are pending.", now.dead),
        "headrace_stale_jobs": ("Jobs that the last check found stale.", now.stale),
        "headrace_store_bytes": ("The size of the store.", now.store_bytes),
        "headrace_store_clients": ("Connections that the server of the store has.", now.clients),
        "headrace_schedules": ("Schedules that there are.", now.schedules),
        "headrace_store_busy_ratio": ("The share of writes that waited for others.", now.busy),
        "headrace_sample_timestamp_seconds": (
            "When gauges were last read.",
            None if now.sampled_at is None else now.sampled_at.timestamp(),
        ),
    }
    for name, (meaning, value) in read.items():
        if value is not None:
            yield GaugeMetricFamily(name, meaning, value=value)
