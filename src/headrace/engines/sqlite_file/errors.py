"""Translates errors of SQLite and the file system into EngineUnavailable, with advice."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headrace.engines.sqlite_file.lock_holder import is_written_here
from headrace.errors import EngineUnavailable

_ADVICE = {
    "SQLITE_BUSY": "another process holds the lock; is a process stopped, or the file on a network share?",
    "SQLITE_LOCKED": "another process holds the lock",
    "SQLITE_FULL": "the disk is full: free some space, the queue goes on by itself",
    "SQLITE_READONLY": "the file or its folder can't be written by this user",
    "SQLITE_CANTOPEN": "does the folder exist, and may this user write there?",
    "SQLITE_CORRUPT": "the file is damaged: stop the workers and run `headrace doctor`",
    "SQLITE_NOTADB": "this is not an SQLite database; choose another file",
    "SQLITE_IOERR": "the disk reported an error",
}


_PERMANENT = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_NOTADB")
_OWN = (
    "this process holds the file itself: a transaction is open in it, such as that of Django's atomic(). Enqueue in "
    "that transaction, with using(connection=...), or when it is over"
)
_FILE_ADVICE = {
    errno.EACCES: "all processes of a store must run as one user with write access",
    errno.EPERM: "all processes of a store must run as one user with write access",
    errno.ELOOP: "a link is in the place of a file of headrace's own; remove it",
    errno.ENOSPC: _ADVICE["SQLITE_FULL"],
}


def translated(error: BaseException, path: Path) -> BaseException:
    """EngineUnavailable with advice for an error of SQLite or the file system; any other error unchanged."""
    if isinstance(error, OSError):
        advice = _FILE_ADVICE.get(error.errno or 0)
        unavailable = EngineUnavailable(f"{path}: {error}" + (f"; {advice}" if advice else ""))
        unavailable.permanent = error.errno != errno.ENOSPC
        return unavailable
    name = getattr(error, "sqlite_errorname", None) or ""
    advice = next((text for code, text in _ADVICE.items() if name.startswith(code)), None)
    if "no such table: headrace_" in str(error):
        advice = "the tables are gone; was the file replaced? Restart every program that uses it"
    if name.startswith("SQLITE_BUSY") and is_written_here(path):
        advice = _OWN
    if advice is None:
        return error
    unavailable = EngineUnavailable(f"{path}: {error}; {advice}")
    unavailable.permanent = name.startswith(_PERMANENT)
    return unavailable


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors inside as EngineUnavailable with advice."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if (explained_error := translated(error, path)) is error:
            raise
        raise explained_error from error
