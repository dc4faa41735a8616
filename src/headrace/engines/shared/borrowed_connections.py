"""Connections that callers lend us: recognizes their library and runs statements through it.

A connection is recognized by the names of its classes, so no library is imported that the caller does not use. This
module knows nothing of jobs or tables, and never commits or rolls back. Statements for PostgreSQL use psycopg's
parameters, `%(name)s`, and return one row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.core.tasks.options import CONNECTIONS
from headrace.core.text import a_kind
from headrace.errors import InvalidJob

T = TypeVar("T")
Row = Any

_PARAMETER = re.compile(r"%\((\w+)\)s")
_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, which Python 3.11 does not have yet


class BorrowedSqlite(Protocol):
    """A connection to an SQLite file."""

    def driver(self) -> SqliteDriver:
        """The connection of the driver below the library, which from now on knows of a transaction."""
        ...

    def after_commit(self, call: Callable[..., None]) -> bool:
        """Call it after the commit; False if the library cannot do so."""
        ...


class BorrowedPostgres(Protocol):
    """A connection to a PostgreSQL server."""

    def open(self) -> Any:
        """The connection to the server; it stays the same while a pool lends it out."""
        ...

    def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row: ...


class AsyncBorrowedSqlite(Protocol):
    """The same, used by a coroutine."""

    async def share(self, act: Callable[[BorrowedSqlite], T]) -> T:
        """Call it with the blocking form of the connection, in a context where that may be used."""
        ...


class AsyncBorrowedPostgres(Protocol):
    """The same, used by a coroutine."""

    async def open(self) -> Any: ...
    async def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row: ...


class SqliteDriver:
    """A sqlite3 connection, or one with its interface, that returns plain rows whatever its row factory is."""

    def __init__(self, connection: Any, state: Any = None) -> None:
        self._connection = connection
        self._state = connection if state is None else state

    @property
    def in_transaction(self) -> bool:
        return bool(self._state.in_transaction)

    def begin(self) -> None:
        """Begin a transaction if the driver would have done so before an INSERT of the caller's own."""
        legacy = getattr(self._state, "autocommit", _LEGACY) == _LEGACY
        if legacy and self._state.isolation_level is not None and not self.in_transaction:
            self.execute(f"BEGIN {self._state.isolation_level}")  # one of four words, as the driver made sure

    def execute(self, sql: str, values: Any = ()) -> Any:
        cursor = self._connection.cursor()
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None
        cursor.execute(sql, values)
        return cursor


# -- one class for each library


class _Sqlite3:
    """sqlite3.Connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def driver(self) -> SqliteDriver:
        return SqliteDriver(self._connection)

    def after_commit(self, call: Callable[..., None]) -> bool:
        return False


class _Psycopg:
    """psycopg.Connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def open(self) -> Any:
        return self._connection

    def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row:
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        # Not the caller's cursor class: its rows or its parameter style may differ.
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(sql, values).fetchone()


class _AsyncPsycopg:
    """psycopg.AsyncConnection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def open(self) -> Any:
        return self._connection

    async def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row:
        from psycopg import AsyncCursor
        from psycopg.rows import tuple_row

        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql, values)
            return await cursor.fetchone()


class _SqlAlchemy:
    """SQLAlchemy's Connection or Session. Statements go through it, so that it knows of the transaction."""

    def __init__(self, connection: Any, session: Any = None) -> None:
        self._given = connection
        self._session = session

    def _connection(self) -> Any:
        return self._given if self._session is None else self._session.connection()

    def driver(self) -> SqliteDriver:
        connection = self._connection()
        connection.exec_driver_sql("SELECT 1")
        pooled = connection.connection
        return SqliteDriver(pooled.dbapi_connection, pooled.driver_connection)

    def after_commit(self, call: Callable[..., None]) -> bool:
        if self._session is None:
            return False
        from sqlalchemy import event

        # For good: a listener can't be removed while it is called, and one ring too many does no harm.
        if not event.contains(self._session, "after_commit", call):
            event.listen(self._session, "after_commit", call)
        return True

    def open(self) -> Any:
        return self._connection().connection.dbapi_connection

    def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row:
        return self._connection().execute(_as_text(sql), values).fetchone()


class _AsyncSqlAlchemy:
    """SQLAlchemy's AsyncConnection or AsyncSession."""

    def __init__(self, connection: Any, session: Any = None) -> None:
        self._given = connection
        self._session = session

    async def _connection(self) -> Any:
        return self._given if self._session is None else await self._session.connection()

    async def share(self, act: Callable[[BorrowedSqlite], T]) -> T:
        session = None if self._session is None else self._session.sync_session
        connection = await self._connection()
        shared: T = await connection.run_sync(lambda inner: act(_SqlAlchemy(inner, session)))
        return shared

    async def open(self) -> Any:
        return (await self._connection()).sync_connection.connection.dbapi_connection

    async def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row:
        return (await (await self._connection()).execute(_as_text(sql), values)).fetchone()


