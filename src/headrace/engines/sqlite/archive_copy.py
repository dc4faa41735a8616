"""The archive as a backup has it: all of it in one table of the one file, whatever store it is of."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from headrace.core.retention.archive import ArchiveRow
from headrace.engines.sqlite.archive import SQL, insert_of, rows_in
from headrace.engines.sqlite.copy_files import reading
from headrace.engines.sqlite.database import scalar
from headrace.engines.sqlite.errors import explained
from headrace.engines.sqlite.statements import SQL as FILE

_AT_ONCE = 200


def put(path: Path, pages: Iterable[Sequence[ArchiveRow]]) -> None:
    """Write these rows into a backup that nobody has open, in the place of what it has."""
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


def count(path: Path) -> int:
    """How many archived jobs the backup has."""
    with reading(path) as db:
        return int(scalar(db, SQL["archive_size"])) if scalar(db, SQL["archive_of_copy"]) else 0


def pages(path: Path) -> Iterator[list[ArchiveRow]]:
    """The archived jobs that the backup has."""
    if not count(path):
        return
    after = 0
    with reading(path) as db:
        while found := db.execute(SQL["archive_page"], {"after": after, "limit": _AT_ONCE}).fetchall():
            yield rows_in(values[1:] for values in found)
            after = found[-1][0]
