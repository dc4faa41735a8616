"""What an operator should know of the SQLite file: its facts, and what looks wrong with it."""

from __future__ import annotations

import os
import sqlite3

from headrace.engines.sqlite.schema import CURRENT, version_of
from headrace.engines.sqlite.store import Store, scalar

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"})
_LARGE_LOG = 256 * 1024 * 1024


def facts(store: Store) -> dict[str, str | int]:
    """File, sizes, versions and settings."""
    with store.reading() as db:
        return {
            "engine": "sqlite",
            "file": str(store.path),
            "sqlite": sqlite3.sqlite_version,
            "schema": version_of(db),
            "schema_expected": CURRENT,
            "size": _size(store, ""),
            "log_size": _size(store, "-wal"),
            "free_pages": scalar(db, "PRAGMA freelist_count"),
            "journal_mode": scalar(db, "PRAGMA journal_mode"),
            "durability": store.durability,
        }


def findings(store: Store) -> list[str]:
    """One sentence for each thing that looks wrong; none if all is well."""
    found = []
    with store.reading() as db:
        if (verdict := scalar(db, "PRAGMA quick_check(1)")) != "ok":
            found.append(f"the file is damaged: {verdict}; restore a backup, or recover it with the sqlite3 shell")
        if scalar(db, "PRAGMA journal_mode") != "wal":
            found.append("the file is not in WAL mode; is it on a file system without shared memory?")
        if orphans := scalar(db, _STRAY_LEASES):
            found.append(f"{orphans} jobs are running under workers that never signed on; their leases will run out")
    if _size(store, "-wal") > _LARGE_LOG:
        found.append("the write-ahead log is over 256 MB: some reader keeps a transaction open")
    if (kind := _file_system(str(store.path))) in _NETWORK:
        found.append(f"the file is on a network share ({kind}); SQLite needs a local disk")
    return found


_STRAY_LEASES = """SELECT count(*) FROM headrace_jobs
    WHERE state = 'running' AND worker NOT IN (SELECT id FROM headrace_workers)"""


def _size(store: Store, suffix: str) -> int:
    try:
        return os.stat(f"{store.path}{suffix}").st_size  # stat is safe; opening the file here would not be
    except FileNotFoundError:
        return 0


def _file_system(path: str) -> str | None:
    try:
        with open("/proc/mounts", encoding="utf-8") as mounts:
            parts = [line.split()[1:3] for line in mounts]
    except OSError:
        return None
    holding = [(point, kind) for point, kind in parts if path.startswith(point.rstrip("/") + "/")]
    return max(holding, default=("", None), key=lambda pair: len(pair[0]))[1]
