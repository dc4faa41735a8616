"""The archive beside a SQLite file: a folder with one file for each partition, which is dropped by removing it.

So an archive never grows the file of the jobs, dropping a partition frees its space at once, and no write to it blocks
a claim. Files are opened for each call: they are many and rarely read, and no connection may cross a fork.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from headrace.core.jobs.ids import time_of
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.retention.archive import (
    ArchivePage,
    ArchiveRow,
    Durations,
    Interval,
    Key,
    PartitionChanges,
    PartitionRow,
    ahead,
    is_past,
    key_of,
    page_of,
    partition_of,
    percentile,
    place_of,
    span_of,
)
from headrace.engines.shared.sql_files import as_json, load_statements
from headrace.engines.sql.records import RECORDS
from headrace.engines.sqlite.statements import DIALECT
from headrace.engines.sqlite_file.database import SqliteDatabase, guard_through_forks, scalar
from headrace.engines.sqlite_file.errors import explained
from headrace.engines.sqlite_file.writer_lock import WriterLock

SQL: dict[str, str] = {
    **load_statements("headrace.engines.sql", RECORDS, DIALECT, ("archive",)),
    **load_statements("headrace.engines.sqlite", RECORDS, DIALECT, ("archive",)),
}
_TABLES = ("archive_tables", "archive_index_of_ids", "archive_index_of_ends", "archive_index_of_tasks")
_FILTERS = ("queue", "task", "tag", "since", "until")
_LOCK_TIMEOUT = 5.0
_ROWS_AT_ONCE = 500
_SUFFIX, _GONE = ".db", ".gone"
T = TypeVar("T")


class SqliteArchive:
    """The partitions of one store."""

    def __init__(self, store: SqliteDatabase) -> None:
        self._store = store
        self._folder = store.folder / "archive"
        self.reset_after_fork()
        guard_through_forks(self)

    # -- writing

    def add(self, rows: Sequence[ArchiveRow], interval: Interval, again: Collection[str] = ()) -> None:
        by_partition: dict[str, list[ArchiveRow]] = defaultdict(list)
        for row in rows:
            by_partition[partition_of(row.finished_at, interval)].append(row)
        with self._writing():
            for name, of_one in by_partition.items():
                self._put(name, of_one)
            if older := [row for row in rows if row.id in again]:
                self._supersede(older)

    def _put(self, name: str, rows: Sequence[ArchiveRow]) -> None:
        with self._opened(name, create=True) as db:
            db.execute("BEGIN IMMEDIATE")
            # Many rows in one step: with a step for each, each might wait for the interpreter.
            for first in range(0, len(rows), _ROWS_AT_ONCE):
                part = rows[first : first + _ROWS_AT_ONCE]
                values = [value for row in part for value in msgspec.structs.astuple(row)]
                db.execute(insert_of(len(part)), values)
            db.execute("COMMIT")

    def _supersede(self, rows: Sequence[ArchiveRow]) -> None:
        """Remove the rows of earlier ends from all partitions; only after the new rows are durable."""
        for name in self._names():
            self._change(name, "archive_supersede", [key_of(row) for row in rows])

    def remove(self, keys: Sequence[Key]) -> int:
        with self._writing():
            return sum(
                self._change(name, "archive_remove", of_one) for name, of_one in self._partitions_of(keys).items()
            )

    def _partitions_of(self, keys: Sequence[Key]) -> dict[str, list[Key]]:
        """The partitions that may hold these rows."""
        ends = {name: [key for key in keys if _begin(name) <= key[2] < _end(name)] for name in self._names()}
        return {name: found for name, found in ends.items() if found}

    def _change(self, name: str, statement: str, values: Sequence[tuple[Any, ...]]) -> int:
        with self._opened(name) as db:
            db.execute("BEGIN IMMEDIATE")
            changed = db.executemany(SQL[statement], values).rowcount
            db.execute("COMMIT")
            return changed

    def update_partitions(self, now: int, interval: Interval | None, before: int | None) -> PartitionChanges:
        with self._writing():
            created = [] if interval is None else self._create(ahead(now, interval))
            dropped = [] if before is None else self._drop(before)
        return PartitionChanges(created, [], dropped)  # a file that cannot be created raises

    def _create(self, names: Iterable[str]) -> list[str]:
        known = set(self._names())
        missing = [name for name in names if name not in known]
        for name in missing:
            with self._opened(name, create=True):
                pass
        return missing

    def _drop(self, before: int) -> list[str]:
        dropped = [name for name in self._names() if is_past(name, before)]
        for name in dropped:
            # From here on it is gone; its files are removed below, now or by the next call.
            path = self._path(name)
            path.rename(path.with_suffix(_GONE))
        for left in [*self._folder.glob(f"*{_GONE}")]:
            journal = left.with_name(f"{left.stem}{_SUFFIX}-journal")
            if not left.with_suffix(_SUFFIX).exists():
                journal.unlink(missing_ok=True)
            left.unlink(missing_ok=True)
        return dropped

    # -- reading

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> ArchivePage:
        place = place_of(cursor)
        where, values = _conditions(which, place)
        statement = "archive_find_named" if which.ids else "archive_find"
        text, values = SQL[statement].replace("{where}", where), {**values, "limit": limit + 1}
        rows: list[ArchiveRow] = []
        # The id contains the time of creation. A job ends after it, unless a clock is wrong: older files are skipped.
        created = min((time_of(job_id) or 0 for job_id in which.ids or ()), default=0)
        for name in reversed(self._names_for(which)):
            if which.ids and _end(name) <= created and {row.id for row in rows}.issuperset(which.ids):
                break
            if place is not None and _begin(name) > place[0]:
                continue
            # Partitions of several intervals may overlap; those of one interval follow each other.
            if len(rows) > limit and _end(name) <= rows[limit].finished_at:
                break
            rows += self._read(name, lambda db: rows_in(db.execute(text, values))) or ()
            rows = sorted(rows, key=lambda row: (row.finished_at, row.id), reverse=True)[: limit + 1]
        return page_of(rows, limit)

    def count(self, which: Filter) -> int:
        where, values = _conditions(which)
        text = SQL["archive_count"].replace("{where}", where)
        counts = (self._read(name, lambda db: int(scalar(db, text, values))) for name in self._names_for(which))
        return sum(count or 0 for count in counts)

    def durations(self, which: Filter) -> list[Durations]:
        where, values = _conditions(which)
        text = SQL["archive_durations"].replace("{where}", where)
        found: dict[str, list[int]] = defaultdict(list)
        for name in self._names_for(which):
            for task, duration in self._read(name, lambda db: db.execute(text, values).fetchall()) or ():
                found[task].append(duration)
        return [
            Durations(task, len(times), sum(times) / len(times), percentile(sorted(times), 0.95), max(times))
            for task, times in sorted(found.items())
        ]

    def partitions(self) -> list[PartitionRow]:
        counts = {name: self._read(name, lambda db: int(scalar(db, SQL["archive_size"]))) for name in self._names()}
        return [
            PartitionRow(name, _begin(name), _end(name), jobs, self._size(name))
            for name, jobs in counts.items()
            if jobs is not None
        ]

    def _size(self, name: str) -> int:
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return 0

    # -- files

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    def _names(self) -> list[str]:
        """The existing partitions, the oldest first."""
        try:
            found = [name.removesuffix(_SUFFIX) for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return []
        return sorted((name for name in found if span_of(name)), key=lambda name: (_begin(name), name))

    def _names_for(self, which: Filter) -> list[str]:
        """The partitions that may hold matching rows."""
        since, until = which.since, which.until
        names = self._names() if since is None else [name for name in self._names() if _end(name) > since]
        return names if until is None else [name for name in names if _begin(name) < until]

    def _read(self, name: str, act: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of a read from a partition, None if it was dropped meanwhile."""
        with explained(self._path(name)), self._lock:
            try:
                with self._opened(name) as db:
                    return act(db)
            except sqlite3.OperationalError:
                if self._path(name).exists():
                    raise
                return None

    @contextlib.contextmanager
    def _opened(self, name: str, create: bool = False) -> Iterator[sqlite3.Connection]:
        address = f"file:{quote(str(self._path(name)))}?mode={'rwc' if create else 'rw'}"
        db = sqlite3.connect(address, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True)
        try:
            # A rollback journal, not a WAL: a partition at rest is a single file. Fully synchronous: the job is about
            # to be deleted from its store.
            for setting in (f"synchronous={self._synchronous}", "temp_store=MEMORY", "secure_delete=ON"):
                db.execute(f"PRAGMA {setting}")
            if not scalar(db, SQL["archive_is_there"]):
                db.execute("BEGIN IMMEDIATE")
                for statement in _TABLES:
                    db.execute(SQL[statement])
                db.execute("COMMIT")
            yield db
        finally:
            db.close()

    @property
    def _synchronous(self) -> str:
        return "OFF" if self._store.durability == "off" else "FULL"

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time, over all processes: no process adds to a file that another one removes."""
        with explained(self._folder), self._lock:
            self._store.make_folder()
            self._folder.mkdir(mode=0o700, exist_ok=True)
            writer_lock = WriterLock(self._folder / "writer_lock", _LOCK_TIMEOUT)
            writer_lock.open()
            try:
                writer_lock.enter()
                try:
                    yield
                finally:
                    writer_lock.leave()
            finally:
                writer_lock.close()

    # -- around a fork: running operations finish first

    def reset_after_fork(self) -> None:
        self._lock = threading.RLock()

    def pause(self) -> None:
        self._lock.acquire()

    def close_files(self) -> None:
        """No file is open outside of a call."""

    def resume(self) -> None:
        self._lock.release()


@functools.lru_cache(4)
def insert_of(rows: int) -> str:
    """The statement that adds this many rows."""
    row = f"({', '.join('?' * len(ArchiveRow.__struct_fields__))})"
    return SQL["archive_add"].replace("{rows}", ", ".join([row] * rows))


def _begin(name: str) -> int:
    span = span_of(name)
    return span[0] if span else 0


def _end(name: str) -> int:
    span = span_of(name)
    return span[1] if span else 0


def rows_in(found: Iterable[Sequence[Any]]) -> list[ArchiveRow]:
    """The rows of a selection of {ArchiveRow}."""
    names = ArchiveRow.__struct_fields__
    rows = (dict(zip(names, values, strict=True)) for values in found)
    return [ArchiveRow(**{**row, "state": State(row["state"])}) for row in rows]


def _conditions(which: Filter, place: tuple[int, str] | None = None) -> tuple[str, dict[str, Any]]:
    """A WHERE of fixed fragments and its parameters."""
    values: dict[str, Any] = {name: value for name in _FILTERS if (value := getattr(which, name)) is not None}
    names = list(values)
    if which.ids:
        values["ids"] = as_json(which.ids)
        names.append("ids")
    if which.states:
        values["states"] = as_json(which.states)
        names.append("states")
    if place is not None:
        values |= {"before_at": place[0], "before_id": place[1]}
        names.append("before")
    return " AND ".join(SQL[f"where_archived_{name}"] for name in names) or "true", values
