"""Callers with a transaction of their own: one for each library whose connections headrace can use.

Each is connected to the database in which the app's store is. Libraries are imported where they are used.
"""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.support.engines import KINDS
from tests.support.plain_databases import place

ALIAS = "shop"


class Lender(NamedTuple):
    """A connection and what its owner does with it. `nested` is a savepoint, rolled back by an exception inside."""

    connection: Any
    execute: Callable[[str], Any]
    begin: Callable[[], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    nested: Callable[[], AbstractContextManager[Any]]


class AsyncLender(NamedTuple):
    """The same for coroutines."""

    connection: Any
    execute: Callable[[str], Awaitable[Any]]
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]


def nothing() -> None: ...


@contextmanager
def _savepoint(execute: Callable[[str], Any]) -> Iterator[None]:
    execute("SAVEPOINT mine")
    try:
        yield
    except BaseException:
        execute("ROLLBACK TO mine")
        execute("RELEASE mine")
        raise
    execute("RELEASE mine")


# -- sqlite3


@contextmanager
def by_sqlite3(url: str, **how: Any) -> Iterator[Lender]:
    explicit = "isolation_level" in how and how["isolation_level"] is None
    with closing(sqlite3.connect(place(url), **how)) as db:
        yield Lender(
            db,
            db.execute,
            (lambda: db.execute("BEGIN")) if explicit else nothing,
            (lambda: db.execute("COMMIT")) if explicit else db.commit,
            (lambda: db.execute("ROLLBACK")) if explicit else db.rollback,
            lambda: _savepoint(db.execute),
        )


@contextmanager
def by_sqlite3_with_rows_as_dicts(url: str) -> Iterator[Lender]:
    with by_sqlite3(url) as lender:
        lender.connection.row_factory = lambda cursor, row: dict(
            zip([column[0] for column in cursor.description], row, strict=True)
        )
        lender.connection.text_factory = bytes
        yield lender


# -- psycopg


@contextmanager
def by_psycopg(url: str, **how: Any) -> Iterator[Lender]:
    import psycopg

    with closing(psycopg.connect(place(url), **how)) as db:
        yield Lender(db, db.execute, nothing, db.commit, db.rollback, lambda: _savepoint(db.execute))


@contextmanager
def by_psycopg_with_cursors_of_its_own(url: str) -> Iterator[Lender]:
    import psycopg
    from psycopg.rows import dict_row

    with by_psycopg(url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as lender:
        yield lender


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[AsyncLender]:
    import psycopg

    db = await psycopg.AsyncConnection.connect(place(url))
    try:
        yield AsyncLender(db, db.execute, db.commit, db.rollback)
    finally:
        await db.close()


# -- SQLAlchemy


def _address(url: str, driver: str) -> str:
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}+{driver}://{rest}"


@contextmanager
def by_sqlalchemy_connection(url: str, driver: str) -> Iterator[Lender]:
    from sqlalchemy import create_engine

    engine = create_engine(_address(url, driver))
    try:
        with engine.connect() as db:
            yield Lender(db, db.exec_driver_sql, nothing, db.commit, db.rollback, db.begin_nested)
    finally:
        engine.dispose()


@contextmanager
def by_sqlalchemy_session(url: str, driver: str, scoped: bool = False) -> Iterator[Lender]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import Session, scoped_session, sessionmaker

    engine = create_engine(_address(url, driver))
    session: Any = scoped_session(sessionmaker(engine)) if scoped else Session(engine)
    try:
        yield Lender(
            session,
            lambda sql: session.execute(text(sql)),
            nothing,
            session.commit,
            session.rollback,
            session.begin_nested,
        )
    finally:
        session.close()
        engine.dispose()


