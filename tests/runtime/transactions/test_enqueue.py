"""A job that is enqueued in the caller's transaction is there if, and only if, the caller commits."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    ConfigError,
    DuplicateJob,
    Headrace,
    InvalidJob,
    JobNotFound,
    Task,
)
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.sqlite_file.database import SqliteDatabase
from headrace.errors import SchemaMismatch, StoreMoved, UnsupportedByEngine
from headrace.testing import drain, inline, isolated
from tests.runtime.transactions import lenders
from tests.runtime.transactions.lenders import LENDERS, Lender, each_async_lender, each_lender
from tests.support import servers
from tests.support.engines import KINDS
from tests.support.plain_databases import place
from tests.support.processes import Child
from tests.support.waiting import PATIENCE, eventually

ROOT = Path(__file__).parents[3]


def on(database: str) -> pytest.MarkDecorator:
    """For what is about one database."""
    return pytest.mark.parametrize("database", [name for name in KINDS if name == database])


@pytest.fixture
def add(app: Headrace) -> Task[[int, int], int, int]:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    assert app.queues() == []  # the store has its tables
    return add


@pytest.fixture
def lender(database: str, lender_name: str, url: str, table: None) -> Iterator[Lender]:
    with LENDERS[database][lender_name](url) as lender:
        yield lender


@pytest.fixture
def table(database: str, url: str) -> None:
    """The callers' own, empty."""
    with plain(database, url) as lender:
        lender.execute("DROP TABLE IF EXISTS orders")
        lender.execute("CREATE TABLE orders (name text)")
        lender.commit()


def plain(database: str, url: str) -> Any:
    """The connection of the plainest kind for this database."""
    return lenders.by_sqlite3(url) if database == "sqlite" else lenders.by_psycopg(url)


def orders(database: str, url: str) -> int:
    with plain(database, url) as lender:
        return int(lender.execute("SELECT count(*) FROM orders").fetchone()[0])


# -- every kind of connection


@each_lender
def test_a_committed_job_runs(app: Headrace, add: Any, lender: Lender, database: str, url: str) -> None:
    with app.worker():
        lender.begin()
        lender.execute("INSERT INTO orders (name) VALUES ('tea')")
        job = add.using(connection=lender.connection, tags=["a", "b"], queue="new").enqueue(2, 3)
        assert (job.task, job.state, job.args) == ("add", "pending", (2, 3))
        with pytest.raises(JobNotFound):
            job.refresh()
        lender.commit()
        assert job.result(PATIENCE) == 5
    assert app.jobs.count(tag="b") == 1
    assert orders(database, url) == 1


@each_lender
def test_a_job_that_is_rolled_back_never_was(app: Headrace, add: Any, lender: Lender, database: str, url: str) -> None:
    lender.begin()
    lender.execute("INSERT INTO orders (name) VALUES ('tea')")
    jobs = app.enqueue_many([add.using(connection=lender.connection, tags=["t"]).bind(n, n) for n in range(150)])
    assert len(jobs) == 150
    lender.rollback()
    assert (app.jobs.count(), app.jobs.count(tag="t"), orders(database, url)) == (0, 0, 0)
    lender.begin()
    after = add.using(connection=lender.connection).enqueue(1, 1)
    lender.commit()
    assert drain(app) == 1
    assert after.refresh().state == "completed"


@each_lender
def test_a_savepoint_takes_only_its_own_jobs_back(app: Headrace, add: Any, lender: Lender) -> None:
    inside = add.using(connection=lender.connection)
    lender.begin()
    lender.execute("INSERT INTO orders (name) VALUES ('tea')")
    kept = inside.enqueue(1, 1)
    with suppress(KeyError), lender.nested():
        inside.enqueue(2, 2)
        raise KeyError("changed my mind")
    with lender.nested():
        also_kept = inside.enqueue(3, 3)
    lender.commit()
    assert [job.id for job in app.jobs.find()] == [also_kept.id, kept.id]


