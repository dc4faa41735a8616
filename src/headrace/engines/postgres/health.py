"""Facts about the PostgreSQL server, and findings of problems with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.health.findings import Finding
from headrace.core.text import counted
from headrace.engines.postgres.connections import Connection
from headrace.engines.postgres.schema import CURRENT, version_of
from headrace.engines.postgres.statements import qualified
from headrace.engines.postgres.store_url import PostgresUrl

_LONG_MS = 600_000
_MANY_DEAD = 100_000
_AHEAD_MS = 86_400_000


def facts(db: Connection, address: PostgresUrl) -> dict[str, str | int]:
    """Server, sizes, versions and settings."""
    schema = address.schema
    return {
        "engine": "postgresql",
        "server": str(address),
        "postgresql": str(_one(db, "SELECT current_setting('server_version')")),
        "schema_name": schema,
        "schema": version_of(db, schema)[0],
        "schema_expected": CURRENT,
        "size": size(db, address),
        "partitions_missing": len(list(_of_archive(db, address))),
        "dead_rows": _one(db, _DEAD_ROWS, [schema]),
        "connections": address.connections,
        "wake_up": f"poll every {address.poll:g} s" if address.pooler else "LISTEN",
        "synchronous_commit": str(_one(db, "SELECT current_setting('synchronous_commit')")),
    }


def findings(db: Connection, address: PostgresUrl) -> list[Finding]:
    """Problems of the server; `sql.maintenance` checks the contents of the tables."""
    return [*_of_settings(db), *_of_vacuum(db, address), *_of_archive(db, address)]


def _of_settings(db: Connection) -> Iterator[Finding]:
    for name, sentence in _BETTER_ON.items():
        if _setting(db, name) == "off":
            yield Finding(code=name, sentence=sentence, advice="turn it on")
    if _one(db, "SELECT pg_is_in_recovery()"):
        yield Finding(
            code="replica",
            sentence="the server is a replica: jobs can't be written",
            advice="use the address of the primary",
        )


def _of_vacuum(db: Connection, address: PostgresUrl) -> Iterator[Finding]:
    if (age := _one(db, _LONGEST)) is not None and age > _LONG_MS:
        yield Finding(
            code="long_transaction",
            sentence=f"a transaction has been open for {age // 60_000} minutes: nothing can be vacuumed meanwhile and "
            "claims slow down",
            advice="end it (pg_stat_activity shows its client)",
        )
    if (dead := _one(db, _DEAD_ROWS, [address.schema])) > _MANY_DEAD:
        yield Finding(
            code="dead_rows",
            sentence=f"{dead:,} dead rows wait for vacuum in headrace_jobs",
            advice="is autovacuum keeping up? `headrace optimize` does it now",
            count=dead,
        )


def _of_archive(db: Connection, address: PostgresUrl) -> Iterator[Finding]:
    if stray := _one(db, qualified(_UNSORTED, address.schema)):
        yield Finding(
            code="archive_unsorted",
            sentence=f"{counted(stray, 'archived job')} in headrace_archive_default, as no partition could be created",
            advice="may the user of the URL create tables in the schema? A later retention run moves them",
            count=stray,
        )
    if _one(db, _NO_PARTITION, [_AHEAD_MS, address.schema]):
        yield Finding(
            code="archive_partition_missing",
            sentence="the archive has no partition for the days to come; workers create two ahead",
            advice="does a worker run, and may it create tables in the schema?",
        )


def clients(db: Connection) -> int:
    """The number of connections to the database."""
    return int(_one(db, _CLIENTS))


def size(db: Connection, address: PostgresUrl) -> int:
    """The bytes of all tables with their indexes."""
    return int(_one(db, _SIZE, [address.schema]))


_BETTER_ON = {
    "fsync": "fsync is off: a crash of the server's machine may damage or lose everything",
    "synchronous_commit": "synchronous_commit is off: a crash of the server loses the last jobs it accepted",
    "autovacuum": "autovacuum is off: finished versions of rows pile up and claims slow down",
}
TABLES = """SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE 'headrace\\_%%' ORDER BY c.relname"""
STORAGE = """SELECT c.relname, CASE WHEN c.relispartition THEN 'partition' ELSE 'table' END,
    coalesce(pg_stat_get_live_tuples(c.oid), 0)::bigint, coalesce(pg_total_relation_size(c.oid), 0)::bigint
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname = ANY(%s) ORDER BY c.relname"""
_UNSORTED = "SELECT count(*) FROM (SELECT 1 FROM headrace_archive_default LIMIT 10000) AS found"
# Only of an archive in use: one without partitions needs none.
_NO_PARTITION = r"""SELECT count(*) > 0 AND count(*) FILTER (WHERE until > ahead) = 0 FROM (
    SELECT (substring(pg_get_expr(part.relpartbound, part.oid) FROM 'TO [^0-9]*([0-9]+)'))::bigint AS until,
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint + %s AS ahead
    FROM pg_inherits AS link JOIN pg_class AS part ON part.oid = link.inhrelid
    JOIN pg_class AS parent ON parent.oid = link.inhparent JOIN pg_namespace AS n ON n.oid = parent.relnamespace
    WHERE n.nspname = %s AND parent.relname = 'headrace_archive'
      AND pg_get_expr(part.relpartbound, part.oid) <> 'DEFAULT') AS partitions"""
_SIZE = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE 'headrace\\_%%'"""
_DEAD_ROWS = """SELECT coalesce(max(n_dead_tup), 0) FROM pg_stat_user_tables
    WHERE schemaname = %s AND relname = 'headrace_jobs'"""
_CLIENTS = """SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND datname = current_database()"""
_LONGEST = """SELECT (extract(epoch FROM max(clock_timestamp() - xact_start)) * 1000)::bigint FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()"""


def _setting(db: Connection, name: str) -> str:
    return str(_one(db, "SELECT current_setting(%s)", [name]))


def _one(db: Connection, sql: str, values: list[Any] | None = None) -> Any:
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return row[0]
