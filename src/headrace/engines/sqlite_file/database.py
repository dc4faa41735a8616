"""The SQLite file: connections, transactions, and the translation of its errors.

One connection writes, guarded by a lock among threads and the writer_lock among processes; reads have connections
of their own and are never blocked. Nothing but SQLite opens the file itself: closing such a descriptor would drop
the locks of the whole process.

A connection never crosses a fork. It is not enough to leave it unused in the child: SQLite tracks its locks by process,
the child inherits that record without the locks, and its own connections would then write unprotected. So every
connection is closed before a fork; parent and child reopen theirs when they need one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol
from weakref import WeakSet

from headrace.engines.sqlite_file.errors import explained, translated
from headrace.engines.sqlite_file.writer_lock import WriterLock
from headrace.errors import ConfigError, EngineUnavailable

Durability = Literal["normal", "full", "off"]
OLDEST_SQLITE = (3, 38, 0)
_READERS_KEPT = 8
# A text that is not UTF-8 is damaged. One damaged record must not fail the read of a thousand others.
_as_text = functools.partial(str, encoding="utf-8", errors="replace")
_READS_AWAITED = 1.0  # how long a fork waits for running reads


class SqliteDatabase:
    """The file and its open connections in this process."""

    def __init__(
        self,
        path: Path,
        durability: Durability = "normal",
        lock_timeout: float = 5.0,
        prepare_folder: Callable[[], None] | None = None,
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            found, needed = sqlite3.sqlite_version, ".".join(map(str, OLDEST_SQLITE))
            raise ConfigError(f"Python is linked with SQLite {found}; headrace needs {needed} or newer")
        self.path = path
        self._name = os.fspath(path)
        self._file: tuple[int, int] | None = None
        self.folder = path.with_name(path.name + ".d")
        self.durability = durability
        self._lock_timeout = lock_timeout
        self.lock_timeout_ms = int(lock_timeout * 1000)
        self._prepare_folder = prepare_folder
        self._watchers = self._writers = 0
        self.event_commits = 0  # commits of this process, except quiet ones
        self.reset_after_fork()
        guard_through_forks(self)

    def reset_after_fork(self) -> None:
        """Start with nothing open, as in a forked child."""
        self._lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._watcher: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._reads = 0
        self._reader_guard = threading.Condition()  # readers must not wait for a writer of their process
        self._turnstile = WriterLock(self.folder / "writer_lock", self._lock_timeout)

    def turns(self) -> tuple[int, int]:
        """How often this process got the write lock, and how often late."""
        return self._turnstile.turns, self._turnstile.late

    # -- transactions

    def writing(self, *, quiet: bool = False) -> WriteTransaction:
        """One write transaction: committed at the end of the `with`, rolled back on any exception.

        A `quiet` one appends no events.
        """
        return WriteTransaction(self, quiet)

    def begin(self) -> sqlite3.Connection:
        """Take the write lock; `end` releases it."""
        if not self._lock.acquire(timeout=self._lock_timeout):
            raise EngineUnavailable(f"no write lock within {self._lock_timeout:g} s: another thread holds it")
        try:
            connection = self._writer or self._open_writer()
            self._turnstile.enter()
            try:
                self._refuse_other_file()
                connection.execute("BEGIN IMMEDIATE")
            except BaseException:
                self._turnstile.leave()
                raise
        except BaseException as error:
            self._lock.release()
            raise translated(error, self.path) from error.__cause__
        return connection

    def end(self, connection: sqlite3.Connection, statement: str) -> None:
        """COMMIT or ROLLBACK, and let the next writer in."""
        try:
            connection.execute(statement)
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if statement == "COMMIT":
                raise translated(error, self.path) from error
        finally:
            self._turnstile.leave()
            self._lock.release()

    @contextlib.contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The writing connection outside of a transaction, while no other process of ours writes."""
        connection = self.begin()
        try:
            connection.execute("ROLLBACK")
            with explained(self.path):
                yield connection
        finally:
            self._turnstile.leave()
            self._lock.release()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for reads; it sees committed data."""
        with explained(self.path):
            connection = self._take_reader()
            try:
                yield connection
            finally:
                self._return_reader(connection)

    def change_count(self) -> tuple[int, int]:
        """Differs from the last value if another connection has committed since, or if that is unknown."""
        with explained(self.path), self._reader_guard:
            if self._watcher is None:
                self._watcher = self.connect()
                self._watchers += 1  # each connection starts its own count
            return self._watchers, int(scalar(self._watcher, "PRAGMA data_version"))

    def changes_of_others(self) -> tuple[int, int] | None:
        """The same without the commits of this store object; None if it is writing just now."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            with explained(self.path):
                writer = self._writer or self._open_writer()
                return self._writers, int(scalar(writer, "PRAGMA data_version"))
        finally:
            self._lock.release()

    def write_back(self) -> None:
        """Checkpoint the log into the file, while others go on writing.

        By itself SQLite checkpoints at the end of some commit, and all writers wait at the writer_lock meanwhile: for
        tens of milliseconds after many changes. Pages checkpointed here need not be written by such a commit.
        """
        with self.reading() as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    # -- connections

    def _take_reader(self) -> sqlite3.Connection:
        if self._writer is None:
            self._open_writer()  # the file exists from here on
        self._refuse_other_file()
        with self._reader_guard:
            connection = self._readers.pop() if self._readers else self.connect()
            self._reads += 1
            return connection

    def _return_reader(self, connection: sqlite3.Connection) -> None:
        with self._reader_guard:
            self._reads -= 1
            if len(self._readers) < _READERS_KEPT:
                self._readers.append(connection)
            else:
                connection.close()
            self._reader_guard.notify_all()

    def _open_writer(self) -> sqlite3.Connection:
        with self._lock:
            if self._writer is None:
                self.make_folder()
                self._turnstile.open()
                # One at a time: SQLite refuses, without waiting, when two connections switch a new file to WAL at once.
                self._turnstile.enter()
                try:
                    self._writer = self.connect(cache_kilobytes=20_000)
                    self._writers += 1  # each connection starts its own count
                    self._file = _identity(self._name)
                finally:
                    self._turnstile.leave()
            return self._writer

    def _refuse_other_file(self) -> None:
        """Refuse a file that was deleted: this process could still write to it, but no other process would see that."""
        if _identity(self._name) != self._file:
            deleted = EngineUnavailable(
                f"{self.path}: the file was deleted or replaced while this program had it open; nothing is stored. "
                "Put it back, or restart every program that uses it"
            )
            deleted.permanent = True
            raise deleted

    def make_folder(self) -> None:
        """Create the folder beside the file, for this user alone; a cleanup may have removed it."""
        if self._prepare_folder is not None:
            self._prepare_folder()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def connect(self, cache_kilobytes: int = 2000) -> sqlite3.Connection:
        """A new connection with our settings, in autocommit, for use by one thread at a time."""
        connection = sqlite3.connect(
            self.path,
            timeout=self._lock_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        connection.text_factory = _as_text
        try:
            for setting in (
                "page_size=4096",
                "journal_mode=WAL",
                f"synchronous={self.durability.upper()}",
                "wal_autocheckpoint=4000",  # at the default 1000 pages, a third of single inserts' time is checkpoints
                "foreign_keys=ON",
                "temp_store=MEMORY",
                f"cache_size=-{cache_kilobytes}",
            ):
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close every connection of this process."""
        with self._lock, self._reader_guard:
            for connection in (*self._readers, self._watcher, self._writer):
                if connection is not None:
                    connection.close()
            self._readers.clear()
            self._writer = self._watcher = None
            self._turnstile.close()

    def __del__(self) -> None:
        # The store was not closed: Python 3.13 would warn of each connection. Half-made ones have nothing to close.
        with contextlib.suppress(Exception):
            self.close()

    # -- around a fork

    def pause(self) -> None:
        """Block all reads and writes until `resume`."""
        self._lock.acquire()
        self._reader_guard.acquire()

    def close_files(self) -> None:
        """Wait for running reads, then close everything."""
        self._reader_guard.wait_for(lambda: not self._reads, _READS_AWAITED)
        self.close()

    def resume(self) -> None:
        self._reader_guard.release()
        self._lock.release()


class _Guarded(Protocol):
    """An object with open database files, which must be closed during a fork."""

    def pause(self) -> None: ...
    def close_files(self) -> None: ...
    def resume(self) -> None: ...
    def reset_after_fork(self) -> None: ...


class _ForkGuard:
    """Suspends every store of the process during a fork; one fork at a time.

    Two threads that fork at once could each wait for a store that the other one suspended, or resume a store that the
    other is about to copy. So a fork takes this lock first and releases it last.
    """

    def __init__(self) -> None:
        self.stores: WeakSet[_Guarded] = WeakSet()
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        self.lock = threading.RLock()
        self._halted: list[list[_Guarded]] = []  # one list for each running fork; forks may be nested

    def before(self) -> None:
        self.lock.acquire()
        halted: list[_Guarded] = []
        self._halted.append(halted)
        for store in list(self.stores):
            store.pause()
            halted.append(store)
            store.close_files()

    def after_in_parent(self) -> None:
        for store in self._halted.pop():
            store.resume()
        self.lock.release()

    def after_in_child(self) -> None:
        self.reset_after_fork()
        for store in list(self.stores):
            store.reset_after_fork()


def guard_through_forks(store: _Guarded) -> None:
    """Suspend the store before every fork, and resume it afterwards."""
    with _forks.lock:  # not during a fork, which would miss this one
        _forks.stores.add(store)


_forks = _ForkGuard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child
    )


class WriteTransaction:
    """The `with` of a write transaction. A class, not a generator: every single enqueue enters it."""

    __slots__ = ("_connection", "_quiet", "_store")

    def __init__(self, store: SqliteDatabase, quiet: bool) -> None:
        self._store = store
        self._quiet = quiet

    def __enter__(self) -> sqlite3.Connection:
        self._connection = self._store.begin()
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._store.end(self._connection, "COMMIT" if error is None else "ROLLBACK")
        if not self._quiet:
            self._store.event_commits += 1
        if error is not None and (mapped := translated(error, self._store.path)) is not error:
            raise mapped from error


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_dev


def scalar(connection: sqlite3.Connection, sql: str, parameters: Any = ()) -> Any:
    """The value of a one-row result; None if the statement returns no row."""
    row = connection.execute(sql, parameters).fetchone()
    return None if row is None else row[0]
