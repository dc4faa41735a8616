"""The SQLite file: connections, transactions, and the one place where its errors become ours.

One connection writes, guarded by a lock among threads and the turnstile among processes; reads have connections
of their own and are never blocked. Nothing but SQLite opens the file itself: closing such a descriptor would drop
the locks of the whole process. A connection never crosses a fork.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
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

    def writing(self) -> Writing:
        """One write transaction: committed at the end of the `with`, rolled back on any exception."""
        return Writing(self)

    def begin(self) -> sqlite3.Connection:
        """Take the turn to write; `commit` or `roll_back` gives it up."""
        self._own()
        if not self._lock.acquire(timeout=self._patience):
            raise EngineUnavailable(f"no turn to write within {self._patience:g} s: another thread holds the store")
        try:
            connection = self._writer or self._open_writer()
            self._turnstile.enter()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except BaseException:
                self._turnstile.leave()
                raise
        except BaseException as error:
            self._lock.release()
            raise translated(error, self.path) from error.__cause__
        return connection

    def end(self, connection: sqlite3.Connection, word: str) -> None:
        """COMMIT or ROLLBACK, and let the next writer through."""
        try:
            connection.execute(word)
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if word == "COMMIT":
                raise translated(error, self.path) from error
        finally:
            self._turnstile.leave()
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
                    self._writer = self.connect(cache_kilobytes=20_000)
                finally:
                    self._turnstile.leave()
            return self._writer

    def connect(self, cache_kilobytes: int = 2000) -> sqlite3.Connection:
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
            "wal_autocheckpoint=4000",  # 16 MB: at the usual 1000 pages a third of single inserts' time is checkpoints
            "foreign_keys=ON",
            "temp_store=MEMORY",
            f"cache_size=-{cache_kilobytes}",
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


class Writing:
    """The `with` of a write transaction. A class, not a generator: it is entered for every single enqueue."""

    __slots__ = ("_connection", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> sqlite3.Connection:
        self._connection = self._store.begin()
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._store.end(self._connection, "COMMIT" if error is None else "ROLLBACK")
        if error is not None and (told := translated(error, self._store.path)) is not error:
            raise told from error


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


def translated(error: BaseException, path: Path) -> BaseException:
    """An error of SQLite or of the file system as EngineUnavailable that says what to do; any other as it is."""
    if isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError):
        return EngineUnavailable(f"{path}: {error}")
    name = getattr(error, "sqlite_errorname", None) or ""
    advice = next((text for code, text in _ADVICE.items() if name.startswith(code)), None)
    return error if advice is None else EngineUnavailable(f"{path}: {error}; {advice}")


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise what happens inside in our own words."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if (told := translated(error, path)) is error:
            raise
        raise told from error
