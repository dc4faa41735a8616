"""Counters and histograms of this process for an OpenTelemetry meter.

They count what one process enqueues and runs; sum them over all processes. `app.metrics` covers the whole store.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

from opentelemetry.metrics import Meter

from headrace import Event, Job
from headrace.core.jobs.records import Claim, Outcome
from headrace.core.jobs.states import State

# The buckets of the messaging conventions, and longer ones for jobs.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class OtelMetrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        def count(name: str, what: str) -> Any:
            return meter.create_counter(f"headrace.jobs.{name}", unit="{job}", description=what)

        def times(name: str, what: str) -> Any:
            return meter.create_histogram(
                f"headrace.{name}", unit="s", description=what, explicit_bucket_boundaries_advisory=_SECONDS
            )

        def partitions(name: str, what: str) -> Any:
            return meter.create_counter(f"headrace.partitions.{name}", unit="{partition}", description=what)

        self._enqueued = count("enqueued", "Jobs that were enqueued.")
        self._ends = {
            State.COMPLETED: count("completed", "Jobs that were completed."),
            State.FAILED: count("failed", "Jobs that failed for good."),
            State.RETRYING: count("retried", "Attempts that failed and are to be repeated."),
        }
        self._duration = times("attempt.duration", "How long attempts ran.")
        self._wait = times("attempt.wait", "How long jobs were due before their attempt began.")

        self._retention_run = {
            "archived": count("archived", "Jobs that were archived."),
            "partitions_created": partitions("created", "Partitions of the archive that were made."),
            "partitions_detached": partitions("detached", "Partitions of the archive that were removed."),
            "partition_failures": partitions("failures", "Partitions that could not be made, each counted once."),
        }
        self._sweep = times("archive.duration", "How long walks over finished jobs took that found some.")
        self._sweep_failures = meter.create_counter(
            "headrace.archive.failures", unit="{walk}", description="Walks over finished jobs that failed."
        )

    def retention_run(self, event: Event) -> None:
        """Count a retention run. Only one listening process gets its event."""
        for name, counter in self._retention_run.items():
            if found := event.data.get(name):
                counter.add(found)
        self._sweep.record(event.data.get("run", 0.0))
        if event.type == "archive.failed":
            self._sweep_failures.add(1)

    def enqueued(self, jobs: Sequence[Job[Any]]) -> None:
        for (task, queue), number in Tally((job.task, job.queue) for job in jobs).items():
            self._enqueued.add(number, _about(task, queue))

    def began(self, claim: Claim, now: int) -> None:
        self._wait.record(max(now - claim.run_at, 0) / 1000, _about(claim.task, claim.queue))

    def ended(self, claim: Claim, outcome: Outcome | None, seconds: float) -> None:
        about = _about(claim.task, claim.queue)
        state = "lost" if outcome is None else outcome.state.value
        self._duration.record(seconds, {**about, "headrace.outcome": state})
        if outcome is not None and outcome.state in self._ends:
            self._ends[outcome.state].add(1, about)


def _about(task: str, queue: str) -> dict[str, str]:
    return {"headrace.task": task, "messaging.destination.name": queue, "messaging.system": "headrace"}
