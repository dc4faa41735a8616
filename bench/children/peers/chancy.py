# mypy: disable-error-code="import-not-found, import-untyped"
"""chancy: asynchronous jobs, 1000 at once, polled eagerly, reported in batches. It keeps the jobs, and no results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import psycopg
import uvloop
from chancy import Chancy, Job, Queue, Worker

from bench.children.peers import Act, Side

_BATCH = 1000
_REPORT_EVERY = 0.05
_acts: list[Act] = []  # it finds a job's function by the name of its module


async def job(number: int) -> None:
    _acts[0](number)


class ChancySide:
    """chancy with one function."""

    def __init__(self, url: str) -> None:
        self._url = url
        log = logging.getLogger("quiet chancy")
        log.setLevel(logging.WARNING)  # it writes a line for each job otherwise
        self._app: Any = Chancy(url, log=log)

    def prepare(self) -> None:
        async def install() -> None:
            async with Chancy(self._url, log=self._app.log) as app:
                await app.migrate()
                await app.declare(
                    Queue("default", concurrency=_BATCH, executor=Chancy.Executor.Async, eager_polling=True)
                )

        asyncio.run(install())

    def enqueue(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._app.sync_push(_job(number))

    def fill(self, numbers: Iterable[int]) -> None:
        for _ in self._app.sync_push_many([_job(number) for number in numbers], batch_size=_BATCH):
            pass  # each batch is stored when it is asked for

    def work(self) -> None:
        async def run() -> None:
            async with Chancy(self._url, log=self._app.log) as app:
                worker = Worker(app, register_signal_handlers=False)
                worker.send_outgoing_interval = _REPORT_EVERY
                async with worker:
                    await worker.wait_for_shutdown()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())

    def left(self) -> int:
        return self._count("SELECT count(*) FROM chancy_jobs WHERE state <> 'succeeded'")

    def kept(self) -> int:
        return self._count("SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'")

    def _count(self, query: str) -> int:
        with psycopg.connect(self._url) as db:
            return int(db.execute(query).fetchone()[0])  # type: ignore[index]


def _job(number: int) -> Any:
    return Job(func="bench.children.peers.chancy.job", kwargs={"number": number}, queue="default")


def open_side(url: str, option: str, act: Act) -> Side:
    """chancy on the database."""
    _acts[:] = [act]
    return ChancySide(url)
