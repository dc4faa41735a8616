# mypy: disable-error-code="import-not-found, import-untyped"
"""procrastinate: asynchronous jobs, so many at once as the option says. It keeps the jobs, and no results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import psycopg
import uvloop
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from bench.children.peers import Act, Side

_BATCH = 1000


class ProcrastinateSide:
    """procrastinate with one task."""

    def __init__(self, url: str, concurrency: int, act: Act) -> None:
        self._url = url
        self._concurrency = concurrency
        self._act = act

    def prepare(self) -> None:
        with self._app(SyncPsycopgConnector(conninfo=self._url)).open() as app:
            app.schema_manager.apply_schema()

    def enqueue(self, numbers: Iterable[int]) -> None:
        with self._app(SyncPsycopgConnector(conninfo=self._url)).open() as app:
            for number in numbers:
                app.tasks["job"].defer(number=number)

    def fill(self, numbers: Iterable[int]) -> None:
        with self._app(SyncPsycopgConnector(conninfo=self._url)).open() as app:
            calls = [{"number": number} for number in numbers]
            for start in range(0, len(calls), _BATCH):
                app.tasks["job"].batch_defer(*calls[start : start + _BATCH])

    def work(self) -> None:
        app = self._app(PsycopgConnector(conninfo=self._url, min_size=4, max_size=self._concurrency + 2))

        async def run() -> None:
            async with app.open_async():
                await app.run_worker_async(concurrency=self._concurrency, install_signal_handlers=False)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())

    def left(self) -> int:
        return self._count("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')")

    def kept(self) -> int:
        return self._count("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")

    def _app(self, connector: Any) -> Any:
        app = App(connector=connector)

        async def job(number: int) -> None:
            self._act(number)

        app.task(name="job")(job)
        return app

    def _count(self, query: str) -> int:
        with psycopg.connect(self._url) as db:
            return int(db.execute(query).fetchone()[0])  # type: ignore[index]


def open_side(url: str, option: str, act: Act) -> Side:
    """procrastinate on the database."""
    return ProcrastinateSide(url, int(option), act)
