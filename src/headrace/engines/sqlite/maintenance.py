"""Maintenance of the SQLite file: its log, free space, statistics, copies and contents.

Searches only read, and reads block no writer. Writes take a few milliseconds each, except a full vacuum and a restore,
which lock the file until they are done.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

import msgspec

from headrace.core.health.findings import (
    Effort,
    Finding,
    MaintenanceKind,
    MaintenanceResult,
    RecordKind,
    StoragePart,
    StoreFacts,
    TrimResult,
    WriteContention,
    add_pressure,
    late_share,
)
from headrace.engines.protocol.maintenance import StoreView
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import maintenance
from headrace.engines.sql.transaction import Database
from headrace.engines.sqlite import copy_files, damaged_ids, health
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite_file.database import SqliteDatabase, scalar
from headrace.engines.sqlite_file.errors import explained

_pressures = msgspec.json.Decoder(list[WriteContention])
_HOUR = 3_600_000
_DAY = 24 * _HOUR
_MINUTE = 60_000

_PAGE = 4096
_LONG_LOG = 64 * 2**20  # truncated even under load; SQLite restarts the log from 16 MB on anyway
_IDLE_LOG = 4 * 2**20  # truncated when no process writes
_FREE_PAGES, _FREE_SHARE = 4096, 0.25  # free pages are reused: only a large amount is given back
_PAGES_FREED = 128  # about 2 ms
_PAGES_COPIED = 256
_COPY_PAUSE = 0.002  # pause between two steps of a copy
_ROWS_ANALYZED = 1000


class SqliteMaintenanceHost(Database, Protocol):
    """The engine, as far as it is needed here."""

    store: SqliteDatabase
    url: str
    handled: int

    def prepare(self) -> None: ...
    def start_over(self) -> None: ...


class SqliteMaintenance:
    """Checks, repairs and compacts the file."""

    def __init__(self, engine: SqliteMaintenanceHost) -> None:
        self._engine = engine
        self._reported = (0, 0, 0)
        self._reported_at = 0
        self._optimized_at: int | None = None
        self._changes: tuple[int, int] | None = None
        self._lock = threading.Lock()

    @property
    def _store(self) -> SqliteDatabase:
        return self._engine.store

    # -- inspection and repair

    def inspect(self, now: int | None = None) -> list[Finding]:
        self._engine.prepare()
        found = health.findings(self._store, self._engine.url)
        if any(finding.code == "damaged" for finding in found):
            return found  # counts from a damaged file mean little
        return found + damaged_ids.findings(self._engine) + maintenance.inspect(self._engine, self._engine.at(now))

    def repair(self, codes: Collection[str], limit: int, now: int | None = None) -> dict[str, int]:
        renamed = {"damaged_ids": damaged_ids.repair(self._engine, limit)} if "damaged_ids" in codes else {}
        return renamed | maintenance.repair(self._engine, codes, limit, self._engine.at(now))

    def trim_history(self, what: RecordKind, most: int, after: int, limit: int) -> TrimResult:
        return maintenance.trim_history(self._engine, what, most, after, limit)

    def facts(self, now: int | None = None) -> StoreFacts:
        self._engine.prepare()
        with self._store.reading() as db:
            busy = late_share(health.pressure(db), self._engine.at(now))
            schedules = int(scalar(db, SQL["count_schedules"]))
        size = health.size_of(self._store, "") + health.size_of(self._store, "-wal")
        return StoreFacts(health.facts(self._store), size, schedules, busy)

    def storage(self, pattern: str, limit: int) -> list[StoragePart]:
        self._engine.prepare()
        return health.storage(self._store, pattern, limit)

    # -- the log and the space

    def _shorten_log(self) -> None:
        # Most of it without a lock. Truncating needs the write lock, and does not wait for readers.
        self._store.write_back()
        with self._store.alone() as db:
            db.execute("PRAGMA busy_timeout=0")
            try:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                db.execute(f"PRAGMA busy_timeout={self._store.lock_timeout_ms}")

    def _do_all(self, kinds: Collection[MaintenanceKind], full: bool) -> dict[str, int]:
        what, suffix = ("log", "-wal") if set(kinds) == {"checkpoint"} else ("size", "")
        before = health.size_of(self._store, suffix)
        if "vacuum" in kinds and full:
            with self._store.alone() as db:
                db.execute("VACUUM")
        elif "vacuum" in kinds:
            while self._free_some_pages():
                time.sleep(_COPY_PAUSE)
        if "optimize" in kinds:
            self._analyze()
        if "checkpoint" in kinds:
            self._shorten_log()
        return {f"{what}_before": before, f"{what}_after": health.size_of(self._store, suffix)}

    def _analyze(self) -> None:
        with self._store.alone() as db:
            db.execute(f"PRAGMA analysis_limit={_ROWS_ANALYZED}")
            db.execute("PRAGMA optimize")

    def _free_some_pages(self, *, only_if_many: bool = False) -> bool:
        """Free a few unused pages; whether there are more to free."""
        if not self._free_pages(only_if_many):
            return False
        with self._store.alone() as db:
            # As a script: execute() steps a statement without columns only once, which would free a single page.
            db.executescript(f"PRAGMA incremental_vacuum({_PAGES_FREED})")
        return self._free_pages(only_if_many) > 0

    def _free_pages(self, only_if_many: bool) -> int:
        with self._store.reading() as db:
            # Only if the file was created with it: it may cost up to 4 % of every enqueue and settle.
            if scalar(db, "PRAGMA auto_vacuum") != 2:
                return 0
            free, pages = scalar(db, "PRAGMA freelist_count"), scalar(db, "PRAGMA page_count")
        return 0 if only_if_many and (free < _FREE_PAGES or free < _FREE_SHARE * pages) else int(free)

    def maintain(
        self, kinds: Collection[MaintenanceKind], effort: Effort = "due", now: int | None = None
    ) -> MaintenanceResult:
        self._engine.prepare()
        if effort != "due":
            return MaintenanceResult(sizes=self._do_all(kinds, effort == "full"))
        at = self._engine.at(now)
        self._report_contention(at)
        if "checkpoint" in kinds and self._log_is_long():
            self._shorten_log()
        if "optimize" in kinds and self._is_to_be_analyzed(at):
            self._analyze()
        return MaintenanceResult("vacuum" in kinds and self._free_some_pages(only_if_many=True))

    def _log_is_long(self) -> bool:
        size = health.size_of(self._store, "-wal")
        before, self._changes = self._changes, self._store.change_count()
        return size > _LONG_LOG or (size > _IDLE_LOG and before == self._changes)

    def _is_to_be_analyzed(self, now: int) -> bool:
        """Once a day, but not at the start, when there is enough to do."""
        if self._optimized_at is None or now - self._optimized_at >= _DAY:
            first, self._optimized_at = self._optimized_at is None, now
            return not first
        return False

    def _report_contention(self, now: int) -> None:
        """Add the write contention that this process met since its last report."""
        with self._lock:
            if now - self._reported_at < _MINUTE:
                return
            self._reported_at = now
            turns, late, jobs = counts = (*self._store.turns(), self._engine.handled)
            fresh = WriteContention(now // _HOUR, *(new - old for new, old in zip(counts, self._reported, strict=True)))
            if turns < self._reported[0]:  # counted anew since the file was closed
                fresh = WriteContention(now // _HOUR, turns, late, jobs)
            self._reported = counts
        if fresh.jobs or fresh.late:
            with self._store.writing() as db:
                known = _pressures.decode(scalar(db, SQL["write_contention"]) or "[]")
                db.execute(SQL["put_write_contention"], {"value": as_json(add_pressure(known, fresh))})

    # -- copies

    def backup(
        self, path: Path, copy: Callable[[StoreView], object], progress: Callable[[int, int], None] | None = None
    ) -> None:
        def report(_status: int, remaining: int, total: int) -> None:
            if progress is not None:
                progress(total - remaining, total)
            time.sleep(_COPY_PAUSE)

        self._engine.prepare()
        with explained(path), contextlib.closing(sqlite3.connect(path)) as target, self._store.reading() as db:
            # One read transaction for all of it: otherwise the copy would restart whenever another process commits.
            db.execute("BEGIN")
            try:
                scalar(db, SQL["store_status"])  # the snapshot starts here
                db.backup(target, pages=_PAGES_COPIED, progress=report)
            finally:
                db.execute("ROLLBACK")

    def restore(self, path: Path, copy: Callable[[], object], *, replace: bool = False) -> None:
        with copy_files.reading(path) as source, self._store.alone() as db:
            source.backup(db)
        self._engine.start_over()
        self._engine.prepare()
        with self._store.writing() as db:
            db.execute(SQL["drop_workers"])
            db.execute(SQL["drop_write_contention"])
            db.execute(SQL["drop_archive"])
        self._shorten_log()
