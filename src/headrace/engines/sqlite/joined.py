"""Inserts jobs in a transaction that a caller has open on the same SQLite file.

The file has one writer at a time, and here that is the caller: this module must not write on a connection of our own,
which would wait for a commit that comes only afterwards. The caller's connection keeps its own settings. Its errors are
raised unchanged, because the caller has to end the transaction.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import UniqueInsert, UniqueResult
from headrace.engines.shared.borrowed_connections import (
    BorrowedSqlite,
    SqliteDriver,
    async_borrowed_sqlite,
    borrowed_sqlite,
)
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies, unique_insert
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sql.unique_insert import Steps
from headrace.engines.sqlite import schema
from headrace.engines.sqlite.commit_watcher import CommitWatcher
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.transaction import SqliteTransaction
from headrace.engines.sqlite_file.database import SqliteDatabase
from headrace.errors import InvalidJob, SchemaMismatch, StoreMoved

_store_status = msgspec.json.Decoder(StoreStatus)
R = TypeVar("R")
MakeSteps = Callable[[RulesCache, int], Steps[R]]
# The jobs, the steps to insert them, and the id of a job that shows that they are committed.
InsertPlan = tuple[Sequence[NewJob], MakeSteps[R], Callable[[R], str]]


class SqliteJoinedHost(Protocol):
    """The engine, as far as it is needed here."""

    url: str
    store: SqliteDatabase

    def at(self, now: int | None) -> int: ...
    def prepare(self) -> None: ...


class SqliteJoined:
    """A caller's connection, for jobs in its transaction."""

    def __init__(self, host: SqliteJoinedHost, commit_watcher: CommitWatcher, connection: Any) -> None:
        self._host = host
        self._commit_watcher = commit_watcher
        self._connection = connection

    def insert(self, jobs: Sequence[NewJob]) -> None:
        self.insert_unique([UniqueInsert(job) for job in jobs])

    async def ainsert(self, jobs: Sequence[NewJob]) -> None:
        await self.ainsert_unique([UniqueInsert(job) for job in jobs])

    def insert_unique(self, candidates: Sequence[UniqueInsert]) -> list[UniqueResult]:
        return self._store(borrowed_sqlite(self._connection, self._host.url), *_unique_insert(candidates))

    async def ainsert_unique(self, candidates: Sequence[UniqueInsert]) -> list[UniqueResult]:
        borrowed = async_borrowed_sqlite(self._connection, self._host.url)
        return await borrowed.share(lambda inner: self._store(inner, *_unique_insert(candidates)))

    def insert_graph(self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None) -> None:
        self._store(borrowed_sqlite(self._connection, self._host.url), *_graph_insert(jobs, edges, flow))

    async def ainsert_graph(
        self, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None = None
    ) -> None:
        borrowed = async_borrowed_sqlite(self._connection, self._host.url)
        await borrowed.share(lambda inner: self._store(inner, *_graph_insert(jobs, edges, flow)))

    def _store(
        self, borrowed: BorrowedSqlite, jobs: Sequence[NewJob], make_steps: MakeSteps[R], last: Callable[[R], str]
    ) -> R:
        db = borrowed.driver()
        self._refuse_another_file(db)
        if not db.in_transaction and self._version(db) != schema.CURRENT:
            self._host.prepare()
        try:
            answer = self._write(db, {job.queue for job in jobs}, make_steps)
        except Exception as error:
            if "no such table" not in str(error):
                raise
            raise self._tables_missing() from error
        if not db.in_transaction:  # in autocommit, the end of our savepoint was the commit
            self._commit_watcher.ring()
        elif not borrowed.after_commit(self._commit_watcher.ring) and jobs:
            self._commit_watcher.expect(last(answer))
        return answer

    def _write(self, db: SqliteDriver, queues: Collection[str], make_steps: MakeSteps[R]) -> R:
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
            answer = unique_insert.run(make_steps(rules, now), tx)
            db.execute("RELEASE headrace")
            return answer
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


def _unique_insert(candidates: Sequence[UniqueInsert]) -> InsertPlan[list[UniqueResult]]:
    jobs = [candidate.job for candidate in candidates]
    queues = {job.queue for job in jobs}

    def insert_unique(rules: RulesCache, now: int) -> Steps[list[UniqueResult]]:
        return unique_insert.insert_unique(rules.candidates_with_lanes(candidates), True, rules.lengths_of(queues), now)

    return jobs, insert_unique, lambda results: results[-1].id


def _graph_insert(jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None) -> InsertPlan[Wakeups]:
    queues = {job.queue for job in jobs}

    def insert_graph(rules: RulesCache, now: int) -> Steps[Wakeups]:
        return dependencies.insert_graph(rules.with_lanes(jobs), edges, flow, rules.lengths_of(queues), now)

    return jobs, insert_graph, lambda _: jobs[-1].id


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
