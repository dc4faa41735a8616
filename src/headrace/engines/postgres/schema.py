"""Migrates the tables to the version this headrace works with, or refuses to touch them.

A migration holds a lock of the database, so any number of processes may start at once. All missing migrations are one
transaction: all or nothing.
"""

from __future__ import annotations

import zlib

from headrace.engines.postgres.connections import Connection
from headrace.engines.postgres.statements import qualified
from headrace.engines.shared.decisions import newer_layout, unreleased_layout
from headrace.engines.shared.sql_files import Migration, load_migrations

MIGRATIONS: list[Migration] = load_migrations("headrace.engines.postgres", ("0001_initial",))
CURRENT = MIGRATIONS[-1].version

_TABLE = """CREATE TABLE IF NOT EXISTS headrace_schema (
    version integer PRIMARY KEY, name text NOT NULL, needs integer NOT NULL, applied_at bigint NOT NULL)"""

_IS_THERE = """SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s"""


def version_of(db: Connection, schema: str) -> tuple[int, int]:
    """The version of the tables, 0 if there are none, and the oldest version of the code that works with them."""
    # Not to_regclass: its session may have cached, before it waited for the lock, that the schema did not exist.
    if db.execute(_IS_THERE, [schema, "headrace_schema"]).fetchone() is None:
        return 0, 0
    row = db.execute(qualified("SELECT max(version), max(needs) FROM headrace_schema", schema)).fetchone()
    return (0, 0) if row is None or row[0] is None else (int(row[0]), int(row[1]))


def refuse_unknown(db: Connection, schema: str, where: str) -> int:
    """The version of the tables; refuses those of a newer headrace, and those of before the first release."""
    version, needs = version_of(db, schema)
    if version and db.execute(_IS_THERE, [schema, "headrace_ids"]).fetchone() is None:
        raise unreleased_layout(where, "a new schema")
    if needs > CURRENT:
        raise newer_layout(where, version, CURRENT)
    return version


def migrate(db: Connection, schema: str, where: str, now: int) -> list[str]:
    """Apply the missing migrations in the caller's transaction: all or nothing."""
    # A migration that waits for table locks must not block a busy server.
    db.execute("SET LOCAL lock_timeout = '10s'")
    db.execute("SET LOCAL statement_timeout = 0")  # a migration of many jobs may take long
    db.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, zlib.crc32(schema.encode()) - 2**31])
    version = refuse_unknown(db, schema, where)
    missing = [migration for migration in MIGRATIONS if migration.version > version]
    if not missing:
        return []
    if not version:
        if db.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchone() is None:
            db.execute(f'CREATE SCHEMA "{schema}"')
        db.execute(qualified(_TABLE, schema))
    for migration in missing:
        db.execute(qualified(migration.script, schema))
        db.execute(
            qualified("INSERT INTO headrace_schema (version, name, needs, applied_at) VALUES (%s, %s, %s, %s)", schema),
            [migration.version, migration.name, migration.needs, now],
        )
    return [migration.full_name for migration in missing]


_LOCK = zlib.crc32(b"headrace") - 2**31
