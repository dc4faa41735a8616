"""Facts about the SQLite file, and findings of problems with it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

import msgspec

from headrace.core.health.findings import Finding, StoragePart, WriteContention, contention_findings
from headrace.engines.sql.maintenance import matching_tables
from headrace.engines.sqlite.schema import CURRENT, deviations, version_of
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite_file.database import SqliteDatabase, scalar

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"})
_pressures = msgspec.json.Decoder(list[WriteContention])
_LARGE_LOG = 256 * 1024 * 1024


def facts(store: SqliteDatabase) -> dict[str, str | int]:
    """File, sizes, versions and settings."""
    with store.reading() as db:
        return {
            "engine": "sqlite",
            "file": str(store.path),
            "sqlite": sqlite3.sqlite_version,
            "schema": version_of(db),
            "schema_expected": CURRENT,
            "size": size_of(store, ""),
            "log_size": size_of(store, "-wal"),
            "free_pages": scalar(db, "PRAGMA freelist_count"),
            "disk_free": _disk_free(store),
            "late_writes": _late(pressure(db)),
            "journal_mode": scalar(db, "PRAGMA journal_mode"),
            "durability": store.durability,
        }


def findings(store: SqliteDatabase, url: str) -> list[Finding]:
    """Problems of the file; `sql.maintenance` checks its contents."""
    with store.reading() as db:
        found = list(_of_damage(db))
        if not found:
            found += contention_findings(pressure(db), url)
    if size_of(store, "-wal") > _LARGE_LOG:
        found.append(
            Finding(
                code="long_log",
                sentence="the write-ahead log is over 256 MB",
                advice="some reader keeps a transaction open: end it, then run `headrace checkpoint`",
            )
        )
    if (kind := _file_system(str(store.path))) in _NETWORK:
        found.append(
            Finding(
                code="network_share",
                sentence=f"the file is on a network share ({kind})",
                advice="SQLite needs a local disk: move it there, or to a server",
            )
        )
    return found


def _of_damage(db: sqlite3.Connection) -> Iterator[Finding]:
    if (damage := scalar(db, "PRAGMA quick_check(1)")) != "ok":
        yield Finding(
            code="damaged",
            sentence=f"the file is damaged: {damage}",
            advice="stop the workers and restore a backup, or recover it with the sqlite3 shell",
        )
    if changed := deviations(db, version_of(db)):
        yield Finding(
            code="changed_schema",
            sentence=f"the schema was changed: {'; '.join(changed[:3])}",
            advice="put it right with the sqlite3 shell; a backup with it can't be restored",
        )
    if scalar(db, "PRAGMA journal_mode") != "wal":
        yield Finding(
            code="no_wal",
            sentence="the file is not in WAL mode",
            advice="is it on a file system without shared memory? Use a local disk",
        )


def pressure(db: sqlite3.Connection) -> list[WriteContention]:
    """The write contention of all processes in the hours of the last day."""
    return _pressures.decode(scalar(db, SQL["write_contention"]) or "[]")


def size_of(store: SqliteDatabase, suffix: str) -> int:
    """The size of the file in bytes, or of one beside it."""
    try:
        return os.stat(f"{store.path}{suffix}").st_size  # stat is safe; opening the file here would not be
    except FileNotFoundError:
        return 0


def storage(store: SqliteDatabase, pattern: str, limit: int) -> list[StoragePart]:
    """The tables that match the pattern, with their rows and their bytes including indexes."""
    with store.reading() as db:
        names = [str(row[0]) for row in db.execute(_TABLES)]
        return [
            StoragePart(name=shown, kind="table", entries=_rows_of(db, name), bytes=_bytes_of(db, name))
            for name, shown in matching_tables(names, pattern, limit)
        ]


def _rows_of(db: sqlite3.Connection, table: str) -> int:
    name = table.replace('"', '""')
    return int(scalar(db, f'SELECT count(*) FROM "{name}"'))


def _bytes_of(db: sqlite3.Connection, table: str) -> int | None:
    try:
        return int(db.execute(_BYTES, (table,)).fetchone()[0])
    except sqlite3.OperationalError:  # not every SQLite is built with dbstat
        return None


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'headrace_*' ORDER BY name"
_BYTES = """SELECT coalesce(sum(pgsize), 0) FROM dbstat
    WHERE aggregate = TRUE AND name IN (SELECT name FROM sqlite_master WHERE tbl_name = ?)"""


def _disk_free(store: SqliteDatabase) -> int:
    import shutil  # deferred: it loads every compression, and only checks of the store need it

    return shutil.disk_usage(store.path.parent).free


def _late(hours: list[WriteContention]) -> str:
    turns = sum(each.turns for each in hours)
    return f"{sum(each.late for each in hours) / turns:.1%} of {turns}" if turns else "none"


def _file_system(path: str) -> str | None:
    try:
        with open("/proc/mounts", encoding="utf-8") as mounts:
            parts = [line.split()[1:3] for line in mounts]
    except OSError:
        return None
    holding = [(point, kind) for point, kind in parts if path.startswith(point.rstrip("/") + "/")]
    return max(holding, default=("", None), key=lambda pair: len(pair[0]))[1]
