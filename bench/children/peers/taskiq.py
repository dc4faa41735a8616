# mypy: disable-error-code="import-not-found, import-untyped"
"""taskiq on Redis with results. The option is "stream", which is acknowledged, or "list", and the jobs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import redis
import uvloop
from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from bench.children.peers import Act, Side


class TaskiqSide:
    """taskiq with one task."""

    def __init__(self, url: str, kind: str, concurrency: int, act: Act) -> None:
        self._client = redis.Redis.from_url(url)
        self._kind = kind
        self._concurrency = concurrency
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        results: Any = RedisAsyncResultBackend(redis_url=url)
        if kind == "list":
            broker: Any = ListQueueBroker(url=url)
        else:
            broker = RedisStreamBroker(url=url, consumer_id="0")  # from the beginning, not what comes from now on

        async def job(number: int) -> int:
            return act(number)

        self._broker = broker.with_result_backend(results)
        self._job: Any = self._broker.register_task(job, task_name="job")

    def prepare(self) -> None:
        self._runner.run(self._broker.startup())

    def enqueue(self, numbers: Iterable[int]) -> None:
        async def one_by_one() -> None:
            for number in numbers:
                await self._job.kiq(number)

        self._runner.run(one_by_one())

    def fill(self, numbers: Iterable[int]) -> None:
        self.enqueue(numbers)

    def work(self) -> None:
        async def run() -> None:
            self._broker.is_worker_process = True
            await self._broker.startup()
            await run_receiver_task(
                self._broker, max_async_tasks=self._concurrency, max_prefetch=self._concurrency, validate_params=False
            )

        self._runner.run(run())

    def left(self) -> int:
        if self._kind == "list":
            return int(self._client.llen("taskiq"))
        return int(self._client.xpending("taskiq", "taskiq")["pending"])

    def kept(self) -> int:
        # Everything but the queue.
        return int(self._client.dbsize()) - int(self._client.exists("taskiq"))


def open_side(url: str, option: str, act: Act) -> Side:
    """taskiq on the database."""
    kind, _, concurrency = option.partition(" ")
    return TaskiqSide(url, kind, int(concurrency), act)
