"""Group commit for coroutines: concurrent submissions of one event loop share one thread call."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from headrace.core.text import why
from headrace.engines.shared.group_commit import Answer, Flush, flush_each
from headrace.errors import EngineUnavailable

T = TypeVar("T")
R = TypeVar("R")

_MAX_BATCH = 1000


class AsyncBatch(Generic[T, R]):
    """Collects the items of one event loop; a thread flushes them while the next ones collect."""

    def __init__(self, flush: Flush[T, R]) -> None:
        self._flush = flush
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._driver: asyncio.Task[None] | None = None

    async def call(self, item: T) -> R:
        """Flush the item, alone or with others, and return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, future))
        if self._driver is None:
            self._driver = loop.create_task(self._drive())
        return await future

    async def _drive(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
                answers = await asyncio.to_thread(flush_each, self._flush, [item for item, _ in batch])
                for (_, future), answer in zip(batch, answers, strict=True):
                    _resolve(future, answer)
        except asyncio.CancelledError:
            self._give_up(batch, "the event loop is ending; the job may or may not be stored")
            raise
        except Exception as error:  # usually: no thread can be started any more
            self._give_up(batch, f"can't send the job to the store: {why(error)}")
        finally:
            self._driver = None

    def _give_up(self, batch: list[tuple[T, asyncio.Future[R]]], reason: str) -> None:
        """Fail the items in flight and those that wait: nothing else would."""
        left, self._waiting = [*batch, *self._waiting], []
        for _, future in left:
            _resolve(future, Answer(None, EngineUnavailable(reason)))


def _resolve(future: asyncio.Future[R], answer: Answer[R]) -> None:
    if future.done():  # its caller was cancelled; the job is stored anyway
        return
    if answer.error is None:
        future.set_result(answer.get())
    else:
        future.set_exception(answer.error)
