# mypy: disable-error-code="import-not-found, import-untyped"
"""arq on Redis with results: asynchronous jobs, so many at once as the option says, polled for without a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import redis
import uvloop
from arq import create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker

from bench.children.peers import Act, Side

_POLL = 0.005


class ArqSide:
    """arq with one function."""

    def __init__(self, url: str, concurrency: int, act: Act) -> None:
        self._settings = RedisSettings.from_dsn(url)
        self._client = redis.Redis.from_url(url)
        self._concurrency = concurrency
        self._act = act
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._open_pool: Any = None

    def prepare(self) -> None:
        """Nothing to make."""

    def enqueue(self, numbers: Iterable[int]) -> None:
        async def one_by_one() -> None:
            pool = await self._pool()
            for number in numbers:
                await pool.enqueue_job("job", number)

        self._runner.run(one_by_one())

    def fill(self, numbers: Iterable[int]) -> None:
        self.enqueue(numbers)

    def work(self) -> None:
        async def job(context: Any, number: int) -> int:
            return self._act(number)

        async def run() -> None:
            worker = Worker(
                [func(job, name="job")],
                redis_settings=self._settings,
                handle_signals=False,
                max_jobs=self._concurrency,
                poll_delay=_POLL,
                log_results=False,
            )
            await worker.async_run()

        self._runner.run(run())

    def left(self) -> int:
        return int(self._client.zcard("arq:queue"))

    def kept(self) -> int:
        return sum(1 for _ in self._client.scan_iter("arq:result:*", count=5000))

    async def _pool(self) -> Any:
        if self._open_pool is None:
            self._open_pool = await create_pool(self._settings)
        return self._open_pool


def open_side(url: str, option: str, act: Act) -> Side:
    """arq on the database."""
    return ArqSide(url, int(option), act)
