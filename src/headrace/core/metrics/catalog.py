"""The catalog of metrics: name, meaning, labels, unit and source of each.

`app.metrics`, alert rules, Prometheus and OpenTelemetry take names and texts from here. `core.metrics.values` computes
the values; alert rules read those of the source "alert" from the store.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from headrace.core.jobs.states import OPEN, State

Unit = Literal["", "share", "seconds", "bytes", "per second", "per job"]
Source = Literal["count", "rate", "ratio", "duration", "event", "retention", "queue", "store", "alert"]
Label = Literal["queue", "task", "worker", "reason"]
LABELS: Final[tuple[Label, ...]] = get_args(Label)
STATISTICS: Final = {"avg": "average", "min": "shortest", "max": "longest", "p50": "median", "p95": "p95", "p99": "p99"}
DURATIONS: Final = {
    "wait": "time from when a job could run to its start",
    "run": "run time of an attempt",
    "archive": "duration of a retention run that found jobs",
}
_WORK = ("queue", "task", "worker")


class Metric(Struct, frozen=True):
    """A metric. `labels` are those of alert rules. `timed`: its value is over a window, not of this moment.

    `source` says what it is computed from: a "count" or "rate" from a field of a cell, an "event" from the number of
    events of a type, "retention" from retention runs, a "queue" or "store" gauge from its samples. `of` is the name of
    that field, event or gauge; "" is the name of the metric.
    """

    name: str
    meaning: str
    source: Source
    of: str = ""
    labels: tuple[str, ...] = ()
    timed: bool = True
    unit: Unit = ""

    @property
    def stored_name(self) -> str:
        return self.of or self.name

    @property
    def sentence(self) -> str:
        """The meaning as a sentence, for Prometheus and OpenTelemetry."""
        return sentence(self.meaning)

    @property
    def is_count(self) -> bool:
        """Whether it grows in proportion to the window."""
        return self.timed and not self.unit

    def format_value(self, value: float | None) -> str:
        """A value with its unit, or "no data"."""
        if value is None:
            return "no data"
        if self.unit == "share":
            return f"{value:.1%}"
        if self.unit == "bytes":
            return f"{value / 1e6:,.1f} MB"
        text = f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"
        return text + {"seconds": " s", "per second": "/s", "per job": " a job"}.get(self.unit, "")


def sentence(meaning: str) -> str:
    return f"{meaning[0].upper()}{meaning[1:]}."


def _count(name: str, meaning: str) -> Metric:
    return Metric(name, meaning, "count", labels=_WORK)


def _rate(name: str, of: str, meaning: str) -> Metric:
    return Metric(name, meaning, "rate", of, _WORK, unit="per second")


def _durations(what: str, source: Source, labels: tuple[str, ...] = ()) -> list[Metric]:
    return [
        Metric(f"{what}_{how}", f"{DURATIONS[what]}, {statistic}", source, labels=labels, unit="seconds")
        for how, statistic in STATISTICS.items()
    ]


def _gauge(
    name: str, meaning: str, source: Source, labels: tuple[str, ...] = (), of: str = "", unit: Unit = ""
) -> Metric:
    return Metric(name, meaning, source, of, labels, timed=False, unit=unit)


_ALL = (
    _count("enqueued", "jobs enqueued"),
    _count("started", "attempts started"),
    _count("completed", "jobs completed"),
    _count("errors", "failed attempts, retried or not"),
    _count("failed", "jobs that failed for good"),
    _count("retried", "failed attempts whose job is retried"),
    _count("cancelled", "jobs cancelled"),
    _rate("throughput", "completed", "jobs completed"),
    _rate("enqueue_rate", "enqueued", "jobs enqueued"),
    _rate("start_rate", "started", "attempts started"),
    _rate("failure_rate", "failed", "jobs that failed for good"),
    Metric("error_rate", "failed attempts among all that ended", "ratio", labels=_WORK, unit="share"),
    Metric("attempts_avg", "attempts of a job that completed or failed", "ratio", labels=_WORK, unit="per job"),
    Metric(
        "retry_success",
        "completed jobs among those that ended after more than one attempt",
        "ratio",
        labels=_WORK,
        unit="share",
    ),
    *_durations("wait", "duration", _WORK),
    *_durations("run", "duration", _WORK),
    Metric("stalled", "jobs whose worker died or did not renew the lease", "event", "job.stalled", _WORK),
    Metric("dead_resolved", "dead letters resolved", "event", "dead.resolved", _WORK),
    Metric("dead_requeued", "dead letters requeued", "event", "dead.requeued", _WORK),
    Metric("dead_permanent", "dead letters that became permanently_failed", "event", "dead.permanently_failed", _WORK),
    Metric("dead_expired", "pending dead letters that expired", "event", "dead.expired", _WORK),
    Metric("workers_lost", "workers that died", "event", "worker.lost"),
    Metric("schedules_fired", "schedule runs that enqueued a job", "event", "schedule.fired"),
    Metric("schedules_missed", "schedule runs that were skipped", "event", "schedule.skipped"),
    _gauge("depth", "pending jobs", "queue", ("queue",), State.PENDING.value),
    *(
        _gauge(f"depth.{state.value}", f"jobs in state {state.value}", "queue", ("queue",), state.value)
        for state in sorted(OPEN)
    ),
    Metric("depth_max", "maximum of pending jobs", "queue", State.PENDING.value, ("queue",)),
    _gauge("oldest", "age of the oldest pending job; 0 without any", "queue", ("queue",), unit="seconds"),
    _gauge("fullness", "waiting jobs of a queue, divided by its max_length", "alert", ("queue",), unit="share"),
    _gauge("workers", "live workers", "queue", ("queue",)),
    _gauge("workers_wanted", "workers that keep the wait of jobs below the setting target_wait", "alert", ("queue",)),
    _gauge(
        "seconds_behind",
        "wait of a job that is enqueued now; 0 for a paused queue",
        "alert",
        ("queue",),
        unit="seconds",
    ),
    _gauge(
        "workers_healthy", "workers that are alive and make progress, among all registered ones", "alert", unit="share"
    ),
    _gauge("dead", "pending dead letters", "store", ("queue", "task", "reason")),
    Metric("dead_entered", "new dead letters", "event", "dead.entered", ("queue", "task", "reason")),
    _gauge("stale", "stale jobs that the last check found", "store"),
    _gauge("stale_share", "stale jobs among all open jobs", "alert", unit="share"),
    _gauge("stale_errors", "1 if the last check for stale jobs failed, else 0", "alert"),
    Metric("stale_dead", "stale jobs that became dead letters", "retention"),
    Metric("stale_failed", "stale jobs that failed without a dead letter", "retention"),
    Metric("stale_failures", "failed checks for stale jobs", "retention", "stale.failed"),
    Metric("schedule_misses", "skipped schedule runs among all that were due", "ratio", unit="share"),
    _gauge("schedule_errors", "schedules that could not fire", "alert"),
    Metric("archived", "jobs archived", "retention"),
    Metric("archive_failures", "failed retention runs", "retention", "archive.failed"),
    *_durations("archive", "retention"),
    Metric("partitions_created", "archive partitions created", "retention"),
    Metric("partitions_detached", "archive partitions removed", "retention"),
    Metric("partition_failures", "archive partitions that could not be created, each counted once", "retention"),
    _gauge("archive_errors", "1 if finished jobs could not be archived, else 0", "alert"),
    _gauge(
        "partition_errors", "archive faults: a partition could not be created, or there is none for the future", "alert"
    ),
    _gauge("store_bytes", "size of the store", "store", unit="bytes"),
    _gauge("store_share", "size of the store, divided by its limit (max_size, maxmemory)", "alert", unit="share"),
    _gauge("disk_free", "free space on the disk of an SQLite file", "alert", unit="bytes"),
    _gauge("clients", "connections to the server of the store", "store"),
    _gauge("schedules", "schedules", "store"),
    _gauge("busy", "writes that waited for other writers, among all of the last hours", "store", unit="share"),
)
METRICS: Final = {metric.name: metric for metric in _ALL}
