"""The PostgreSQL server: connections, transactions, and the translation of its errors.

The pool is a list. Unlike a pool with threads of its own, it notices before use that the server has closed a
connection, fails at once while the server is away, and starts empty in a forked child.
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
_POOL_TIMEOUT = 10.0  # for a free connection
_TRIES = 4
_KEPT_IDLE = 60.0

# The database rolled back, and the transaction may be repeated.
_ROLLED_BACK = (pg.SerializationFailure, pg.DeadlockDetected)
# Not the caller's fault: the server is away, refuses connections for now, or is misconfigured.
_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.InsufficientPrivilege,
    pg.ReadOnlySqlTransaction,
    pg.UndefinedTable,
    pg.InvalidSchemaName,
)


class ConnectionLost(EngineUnavailable):
    """The connection broke in use. It is unknown whether the server executed the last statement."""


class ConnectionPool:
    """Every connection of this process to one server."""

    def __init__(self, address: PostgresUrl) -> None:
        self.address = address
        self.reset_after_fork()
        _servers.add(self)

    def reset_after_fork(self) -> None:
        """Start without connections, as in a forked child."""
        self._lock = threading.Lock()
        self._idle: list[tuple[Connection, float]] = []
        self._backends: dict[Connection, int] = {}  # open connections and their backend pids
        self._free = threading.BoundedSemaphore(self.address.connections)
        self._breaker = CircuitBreaker()

    def run(self, act: Callable[[Connection], T]) -> T:
        """Call it once with a connection in autocommit; again only if the database rolled it back."""
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._borrowed() as connection:
                    return act(connection)
            except _ROLLED_BACK as error:
                if not tries_left:
                    raise self._translated(error) from error
                _back_off()
        raise AssertionError("the loop returns or raises")

    def repeat(self, act: Callable[[Connection], T]) -> T:
        """The same for idempotent work: once more if the connection breaks."""
        try:
            return self.run(act)
        except ConnectionLost:
            return self.run(act)

    def transact(self, act: Callable[[Connection], T]) -> T:
        """Call it in one transaction; again if the database rolled it back, or it broke before the commit."""
        for tries_left in reversed(range(_TRIES)):
            committing = False
            try:
                with self._borrowed() as connection:
                    # Whatever the database's default is: the statements are written for this level.
                    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                    done = act(connection)
                    committing = True
                    connection.execute("COMMIT")
                    return done
            except _ROLLED_BACK as error:
                if not tries_left:
                    raise self._translated(error) from error
                _back_off()
            except ConnectionLost:
                if committing or not tries_left:
                    raise
        raise AssertionError("the loop returns or raises")

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        free, pool = self._free, self._idle
        if not free.acquire(timeout=_POOL_TIMEOUT):
            raise EngineUnavailable(
                f"all {self.address.connections} connections of this process were busy for {_POOL_TIMEOUT:g} s; "
                "raise `connections` in the URL"
            )
        try:
            connection = self._take_idle()
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, psycopg.Error) and _is_broken(connection):
                    self.disconnect(connection)
                    raise ConnectionLost(f"{self.address}: {_one_line(error)}") from error
                self._recover(connection, pool)
                raise
            else:
                self._return(connection, pool)
        except _ROLLED_BACK:
            raise
        except _UNAVAILABLE as error:
            raise self._translated(error) from error
        finally:
            free.release()

    def _take_idle(self) -> Connection:
        now = time.monotonic()
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if now - since < _KEPT_IDLE and not _is_readable(connection):
                return connection
            self.disconnect(connection)
        return self.connect()

    def connect(self, **more: Any) -> Connection:
        """A new connection with our settings, in autocommit."""
        self._disconnect_dead()
        self._breaker.check()
        try:
            connection = self.address.connect(**more)
        except psycopg.OperationalError as error:
            self._breaker.failed(f"{self.address}: {_one_line(error)}")
            raise
        except psycopg.ProgrammingError as error:
            raise ConfigError(f"url: {_one_line(error)}") from error
        if (version := connection.info.server_version) < _OLDEST:
            connection.close()
            raise ConfigError(f"{self.address} is PostgreSQL {version // 10000}; {_OLDEST // 10000} is needed")
        self._breaker.succeeded()
        self._backends[connection] = connection.info.backend_pid
        return connection

    def is_own_backend(self, backend: int) -> bool:
        """Whether this backend pid belongs to a connection of this process."""
        return backend in list(self._backends.values())

    def disconnect(self, connection: Connection) -> None:
        # Not those inherited from our parent: closing one would end it for both.
        if self._backends.pop(connection, None) is not None:
            connection.close()

    def _disconnect_dead(self) -> None:
        """Close connections that the server has closed: their backend pids may be reused."""
        with self._lock:
            dead = [each for each in self._idle if _is_readable(each[0])]
            for each in dead:
                self._idle.remove(each)
        for connection, _ in dead:
            self.disconnect(connection)

    def _return(self, connection: Connection, pool: list[tuple[Connection, float]]) -> None:
        """Keep it for the next use, unless the pool was closed since it was taken."""
        now = time.monotonic()
        unused = []
        with self._lock:
            if pool is self._idle and not connection.closed:
                pool.append((connection, now))
                while now - pool[0][1] >= _KEPT_IDLE:
                    unused.append(pool.pop(0)[0])
            else:
                unused.append(connection)
        for each in unused:
            self.disconnect(each)

    def _recover(self, connection: Connection, pool: list[tuple[Connection, float]]) -> None:
        """Make it usable again after an error, or close it."""
        if connection not in self._backends:  # a child that was forked meanwhile leaves it to its parent
            return
        status = connection.info.transaction_status
        try:
            if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                with contextlib.suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                self._return(connection, pool)
            else:  # it was interrupted in the middle of a statement
                self.disconnect(connection)

    def _translated(self, error: psycopg.Error) -> EngineUnavailable:
        text = f"{self.address}: {_one_line(error)}"
        advice = next((hint for kind, hint in _ADVICE.items() if isinstance(error, kind)), None)
        if type(error) is psycopg.OperationalError:
            advice = next((hint for part, hint in _ADVICE_BY_TEXT.items() if part in text), None)
        unavailable = EngineUnavailable(f"{text}; {advice}" if advice else text)
        unavailable.permanent = isinstance(error, pg.InsufficientPrivilege) or any(part in text for part in _PERMANENT)
        return unavailable

    def close(self) -> None:
        """Close every connection that is not in use; the others close when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.disconnect(connection)


