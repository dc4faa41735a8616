"""The test kit runs hooks and providers as a worker does, with values of its own for each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace import INJECTED, Headrace, JobContext
from headrace.testing import adrain, drain


class Pool:
    is_open = True


class AsyncPool(Pool):
    pass


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
def app(told: list[Any]) -> Headrace:
    app = Headrace("memory://")

    @app.around_attempt
    def outer(job: JobContext) -> Iterator[None]:
        told.append("begins")
        yield
        told.append("ended")

    @app.around_attempt
    async def inner(job: JobContext) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        yield

    @app.provide(per="worker")
    def pool() -> Iterator[Pool]:
        yield (made := Pool())
        made.is_open = False
        told.append("closed")

    @app.provide(per="worker")
    async def async_pool() -> AsyncIterator[AsyncPool]:
        loop = asyncio.get_running_loop()
        yield AsyncPool()
        told.append(loop is asyncio.get_running_loop())

    @app.task
    def work(pool: Pool = INJECTED, other: AsyncPool = INJECTED) -> bool:
        return pool.is_open and other.is_open

    @app.task
    async def awork(pool: Pool = INJECTED, other: AsyncPool = INJECTED) -> bool:
        return pool.is_open and other.is_open

    return app


@pytest.mark.parametrize("name", ["work", "awork"])
@pytest.mark.parametrize("is_looping", [False, True])
def test_each_attempt_has_its_values_and_closes_them(
    app: Headrace, told: list[Any], name: str, is_looping: bool
) -> None:
    jobs = [app.enqueue(name) for _ in range(2)]
    if is_looping:
        asyncio.run(adrain(app))
    else:
        drain(app)
    assert [job.refresh().result(0) for job in jobs] == [True, True]
    assert sorted(told, key=str) == sorted(["begins", "ended", "closed", True] * 2, key=str)
    app.close()
