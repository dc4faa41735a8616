"""What can only be read off now and then: how much waits, who works, how large the store is. Pure: someone else reads.

A sample is by queue and name; the queue "" is the whole store. Buckets keep of each gauge its last reading, the highest
and the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from headrace.core.jobs.records import QueueCount, WorkerRow
from headrace.core.jobs.states import OPEN, State

STORE: Final = ""
# If there is none of these, nobody has looked.
ALWAYS: Final = ("workers", "dead", "stale", "store_bytes", "busy", "clients", "schedules")

Sample = dict[str, dict[str, float]]


class Gauge(Struct, frozen=True, array_like=True):
    """The readings of one gauge within a bucket."""

    last: float
    most: float
    sum: float
    count: int = 1

    def then(self, later: Gauge) -> Gauge:
        """With what was read later."""
        return Gauge(later.last, max(self.most, later.most), self.sum + later.sum, self.count + later.count)


Gauges = dict[str, dict[str, Gauge]]


def sample_of_jobs(
    queue_counts: Iterable[QueueCount], workers: Iterable[WorkerRow], queues: Iterable[str], now: int
) -> Sample:
    """How many jobs are in each open state, how old the oldest pending one is, and how many workers serve a queue."""
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
    """The readings to store. What is nothing is left out, for most is, every ten seconds; see ALWAYS."""
    return {
        queue: {name: Gauge(x, x, x) for name, x in found.items() if x or name in ALWAYS}
        for queue, found in sample.items()
        if queue == STORE or any(found.values())
    }


def then(before: Gauges, later: Gauges) -> Gauges:
    """Earlier readings with later ones; what was not met later any more, such as a queue without jobs, was nothing."""
    return {queue: _then(before.get(queue, {}), later.get(queue, {})) for queue in {**before, **later}}


def _then(before: Mapping[str, Gauge], later: Mapping[str, Gauge]) -> dict[str, Gauge]:
    known = {name: gauge.then(later.get(name, _ZERO)) for name, gauge in before.items()}
    return {**later, **known}


_ZERO = Gauge(0.0, 0.0, 0.0)
