"""The metrics that alert rules can use: name, labels and unit.

Only names and texts. The values come from a `core.alerts.conditions.MetricSource`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from headrace.core.jobs.states import OPEN

Unit = Literal["", "share", "seconds", "bytes", "per second", "per job"]
LABELS = ("queue", "task", "worker", "reason")
_WORK = ("queue", "task", "worker")
_HOW = {"avg": "average", "min": "shortest", "max": "longest", "p50": "median", "p95": "p95", "p99": "p99"}


class AlertMetric(Struct, frozen=True):
    """A counted or measured value. `timed`: over a window, not at this moment."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    timed: bool = False
    unit: Unit = ""

    @property
    def is_count(self) -> bool:
        """Whether it grows in proportion to the window."""
        return self.timed and not self.unit

    def format_value(self, value: float | None) -> str:
        """A value as people read it."""
        if value is None:
            return "no data"
        if self.unit == "share":
            return f"{value:.1%}"
        if self.unit == "bytes":
            return f"{value / 1e6:,.1f} MB"
        text = f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"
        return text + {"seconds": " s", "per second": "/s", "per job": " a job"}.get(self.unit, "")


def _counted(name: str, meaning: str) -> AlertMetric:
    return AlertMetric(name, meaning, _WORK, timed=True)


def _timed(name: str, meaning: str, unit: Unit) -> AlertMetric:
    return AlertMetric(name, meaning, _WORK, True, unit)


_ALL = (
    _counted("enqueued", "jobs that were submitted"),
    _counted("started", "attempts that began"),
    _counted("completed", "jobs that completed"),
    _counted("errors", "attempts that failed, whether or not they are tried again"),
    _counted("failed", "jobs that failed for good"),
    _counted("retried", "attempts that failed and are tried again"),
    _counted("cancelled", "jobs that were cancelled"),
    _timed("throughput", "jobs completed", "per second"),
    _timed("enqueue_rate", "jobs submitted", "per second"),
    _timed("start_rate", "attempts that began", "per second"),
    _timed("failure_rate", "jobs failed for good", "per second"),
    _timed("error_rate", "failed attempts, of all that ended", "share"),
    _timed("attempts_avg", "attempts that ended, by the jobs that completed or failed", "per job"),
    _timed("retry_success", "jobs that completed, of those that ended after more than one attempt", "share"),
    *(
        _timed(f"wait_{how}", f"from when a job could run to its start, {text}", "seconds")
        for how, text in _HOW.items()
    ),
    *(_timed(f"run_{how}", f"time of an attempt, {text}", "seconds") for how, text in _HOW.items()),
    _counted("stalled", "jobs whose worker was lost or let its lease run out"),
    _counted("dead_resolved", "dead letters that were dealt with"),
    _counted("dead_requeued", "dead letters whose jobs were requeued"),
    _counted("dead_permanent", "dead letters that ended as permanently failed"),
    _counted("dead_expired", "dead letters that expired unresolved"),
    AlertMetric("workers_lost", "workers that died", timed=True),
    AlertMetric("schedules_fired", "runs of schedules that became jobs", timed=True),
    AlertMetric("schedules_missed", "runs of schedules that did not", timed=True),
    AlertMetric("depth", "jobs that are ready and not taken", ("queue",)),
    *(AlertMetric(f"depth.{state}", f"jobs that are {state}", ("queue",)) for state in sorted(OPEN)),
    AlertMetric("depth_max", "the most jobs that were ready and not taken", ("queue",), timed=True),
    AlertMetric("oldest", "age of the oldest pending job; 0 without any", ("queue",), unit="seconds"),
    AlertMetric("fullness", "jobs that wait, of the max_length of their queue", ("queue",), unit="share"),
    AlertMetric("workers", "workers that are alive", ("queue",)),
    AlertMetric(
        "workers_healthy", "workers that are alive and make progress, of all that are registered", unit="share"
    ),
    AlertMetric("dead", "dead letters that are pending", ("queue", "task", "reason")),
    AlertMetric("dead_entered", "dead letters that came in", ("queue", "task", "reason"), timed=True),
    AlertMetric("stale", "jobs that the last check found stale"),
    AlertMetric("stale_share", "stale jobs, of all that are open", unit="share"),
    AlertMetric("stale_errors", "1 if the last check for stale jobs failed, else 0"),
    AlertMetric("stale_dead", "stale jobs that became dead letters", timed=True),
    AlertMetric("stale_failed", "stale jobs that only failed", timed=True),
    AlertMetric("stale_failures", "checks for stale jobs that failed", timed=True),
    AlertMetric(
        "schedule_misses", "runs of schedules that were missed, of all that were due", timed=True, unit="share"
    ),
    AlertMetric("schedule_errors", "schedules that could not fire"),
    AlertMetric("archived", "jobs that were archived", timed=True),
    AlertMetric("archive_failures", "retention runs that failed", timed=True),
    *(
        AlertMetric(f"archive_{how}", f"time of a retention run, {text}", timed=True, unit="seconds")
        for how, text in _HOW.items()
    ),
    AlertMetric("partitions_created", "partitions of the archive that were made", timed=True),
    AlertMetric("partitions_detached", "partitions of the archive that were removed", timed=True),
    AlertMetric("partition_failures", "partitions that could not be made, each counted once", timed=True),
    AlertMetric("archive_errors", "1 if finished jobs could not be archived, else 0"),
    AlertMetric("partition_errors", "faults of the archive: a partition could not be made, or none is ahead"),
    AlertMetric("store_bytes", "size of the store", unit="bytes"),
    AlertMetric("store_share", "size of the store, of what it may have (max_size, maxmemory)", unit="share"),
    AlertMetric("disk_free", "free space on the disk of a store that is a file", unit="bytes"),
    AlertMetric("clients", "connections that the server of the store has"),
    AlertMetric("schedules", "schedules that there are"),
    AlertMetric("busy", "writes that waited for other writers, of all of the last hours", unit="share"),
)
MEASURES = {measure.name: measure for measure in _ALL}
