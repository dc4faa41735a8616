# mypy: disable-error-code="import-not-found, import-untyped"
"""pgqueuer: batches of 1000. It keeps a log of finished jobs, and no results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench.children.peers import Act, Side

_BATCH = 1000


class PgqueuerSide:
    """pgqueuer with one entrypoint."""

    def __init__(self, url: str, act: Act) -> None:
        self._url = url
        self._act = act
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._open_connection: Any = None

    def prepare(self) -> None:
        async def install() -> None:
            await Queries(AsyncpgDriver(await self._connection())).install()

        self._runner.run(install())

    def enqueue(self, numbers: Iterable[int]) -> None:
        async def one_by_one() -> None:
            queries = Queries(AsyncpgDriver(await self._connection()))
            for number in numbers:
                await queries.enqueue("job", str(number).encode())

        self._runner.run(one_by_one())

    def fill(self, numbers: Iterable[int]) -> None:
        async def many() -> None:
            queries = Queries(AsyncpgDriver(await self._connection()))
            payloads = [str(number).encode() for number in numbers]
            for start in range(0, len(payloads), _BATCH):
                batch = payloads[start : start + _BATCH]
                await queries.enqueue(["job"] * len(batch), batch, [0] * len(batch))

        self._runner.run(many())

    def work(self) -> None:
        async def run() -> None:
            pool = await asyncpg.create_pool(self._url, min_size=2, max_size=4)
            app = PgQueuer(AsyncpgPoolDriver(pool))

            @app.entrypoint("job")
            async def job(work: Any) -> None:
                self._act(int(work.payload))

            await app.run(batch_size=_BATCH)

        self._runner.run(run())

    def left(self) -> int:
        return self._count("SELECT count(*) FROM pgqueuer")

    def kept(self) -> int:
        return self._count("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")

    def _count(self, query: str) -> int:
        async def count() -> int:
            return int(await (await self._connection()).fetchval(query))

        return self._runner.run(count())

    async def _connection(self) -> Any:
        if self._open_connection is None:
            self._open_connection = await asyncpg.connect(self._url)
        return self._open_connection


def open_side(url: str, option: str, act: Act) -> Side:
    """pgqueuer on the database."""
    return PgqueuerSide(url, act)
