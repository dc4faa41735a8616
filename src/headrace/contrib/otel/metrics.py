"""Counters and histograms of this process for an OpenTelemetry meter.

They count what one process enqueues and runs; sum them over all processes. `app.metrics` covers the whole store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from opentelemetry.metrics import Meter

from headrace import Event, Job
from headrace.core.jobs.records import Claim, Outcome
from headrace.core.jobs.states import State
from headrace.core.metrics.catalog import DURATIONS, METRICS, sentence

# The buckets of the messaging conventions, and longer ones for jobs.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class OtelMetrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        def counter(metric: str, name: str, unit: str) -> Any:
            return meter.create_counter(f"headrace.{name}", unit=unit, description=METRICS[metric].sentence)

        def histogram(what: str, name: str) -> Any:
            return meter.create_histogram(
                f"headrace.{name}",
                unit="s",
                description=sentence(DURATIONS[what]),
                explicit_bucket_boundaries_advisory=_SECONDS,
            )

        self._enqueued = counter("enqueued", "jobs.enqueued", "{job}")
        self._ends = {
            State.COMPLETED: counter("completed", "jobs.completed", "{job}"),
            State.FAILED: counter("failed", "jobs.failed", "{job}"),
            State.RETRYING: counter("retried", "jobs.retried", "{job}"),
        }
        self._duration = histogram("run", "attempt.duration")
        self._wait = histogram("wait", "attempt.wait")
        self._retention_counts = {
            "archived": counter("archived", "jobs.archived", "{job}"),
            "partitions_created": counter("partitions_created", "partitions.created", "{partition}"),
            "partitions_detached": counter("partitions_detached", "partitions.detached", "{partition}"),
            "partition_failures": counter("partition_failures", "partitions.failures", "{partition}"),
        }
        self._retention_duration = histogram("archive", "archive.duration")
        self._retention_failures = counter("archive_failures", "archive.failures", "{run}")

    def retention_run(self, event: Event) -> None:
        """Count a retention run. Only one listening process gets its event."""
        for name, counter in self._retention_counts.items():
            if found := event.data.get(name):
                counter.add(found)
        self._retention_duration.record(event.data.get("run", 0.0))
        if event.type == "archive.failed":
            self._retention_failures.add(1)

    def enqueued(self, jobs: Sequence[Job[Any]]) -> None:
        for (task, queue), number in Counter((job.task, job.queue) for job in jobs).items():
            self._enqueued.add(number, _attributes(task, queue))

    def began(self, claim: Claim, now: int) -> None:
        self._wait.record(max(now - claim.run_at, 0) / 1000, _attributes(claim.task, claim.queue))

    def record_end(self, claim: Claim, outcome: Outcome | None, seconds: float) -> None:
        attributes = _attributes(claim.task, claim.queue)
        state = "lost" if outcome is None else outcome.state.value
        self._duration.record(seconds, {**attributes, "headrace.outcome": state})
        if outcome is not None and outcome.state in self._ends:
            self._ends[outcome.state].add(1, attributes)


def _attributes(task: str, queue: str) -> dict[str, str]:
    return {"headrace.task": task, "messaging.destination.name": queue, "messaging.system": "headrace"}
