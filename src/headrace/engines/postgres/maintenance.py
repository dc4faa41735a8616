"""Maintenance of the tables of one schema: statistics, space, snapshots and contents.

The server manages its own log, and its autovacuum most of the rest. Nothing here locks a table, except clear() and a
full vacuum.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from psycopg import sql

from headrace.core.health.findings import (
    Effort,
    Finding,
    MaintenanceKind,
    MaintenanceResult,
    RecordKind,
    StoragePart,
    StoreFacts,
    TrimResult,
)
from headrace.engines.postgres import health, indexed_ids
from headrace.engines.postgres.connections import Connection, ConnectionPool
from headrace.engines.postgres.store_url import PostgresUrl
from headrace.engines.postgres.transaction import PostgresTransaction
from headrace.engines.protocol.maintenance import StoreView
from headrace.engines.sql import maintenance
from headrace.engines.sql.dead_letters import SqlDeadLetterStore
from headrace.engines.sql.documents import SqlDocumentStore
from headrace.engines.sql.flows import SqlFlowStore
from headrace.engines.sql.queries import SqlQueries
from headrace.engines.sql.queue_rules import SqlRuleStore
from headrace.engines.sql.schedules import SqlScheduleStore
from headrace.engines.sql.staleness import SqlStalenessStore
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.transfer import SqlTransfer

T = TypeVar("T")
_KEPT = ("headrace_schema", "headrace_store")


class PostgresMaintenanceHost(Database, Protocol):
    """The engine, as far as it is needed here."""

    address: PostgresUrl
    server: ConnectionPool
    sql: dict[str, str]

    def prepare(self) -> None: ...
    def start_over(self) -> None: ...


class PostgresMaintenance:
    """Checks, repairs and compacts the tables."""

    def __init__(self, engine: PostgresMaintenanceHost) -> None:
        self._engine = engine

    def inspect(self, now: int | None = None) -> list[Finding]:
        self._engine.prepare()
        address = self._engine.address
        found = self._engine.server.repeat(lambda db: health.findings(db, address))
        return found + indexed_ids.findings(self._engine) + maintenance.inspect(self._engine, self._engine.at(now))

    def repair(self, codes: Collection[str], limit: int, now: int | None = None) -> dict[str, int]:
        done = {"orphan_index": indexed_ids.drop_orphans(self._engine, limit)} if "orphan_index" in codes else {}
        if "unindexed" in codes:
            done["unindexed"] = indexed_ids.index_jobs(self._engine, limit)
        return done | maintenance.repair(self._engine, codes, limit, self._engine.at(now))

    def trim_history(self, what: RecordKind, most: int, after: int, limit: int) -> TrimResult:
        return maintenance.trim_history(self._engine, what, most, after, limit)

    def facts(self, now: int | None = None) -> StoreFacts:
        self._engine.prepare()
        address, schedules = self._engine.address, self._engine.read(lambda tx: int(tx.fetch("count_schedules")))

        def read(db: Connection) -> StoreFacts:
            details = health.facts(db, address)
            return StoreFacts(details, int(details["size"]), schedules, clients=health.clients(db))

        return self._engine.server.repeat(read)

    def storage(self, pattern: str, limit: int) -> list[StoragePart]:
        self._engine.prepare()
        schema = self._engine.address.schema

        def read(db: Connection) -> list[StoragePart]:
            chosen = dict(maintenance.matching_tables(self._tables(db), pattern, limit))
            rows = db.execute(health.STORAGE, [schema, list(chosen)]).fetchall()
            return [
                StoragePart(name=chosen[name], kind=kind, entries=entries, bytes=size)
                for name, kind, entries, size in rows
            ]

        return self._engine.server.repeat(read)

    def maintain(
        self, kinds: Collection[MaintenanceKind], effort: Effort = "due", now: int | None = None
    ) -> MaintenanceResult:
        self._engine.prepare()
        if effort == "due" or "vacuum" not in kinds:  # the server does it by itself
            return MaintenanceResult()
        schema = self._engine.address.schema
        before = self._size()

        def vacuum(db: Connection) -> None:
            statement = sql.SQL("VACUUM (FULL, ANALYZE) {}" if effort == "full" else "VACUUM (ANALYZE) {}")
            with self._without_timeout(db):
                for table in self._tables(db):
                    db.execute(statement.format(sql.Identifier(schema, table)))

        self._engine.server.run(vacuum)
        return MaintenanceResult(sizes={"size_before": before, "size_after": self._size()})

    @contextlib.contextmanager
    def _without_timeout(self, db: Connection) -> Iterator[None]:
        """Lift the statement timeout of our connections: a large table takes long, but blocks no other statement."""
        # A pooler's session does not have our timeout, and may be another one for each statement: setting it would
        # affect others. SET LOCAL does not help, because VACUUM cannot run in a transaction.
        if self._engine.address.pooler:
            yield
            return
        db.execute("SET statement_timeout = 0")
        try:
            yield
        finally:
            db.execute("RESET statement_timeout")

    def _size(self) -> int:
        address = self._engine.address
        return self._engine.server.repeat(lambda db: health.size(db, address))

    def backup(
        self, path: Path, copy: Callable[[StoreView], object], progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._engine.prepare()
        with self._snapshot() as view:
            copy(view)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[_Snapshot]:
        db = self._engine.server.connect()
        try:
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # A slow write of a page to disk must not cancel the whole backup. LOCAL: behind a pooler the session
            # belongs to another client afterwards.
            db.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield _Snapshot(self._engine, db)
            db.execute("COMMIT")
        finally:
            self._engine.server.disconnect(db)

    def restore(self, path: Path, copy: Callable[[], object], *, replace: bool = False) -> None:
        if replace:
            self._clear()
        copy()

    def _clear(self) -> None:
        self._engine.prepare()
        schema = self._engine.address.schema

        def empty(db: Connection) -> None:
            # Not the archive: its jobs are finished, and no backup that replaces the rest contains them.
            emptied = [
                name for name in self._tables(db) if name not in _KEPT and not name.startswith("headrace_archive")
            ]
            tables = [sql.Identifier(schema, name) for name in emptied]
            db.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(tables)))

        self._engine.server.transact(empty)
        self._engine.start_over()

    def _tables(self, db: Connection) -> list[str]:
        return [str(row[0]) for row in db.execute(health.TABLES, [self._engine.address.schema]).fetchall()]


class _Snapshot:
    """A snapshot of the tables. Read by one thread at a time."""

    def __init__(self, engine: PostgresMaintenanceHost, db: Connection) -> None:
        self._engine = engine
        self._tx = PostgresTransaction(db, engine.sql, "")
        self.queries = SqlQueries(self)
        self.flow_store = SqlFlowStore(self)
        self.rule_store = SqlRuleStore(self)
        self.schedule_store = SqlScheduleStore(self)
        self.transfer = SqlTransfer(self)
        self.staleness_store = SqlStalenessStore(self)
        self.document_store = SqlDocumentStore(self)
        self.dead_letters = SqlDeadLetterStore(self)

    def read(self, act: Callable[[Transaction], T]) -> T:
        return act(self._tx)

    def write(self, act: Callable[[Transaction], Any]) -> Any:
        raise AssertionError("a snapshot is read-only")

    def at(self, now: int | None) -> int:
        return self._engine.at(now)

    def ring(self, topic: str) -> None: ...

    def forget_rules(self) -> None: ...
