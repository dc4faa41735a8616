"""What an operator should know of the PostgreSQL server: its facts, and what looks wrong with it."""

from __future__ import annotations

from typing import Any

from headrace.engines.postgres.address import Address
from headrace.engines.postgres.schema import CURRENT, version_of
from headrace.engines.postgres.server import Connection
from headrace.engines.postgres.statements import qualified

_LONG_MS = 600_000
_MANY_DEAD = 100_000
_AHEAD_MS = 86_400_000


def facts(db: Connection, address: Address) -> dict[str, str | int]:
    """Server, sizes, versions and settings."""
    schema = address.schema
    return {
        "engine": "postgresql",
        "server": str(address),
        "postgresql": str(_one(db, "SELECT current_setting('server_version')")),
        "schema_name": schema,
        "schema": version_of(db, schema)[0],
        "schema_expected": CURRENT,
        "size": _one(db, _SIZE, [schema]),
        "dead_rows": _one(db, _DEAD_ROWS, [schema]),
        "connections": address.connections,
        "wake_up": f"poll every {address.poll:g} s" if address.pooler else "LISTEN",
        "synchronous_commit": str(_one(db, "SELECT current_setting('synchronous_commit')")),
    }


def findings(db: Connection, address: Address) -> list[str]:
    """One sentence for each thing that looks wrong; none if all is well."""
    found = []
    if _setting(db, "fsync") == "off":
        found.append("fsync is off: a crash of the server's machine may damage or lose everything; turn it on")
    if _setting(db, "synchronous_commit") == "off":
        found.append("synchronous_commit is off: a crash of the server loses the last jobs it accepted")
    if _setting(db, "autovacuum") == "off":
        found.append("autovacuum is off: finished versions of rows pile up and claims slow down; turn it on")
    if _one(db, "SELECT pg_is_in_recovery()"):
        found.append("the server is a replica: jobs can't be written; use the address of the primary")
    if (age := _one(db, _LONGEST)) is not None and age > _LONG_MS:
        found.append(
            f"a transaction has been open for {age // 60_000} minutes: nothing can be vacuumed meanwhile and claims "
            "slow down; end it (pg_stat_activity tells whose it is)"
        )
    if (dead := _one(db, _DEAD_ROWS, [address.schema])) > _MANY_DEAD:
        found.append(f"{dead} dead rows wait for vacuum in headrace_jobs; is autovacuum keeping up?")
    if stray := _one(db, qualified(_UNSORTED, address.schema)):
        found.append(
            f"{stray} archived jobs are in headrace_archive_rest because their partition could not be made: may the "
            "user of the URL create tables in the schema?"
        )
    if _one(db, _NO_PARTITION, [_AHEAD_MS, address.schema]):
        found.append(
            "the archive has no partition for the days to come: workers make two ahead; does one run, and may it "
            "create tables in the schema?"
        )
    if orphans := _one(db, qualified(_STRAY_LEASES, address.schema)):
        found.append(f"{orphans} jobs are running under workers that never signed on; their leases will run out")
    return found


_UNSORTED = "SELECT count(*) FROM (SELECT 1 FROM headrace_archive_rest LIMIT 10000) AS found"
# Of an archive that is in use: one that never had a partition asks for none.
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
_LONGEST = """SELECT (extract(epoch FROM max(clock_timestamp() - xact_start)) * 1000)::bigint FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()"""
_STRAY_LEASES = """SELECT count(*) FROM headrace_jobs
    WHERE state = 'running' AND worker NOT IN (SELECT id FROM headrace_workers)"""


def _setting(db: Connection, name: str) -> str:
    return str(_one(db, "SELECT current_setting(%s)", [name]))


def _one(db: Connection, sql: str, values: list[Any] | None = None) -> Any:
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return row[0]
