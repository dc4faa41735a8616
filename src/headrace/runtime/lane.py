"""Group commit for coroutines: what the tasks of one event loop submit meanwhile travels in one thread call."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from headrace.engines.batch import Flush, flush_each

T = TypeVar("T")
R = TypeVar("R")

_MOST = 1000


class Lane(Generic[T, R]):
    """Collects the items of one event loop; a thread flushes them while the next ones gather."""

    def __init__(self, flush: Flush[T, R]) -> None:
        self._flush = flush
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._driver: asyncio.Task[None] | None = None

    async def call(self, item: T) -> R:
        """Have the item flushed, alone or with others, and answer for it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, future))
        if self._driver is None:
            self._driver = loop.create_task(self._drive())
        return await future

    async def _drive(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                answers = await asyncio.to_thread(flush_each, self._flush, [item for item, _ in batch])
                for (_, future), answer in zip(batch, answers, strict=True):
                    if future.done():  # its caller was cancelled; the job is stored all the same
                        continue
                    if answer.error is None:
                        future.set_result(answer.get())
                    else:
                        future.set_exception(answer.error)
        finally:
            self._driver = None
