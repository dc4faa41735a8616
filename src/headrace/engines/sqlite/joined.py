"""Inserts jobs and stores steps in a transaction that a caller has open on the same SQLite file.

The file has one writer at a time, and here that is the caller: this module must not write on a connection of our own,
which would wait for a commit that comes only afterwards. The caller's connection keeps its own settings. Its errors are
raised unchanged, because the caller has to end the transaction.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol, cast

import msgspec

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import Lease, NewJob
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule
from headrace.engines.shared.borrowed_connections import (
    BorrowedSqlite,
    SqliteDriver,
    async_borrowed_sqlite,
    borrowed_sqlite,
)
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import steps, unique_insert
from headrace.engines.sql.insert import DecidedInsert
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sqlite import schema
from headrace.engines.sqlite.commit_watcher import CommitWatcher
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.transaction import SqliteTransaction
from headrace.engines.sqlite_file.database import SqliteDatabase
from headrace.errors import InvalidJob, SchemaMismatch, StoreMoved

_store_status = msgspec.json.Decoder(StoreStatus)


class SqliteJoinedHost(Protocol):
    """The engine, as far as it is needed here."""

    url: str
    store: SqliteDatabase

    def at(self, now: int | None) -> int: ...
    def prepare(self) -> None: ...


class SqliteJoined:
    """Writes in the transaction of a caller's connection."""

    def __init__(self, host: SqliteJoinedHost, commit_watcher: CommitWatcher) -> None:
        self._host = host
        self._commit_watcher = commit_watcher

    def insert(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
    ) -> list[InsertResult]:
        return self._store(borrowed_sqlite(connection, self._host.url), DecidedInsert(jobs, unique, edges, flow))

    async def ainsert(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
    ) -> list[InsertResult]:
        insert = DecidedInsert(jobs, unique, edges, flow)
        borrowed = async_borrowed_sqlite(connection, self._host.url)
        return await borrowed.share(lambda inner: self._store(inner, insert))

    def save_step(self, connection: Any, lease: Lease, step: Step | None) -> bool:
        return self._save_step(borrowed_sqlite(connection, self._host.url), lease, step)

    async def asave_step(self, connection: Any, lease: Lease, step: Step | None) -> bool:
        borrowed = async_borrowed_sqlite(connection, self._host.url)
        return await borrowed.share(lambda inner: self._save_step(inner, lease, step))

    def _save_step(self, borrowed: BorrowedSqlite, lease: Lease, step: Step | None) -> bool:
        db = borrowed.driver()
        if step is not None:
            return steps.save_leased(SqliteTransaction(_as_connection(db)), lease, step, self._host.at(None))
        self._refuse_another_file(db)
        db.begin()
        if not db.in_transaction:
            raise InvalidJob(
                "connection: it is in autocommit, where each statement is a transaction of its own; begin a "
                "transaction first"
            )
        return True

    def _store(self, borrowed: BorrowedSqlite, insert: DecidedInsert) -> list[InsertResult]:
        db = borrowed.driver()
        self._refuse_another_file(db)
        if not db.in_transaction and self._version(db) != schema.CURRENT:
            self._host.prepare()
        try:
            results = self._write(db, insert)
        except Exception as error:
            if "no such table" not in str(error):
                raise
            raise self._tables_missing() from error
        if not db.in_transaction:  # in autocommit, the end of our savepoint was the commit
            self._commit_watcher.ring()
        elif not borrowed.after_commit(self._commit_watcher.ring) and results:
            self._commit_watcher.expect(results[-1].id)  # it is committed when this job is seen
        return results

    def _write(self, db: SqliteDriver, insert: DecidedInsert) -> list[InsertResult]:
        queues = {job.queue for job in insert.jobs}
        db.begin()
        # The savepoint is all or nothing in the caller's transaction, which stays open.
        db.execute("SAVEPOINT headrace")
        try:
            # Write first: in a transaction that has already read, SQLite does not wait for the write lock, so reading
            # the tables before would fail the caller whenever a worker writes.
            now = self._host.at(None)
            db.execute(SQL["add_queues"], {"names": as_json(sorted(queues)), "now": now})
            if self._version(db) != schema.CURRENT:
                raise self._tables_missing()
            _refuse_if_moved(db)
            tx = SqliteTransaction(_as_connection(db))
            rules = RulesCache()
            rules.refresh(tx)
            results, _ = unique_insert.run(insert.steps(rules, now), tx)
            db.execute("RELEASE headrace")
            return results
        except BaseException:
            with contextlib.suppress(Exception):  # SQLite may have rolled back the whole transaction by itself
                db.execute("ROLLBACK TO headrace")
                db.execute("RELEASE headrace")
            raise

    def _version(self, db: SqliteDriver) -> int:
        connection = _as_connection(db)
        version = schema.version_of(connection)
        schema.refuse_unknown(connection, version, str(self._host.store.path))
        return version

    def _tables_missing(self) -> SchemaMismatch:
        return SchemaMismatch(
            f"{self._host.store.path} has no tables of this headrace's version yet, and they can't be made while your "
            "transaction is open; run `headrace migrate`, or start a worker, before it begins"
        )

    def _refuse_another_file(self, db: SqliteDriver) -> None:
        files = {number: file for number, _, file in db.execute("PRAGMA database_list").fetchall()}
        main = os.fsdecode(files[0] or "")
        if not _is_same(main, os.fspath(self._host.store.path)):
            raise InvalidJob(
                f"connection: it is to {main or 'a database in memory'}, but the jobs of this app are in "
                f"{self._host.url}; only a transaction on that file can hold them"
            )


def _refuse_if_moved(db: SqliteDriver) -> None:
    # Read under the write lock, so the answer holds; the error of closed inserts would have another type in each
    # library.
    text = db.execute(SQL["store_status"]).fetchone()[0]
    store_status = _store_status.decode(text) if text else None
    if store_status is not None and store_status.kind == "moved":
        raise StoreMoved(store_status.other)


def _as_connection(db: SqliteDriver) -> sqlite3.Connection:
    return cast("sqlite3.Connection", db)  # only `execute` is used


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist yet
        return bool(one) and os.path.realpath(one) == os.path.realpath(other)