@each_lender
def test_a_taken_id_is_refused_and_the_transaction_goes_on(
    app: Headrace, add: Any, lender: Lender, database: str, url: str
) -> None:
    add.using(job_id="taken").enqueue(0, 0)
    inside = add.using(connection=lender.connection)
    lender.begin()
    lender.execute("INSERT INTO orders (name) VALUES ('tea')")
    with pytest.raises(DuplicateJob, match="taken"):
        inside.using(job_id="taken", queue="other").enqueue(1, 1)
    with pytest.raises(DuplicateJob, match="taken"):
        app.enqueue_many([inside.using(job_id=name).bind(1, 1) for name in ("free", "taken", "other")])
    with pytest.raises(DuplicateJob, match="twice"):
        app.enqueue_many([inside.using(job_id=name).bind(1, 1) for name in ("once", "twice", "twice")])
    inside.using(job_id="fresh").enqueue(2, 2)
    lender.execute("INSERT INTO orders (name) VALUES ('pot')")
    lender.commit()
    assert {job.id for job in app.jobs.find()} == {"taken", "fresh"}
    assert orders(database, url) == 2


@each_lender
def test_workers_are_rung_after_the_commit(
    app: Headrace, add: Any, lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engines.wakeup.local._BACKSTOP", 2 * PATIENCE)
    with closing(app.engine.listen("work")) as bell:
        while bell.wait(0.05):
            pass
        lender.begin()
        add.using(connection=lender.connection).enqueue(1, 1)
        lender.execute("INSERT INTO orders (name) VALUES ('tea')")
        lender.commit()
        assert bell.wait(PATIENCE)


# -- a plain connection


@pytest.mark.timed
def test_a_worker_has_the_job_within_a_second(app: Headrace, add: Any, database: str, url: str) -> None:
    took = []
    with plain(database, url) as lender, app.worker():
        for _ in range(3):  # a slow moment of the machine is not a bug
            job = add.using(connection=lender.connection).enqueue(1, 1)
            committed = time.monotonic()
            lender.commit()
            job.result(PATIENCE)
            took.append(time.monotonic() - committed)
    assert min(took) < 1.0


def test_the_job_is_invisible_before_the_commit(app: Headrace, add: Any, database: str, url: str) -> None:
    with plain(database, url) as lender:
        job = add.using(connection=lender.connection).enqueue(1, 1)
        with pytest.raises(JobNotFound):
            app.jobs.get(job.id)
        assert app.jobs.count() == 0
        [row] = lender.execute("SELECT 1 FROM " + tables(url) + " WHERE id = '" + job.id + "'").fetchall()
        assert row[0] == 1  # its own connection does
        lender.rollback()


def tables(url: str) -> str:
    return "headrace_jobs" if url.startswith("sqlite") else f"{url.rpartition('schema=')[2]}.headrace_jobs"


def test_a_connection_in_autocommit_stores_at_once(app: Headrace, add: Any, database: str, url: str) -> None:
    how: dict[str, Any] = {"isolation_level": None} if database == "sqlite" else {"autocommit": True}
    by = lenders.by_sqlite3 if database == "sqlite" else lenders.by_psycopg
    with by(url, **how) as lender:
        inside = add.using(connection=lender.connection)
        job = inside.enqueue(1, 1)
        assert job.refresh().state == "pending"
        with pytest.raises(DuplicateJob):
            app.enqueue_many([inside.using(job_id=name).bind(1, 1) for name in ("free", job.id)])
        assert app.jobs.count() == 1
        after = inside.enqueue(1, 1)
        assert after.refresh().row.seq == job.row.seq + 1  # the free one was never visible


def test_a_caller_that_is_killed_leaves_no_job(app: Headrace, add: Any, database: str, url: str) -> None:
    driver = "sqlite3" if database == "sqlite" else "psycopg"
    script = f"""
import {driver}, sys
from headrace import Headrace
db = {driver}.connect({place(url)!r})
app = Headrace({url!r})
app.task_by_name("add").using(connection=db, job_id="lost").enqueue(1, 1)
print("stored", flush=True)
sys.stdin.readline()
"""
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "stored\n"
        caller.kill()
    assert app.jobs.count() == 0
    eventually(lambda: _is_free(add), "the id, which the dead caller held, is free")
    assert drain(app) == 1


def _is_free(add: Any) -> bool:
    add.using(job_id="lost").enqueue(2, 2)
    return True


def test_a_connection_that_is_closed_without_a_commit_leaves_no_job(
    app: Headrace, add: Any, database: str, url: str
) -> None:
    with plain(database, url) as lender:
        add.using(connection=lender.connection).enqueue(1, 1)
    assert app.jobs.count() == 0


def test_enqueue_many_takes_dicts_and_one_connection_only(app: Headrace, add: Any, database: str, url: str) -> None:
    with plain(database, url) as one, plain(database, url) as other:
        calls = [add.using(connection=one.connection).bind(1, 1), add.using(connection=other.connection).bind(1, 1)]
        with pytest.raises(InvalidJob, match="the same connection"):
            app.enqueue_many(calls)
        with pytest.raises(InvalidJob, match="the same connection"):
            app.enqueue_many([calls[0], add.bind(1, 1)])
        one.rollback()
        assert app.jobs.count() == 0
        app.enqueue_many([{"task": "add", "args": [n, n], "connection": one.connection} for n in range(3)])
        one.commit()
    assert app.jobs.count() == 3


def test_nothing_holds_on_to_the_connection(app: Headrace, add: Any, database: str, url: str) -> None:
    class Connection(sqlite3.Connection):
        """Can be referred to weakly."""

    with plain(database, url) as lender:
        db = sqlite3.connect(place(url), factory=Connection) if database == "sqlite" else lender.connection
        del lender
        add.using(connection=db).enqueue(1, 1)
        gone = weakref.ref(db)
        db.commit()
        db.close()
        del db
    gc.collect()
    assert gone() is None
    assert app.jobs.count() == 1


def test_a_store_that_has_moved_takes_no_job(app: Headrace, add: Any, database: str, url: str) -> None:
    app.engine.transfer.set_status(StoreStatus(kind="moved", other="sqlite:///new.db", at=1))
    with plain(database, url) as lender:
        inside = add.using(connection=lender.connection)
        with pytest.raises(StoreMoved, match=r"new\.db"):
            inside.enqueue(1, 1)
        with pytest.raises(StoreMoved, match=r"new\.db"):
            app.enqueue_many([inside.bind(1, 1), inside.bind(2, 2)])
        lender.commit()
    assert app.jobs.count() == 0


# -- connections that can't be used


def test_an_option_that_is_no_connection_is_refused_without_showing_it(app: Headrace, add: Any) -> None:
    with pytest.raises(InvalidJob, match="connection: expected a Connection of sqlite3, psycopg") as caught:
        add.using(connection="postgresql://ann:hunter2@db/shop")
    assert "hunter2" not in str(caught.value)
    with closing(sqlite3.connect(":memory:")) as db:
        inside = add.using(connection=db.cursor())
        with pytest.raises(InvalidJob, match=r"connection: expected .* got a Cursor"):
            inside.enqueue(1, 1)


def test_a_connection_belongs_to_a_call_not_to_a_task(app: Headrace, database: str, url: str) -> None:
    with plain(database, url) as lender, pytest.raises(ConfigError, match=r"connection belongs to one call"):
        app.task(connection=lender.connection)(print)  # type: ignore[call-overload]


def test_a_connection_of_the_other_kind_is_refused(app: Headrace, add: Any, database: str, folder: Path) -> None:
    other = "postgres" if database == "sqlite" else "sqlite"
    kind = KINDS.get(other)
    if kind is None:
        pytest.skip(f"{other} is not among the engines of this run")
    address = kind.create(folder)
    with plain(other, kind.url(address)) as lender, pytest.raises(InvalidJob, match="to a database of"):
        add.using(connection=lender.connection).enqueue(1, 1)
    kind.discard(address)


@on("sqlite")
@pytest.mark.parametrize("place", ["other.db", ":memory:"])
def test_a_connection_to_another_file_is_refused(app: Headrace, add: Any, folder: Path, place: str) -> None:
    where = place if place == ":memory:" else str(folder / place)
    with closing(sqlite3.connect(where)) as db:
        with pytest.raises(InvalidJob, match=r"the jobs of this app are in sqlite:///.*q\.db") as caught:
            add.using(connection=db).enqueue(1, 1)
        assert ("a database in memory" if place == ":memory:" else place) in str(caught.value)
        assert not db.in_transaction


@on("sqlite")
def test_another_way_to_the_same_file_is_fine(app: Headrace, add: Any, folder: Path, url: str) -> None:
    (folder / "link").symlink_to(folder)
    with closing(sqlite3.connect(f"file:{folder}/link/q.db?mode=rw", uri=True)) as db:
        add.using(connection=db).enqueue(1, 1)
        db.commit()
    assert app.jobs.count() == 1


@on("postgres")
def test_a_connection_to_another_database_is_refused(app: Headrace, add: Any, url: str) -> None:
    elsewhere = servers.postgres_url(own_database=True)
    try:
        with lenders.by_psycopg(elsewhere) as lender:
            with pytest.raises(InvalidJob, match="which has no tables of headrace in the schema"):
                add.using(connection=lender.connection).enqueue(1, 1)
            lender.execute("SELECT 1")  # its transaction goes on
            lender.rollback()
            with Headrace(f"{elsewhere}?schema={url.rpartition('schema=')[2]}") as other:
                assert other.queues() == []
            with pytest.raises(InvalidJob, match="has the tables of another store") as caught:
                add.using(connection=lender.connection).enqueue(1, 1)
            assert "headrace:" not in str(caught.value)
    finally:
        servers.drop(elsewhere)


def test_tables_can_be_made_before_a_transaction_but_not_inside(folder: Path) -> None:
    with Headrace(f"sqlite:///{folder}/new.db") as app, closing(sqlite3.connect(folder / "new.db")) as db:
        inside = app.task_by_name("add").using(connection=db)
        db.execute("CREATE TABLE orders (name text)")
        db.execute("INSERT INTO orders (name) VALUES ('tea')")
        with pytest.raises(SchemaMismatch, match="run `headrace migrate`, or start a worker, before it begins"):
            inside.enqueue(1, 1)
        db.commit()
        inside.enqueue(1, 1)
        db.commit()
        assert app.jobs.count() == 1


@on("sqlite")
@pytest.mark.usefixtures("add", "table")
def test_tables_that_others_made_are_found_while_the_caller_writes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(_: SqliteDatabase) -> None:
        raise AssertionError("it waits for the lock that its own caller holds")

    with Headrace(url) as fresh, lenders.by_sqlite3(url) as lender:
        lender.execute("INSERT INTO orders (name) VALUES ('tea')")
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(SqliteDatabase, "begin", begin)
            fresh.task_by_name("add").using(connection=lender.connection).enqueue(1, 1)
        lender.commit()
        assert fresh.jobs.count() == 1


@on("sqlite")
@pytest.mark.usefixtures("table")
def test_a_locked_file_gives_the_error_that_the_caller_would_get(app: Headrace, add: Any, url: str) -> None:
    with lenders.by_sqlite3(url) as holder, lenders.by_sqlite3(url, timeout=0.05) as lender:
        holder.execute("INSERT INTO orders (name) VALUES ('tea')")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            add.using(connection=lender.connection).enqueue(1, 1)
        holder.commit()
        add.using(connection=lender.connection).enqueue(1, 1)
        lender.commit()
    assert app.jobs.count() == 1


@on("sqlite")
@pytest.mark.parametrize("how", ["sqlite3", "sqlite3 by hand", "Django"])
def test_a_caller_waits_for_the_write_lock_like_any_other(app: Headrace, add: Any, how: str, url: str) -> None:
    """In a transaction that has read before it writes, SQLite would not wait."""
    enough = threading.Event()

    def keep_writing() -> None:
        while not enough.is_set():
            app.enqueue_many([add.bind(n, n) for n in range(20)])

    other = threading.Thread(target=keep_writing)
    with LENDERS["sqlite"][how](url) as lender:
        other.start()
        try:
            for n in range(100):
                lender.begin()
                add.using(connection=lender.connection, tags=["ours"]).enqueue(n, n)
                lender.commit()
        finally:
            enough.set()
            other.join()
    assert app.jobs.count(tag="ours") == 100


@on("postgres")
def test_an_id_that_is_taken_at_the_same_moment_spoils_the_whole_batch(app: Headrace, add: Any, url: str) -> None:
    with lenders.by_psycopg(url) as first, lenders.by_psycopg(url) as second:
        add.using(connection=first.connection, job_id="wanted").enqueue(1, 1)
        calls = [add.using(connection=second.connection, job_id=name, tags=["t"]) for name in ("free", "wanted", "too")]
        errors: list[BaseException] = []

        def lose() -> None:
            try:
                app.enqueue_many([call.bind(2, 2) for call in calls])
            except DuplicateJob as error:
                errors.append(error)

        loser = threading.Thread(target=lose)
        loser.start()
        backend = second.connection.info.backend_pid
        waits = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
        observer = servers.postgres_connection(url)
        eventually(lambda: observer.execute(waits, [backend]).fetchone() == ("Lock",), "the second waits for the first")
        first.commit()
        loser.join(PATIENCE)
        assert [str(error) for error in errors] == [str(DuplicateJob("wanted"))]
        second.commit()
    assert [(job.id, job.args) for job in app.jobs.find()] == [("wanted", (1, 1))]
    assert app.jobs.count(tag="t") == 0


@on("postgres")
def test_a_new_queue_blocks_no_other_insert_until_the_commit(app: Headrace, add: Any, url: str) -> None:
    with lenders.by_psycopg(url) as lender, Headrace(url) as other:
        add.using(connection=lender.connection, queue="brand-new").enqueue(1, 1)
        there = other.task_by_name("add").using(queue="brand-new").enqueue(2, 2)
        assert there.refresh().state == "pending"
        lender.rollback()


@on("redis")
def test_redis_has_no_transaction_to_join(app: Headrace) -> None:
    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(UnsupportedByEngine):
        app.task_by_name("add").using(connection=db).enqueue(1, 1)


# -- the commit watcher


def watcher_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headrace-commit-watcher"]


@on("sqlite")
def test_one_thread_waits_for_all_commits_and_ends_with_them(app: Headrace, add: Any, url: str) -> None:
    with lenders.by_sqlite3(url) as lender:
        for n in range(20):
            add.using(connection=lender.connection).enqueue(n, n)
        assert len(watcher_threads()) == 1
        lender.commit()
    eventually(lambda: not watcher_threads(), "the end of the thread")


@on("sqlite")
def test_closing_the_app_ends_the_wait(app: Headrace, add: Any, url: str) -> None:
    with lenders.by_sqlite3(url) as lender:
        job = add.using(connection=lender.connection).enqueue(1, 1)
        [thread] = watcher_threads()
        app.close()
        assert not thread.is_alive()
        lender.commit()
    assert job.refresh().state == "pending"


@on("sqlite")
def test_the_commit_watcher_ends_after_a_timeout(
    app: Headrace, add: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engines.sqlite.commit_watcher._TIMEOUT", 0.05)
    with lenders.by_sqlite3(url) as lender:
        add.using(connection=lender.connection).enqueue(1, 1)
        lender.rollback()
        eventually(lambda: not watcher_threads(), "the end of the thread")


@on("sqlite")
def test_an_error_of_the_store_does_not_end_the_wait(
    app: Headrace, add: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(app.engine, SqliteEngine)
    failed = threading.Event()

    def fail() -> tuple[int, int]:
        failed.set()
        raise sqlite3.OperationalError("no such table: headrace_jobs")

    with lenders.by_sqlite3(url) as lender:
        with monkeypatch.context() as broken:
            broken.setattr(app.engine.store, "change_count", fail)
            add.using(connection=lender.connection).enqueue(1, 1)
            assert failed.wait(PATIENCE)
        assert watcher_threads()
        lender.commit()
        eventually(lambda: not watcher_threads(), "the end of the thread, which has seen the job")


@on("sqlite")
def test_a_forked_child_waits_for_its_own_commits(app: Headrace, add: Any, url: str) -> None:
    with lenders.by_sqlite3(url) as lender:
        add.using(connection=lender.connection).enqueue(1, 1)
        lender.rollback()
        assert len(watcher_threads()) == 1  # it does not know of the rollback

        def shop(_: object) -> int:
            with lenders.by_sqlite3(url) as own:
                add.using(connection=own.connection, job_id="of-the-child").enqueue(2, 2)
                found = len(watcher_threads())
                own.commit()
            eventually(lambda: not watcher_threads(), "the end of the child's thread")
            return found

        child = Child(shop)
        assert child.hear() == 1
        child.end()
        assert [job.id for job in app.jobs.find()] == ["of-the-child"]


# -- coroutines


@each_async_lender
@pytest.mark.usefixtures("table")
def test_a_coroutine_commits_jobs(app: Headrace, add: Any, database: str, lender_name: str, url: str) -> None:
    async def shop() -> None:
        async with lenders.ASYNC_LENDERS[database][lender_name](url) as lender:
            await lender.execute("INSERT INTO orders (name) VALUES ('tea')")
            inside = add.using(connection=lender.connection, tags=["t"])
            job = await inside.aenqueue(2, 3)
            more = await app.aenqueue_many([inside.bind(n, n) for n in range(3)])
            with pytest.raises(JobNotFound):
                await job.arefresh()
            await lender.commit()
            assert [await each.aresult(PATIENCE) for each in (job, *more)] == [5, 0, 2, 4]

    with app.worker():
        asyncio.run(shop())
    assert (app.jobs.count(tag="t"), orders(database, url)) == (4, 1)


@each_async_lender
@pytest.mark.usefixtures("table")
def test_a_coroutine_rolls_jobs_back(app: Headrace, add: Any, database: str, lender_name: str, url: str) -> None:
    async def shop() -> None:
        add.using(job_id="taken").enqueue(0, 0)
        async with lenders.ASYNC_LENDERS[database][lender_name](url) as lender:
            inside = add.using(connection=lender.connection)
            await inside.aenqueue(2, 3)
            with pytest.raises(DuplicateJob):
                await inside.using(job_id="taken").aenqueue(1, 1)
            await lender.execute("INSERT INTO orders (name) VALUES ('tea')")
            await lender.rollback()
            with pytest.raises(InvalidJob, match="is for coroutines; use `await"):
                inside.enqueue(1, 1)

    asyncio.run(shop())
    assert (app.jobs.count(), orders(database, url)) == (1, 0)


def test_a_coroutine_may_use_a_blocking_connection(app: Headrace, add: Any, database: str, url: str) -> None:
    async def shop() -> None:
        with plain(database, url) as lender:
            inside = add.using(connection=lender.connection)
            await inside.aenqueue(1, 1)
            await app.aenqueue_many([inside.bind(n, n) for n in range(2)])
            assert await app.jobs.acount() == 0
            lender.commit()

    asyncio.run(shop())
    assert app.jobs.count() == 3


def test_coroutines_without_a_connection_store_many_at_once(app: Headrace, add: Any) -> None:
    jobs = asyncio.run(app.aenqueue_many(add.bind(n, n) for n in range(3)))
    assert [job.args for job in jobs] == [(0, 0), (1, 1), (2, 2)]
    assert app.jobs.count() == 3
    assert asyncio.run(app.aenqueue_many([])) == []


# -- in tests of users


def test_an_inline_job_runs_at_once_whatever_becomes_of_the_transaction(
    app: Headrace, add: Any, database: str, url: str
) -> None:
    with plain(database, url) as lender, inline(app):
        assert add.using(connection=lender.connection).enqueue(1, 2).result(0) == 3
        [job] = app.enqueue_many([add.using(connection=lender.connection).bind(2, 2)])
        assert job.state == "completed"
        lender.rollback()
    assert app.jobs.count(state="completed") == 2


def test_on_a_store_of_its_own_a_job_is_stored_at_once(app: Headrace, add: Any, database: str, url: str) -> None:
    with plain(database, url) as lender:
        with isolated(app):
            add.using(connection=lender.connection).enqueue(1, 2)
            assert asyncio.run(app.aenqueue_many([add.using(connection=lender.connection).bind(1, 1)]))
            assert drain(app) == 2
        lender.commit()
    assert app.jobs.count() == 0