class _Django:
    """Django's `connection`, or one of its `connections`."""

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper

    def driver(self) -> SqliteDriver:
        self._wrapper.ensure_connection()
        self._wrapper.validate_no_broken_transaction()
        return SqliteDriver(self._wrapper.connection)

    def after_commit(self, call: Callable[..., None]) -> bool:
        if not self._wrapper.in_atomic_block and not self._wrapper.get_autocommit():
            return False  # Django leaves such a transaction to its caller, and on_commit() would fail
        self._wrapper.on_commit(call)
        return True

    def open(self) -> Any:
        self._wrapper.ensure_connection()
        return self._wrapper.connection

    def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row:
        with self._wrapper.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchone()


class _Blocking:
    """A blocking connection in a coroutine. It blocks the event loop, as it does when its owner uses it there."""

    def __init__(self, borrowed: Any) -> None:
        self._borrowed = borrowed

    async def share(self, act: Callable[[BorrowedSqlite], T]) -> T:
        return act(self._borrowed)

    async def open(self) -> Any:
        return self._borrowed.open()

    async def fetch_row(self, sql: str, values: Mapping[str, Any]) -> Row:
        return self._borrowed.fetch_row(sql, values)


@functools.cache
def _as_text(sql: str) -> Any:
    from sqlalchemy import text

    # A colon of the statement's own, as in a cast, would be taken for a parameter.
    return text(_PARAMETER.sub(r":\1", sql.replace(":", r"\:")))


# -- recognizing them


class _Known(NamedTuple):
    """A connection with what was found out about it."""

    borrowed: Any
    database: str


def borrowed_sqlite(connection: Any, store: str) -> BorrowedSqlite:
    """The connection as a blocking one to an SQLite file."""
    borrowed: BorrowedSqlite = _blocking(connection, "sqlite", store)
    return borrowed


def borrowed_postgres(connection: Any, store: str) -> BorrowedPostgres:
    """The connection as a blocking one to a PostgreSQL server."""
    borrowed: BorrowedPostgres = _blocking(connection, "postgresql", store)
    return borrowed


def async_borrowed_sqlite(connection: Any, store: str) -> AsyncBorrowedSqlite:
    """The connection, of either kind, for a coroutine."""
    borrowed: AsyncBorrowedSqlite = _awaited(connection, "sqlite", store)
    return borrowed


def async_borrowed_postgres(connection: Any, store: str) -> AsyncBorrowedPostgres:
    """The connection, of either kind, for a coroutine."""
    borrowed: AsyncBorrowedPostgres = _awaited(connection, "postgresql", store)
    return borrowed


def _blocking(connection: Any, database: str, store: str) -> Any:
    borrowed = _borrowed_for(database, connection, store)
    if isinstance(borrowed, _AsyncPsycopg | _AsyncSqlAlchemy):
        raise InvalidJob(f"connection: {a_kind(connection)} is for coroutines; use `await task.aenqueue(...)` with it")
    return borrowed


def _awaited(connection: Any, database: str, store: str) -> Any:
    borrowed = _borrowed_for(database, connection, store)
    return borrowed if isinstance(borrowed, _AsyncPsycopg | _AsyncSqlAlchemy) else _Blocking(borrowed)


def _borrowed_for(database: str, connection: Any, store: str) -> Any:
    known = _recognized(connection)
    if known.database != database:
        raise InvalidJob(
            f"connection: it is to a database of {known.database}, but the jobs of this app are in {store}; "
            "use a connection to that store"
        )
    return known.borrowed


def _recognized(connection: Any) -> _Known:
    for kind in type(connection).__mro__:
        recognize = _KINDS.get((kind.__module__.partition(".")[0], kind.__name__))
        if recognize is not None and (known := recognize(connection)) is not None:
            return known
    raise InvalidJob(f"connection: expected {CONNECTIONS}, got {a_kind(connection)}")


def _django(wrapper: Any) -> _Known | None:
    vendor = getattr(wrapper, "vendor", None)  # a cache is behind the same kind of proxy, and has none
    return None if vendor is None else _Known(_Django(wrapper), vendor)


_KINDS: dict[tuple[str, str], Callable[[Any], _Known | None]] = {
    ("sqlite3", "Connection"): lambda given: _Known(_Sqlite3(given), "sqlite"),
    ("psycopg", "Connection"): lambda given: _Known(_Psycopg(given), "postgresql"),
    ("psycopg", "AsyncConnection"): lambda given: _Known(_AsyncPsycopg(given), "postgresql"),
    ("sqlalchemy", "Connection"): lambda given: _Known(_SqlAlchemy(given), given.dialect.name),
    ("sqlalchemy", "Session"): lambda given: _Known(_SqlAlchemy(None, given), given.get_bind().dialect.name),
    ("sqlalchemy", "AsyncConnection"): lambda given: _Known(_AsyncSqlAlchemy(given), given.dialect.name),
    ("sqlalchemy", "AsyncSession"): lambda given: _Known(
        _AsyncSqlAlchemy(None, given), given.sync_session.get_bind().dialect.name
    ),
    ("sqlalchemy", "scoped_session"): lambda given: _recognized(given()),
    ("sqlalchemy", "async_scoped_session"): lambda given: _recognized(given()),
    ("django", "BaseDatabaseWrapper"): _django,
    ("django", "ConnectionProxy"): _django,
}
