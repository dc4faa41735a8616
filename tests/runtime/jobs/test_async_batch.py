"""Coroutines share commits, and whatever happens to the one that commits for them, none of them waits in vain."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace import EngineUnavailable
from headrace.runtime.submit.async_batch import AsyncBatch
from tests.support.waiting import PATIENCE


async def answers_of(*calls: asyncio.Future[str] | asyncio.Task[str]) -> list[str | BaseException]:
    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*calls, return_exceptions=True)


def test_coroutines_that_come_during_a_commit_share_the_next() -> None:
    commits: list[list[int]] = []

    def flush(items: list[int]) -> list[str]:
        commits.append(items)
        return [f"stored {item}" for item in items]

    async def main() -> list[str | BaseException]:
        batch = AsyncBatch(flush)
        return await answers_of(*(asyncio.create_task(batch.call(n)) for n in range(3)))

    assert asyncio.run(main()) == ["stored 0", "stored 1", "stored 2"]
    assert [item for commit in commits for item in commit] == [0, 1, 2]


def test_without_a_new_thread_every_caller_gets_an_error() -> None:
    async def main() -> list[str | BaseException]:
        pool = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(pool)
        pool.shutdown()
        batch: AsyncBatch[int, str] = AsyncBatch(lambda items: ["stored" for _ in items])
        return await answers_of(*(asyncio.create_task(batch.call(n)) for n in range(3)))

    answers = asyncio.run(main())
    assert len(answers) == 3
    assert all(isinstance(error, EngineUnavailable) for error in answers), answers


def test_callers_get_an_error_when_the_one_that_commits_for_them_is_cancelled() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def flush(items: list[int]) -> list[str]:
        inside.set()
        assert go_on.wait(PATIENCE)
        return ["stored" for _ in items]

    async def main() -> list[str | BaseException]:
        batch = AsyncBatch(flush)
        first = asyncio.create_task(batch.call(1))
        assert await asyncio.to_thread(inside.wait, PATIENCE)
        second = asyncio.create_task(batch.call(2))
        await asyncio.sleep(0)
        assert batch._driver is not None
        batch._driver.cancel()
        try:
            answers = await answers_of(first, second)
        finally:
            go_on.set()
        assert await batch.call(3) == "stored"  # it serves later callers
        return answers

    answers = asyncio.run(main())
    assert len(answers) == 2
    assert all(isinstance(error, EngineUnavailable) for error in answers), answers


@pytest.mark.parametrize("error", [ValueError("bad"), EngineUnavailable("away")])
def test_an_error_of_the_store_reaches_the_caller(error: Exception) -> None:
    def flush(items: list[int]) -> list[str]:
        raise error

    async def main() -> list[str | BaseException]:
        return await answers_of(asyncio.create_task(AsyncBatch(flush).call(1)))

    assert asyncio.run(main()) == [error]