@asynccontextmanager
async def by_async_sqlalchemy_connection(url: str, driver: str) -> AsyncIterator[AsyncLender]:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(_address(url, driver))
    try:
        async with engine.connect() as db:
            yield AsyncLender(db, db.exec_driver_sql, db.commit, db.rollback)
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_async_sqlalchemy_session(url: str, driver: str) -> AsyncIterator[AsyncLender]:
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    engine = create_async_engine(_address(url, driver))
    try:
        async with AsyncSession(engine) as session:
            yield AsyncLender(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    finally:
        await engine.dispose()


# -- Django


@contextmanager
def django_database(url: str) -> Iterator[Any]:
    """Django's connection to the database of this store."""
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(DATABASES={}, LOGGING_CONFIG=None, SECRET_KEY="x")
        django.setup()
    connections.databases[ALIAS] = {**connections.databases["default"], **_django_settings(url)}
    try:
        yield connections[ALIAS]
    finally:
        connections[ALIAS].close()
        del connections[ALIAS], connections.databases[ALIAS]


def _django_settings(url: str) -> dict[str, Any]:
    parts = urlsplit(place(url))
    if not parts.scheme:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": place(url)}
    names = {"NAME": parts.path[1:], "USER": parts.username, "PASSWORD": parts.password}
    return {"ENGINE": "django.db.backends.postgresql", "HOST": parts.hostname, "PORT": parts.port, **names}


@contextmanager
def by_django(url: str) -> Iterator[Lender]:
    from django.db import transaction

    with django_database(url) as connection:
        blocks: list[Any] = []

        def begin() -> None:
            blocks.append(transaction.atomic(using=ALIAS))
            blocks[-1].__enter__()

        def end(undo: bool) -> None:
            if undo:
                transaction.set_rollback(True, using=ALIAS)
            blocks.pop().__exit__(None, None, None)

        def execute(sql: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(sql)

        yield Lender(
            connection, execute, begin, lambda: end(False), lambda: end(True), lambda: transaction.atomic(using=ALIAS)
        )


@contextmanager
def by_django_with_a_transaction_by_hand(url: str) -> Iterator[Lender]:
    with by_django(url) as lender:
        connection = lender.connection
        connection.set_autocommit(False)
        yield lender._replace(begin=nothing, commit=connection.commit, rollback=connection.rollback)
        connection.rollback()
        connection.set_autocommit(True)


# -- all of them, by names whose last word may be a driver

PLAIN = ("psycopg", "SQLAlchemy session psycopg")
OPTIONAL = {"aiosqlite", "asyncpg", "psycopg2"}


def _of_sqlalchemy(driver: str) -> dict[str, Callable[[str], AbstractContextManager[Lender]]]:
    return {
        f"SQLAlchemy connection {driver}": lambda url: by_sqlalchemy_connection(url, driver),
        f"SQLAlchemy session {driver}": lambda url: by_sqlalchemy_session(url, driver),
    }


LENDERS: dict[str, dict[str, Callable[[str], AbstractContextManager[Lender]]]] = {
    "sqlite": {
        "sqlite3": by_sqlite3,
        "sqlite3 immediate": lambda url: by_sqlite3(url, isolation_level="IMMEDIATE"),
        "sqlite3 by hand": lambda url: by_sqlite3(url, isolation_level=None),
        "sqlite3 dicts": by_sqlite3_with_rows_as_dicts,
        **_of_sqlalchemy("pysqlite"),
        "SQLAlchemy scoped session": lambda url: by_sqlalchemy_session(url, "pysqlite", scoped=True),
        "Django": by_django,
        "Django by hand": by_django_with_a_transaction_by_hand,
    },
    "postgres": {
        "psycopg": by_psycopg,
        "psycopg raw": by_psycopg_with_cursors_of_its_own,
        **_of_sqlalchemy("psycopg"),
        **_of_sqlalchemy("psycopg2"),
        "Django": by_django,
    },
}
if sys.version_info >= (3, 12):
    LENDERS["sqlite"]["sqlite3 autocommit off"] = lambda url: by_sqlite3(url, autocommit=False)

ASYNC_LENDERS: dict[str, dict[str, Callable[[str], AbstractAsyncContextManager[AsyncLender]]]] = {
    "sqlite": {
        "SQLAlchemy connection aiosqlite": lambda url: by_async_sqlalchemy_connection(url, "aiosqlite"),
        "SQLAlchemy session aiosqlite": lambda url: by_async_sqlalchemy_session(url, "aiosqlite"),
    },
    "postgres": {
        "psycopg": by_async_psycopg,
        "SQLAlchemy connection psycopg": lambda url: by_async_sqlalchemy_connection(url, "psycopg"),
        "SQLAlchemy session psycopg": lambda url: by_async_sqlalchemy_session(url, "psycopg"),
        "SQLAlchemy connection asyncpg": lambda url: by_async_sqlalchemy_connection(url, "asyncpg"),
        "SQLAlchemy session asyncpg": lambda url: by_async_sqlalchemy_session(url, "asyncpg"),
    },
}


def each_of(every: Mapping[str, Mapping[str, object]]) -> pytest.MarkDecorator:
    """Each of the engines of this run with each lender whose driver is here; fast are those of SQLite, and two more."""
    cases = []
    for engine, name in [(engine, name) for engine, kinds in every.items() if engine in KINDS for name in kinds]:
        driver = name.rpartition(" ")[2]
        missing = driver in OPTIONAL and importlib.util.find_spec(driver) is None
        marks = [pytest.mark.skipif(missing, reason=f"{driver} is not installed")]
        if engine != "sqlite" and name not in PLAIN:
            marks.append(pytest.mark.slow)
        cases.append(pytest.param(engine, name, marks=marks, id=f"{engine}-{name}"))
    return pytest.mark.parametrize(("database", "lender_name"), cases)


each_lender = each_of(LENDERS)
each_async_lender = each_of(ASYNC_LENDERS)
