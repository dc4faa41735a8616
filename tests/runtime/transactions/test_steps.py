"""A step in the transaction of the task's own connection: both are committed, or neither."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Job, LeaseLost, current_job
from headrace.errors import UnsupportedByEngine
from headrace.testing import drain
from tests.runtime.transactions.lenders import ASYNC_LENDERS, LENDERS, Lender, each_async_lender, each_lender
from tests.runtime.transactions.test_enqueue import on, orders, plain
from tests.support.plain_databases import place
from tests.support.waiting import PATIENCE

INSERT = "INSERT INTO orders (name) VALUES ('tea')"


@pytest.fixture
def table(app: Headrace, database: str, url: str) -> None:
    assert app.queues() == []  # the store has its tables
    with plain(database, url) as lender:
        lender.execute("DROP TABLE IF EXISTS orders")
        lender.execute("CREATE TABLE orders (name text)")
        lender.commit()


@pytest.fixture
def lender(database: str, lender_name: str, url: str, table: None) -> Iterator[Lender]:
    with LENDERS[database][lender_name](url) as lender:
        yield lender


def ran(app: Headrace, task: Any) -> Job[Any]:
    job: Job[Any] = task.enqueue()
    drain(app)
    return job.refresh()


@each_lender
def test_a_step_and_its_writes_are_committed_together(app: Headrace, lender: Lender, database: str, url: str) -> None:
    runs: list[str] = []

    def write() -> str:
        runs.append("write")
        lender.execute(INSERT)
        return "order 1"

    @app.task(retry=0)
    def book() -> str:
        lender.begin()
        result = current_job().step_in(lender.connection, "book", write)
        lender.commit()
        if len(runs) == 1 and not app.jobs.count(tag="second"):
            raise ConnectionError("after the commit")
        return result

    job = ran(app, book)
    assert (job.state, runs, orders(database, url)) == ("failed", ["write"], 1)
    assert [entry.message for entry in job.history() if entry.event == "step"] == ["book"]
    runs.append("retried")
    job.retry()
    drain(app)
    assert (job.result(0), runs, orders(database, url)) == ("order 1", ["write", "retried"], 1)


@each_lender
def test_a_step_that_is_rolled_back_runs_again(app: Headrace, lender: Lender, database: str, url: str) -> None:
    runs: list[int] = []

    def write() -> int:
        runs.append(1)
        lender.execute(INSERT)
        return len(runs)

    @app.task(retry=0)
    def book() -> int:
        lender.begin()
        result = current_job().step_in(lender.connection, "book", write)
        if len(runs) == 1:
            lender.rollback()
            raise ConnectionError("before the commit")
        lender.commit()
        return result

    job = ran(app, book)
    assert (job.state, orders(database, url)) == ("failed", 0)
    job.retry()
    drain(app)
    assert (job.result(0), orders(database, url)) == (2, 1)


@each_lender
def test_a_worker_that_lost_the_job_commits_nothing(app: Headrace, lender: Lender, database: str, url: str) -> None:
    @app.task(retry=0)
    def book() -> None:
        lender.begin()
        try:
            current_job().step_in(lender.connection, "book", lambda: lender.execute(INSERT) and None)
        except LeaseLost:
            lender.rollback()
            raise
        lender.commit()

    @app.around_attempt
    def cancel_first(job: Any) -> Iterator[None]:
        app.jobs.get(job.id).cancel()
        yield

    job = ran(app, book)
    assert (job.state, orders(database, url)) == ("cancelled", 0)


@each_async_lender
def test_a_coroutine_commits_its_step_with_its_writes(
    app: Headrace, database: str, lender_name: str, url: str, table: None
) -> None:
    runs: list[str] = []

    @app.task(retry=0)
    async def book() -> str:
        async with ASYNC_LENDERS[database][lender_name](url) as lender:

            async def write(name: str) -> str:
                runs.append(name)
                await lender.execute(INSERT)
                return name

            result: str = await current_job().astep_in(lender.connection, "book", write, "tea")
            if len(runs) == 1:
                await lender.rollback()
                raise ConnectionError("before the commit")
            await lender.commit()
            return result

    job = ran(app, book)
    assert (job.state, orders(database, url)) == ("failed", 0)
    job.retry()
    drain(app)
    assert (job.result(0), runs, orders(database, url)) == ("tea", ["tea", "tea"], 1)


@on("sqlite")
def test_a_connection_in_autocommit_is_refused_before_the_step(app: Headrace, table: None, url: str) -> None:
    @app.task(retry=0)
    def book() -> None:
        with closing(sqlite3.connect(place(url), isolation_level=None)) as db:
            current_job().step_in(db, "book", db.execute, INSERT)

    job = ran(app, book)
    assert "autocommit" in job.errors[-1].message
    assert orders("sqlite", url) == 0


@on("postgres")
def test_a_connection_in_autocommit_is_refused_before_the_step_on_postgres(
    app: Headrace, table: None, url: str
) -> None:
    import psycopg

    @app.task(retry=0)
    def book() -> None:
        with psycopg.connect(place(url), autocommit=True) as db:
            current_job().step_in(db, "book", db.execute, INSERT)

    job = ran(app, book)
    assert "autocommit" in job.errors[-1].message
    assert orders("postgres", url) == 0


@on("sqlite")
def test_a_connection_to_another_file_is_refused_before_the_step(app: Headrace, table: None, tmp_path: Path) -> None:
    @app.task(retry=0)
    def book() -> None:
        with closing(sqlite3.connect(tmp_path / "other.db")) as db:
            current_job().step_in(db, "book", lambda: 1)

    assert "the jobs of this app are in" in ran(app, book).errors[-1].message


@on("sqlite")
def test_a_step_of_a_worker_shares_the_file_with_its_writes(app: Headrace, table: None, url: str) -> None:
    @app.task
    def book() -> int:
        with closing(sqlite3.connect(place(url))) as db, db:
            return current_job().step_in(db, "book", lambda: db.execute(INSERT).rowcount)

    with app.worker():
        assert book.enqueue().result(PATIENCE) == 1
    assert orders("sqlite", url) == 1


@pytest.mark.engines("redis")
def test_redis_has_no_transaction_to_share(engine_name: str, folder: Path) -> None:
    from tests.support.engines import KINDS

    kind = KINDS[engine_name]
    address = kind.create(folder)
    with Headrace(kind.url(address)) as app, closing(sqlite3.connect(":memory:")) as db:
        raised: list[Exception] = []

        @app.task(retry=0)
        def book() -> None:
            with suppress(ValueError):
                try:
                    current_job().step_in(db, "book", lambda: 1)
                except UnsupportedByEngine as error:
                    raised.append(error)

        ran(app, book)
        assert len(raised) == 1
    kind.discard(address)


def test_a_step_in_a_process_of_its_own_is_refused(tmp_path: Path) -> None:
    with Headrace(f"sqlite:///{tmp_path}/jobs.db") as app:
        task = app.task(isolation="process", retry=0)(in_a_process)
        with app.worker(concurrency=1):
            job = task.enqueue()
            assert job.wait(PATIENCE)
        assert "can't reach the store" in job.errors[-1].message


def in_a_process() -> None:
    current_job().step_in(object(), "book", str)
