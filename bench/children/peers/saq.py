# mypy: disable-error-code="import-not-found, import-untyped"
"""saq on Redis: asynchronous jobs, so many at once as the option says. Jobs are kept with their results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import redis
import uvloop
from saq import Queue, Worker

from bench.children.peers import Act, Side


class SaqSide:
    """saq with one function."""

    def __init__(self, url: str, concurrency: int, act: Act) -> None:
        self._url = url
        self._client = redis.Redis.from_url(url)
        self._concurrency = concurrency
        self._act = act
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._open_queue: Any = None

    def prepare(self) -> None:
        """Nothing to make."""

    def enqueue(self, numbers: Iterable[int]) -> None:
        async def one_by_one() -> None:
            queue = self._queue()
            for number in numbers:
                await queue.enqueue("job", number=number)

        self._runner.run(one_by_one())

    def fill(self, numbers: Iterable[int]) -> None:
        self.enqueue(numbers)

    def work(self) -> None:
        async def job(context: Any, *, number: int) -> int:
            return self._act(number)

        async def run() -> None:
            await Worker(self._queue(), functions=[("job", job)], concurrency=self._concurrency).start()

        self._runner.run(run())

    def left(self) -> int:
        return int(self._client.zcard("saq:default:incomplete"))

    def kept(self) -> int:
        return sum(1 for _ in self._client.scan_iter("saq:job:default:*", count=5000))

    def _queue(self) -> Any:
        if self._open_queue is None:
            self._open_queue = Queue.from_url(self._url)
        return self._open_queue


def open_side(url: str, option: str, act: Act) -> Side:
    """saq on the database."""
    return SaqSide(url, int(option), act)
