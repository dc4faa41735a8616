"""A backup: one SQLite file with the jobs of a store of any engine, and its archive in one table beside them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from headrace.core.retention.archive import ArchiveRow
from headrace.engines.protocol.engine import Engine
from headrace.engines.sqlite.archive import SQL, insert_of, rows_in
from headrace.engines.sqlite.copy_files import check_copy, check_schema, make_single, reading
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.sqlite.statements import SQL as FILE
from headrace.engines.sqlite_file.database import scalar
from headrace.engines.sqlite_file.errors import explained

_AT_ONCE = 200


def open_backup(path: Path) -> Engine:
    """The backup as a store. It is written fast: a crash meanwhile leaves no backup."""
    return SqliteEngine(path, durability="off")


def finish(path: Path) -> None:
    """Bring everything into the one file, and make sure that it is a whole store."""
    make_single(path)
    check_copy(path)


def check(path: Path) -> None:
    """Make sure that the file is a whole store, with no tables and triggers but headrace's own."""
    check_copy(path)
    check_schema(path)


def count_jobs(path: Path) -> int:
    """How many jobs the backup has."""
    with reading(path) as db:
        return int(scalar(db, "SELECT count(*) FROM headrace_jobs"))


def put_archive(path: Path, pages: Iterable[Sequence[ArchiveRow]]) -> None:
    """Replace the archive of a backup, which no process may have open, by these rows."""
    with explained(path), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(FILE["drop_archive"])
        for number, page in enumerate(pages):
            db.execute("BEGIN")
            if number == 0:
                db.execute(SQL["archive_tables"])
                db.execute(SQL["archive_index_of_ids"])
            for first in range(0, len(page), _AT_ONCE):
                rows = page[first : first + _AT_ONCE]
                db.execute(insert_of(len(rows)), [value for row in rows for value in msgspec.structs.astuple(row)])
            db.execute("COMMIT")


def count_archived(path: Path) -> int:
    """How many archived jobs the backup has."""
    with reading(path) as db:
        return int(scalar(db, SQL["archive_size"])) if scalar(db, SQL["archive_of_copy"]) else 0


def archive_pages(path: Path) -> Iterator[list[ArchiveRow]]:
    """The archived jobs that the backup has."""
    if not count_archived(path):
        return
    after = 0
    with reading(path) as db:
        while found := db.execute(SQL["archive_page"], {"after": after, "limit": _AT_ONCE}).fetchall():
            yield rows_in(values[1:] for values in found)
            after = found[-1][0]