_ADVICE: dict[type[psycopg.Error], str] = {
    pg.QueryCanceled: "the statement took longer than its timeout; is the server overloaded, or a lock held?",
    pg.LockNotAvailable: "another transaction holds a lock for too long",
    pg.DiskFull: "the server's disk is full: free some space, the queue goes on by itself",
    pg.DeadlockDetected: "it kept conflicting with other transactions",
    pg.SerializationFailure: "it kept conflicting with other transactions",
    pg.InsufficientPrivilege: "the user of the URL may not do this; grant it, or run `headrace migrate` as the owner",
    pg.ReadOnlySqlTransaction: "the server is a replica or read-only; use the address of the primary",
    pg.UndefinedTable: "the tables are gone; `headrace migrate` creates them again",
    pg.InvalidSchemaName: "the schema is gone; `headrace migrate` creates it again",
}


# A refused connection has no error code, only text.
_ADVICE_BY_TEXT = {
    "too many": "the server has no connection left for us; lower `connections` in the URL or use a pooler",
    "connection slots": "the server has no connection left for us; lower `connections` in the URL or use a pooler",
    "startup parameter": "is it a pooler? Then add `pooler=on` to the URL",
}

_PERMANENT = ("connection option", "authentication failed", "no password supplied", "pg_hba.conf", '" does not exist')

_servers: WeakSet[ConnectionPool] = WeakSet()
_parents_connections: list[object] = []  # dropped unclosed, they would cause warnings


def _start_all_afresh() -> None:
    for server in list(_servers):
        _parents_connections.append(server._backends)
        server.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)


def _back_off() -> None:
    # An immediate retry would meet the same transactions in the same order.
    time.sleep(random.uniform(0.005, 0.05))


def _is_readable(connection: Connection) -> bool:
    # An idle connection has nothing to read, except that it was closed.
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _is_broken(connection: Connection) -> bool:
    # A missing answer shows in two ways: the connection is known to be closed, or still waits for it.
    return connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)


def _one_line(error: psycopg.Error) -> str:
    """The server's message without the position in our statement; the library's, if it was not the server."""
    return " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__


def scalar(db: Connection, sql: str, values: Mapping[str, Any] | None = None) -> Any:
    """The first value of the first row."""
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return row[0]
