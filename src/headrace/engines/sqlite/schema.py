"""Brings the tables to the version this headrace works with, or refuses to touch them."""

from __future__ import annotations

import sqlite3

from headrace.engines.sql import Migration, load_migrations
from headrace.errors import SchemaMismatch

MIGRATIONS: list[Migration] = load_migrations(
    "headrace.engines.sqlite",
    (
        "0001_foundation",
        "0002_moving",
        "0003_time_and_order",
        "0004_flows",
        "0005_steps",
        "0006_desk",
        "0007_terms",
        "0008_shelf",
        "0009_events",
    ),
)
CURRENT = MIGRATIONS[-1].version


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the tables in the file, 0 if there are none."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'headrace_schema'").fetchone()
    if not found:
        return 0
    newest = connection.execute("SELECT max(version) FROM headrace_schema").fetchone()[0]
    return int(newest or 0)


def refuse_newer(version: int, where: str) -> None:
    if version > CURRENT:
        raise SchemaMismatch(
            f"{where} has tables of version {version}, written by a newer headrace; this one knows up to "
            f"{CURRENT}. Upgrade headrace here; nothing was changed."
        )


def migrate(connection: sqlite3.Connection, where: str, now: int) -> list[str]:
    """Apply what is missing, inside the caller's transaction: all of it or nothing."""
    version = version_of(connection)
    refuse_newer(version, where)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS headrace_schema (version INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "applied_at INTEGER NOT NULL)"
    )
    missing = [migration for migration in MIGRATIONS if migration.version > version]
    for migration in missing:
        for statement in _split(migration.script):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO headrace_schema (version, name, applied_at) VALUES (?, ?, ?)",
            (migration.version, migration.name, now),
        )
    return [migration.full_name for migration in missing]


def _split(script: str) -> list[str]:
    # executescript() would commit the transaction we are in.
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return [*statements, pending] if pending.strip() else statements
