"""The spool's file: an SQLite database with jobs in the order they were enqueued.

Owns the tables, and the marker file beside them by which every process sees, without opening the database, that jobs
wait. One file may serve several stores, distinguished by their addresses. Must not know the engine.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from headrace.core.jobs.records import NewJob
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sqlite_file.database import SqliteDatabase, scalar
from headrace.errors import ConfigError, DuplicateJob, QueueFull
from headrace.runtime.spool.markers import SpoolMarkers

VERSION = 1
_TABLES = (
    """CREATE TABLE spooled (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: what is forwarded is removed by it
        store TEXT NOT NULL, id TEXT NOT NULL, job TEXT NOT NULL, at INTEGER NOT NULL,
        UNIQUE (store, id)
    ) STRICT""",
    "CREATE INDEX spooled_in_order ON spooled (store, seq)",
    """CREATE TABLE refused (
        store TEXT NOT NULL, id TEXT NOT NULL, job TEXT NOT NULL, at INTEGER NOT NULL,
        reason TEXT NOT NULL, refused_at INTEGER NOT NULL,
        PRIMARY KEY (store, id)
    ) STRICT""",
    """CREATE TABLE stores (
        store TEXT PRIMARY KEY, duplicates INTEGER NOT NULL DEFAULT 0,
        error TEXT, error_at INTEGER, moved_to TEXT
    ) STRICT""",
    f"PRAGMA user_version={VERSION}",
)
_ROWS_PER_STATEMENT = 100  # rows per statement, as in the engine: longer ones gain nothing
_MAX_BATCH_BYTES = 4_000_000  # of a batch to forward: a store takes it as one parameter
_ADDRESS_PARAMETERS = ("schema", "prefix", "host", "db")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NewJob).decode


def address_of(url: str) -> str:
    """The address of the store that a URL names: without the user and most parameters."""
    parts = urlsplit(url)
    query = urlencode(
        [(name, value) for name, value in parse_qsl(parts.query) if name in _ADDRESS_PARAMETERS], safe="/"
    )
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{where}?{query}" if query else where


class Spooled(msgspec.Struct, frozen=True):
    """A waiting job. `job` is None if its text no longer decodes."""

    seq: int
    id: str
    job: NewJob | None


class SpoolFile:
    """The jobs that wait for the store at one address."""

    def __init__(self, path: Path, address: str, limit: int) -> None:
        self.path = path
        self.address = address
        self.limit = limit
        self.store = SqliteDatabase(path, "full", prepare_folder=self._make_private)
        self.name = hashlib.blake2s(address.encode(), digest_size=6).hexdigest()  # of this address, for file names
        self.marks = SpoolMarkers(self.store.folder, self.name)
        self._ready = False

    @property
    def exists(self) -> bool:
        return self.path.exists()

    # -- the marker: it exists whenever a job does, since both transactions that touch it hold the same lock

    def _set_mark(self) -> None:
        """Runs inside the transaction that adds the jobs."""
        if not self.marks.waiting:
            self.store.make_folder()
            self.marks.set_waiting()

    def retire(self) -> bool:
        """Remove the marker if nothing waits; whether that is so."""
        self.prepare()
        with self.store.writing() as db:
            if _any_for(db, self.address):
                return False
            self.marks.clear_waiting()
            return True

    # -- in

    def add(self, jobs: Sequence[NewJob], all_or_nothing: bool, now: int, error: str | None = None) -> list[bool]:
        """Append the jobs; returns which ones are new. With `all_or_nothing`, all or DuplicateJob.

        `error` is why the store did not take them, if that was tried.
        """
        self.prepare()
        with self.store.writing() as db:
            self._ensure_capacity(db, len(jobs))
            fresh = self._write_fresh(db, jobs, now)
            if all_or_nothing and not all(fresh):
                raise DuplicateJob(jobs[fresh.index(False)].id)
            if error is not None:
                db.execute(_ERROR, (self.address, error, now, None))
            self._set_mark()
            return fresh

    def _ensure_capacity(self, db: sqlite3.Connection, more: int) -> None:
        # The range of the numbers is never less than their count, and quick to find.
        if scalar(db, _SPAN, {"store": self.address}) + more <= self.limit:
            return
        waiting = scalar(db, COUNT, {"store": self.address})
        if waiting + more > self.limit:
            raise QueueFull(
                f"the spool {self.path} is limited to {self.limit} jobs; {waiting} wait and {more} more came. Jobs "
                "leave it when the server is back; try again later, or raise spool_limit",
                limit=self.limit,
                waiting=waiting,
            )

    def _write_fresh(self, db: sqlite3.Connection, jobs: Sequence[NewJob], now: int) -> list[bool]:
        if len(jobs) == 1:
            return [self._write(db, jobs, now) == 1]
        db.execute("SAVEPOINT fresh")
        fresh = [True] * len(jobs)
        if self._write(db, jobs, now) != len(jobs):
            db.execute("ROLLBACK TO fresh")  # later, an old row and a new one can't be distinguished
            seen = self._known(db, [job.id for job in jobs])
            fresh = [_first_time(job.id, seen) for job in jobs]
            self._write(db, [job for job, free in zip(jobs, fresh, strict=True) if free], now)
        db.execute("RELEASE fresh")
        return fresh

    def _write(self, db: sqlite3.Connection, jobs: Sequence[NewJob], now: int) -> int:
        added = 0
        for start in range(0, len(jobs), _ROWS_PER_STATEMENT):
            rows = jobs[start : start + _ROWS_PER_STATEMENT]
            values = chain.from_iterable((self.address, job.id, _encode(job).decode(), now) for job in rows)
            added += db.execute(_insert(len(rows)), list(values)).rowcount
        return added

    # -- out

    def first(self, limit: int) -> list[Spooled]:
        """The next jobs to forward, in order: at most `limit`, and no more than a store takes at once."""
        self.prepare()
        batch: list[Spooled] = []
        size = 0
        with self.store.reading() as db, contextlib.closing(db.execute(_NEXT, (self.address, limit))) as rows:
            for seq, job_id, text in rows:
                size += len(text)
                if batch and size > _MAX_BATCH_BYTES:
                    break
                batch.append(Spooled(seq, job_id, job_in(text)))
        return batch

    def remove(self, batch: Iterable[Spooled], duplicates: int = 0) -> None:
        """Remove forwarded jobs; `duplicates` of them were dropped, as other jobs had their ids first."""
        with self.store.writing() as db:
            db.execute(_DELETE, (as_json([spooled.seq for spooled in batch]),))
            db.execute(_WELL, (self.address, duplicates))

    def set_aside(self, spooled: Spooled, reason: str, now: int) -> None:
        """Set a job aside that the store will never take, so that it does not block the others."""
        with self.store.writing() as db:
            db.execute(_SET_ASIDE, {"seq": spooled.seq, "reason": reason, "now": now})
            db.execute(_DELETE, (as_json([spooled.seq]),))

    def note_error(self, error: str, now: int, moved_to: str | None = None) -> None:
        """Record why the jobs still wait, for readers in other processes."""
        self.prepare()
        with self.store.writing() as db:
            db.execute(_ERROR, (self.address, error, now, moved_to))

    def erase(self, wanted: Callable[[NewJob], bool], *, dry_run: bool) -> int:
        """Remove the waiting and the refused jobs that are wanted; how many."""
        if not self.exists:
            return 0
        self.prepare()
        with self.store.writing() as db:
            db.execute("PRAGMA secure_delete=ON")
            counts = [_erase(db, each, self.address, wanted, dry_run) for each in (_ERASE_WAITING, _ERASE_REFUSED)]
        return sum(counts)

    # -- by id

    def holding(self, ids: Iterable[str]) -> set[str]:
        """Which of these jobs wait here."""
        if not self.exists:
            return set()
        self.prepare()
        with self.store.reading() as db:
            return self._known(db, ids)

    def _known(self, db: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
        return {row[0] for row in db.execute(_KNOWN, (self.address, as_json(list(ids))))}

    # -- the file itself

    def prepare(self) -> None:
        """Make sure, once, that the tables and the marker exist; a lost marker is restored.

        Jobs for a store that has since moved to our address are ours from now on, in front of our own.
        """
        if self._ready:
            return
        with self.store.writing() as db:
            self._make_tables(db)
            db.execute(_ADOPT, {"store": self.address})
            if _any_for(db, self.address):
                self._set_mark()
        self._ready = True

    def _make_tables(self, db: sqlite3.Connection) -> None:
        version = scalar(db, "PRAGMA user_version")
        if version > VERSION:
            raise ConfigError(f"spool: {self.path} was written by a newer headrace; upgrade headrace here")
        if version:
            return
        if scalar(db, "SELECT count(*) FROM sqlite_master"):
            raise ConfigError(f"spool: {self.path} is a database of another program; use a separate file")
        for statement in _TABLES:
            db.execute(statement)

    def _make_private(self) -> None:
        """Create the file readable by this user only; SQLite's files beside it inherit that.

        Created under another name: opening and closing the file itself would drop SQLite's locks on it.
        """
        if self.exists:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made, name = tempfile.mkstemp(prefix=f".{self.path.name}-", dir=self.path.parent)
        os.close(made)
        try:
            os.link(name, self.path)
        except FileExistsError:  # another process was quicker
            return
        except OSError:  # a file system without links
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        finally:
            os.unlink(name)

    def close(self) -> None:
        """Release the file. It is checked again at its next use."""
        self.store.close()
        self._ready = False


def _erase(
    db: sqlite3.Connection, statements: tuple[str, str], address: str, wanted: Callable[[NewJob], bool], dry_run: bool
) -> int:
    select, delete = statements
    rows = db.execute(select, (address,))
    found = [job_id for job_id, text in rows if (job := job_in(text)) is not None and wanted(job)]
    if not dry_run:
        db.execute(delete, (address, as_json(found)))
    return len(found)


@functools.cache
def _insert(rows: int) -> str:
    places = ", ".join(["(?, ?, ?, ?)"] * rows)
    return f"INSERT INTO spooled (store, id, job, at) VALUES {places} ON CONFLICT DO NOTHING"


def _any_for(db: sqlite3.Connection, address: str) -> bool:
    return bool(scalar(db, "SELECT EXISTS (SELECT 1 FROM spooled WHERE store = ?)", (address,)))


def _first_time(job_id: str, seen: set[str]) -> bool:
    known = job_id in seen
    seen.add(job_id)
    return not known


def job_in(text: Any) -> NewJob | None:
    """The job as it was enqueued; None if its text is damaged."""
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return None


_SPAN = """SELECT coalesce((SELECT max(seq) FROM spooled WHERE store = :store)
                         - (SELECT min(seq) FROM spooled WHERE store = :store) + 1, 0)"""
COUNT = "SELECT count(*) FROM spooled WHERE store = :store"
_NEXT = "SELECT seq, id, job FROM spooled WHERE store = ? ORDER BY seq LIMIT ?"
_KNOWN = "SELECT id FROM spooled WHERE store = ? AND id IN (SELECT value FROM json_each(?))"
_DELETE = "DELETE FROM spooled WHERE seq IN (SELECT value FROM json_each(?))"
_ERASE_WAITING = (
    "SELECT id, job FROM spooled WHERE store = ?",
    "DELETE FROM spooled WHERE store = ? AND id IN (SELECT value FROM json_each(?))",
)
_ERASE_REFUSED = (
    "SELECT id, job FROM refused WHERE store = ?",
    "DELETE FROM refused WHERE store = ? AND id IN (SELECT value FROM json_each(?))",
)
_WELL = """INSERT INTO stores (store, duplicates) VALUES (?, ?) ON CONFLICT (store) DO UPDATE
           SET duplicates = duplicates + excluded.duplicates, error = NULL, error_at = NULL, moved_to = NULL"""
_ERROR = """INSERT INTO stores (store, error, error_at, moved_to) VALUES (?, ?, ?, ?) ON CONFLICT (store) DO UPDATE
            SET error = excluded.error, error_at = excluded.error_at, moved_to = excluded.moved_to"""
_SET_ASIDE = """INSERT OR REPLACE INTO refused (store, id, job, at, reason, refused_at)
                SELECT store, id, job, at, :reason, :now FROM spooled WHERE seq = :seq"""
_ADOPT = """UPDATE OR IGNORE spooled SET store = :store
            WHERE store IN (SELECT store FROM stores WHERE moved_to = :store)"""
