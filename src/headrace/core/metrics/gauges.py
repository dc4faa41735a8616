"""Gauges, which are sampled: waiting jobs, workers, the size of the store. Pure: `runtime.metrics` samples.

A sample is by queue and name; the queue "" is the whole store. Buckets keep the last, the highest and the mean value of
each gauge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from headrace.core.jobs.records import QueueCount, WorkerRow
from headrace.core.jobs.states import OPEN, State

STORE: Final = ""
# Without any of these, there was no sample.
ALWAYS: Final = ("workers", "dead", "stale", "store_bytes", "busy", "clients", "schedules")

Sample = dict[str, dict[str, float]]


class Gauge(Struct, frozen=True, array_like=True):
    """The values of one gauge within a bucket."""

    last: float
    most: float
    sum: float
    count: int = 1

    def then(self, later: Gauge) -> Gauge:
        """Combined with a later one."""
        return Gauge(later.last, max(self.most, later.most), self.sum + later.sum, self.count + later.count)


Gauges = dict[str, dict[str, Gauge]]


def sample_of_jobs(
    queue_counts: Iterable[QueueCount], workers: Iterable[WorkerRow], queues: Iterable[str], now: int
) -> Sample:
    """The jobs in each open state, the age of the oldest pending one, and the workers that serve each queue."""
    alive = [worker for worker in workers if not worker.is_silent(now)]
    sample: Sample = {STORE: {"workers": len(alive)}}
    for depth in queue_counts:
        if depth.state not in OPEN:
            continue
        for where in (sample[STORE], sample.setdefault(depth.queue, {})):
            where[depth.state.value] = where.get(depth.state.value, 0) + depth.jobs
            if depth.state is State.PENDING and depth.oldest is not None:
                where["oldest"] = max(where.get("oldest", 0.0), (now - depth.oldest) / 1000)
    for queue in {*sample, *queues} - {STORE}:
        sample.setdefault(queue, {})["workers"] = sum(worker.serves(queue) for worker in alive)
    return sample


def as_gauges(sample: Mapping[str, Mapping[str, float]]) -> Gauges:
    """The values to store. Zeros are left out, as most are zero, every ten seconds; see ALWAYS."""
    return {
        queue: {name: Gauge(x, x, x) for name, x in found.items() if x or name in ALWAYS}
        for queue, found in sample.items()
        if queue == STORE or any(found.values())
    }


def then(before: Gauges, later: Gauges) -> Gauges:
    """Earlier values with later ones; a missing later one, such as a queue without jobs, was zero."""
    return {queue: _then(before.get(queue, {}), later.get(queue, {})) for queue in {**before, **later}}


def _then(before: Mapping[str, Gauge], later: Mapping[str, Gauge]) -> dict[str, Gauge]:
    known = {name: gauge.then(later.get(name, _ZERO)) for name, gauge in before.items()}
    return {**later, **known}


_ZERO = Gauge(0.0, 0.0, 0.0)
