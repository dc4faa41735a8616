"""The facade of one queue."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.app.hub import AppHub
from headrace.core.clock import to_datetime
from headrace.core.model import Filter
from headrace.core.options import check_limit, check_queue
from headrace.core.states import NOT_STARTED, Event, State
from headrace.runtime.job import Job
from headrace.runtime.twin import twin


class QueueStats(Struct, frozen=True, kw_only=True):
    """How many jobs a queue has in each state, and since when its oldest pending one could run."""

    queue: str
    paused: bool
    scheduled: int = 0
    waiting: int = 0
    pending: int = 0
    running: int = 0
    retrying: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest_pending: datetime | None = None


def all_stats(hub: AppHub) -> list[QueueStats]:
    """The statistics of every queue, by name."""
    paused = {queue.name: queue.paused for queue in hub.engine.desk.queues()}
    counts: dict[str, dict[str, Any]] = {name: {} for name in paused}
    for depth in hub.engine.desk.depths():
        found = counts.setdefault(depth.queue, {})
        found[depth.state.value] = depth.jobs
        if depth.state is State.PENDING:
            found["oldest_pending"] = to_datetime(depth.oldest)
    return [QueueStats(queue=name, paused=paused.get(name, False), **counts[name]) for name in sorted(counts)]


class Queue:
    """A named queue."""

    def __init__(self, name: str, hub: AppHub) -> None:
        self.name = check_queue("queue", name)
        self._hub = hub

    def stats(self) -> QueueStats:
        """Counts for each state, zero included."""
        found = (stats for stats in all_stats(self._hub) if stats.queue == self.name)
        return next(found, QueueStats(queue=self.name, paused=False))

    def length(self) -> int:
        """How many jobs are pending: ready to run and not yet taken."""
        return self._hub.engine.desk.count(Filter(queue=self.name, states=(State.PENDING,)))

    def peek(self, n: int = 10) -> list[Job[Any]]:
        """The next jobs in the order they will run."""
        return [Job(self._hub, row) for row in self._hub.engine.desk.peek(self.name, check_limit("n", n))]

    def clear(self) -> int:
        """Delete every job that has not started; how many there were."""
        states = tuple(sorted(NOT_STARTED))
        return len(self._hub.move(Filter(queue=self.name, states=states), Event.DELETE))

    def pause(self) -> None:
        """Let no worker take jobs from this queue; those that run, or were fetched a moment before, go on."""
        self._hub.engine.desk.pause_queue(self.name, True)

    def resume(self) -> None:
        """Let workers take jobs again."""
        self._hub.engine.desk.pause_queue(self.name, False)

    @property
    def paused(self) -> bool:
        return any(queue.name == self.name and queue.paused for queue in self._hub.engine.desk.queues())

    astats = twin(stats)
    alength = twin(length)
    apeek = twin(peek)
    aclear = twin(clear)
    apause = twin(pause)
    aresume = twin(resume)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"
