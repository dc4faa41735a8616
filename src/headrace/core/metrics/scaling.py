"""How many workers a queue needs, and how far it is behind. Pure: the caller reads the load.

By Little's law, jobs that arrive at a rate and run for a time keep their product of slots busy. To start a backlog
within the target wait takes the run time of the backlog, divided by that wait; more slots than jobs are of no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from msgspec import Struct

USUAL_WINDOW: Final = 300_000  # over which rates are taken
LONG_WINDOW: Final = 86_400_000  # where the usual window has no run times


class QueueLoad(Struct, frozen=True, kw_only=True):
    """What is known of a queue now.

    Rates are per second, times in seconds. `run` and `attempts` are averages, None without history. `workers` and
    `slots` are those that serve the queue and are not paused. `most_running` and `most_starts` are the limits of the
    queue for concurrency and starts per second.
    """

    queue: str
    pending: int = 0
    running: int = 0
    oldest: float = 0.0
    arrivals: float = 0.0
    run: float | None = None
    attempts: float | None = None
    workers: int = 0
    slots: int = 0
    paused: bool = False
    most_running: int | None = None
    most_starts: float | None = None


class QueueScale(Struct, frozen=True, kw_only=True):
    """What a queue has and what it wants. `seconds_behind` is the wait of a job that is enqueued now."""

    queue: str
    workers: int
    slots: int
    slots_wanted: float
    workers_wanted: int
    seconds_behind: float
    paused: bool = False


class StoreScale(Struct, frozen=True, kw_only=True):
    """The same for all queues together, for workers that serve all of them, and for each queue."""

    target_wait: float
    workers: int
    slots: int
    slots_wanted: float
    workers_wanted: int
    seconds_behind: float
    queues: list[QueueScale]


def scale_of_queue(load: QueueLoad, target_wait: float, slots_per_worker: float) -> QueueScale:
    """What this queue wants; `slots_per_worker` is the concurrency of a new worker if none serves it yet."""
    slots = slots_wanted(load, target_wait)
    per_worker = load.slots / load.workers if load.workers and load.slots else slots_per_worker
    return QueueScale(
        queue=load.queue,
        workers=load.workers,
        slots=load.slots,
        slots_wanted=slots,
        workers_wanted=_workers(slots, per_worker),
        seconds_behind=seconds_behind(load),
        paused=load.paused,
    )


def slots_wanted(load: QueueLoad, target_wait: float) -> float:
    """The slots that keep up with the arrivals and start the backlog within the target wait.

    Running jobs keep their slots. A paused queue wants no others. Without any run time, the present slots are kept.
    """
    if load.paused or not (load.pending or load.arrivals):
        return float(load.running)
    if load.run is None:
        return float(max(load.running, load.slots, 1))
    steady = load.arrivals * load.run * max(load.attempts or 1.0, 1.0)
    backlog = load.pending * min(load.run / target_wait, 1.0)
    return max(min(max(steady + backlog, 1.0), _limit(load)), load.running)


def _limit(load: QueueLoad) -> float:
    """The slots that the limits of the queue let it use."""
    by_rate = float("inf") if load.most_starts is None else max(load.most_starts * (load.run or 0.0), 1.0)
    return by_rate if load.most_running is None else min(by_rate, float(load.most_running))


def seconds_behind(load: QueueLoad) -> float:
    """How long a job that is enqueued now waits: the time of the backlog, at least the age of the oldest pending job.

    A paused queue is 0 behind, because no worker could help.
    """
    if load.paused or not load.pending:
        return 0.0
    by_backlog = load.pending * load.run / load.slots if load.run is not None and load.slots else 0.0
    return max(load.oldest, by_backlog)


def scale_of_store(
    loads: Sequence[QueueLoad], target_wait: float, workers: int, slots: int, slots_per_worker: float
) -> StoreScale:
    """What all queues want together, with so many workers and slots in all."""
    queues = [scale_of_queue(load, target_wait, slots_per_worker) for load in loads]
    wanted = sum(queue.slots_wanted for queue in queues)
    return StoreScale(
        target_wait=target_wait,
        workers=workers,
        slots=slots,
        slots_wanted=wanted,
        workers_wanted=_workers(wanted, slots / workers if workers and slots else slots_per_worker),
        seconds_behind=max((queue.seconds_behind for queue in queues), default=0.0),
        queues=queues,
    )


def _workers(slots: float, per_worker: float) -> int:
    return ceil(round(slots / per_worker, 6))  # rounded: 3.0000000001 is 3
