"""Migrates the tables to the version this headrace works with, or refuses to touch them."""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3

from headrace.engines.shared.decisions import newer_layout, unreleased_layout
from headrace.engines.shared.sql_files import Migration, load_migrations, load_statements
from headrace.engines.sql.records import RECORDS
from headrace.engines.sqlite.statements import DIALECT, SQL

MIGRATIONS: list[Migration] = load_migrations("headrace.engines.sqlite", ("0001_initial",))
CURRENT = MIGRATIONS[-1].version
_COMMENT = re.compile(r"--[^\n]*")


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the tables in the file, 0 if there are none."""
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE name = 'headrace_schema' AND type = 'table'"
    ).fetchone()
    if not found:
        return 0
    newest = connection.execute("SELECT max(version) FROM headrace_schema").fetchone()[0]
    return int(newest or 0)


def refuse_unknown(connection: sqlite3.Connection, version: int, where: str) -> None:
    """Refuse tables of a newer headrace, and those of before the first release."""
    if version and connection.execute("SELECT 1 FROM headrace_schema WHERE name = 'foundation'").fetchone():
        raise unreleased_layout(where, "a new file")
    if version > CURRENT:
        raise newer_layout(where, version, CURRENT)


def migrate(connection: sqlite3.Connection, where: str, now: int) -> list[str]:
    """Apply the missing migrations in the caller's transaction: all or nothing."""
    version = version_of(connection)
    refuse_unknown(connection, version, where)
    missing = [migration for migration in MIGRATIONS if migration.version > version]
    _apply(connection, missing, now)
    return [migration.full_name for migration in missing]


def deviations(connection: sqlite3.Connection, version: int) -> list[str]:
    """Deviations from headrace's schema in a file of this version. Other tables in the same file are ignored.

    A trigger counts if it is on a table of ours or names one: it could change our rows.
    """
    found = _described(connection)
    expected, allowed = _models(version)
    changed = [what for what, text in found.items() if allowed.get(what) != text]
    return [
        *(f"{what} is not headrace's" for what in changed),
        *(f"{what} is missing" for what in expected.keys() - found),
    ]


@functools.cache
def _models(version: int) -> tuple[dict[str, str], dict[str, str]]:
    """The objects that a file of this version must have, and those it may have."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        _apply(model, [migration for migration in MIGRATIONS if migration.version <= version], 0)
        expected = _described(model)
        model.execute(SQL["close_inserts"])
        for statement in ("archive_tables", "archive_index_of_ids"):  # a backup has the archive in the same file
            model.execute(load_statements("headrace.engines.sqlite", RECORDS, DIALECT, ("archive",))[statement])
        return expected, _described(model)


def _described(connection: sqlite3.Connection) -> dict[str, str]:
    """The SQL of all objects in the file that are ours or touch our tables."""
    rows = connection.execute(
        "SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL AND ("
        "lower(name) GLOB 'headrace_*' OR lower(tbl_name) GLOB 'headrace_*' "
        "OR type = 'trigger' AND lower(sql) GLOB '*headrace_*')"
    )
    return {what: " ".join(_COMMENT.sub("", text).split()) for what, text in rows}


def _apply(connection: sqlite3.Connection, migrations: list[Migration], now: int) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS headrace_schema (version INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "applied_at INTEGER NOT NULL)"
    )
    for migration in migrations:
        for statement in _split(migration.script):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO headrace_schema (version, name, applied_at) VALUES (?, ?, ?)",
            (migration.version, migration.name, now),
        )


def _split(script: str) -> list[str]:
    # executescript() would commit the transaction we are in.
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return [*statements, pending] if pending.strip() else statements
