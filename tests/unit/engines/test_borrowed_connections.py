"""Connections of callers are recognized by what they are, and used the way their library wants it."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headrace.engines.shared import borrowed_connections
from headrace.engines.shared.borrowed_connections import (
    SqliteDriver,
    async_borrowed_postgres,
    borrowed_postgres,
    borrowed_sqlite,
)
from headrace.errors import InvalidJob

STORE = "sqlite:///q.db"


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        yield db


@pytest.fixture
def engine() -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine("sqlite://")
    yield engine
    engine.dispose()


def unopened(kind: type[Any]) -> Any:
    """An object of this class that was never connected to anything."""
    return object.__new__(kind)


# -- recognizing


def test_no_library_is_loaded_that_the_connection_is_not_of() -> None:
    script = """
import sqlite3, sys
from headrace.engines.shared import borrowed_connections
db = sqlite3.connect(":memory:")
borrowed_connections.borrowed_sqlite(db, "").driver().execute("SELECT 1")
db.close()
try:
    borrowed_connections.borrowed_sqlite(sys, "")
except borrowed_connections.InvalidJob:
    print(*sorted({"sqlalchemy", "django", "psycopg", "asyncio"} & set(sys.modules)), "nothing more")
"""
    source = str(Path(borrowed_connections.__file__).parents[3])
    command = [sys.executable, "-c", script]
    output = subprocess.run(command, env={"PYTHONPATH": source}, capture_output=True, text=True, check=False)
    assert output.stdout == "nothing more\n", output.stderr


def test_a_class_that_only_has_the_name_of_a_known_one_is_refused() -> None:
    class Connection:
        def execute(self) -> None: ...

    class Session(Connection): ...

    for stranger in (Connection(), Session(), object(), None, "postgresql://u:secret@h/d"):
        with pytest.raises(InvalidJob, match=r"^connection: expected a Connection of sqlite3, psycopg") as caught:
            borrowed_sqlite(stranger, STORE)
        assert "secret" not in str(caught.value)


def test_a_class_derived_from_a_known_one_is_as_good() -> None:
    class Derived(sqlite3.Connection): ...

    with closing(sqlite3.connect(":memory:", factory=Derived)) as db:
        assert borrowed_sqlite(db, STORE).driver().execute("SELECT 7").fetchone() == (7,)


def test_a_session_of_the_thread_is_the_session(engine: sqlalchemy.Engine) -> None:
    sessions = scoped_session(sessionmaker(engine))
    assert borrowed_sqlite(sessions, STORE).driver().execute("SELECT 7").fetchone() == (7,)
    assert sessions().in_transaction()
    sessions.remove()


def test_a_connection_for_coroutines_is_not_used_without_them() -> None:
    engine = create_async_engine("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    of_the_task: Any = async_scoped_session(lambda: AsyncSession(engine), scopefunc=lambda: 1)  # type: ignore[arg-type]
    for connection in (unopened(psycopg.AsyncConnection), AsyncSession(engine), of_the_task):
        with pytest.raises(InvalidJob, match=r"is for coroutines; use `await task\.aenqueue\(\.\.\.\)`"):
            borrowed_postgres(connection, STORE)
        assert async_borrowed_postgres(connection, STORE) is not None


def test_a_connection_to_the_wrong_kind_of_database_is_refused(
    db: sqlite3.Connection, engine: sqlalchemy.Engine
) -> None:
    with Session(engine) as session, engine.connect() as connection:
        for wrong in (db, session, connection):
            with pytest.raises(InvalidJob, match=r"it is to a database of sqlite, but .* are in postgresql://h/d"):
                borrowed_postgres(wrong, "postgresql://h/d")
    with pytest.raises(InvalidJob, match=r"it is to a database of postgresql, but .* are in sqlite:///q\.db"):
        borrowed_sqlite(unopened(psycopg.Connection), STORE)


def test_of_djangos_proxies_only_the_one_of_a_database_is_a_connection() -> None:
    from django.core.cache import caches
    from django.utils.connection import ConnectionProxy

    class Wrapper:
        vendor = "sqlite"

    assert borrowed_sqlite(ConnectionProxy({"default": Wrapper()}, "default"), STORE) is not None
    with pytest.raises(InvalidJob, match="expected a Connection of sqlite3"):
        borrowed_sqlite(ConnectionProxy({"default": object()}, "default"), STORE)
    with pytest.raises(InvalidJob, match="expected a Connection of sqlite3"):
        borrowed_sqlite(caches, STORE)


# -- SQLite


@pytest.mark.parametrize(
    ("level", "begun"), [("", ["BEGIN "]), ("IMMEDIATE", ["BEGIN IMMEDIATE"]), ("EXCLUSIVE", ["BEGIN EXCLUSIVE"])]
)
def test_a_transaction_begins_as_before_an_insert_of_the_callers_own(level: Any, begun: list[str]) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=level)) as db:
        db.execute("CREATE TABLE orders (name)")
        seen: list[str] = []
        db.set_trace_callback(seen.append)
        driver = SqliteDriver(db)
        driver.begin()
        driver.begin()
        assert seen == begun
        assert driver.in_transaction
        db.rollback()
        seen.clear()
        db.execute("INSERT INTO orders VALUES (1)")
        assert seen[:1] == begun


def test_no_transaction_begins_where_the_caller_began_none() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        driver = SqliteDriver(db)
        driver.begin()
        assert not driver.in_transaction


@pytest.mark.skipif(sys.version_info < (3, 12), reason="it is new in Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
def test_the_newer_way_of_transactions_is_left_alone(autocommit: bool) -> None:
    how: dict[str, Any] = {"autocommit": autocommit}
    with closing(sqlite3.connect(":memory:", **how)) as db:
        seen: list[str] = []
        db.set_trace_callback(seen.append)
        driver = SqliteDriver(db)
        driver.begin()
        assert seen == []
        assert driver.in_transaction is not autocommit


def test_rows_are_plain_whatever_the_caller_wants_them_to_be(db: sqlite3.Connection) -> None:
    db.row_factory = lambda cursor, row: {"wrapped": row}
    assert SqliteDriver(db).execute("SELECT ?, ?", (1, 2)).fetchone() == (1, 2)
    assert SqliteDriver(db).execute("SELECT :b", {"b": 2}).fetchone() == (2,)
    assert db.execute("SELECT 1").fetchone() == {"wrapped": (1,)}


# -- SQLAlchemy


def test_sqlalchemy_knows_of_the_transaction(engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        borrowed_sqlite(connection, STORE).driver()
        assert connection.in_transaction()
    with Session(engine) as session:
        borrowed_sqlite(session, STORE).driver()
        assert session.in_transaction()


def test_a_session_calls_after_every_commit_however_often_it_was_registered(engine: sqlalchemy.Engine) -> None:
    class Bell:
        rings = 0

        def ring(self, *_: object) -> None:
            self.rings += 1

    bell = Bell()
    with Session(engine) as session:
        for _ in range(10):
            assert borrowed_sqlite(session, STORE).after_commit(bell.ring)
        session.execute(sqlalchemy.text("SELECT 1"))
        session.rollback()
        assert bell.rings == 0
        session.execute(sqlalchemy.text("SELECT 1"))
        session.commit()
        assert bell.rings == 1
    with engine.connect() as connection:
        assert not borrowed_sqlite(connection, STORE).after_commit(bell.ring)


def test_a_statement_is_rewritten_for_sqlalchemy_and_only_its_parameters() -> None:
    text = borrowed_connections._as_text("SELECT %(ids)s::jsonb, 'work:' || %(a_b)s, x::text")
    compiled = text.compile(dialect=postgresql.psycopg.dialect())
    assert str(compiled) == "SELECT %(ids)s::jsonb, 'work:' || %(a_b)s, x::text"
    numbered = str(text.compile(dialect=postgresql.asyncpg.dialect()))
    assert re.sub(r"::VARCHAR|::NULL", "", numbered) == "SELECT $1::jsonb, 'work:' || $2, x::text"


# -- in coroutines


def test_a_blocking_connection_is_used_by_a_coroutine_in_its_own_thread(db: sqlite3.Connection) -> None:
    borrowed = borrowed_connections.async_borrowed_sqlite(
        db, STORE
    )  # sqlite3 itself refuses to be used in another thread
    found = asyncio.run(borrowed.share(lambda inner: inner.driver().execute("SELECT 7").fetchone()))
    assert found == (7,)
