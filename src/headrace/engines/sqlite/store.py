"""The SQLite file: connections, transactions, and the one place where its errors become ours.

One connection writes, guarded by a lock among threads and the turnstile among processes; reads have connections
of their own and are never blocked. Nothing but SQLite opens the file itself: closing such a descriptor would drop
the locks of the whole process. A connection never crosses a fork.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from headrace.engines.sqlite.turnstile import Turnstile
from headrace.errors import ConfigError, EngineUnavailable

Durability = Literal["normal", "full", "off"]
OLDEST_SQLITE = (3, 38, 0)
_READERS_KEPT = 8
_LEFT_TO_PARENT: list[sqlite3.Connection | None] = []


class Store:
    """The file and everything that is open on it in this process."""

    def __init__(self, path: Path, durability: Durability = "normal", patience: float = 5.0) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            found, needed = sqlite3.sqlite_version, ".".join(map(str, OLDEST_SQLITE))
            raise ConfigError(f"Python is linked with SQLite {found}; headrace needs {needed} or newer")
        self.path = path
        self.folder = path.with_name(path.name + ".d")
        self.durability = durability
        self._patience = patience
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._turnstile = Turnstile(self.folder / "turnstile", self._patience)

    def _own(self) -> None:
        if self._pid != os.getpid():
            # A parent's connections must be neither used nor closed here: closing could undo its locks and its log.
            _LEFT_TO_PARENT.extend((self._writer, *self._readers))
            self._forget()

    # -- transactions

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: committed at the end, rolled back on any exception."""
        self._own()
        if not self._lock.acquire(timeout=self._patience):
            raise EngineUnavailable(f"no turn to write within {self._patience:g} s: another thread holds the store")
        try:
            with explained(self.path):
                connection = self._open_writer()
                self._turnstile.enter()
                try:
                    yield from _transaction(connection)
                finally:
                    self._turnstile.leave()
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for reads; it sees what is committed."""
        self._own()
        with explained(self.path):
            try:
                connection = self._readers.pop()
            except IndexError:
                self._open_writer()  # the file and its tables exist from here on
                connection = self.connect()
            yield connection
            if len(self._readers) < _READERS_KEPT:
                self._readers.append(connection)
            else:
                connection.close()

    # -- connections

    def _open_writer(self) -> sqlite3.Connection:
        with self._lock:
            if self._writer is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._turnstile.open()
                # One at a time: SQLite turns down, without waiting, whoever makes a new file WAL beside another.
                self._turnstile.enter()
                try:
                    self._writer = self.connect()
                finally:
                    self._turnstile.leave()
            return self._writer

    def connect(self) -> sqlite3.Connection:
        """A new connection with our settings, in autocommit, for use by one thread at a time."""
        connection = sqlite3.connect(
            self.path,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        connection.execute("PRAGMA page_size=4096")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={self.durability.upper()}")
        for setting in (
            "wal_autocheckpoint=1000",
            "foreign_keys=ON",
            "temp_store=MEMORY",
            "cache_size=-20000",
        ):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def close(self) -> None:
        """Close every connection of this process."""
        self._own()
        with self._lock:
            for connection in (*self._readers, *([self._writer] if self._writer else [])):
                connection.close()
            self._readers.clear()
            self._writer = None
            self._turnstile.close()


def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def scalar(connection: sqlite3.Connection, sql: str, parameters: Any = ()) -> Any:
    """The one value of a one-row answer."""
    return connection.execute(sql, parameters).fetchone()[0]


_ADVICE = {
    "SQLITE_BUSY": "another process holds the file; is it on a network share, or a process stopped?",
    "SQLITE_LOCKED": "another process holds the file",
    "SQLITE_FULL": "the disk is full: free some space, the queue goes on by itself",
    "SQLITE_READONLY": "the file or its folder can't be written by this user",
    "SQLITE_CANTOPEN": "does the folder exist, and may this user write there?",
    "SQLITE_CORRUPT": "the file is damaged: stop the workers and run `headrace doctor`",
    "SQLITE_NOTADB": "this is not an SQLite database; choose another file",
    "SQLITE_IOERR": "the disk reported an error",
}


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into EngineUnavailable that says what to do."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = next((text for code, text in _ADVICE.items() if name.startswith(code)), None)
        if advice is None:
            raise
        raise EngineUnavailable(f"{path}: {error}; {advice}") from error
    except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
        raise EngineUnavailable(f"{path}: {error}") from error


def temporary_file() -> Path:
    """A path in a fresh private folder, for stores that live as long as the process."""
    return Path(tempfile.mkdtemp(prefix="headrace-")) / "memory.db"
