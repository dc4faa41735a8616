"""The app under test and its jobs, the same in every process of a run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from headrace import Headrace, Task

BATCH = 1000


class Subject(Struct, frozen=True):
    """An app with its three tasks: nothing to do, nothing to do on the event loop, and the time of the start."""

    app: Headrace
    noop: Task[..., Any, Any]
    noop_async: Task[..., Any, Any]
    stamp: Task[..., Any, Any]
    named: tuple[Task[..., Any, Any], ...]  # more that do nothing, each under a name of its own

    def fill(self, jobs: int, task: Task[..., Any, Any] | None = None) -> None:
        """Enqueue no-op jobs in batches."""
        for numbers in in_batches(range(jobs)):
            self.app.enqueue_many([(task or self.noop).bind(number) for number in numbers])

    def finished(self) -> int:
        """How many jobs are over."""
        return sum(queue.completed + queue.failed + queue.cancelled for queue in self.app.queues())


def open_subject(url: str, durability: Any, tells: str = "metrics", names: int = 0) -> Subject:
    """An app on the store. A job takes an argument and keeps a result, as most jobs do."""
    app = Headrace(url, durability=durability, events=tells != "nothing", metrics=tells == "metrics")

    def noop(number: int, _ballast: str = "") -> int:
        return number

    async def noop_async(number: int) -> int:
        return number

    def stamp(_ballast: str = "") -> int:
        return time.time_ns()

    named = tuple(app.task(name=f"noop-{number}")(noop) for number in range(names))
    return Subject(app, app.task(noop), app.task(noop_async), app.task(stamp), named)


def in_batches(numbers: Iterable[int], size: int = BATCH) -> Iterable[list[int]]:
    """The numbers in lists of at most `size`."""
    left = iter(numbers)
    while batch := list(itertools.islice(left, size)):
        yield batch
