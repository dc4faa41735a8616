"""The PostgreSQL server: connections, transactions, and the one place where its errors become ours.

The pool is a list. A connection that the server has closed is noticed before it is used, a server that is away is
told at once rather than waited for, and a forked child starts with an empty list: what a pool with threads of its
own can't do.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus

from headrace.engines.postgres.store_url import PostgresUrl
from headrace.engines.shared.circuit_breaker import CircuitBreaker
from headrace.errors import ConfigError, EngineUnavailable

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

_OLDEST = 140000
_PATIENCE = 10.0  # for a free connection
_TRIES = 4
_KEPT_IDLE = 60.0

# What the database undid and may be done anew.
_UNDONE = (pg.SerializationFailure, pg.DeadlockDetected)
# What is no fault of the caller: the server is away, sends us away for now, or is not as it should be.
_NOT_NOW = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.InsufficientPrivilege,
    pg.ReadOnlySqlTransaction,
    pg.UndefinedTable,
    pg.InvalidSchemaName,
)


class ConnectionLost(EngineUnavailable):
    """The connection broke off in use. Whether the server did what it was last told is not known."""


class ConnectionPool:
    """Every connection of this process to one server."""

    def __init__(self, address: PostgresUrl) -> None:
        self.address = address
        self.start_afresh()
        _servers.add(self)

    def start_afresh(self) -> None:
        """Begin without connections, as in a forked child."""
        self._lock = threading.Lock()
        self._idle: list[tuple[Connection, float]] = []
        self._backends: dict[Connection, int] = {}  # each open connection, and the server's name for it
        self._free = threading.BoundedSemaphore(self.address.connections)
        self._breaker = CircuitBreaker()

    def run(self, act: Callable[[Connection], T]) -> T:
        """Do it on a connection in autocommit, once: anew only if the database undid it."""
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._lent() as connection:
                    return act(connection)
            except _UNDONE as error:
                if not tries_left:
                    raise self._translated(error) from error
                _step_aside()
        raise AssertionError("the loop returns or raises")

    def repeat(self, act: Callable[[Connection], T]) -> T:
        """The same for what may be done twice: once more if the connection breaks off in the middle."""
        try:
            return self.run(act)
        except ConnectionLost:
            return self.run(act)

    def transact(self, act: Callable[[Connection], T]) -> T:
        """Do it in one transaction; anew if the database undid it, or if it broke off before its commit was sent."""
        for tries_left in reversed(range(_TRIES)):
            committing = False
            try:
                with self._lent() as connection:
                    # Whatever the database's default is: the statements are made for this level.
                    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                    done = act(connection)
                    committing = True
                    connection.execute("COMMIT")
                    return done
            except _UNDONE as error:
                if not tries_left:
                    raise self._translated(error) from error
                _step_aside()
            except ConnectionLost:
                if committing or not tries_left:
                    raise
        raise AssertionError("the loop returns or raises")

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Connection]:
        free, home = self._free, self._idle
        if not free.acquire(timeout=_PATIENCE):
            raise EngineUnavailable(
                f"all {self.address.connections} connections of this process were busy for {_PATIENCE:g} s; "
                "raise `connections` in the URL"
            )
        try:
            connection = self._take()
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, psycopg.Error) and _broke_off(connection):
                    self.hang_up(connection)
                    raise ConnectionLost(f"{self.address}: {_in_a_line(error)}") from error
                self._put_right(connection, home)
                raise
            else:
                self._return(connection, home)
        except _UNDONE:
            raise
        except _NOT_NOW as error:
            raise self._translated(error) from error
        finally:
            free.release()

    def _take(self) -> Connection:
        now = time.monotonic()
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if now - since < _KEPT_IDLE and not _has_something_to_say(connection):
                return connection
            self.hang_up(connection)
        return self.connect()

    def connect(self, **more: Any) -> Connection:
        """A new connection with our settings, in autocommit."""
        self._hang_up_the_dead()
        self._breaker.check()
        try:
            connection = self.address.connect(**more)
        except psycopg.OperationalError as error:
            self._breaker.failed(f"{self.address}: {_in_a_line(error)}")
            raise
        except psycopg.ProgrammingError as error:
            raise ConfigError(f"url: {_in_a_line(error)}") from error
        if (version := connection.info.server_version) < _OLDEST:
            connection.close()
            raise ConfigError(f"{self.address} is PostgreSQL {version // 10000}; {_OLDEST // 10000} is needed")
        self._breaker.succeeded()
        self._backends[connection] = connection.info.backend_pid
        return connection

    def is_ours(self, backend: int) -> bool:
        """Whether one of this process's connections goes by this name at the server."""
        return backend in list(self._backends.values())

    def hang_up(self, connection: Connection) -> None:
        # Not what we have from our parent: a word on it would end it for both.
        if self._backends.pop(connection, None) is not None:
            connection.close()

    def _hang_up_the_dead(self) -> None:
        """Close what the server has closed: a new one of somebody else may go by its name by now."""
        with self._lock:
            dead = [each for each in self._idle if _has_something_to_say(each[0])]
            for each in dead:
                self._idle.remove(each)
        for connection, _ in dead:
            self.hang_up(connection)

    def _return(self, connection: Connection, home: list[tuple[Connection, float]]) -> None:
        """Keep it for the next one, unless everything was closed since it was taken."""
        now = time.monotonic()
        unused = []
        with self._lock:
            if home is self._idle and not connection.closed:
                home.append((connection, now))
                while now - home[0][1] >= _KEPT_IDLE:
                    unused.append(home.pop(0)[0])
            else:
                unused.append(connection)
        for each in unused:
            self.hang_up(each)

    def _put_right(self, connection: Connection, home: list[tuple[Connection, float]]) -> None:
        """Ready for the next one after an error, or away with it."""
        if connection not in self._backends:  # a child, forked in the middle of it, leaves by the way of its parent
            return
        status = connection.info.transaction_status
        try:
            if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                with contextlib.suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                self._return(connection, home)
            else:  # it was interrupted in the middle of something
                self.hang_up(connection)

    def _translated(self, error: psycopg.Error) -> EngineUnavailable:
        told = f"{self.address}: {_in_a_line(error)}"
        advice = next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), None)
        if type(error) is psycopg.OperationalError:
            advice = next((text for words, text in _ADVICE_ON_WORDS.items() if words in told), None)
        away = EngineUnavailable(f"{told}; {advice}" if advice else told)
        away.permanent = isinstance(error, pg.InsufficientPrivilege) or any(words in told for words in _PERMANENT)
        return away

    def close(self) -> None:
        """Close every connection that is not in use; the others close when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.hang_up(connection)


_ADVICE: dict[type[psycopg.Error], str] = {
    pg.QueryCanceled: "the statement took longer than its timeout; is the server overloaded, or a lock held?",
    pg.LockNotAvailable: "another transaction holds a lock for too long",
    pg.DiskFull: "the server's disk is full: free some space, the queue goes on by itself",
    pg.DeadlockDetected: "other transactions got into its way again and again",
    pg.SerializationFailure: "other transactions got into its way again and again",
    pg.InsufficientPrivilege: "the user of the URL may not do this; grant it, or run `headrace migrate` as the owner",
    pg.ReadOnlySqlTransaction: "the server is a replica or read-only; use the address of the primary",
    pg.UndefinedTable: "the tables are gone; `headrace migrate` makes them anew",
    pg.InvalidSchemaName: "the schema is gone; `headrace migrate` makes it anew",
}


# Why a connection was refused is told in words alone.
_ADVICE_ON_WORDS = {
    "too many": "the server has no connection left for us; lower `connections` in the URL or use a pooler",
    "connection slots": "the server has no connection left for us; lower `connections` in the URL or use a pooler",
    "startup parameter": "is it a pooler? Then add `pooler=on` to the URL",
}

_PERMANENT = ("connection option", "authentication failed", "no password supplied", "pg_hba.conf", '" does not exist')

_servers: WeakSet[ConnectionPool] = WeakSet()
_left_to_the_parent: list[object] = []  # what is thrown away unclosed would be warned about


def _start_all_afresh() -> None:
    for server in list(_servers):
        _left_to_the_parent.append(server._backends)
        server.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)


def _step_aside() -> None:
    # Whoever comes again at once meets the same others in the same order.
    time.sleep(random.uniform(0.005, 0.05))


def _has_something_to_say(connection: Connection) -> bool:
    # An idle connection has nothing to read but the news that it was closed.
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _broke_off(connection: Connection) -> bool:
    # An answer that never came is told in two ways: the connection is known to be closed, or still waits for it.
    return connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)


def _in_a_line(error: psycopg.Error) -> str:
    """What the server said, without where in our statement; what the library says, if it was not the server."""
    return " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__


def scalar(db: Connection, sql: str, values: Mapping[str, Any] | None = None) -> Any:
    """The first value of the first row."""
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return row[0]
