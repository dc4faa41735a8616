"""SQLite files that are copies, not stores in use: they are only read."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from headrace.engines.sqlite.schema import deviations, refuse_unknown, version_of
from headrace.engines.sqlite_file.database import scalar
from headrace.engines.sqlite_file.errors import explained
from headrace.errors import ConfigError


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file opened read-only: its disk may be read-only."""
    with explained(path):
        # `immutable` would ignore the log beside a file that was copied by hand.
        db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, isolation_level=None)
    with contextlib.closing(db), explained(path):
        yield db


def make_single(path: Path) -> None:
    """Merge the log into the file, so that it can be read from a read-only disk."""
    with explained(path), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=DELETE").fetchone()


def check_copy(path: Path) -> None:
    """Check that the file is a complete store of ours."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    with _damage_reported(path), reading(path) as db:
        version = version_of(db)
        if not version:
            raise ConfigError(f"{path} has no tables of headrace; is it a backup?")
        refuse_unknown(db, version, str(path))
        if (damage := scalar(db, "PRAGMA integrity_check(1)")) != "ok":
            raise ConfigError(f"{path} is damaged: {damage}; take another backup")
        if db.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise ConfigError(f"{path} is damaged: it has rows of a job that does not exist")


def check_schema(path: Path) -> None:
    """Check that the file has no tables or triggers of others that touch headrace's."""
    with _damage_reported(path), reading(path) as db:
        if changed := deviations(db, version_of(db)):
            raise ConfigError(
                f"{path}: {'; '.join(changed[:3])}. The schema was changed. If you trust the file, put that "
                "right in a copy of it with the sqlite3 shell; else take another backup"
            )


@contextlib.contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Raise errors of reading a damaged file as ConfigError."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged: {error}; take another backup") from error
