"""Inserts jobs and stores steps in a transaction that a caller has open on the same PostgreSQL database.

The statements are the engine's own, run by the caller's library. None may fail for a foreseeable reason: an error would
abort the caller's transaction. NOTIFY is part of the insert and is delivered with the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import msgspec

from headrace.core.events.log import arrivals, page
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import Lease, NewJob
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule
from headrace.engines.postgres.statements import qualified
from headrace.engines.postgres.store_url import PostgresUrl
from headrace.engines.postgres.transaction import event_params, storable
from headrace.engines.shared.borrowed_connections import Row, async_borrowed_postgres, borrowed_postgres
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import unique_insert
from headrace.engines.sql.insert import DecidedInsert
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sql.transaction import Transaction
from headrace.errors import DuplicateJob, InvalidJob, StoreMoved

T = TypeVar("T")
R = TypeVar("R")
Statement = tuple[str, Mapping[str, Any]]
Steps = Generator[Statement, Row, R]

_names = msgspec.json.Decoder(list[str])
_store_status = msgspec.json.Decoder(StoreStatus)
_DATABASE_SQL = "SELECT current_database(), to_regclass(%(table)s) IS NOT NULL"
_TRANSACTION_SQL = "SELECT (extract(epoch FROM now()) * 1000000)::bigint, current_setting('transaction_isolation')"
_UNDO = """WITH gone AS (
    DELETE FROM headrace_jobs
    WHERE seq = ANY (ARRAY(SELECT seq FROM headrace_ids
                           WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))))
    RETURNING seq
), untagged AS (
    DELETE FROM headrace_tags WHERE job IN (SELECT seq FROM gone)
)
SELECT count(*) FROM gone"""


class PostgresJoinedHost(Protocol):
    """The engine, as far as it is needed here."""

    url: str
    address: PostgresUrl
    sql: dict[str, str]

    def at(self, now: int | None) -> int: ...
    def prepare(self) -> None: ...
    def rules_for_inserts(self) -> RulesCache: ...
    def read(self, act: Callable[[Transaction], T]) -> T: ...
    def write(self, act: Callable[[Transaction], T]) -> T: ...


class JoinedStatements:
    """The statements for callers' connections; remembers which of them lead to this store."""

    def __init__(self, host: PostgresJoinedHost, channel: str) -> None:
        self._host = host
        self._channel = channel
        self.forget()

    def forget(self) -> None:
        """Forget everything: the store may be another one from now on."""
        self._identity: str | None = None
        self._queues: set[str] = set()
        self._known: WeakSet[Any] = WeakSet()

    def prepare(self, jobs: Sequence[NewJob]) -> None:
        """Do the preparations on a connection of our own."""
        self._host.prepare()
        if self._identity is None:
            self._identity = self._host.read(lambda tx: tx.fetch("identity"))
        names = {job.queue for job in jobs}
        if not names <= self._queues:
            # Not in the caller's transaction: until its end it would block every other insert into this queue.
            now = self._host.at(None)
            self._host.write(lambda tx: tx.run("add_queues", names=as_json(sorted(names)), now=now))
            self._queues |= names

    def insert(self, driver: Any, insert: DecidedInsert) -> Steps[list[InsertResult]]:
        """The statements that insert the jobs, each answered by its first row. `driver` is the connection."""
        _refuse_twins(insert.jobs)
        yield from self._check_connection(driver)
        yield from self._refuse_stored(insert.jobs)
        rules = self._host.rules_for_inserts()
        if insert.is_graph or any(insert.unique) or rules.lengths_of({job.queue for job in insert.jobs}):
            yield from self._ensure_locks_hold()
        results, effects = yield from self._run_steps(insert.steps(rules, self._host.at(None)))
        if effects.commands:  # heard when the caller commits
            yield self._host.sql["ring"], {"channel": self._channel, "messages": as_json(["commands"])}
        return results

    def save_step(self, driver: Any, lease: Lease, step: Step | None) -> Steps[bool]:
        """The statements that store a step; without one, those that refuse a connection in autocommit."""
        if step is None:
            yield from self._check_connection(driver)
            yield from self._ensure_transaction()
            return True
        values = {"id": lease.id, "version": lease.version, "s": storable(as_json([step]))}
        (leased,) = yield self._host.sql["save_joined_step"], values
        return bool(leased)

    def _check_connection(self, driver: Any) -> Steps[None]:
        if driver not in self._known:
            yield from self._find_our_tables()
            _mark_known(self._known, driver)

    def _refuse_stored(self, jobs: Sequence[NewJob]) -> Steps[None]:
        if len(jobs) > 1:  # autocommit cannot undo a partial insert
            (taken,) = yield self._host.sql["existing_ids"], {"ids": storable(as_json([job.id for job in jobs]))}
            _refuse_taken(jobs, set(_names.decode(taken)))

    def _run_steps(self, steps: unique_insert.Steps[R]) -> Steps[R]:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: R = end.value
                return result
            answer = yield from self._run_step(step)

    def _ensure_locks_hold(self) -> Steps[None]:
        """A unique check needs locks that outlast a statement, and must see what others commit."""
        level = yield from self._ensure_transaction()
        if level != "read committed":
            raise InvalidJob(
                f"connection: its transaction is {level.upper()}, which cannot see a job that was stored "
                "meanwhile; use READ COMMITTED, or enqueue without connection"
            )

    def _ensure_transaction(self) -> Steps[str]:
        """The isolation of the caller's transaction; InvalidJob if there is none."""
        began, level = yield _TRANSACTION_SQL, {}
        again, _ = yield _TRANSACTION_SQL, {}
        if began != again:
            raise InvalidJob(
                "connection: it is in autocommit, where each statement is a transaction of its own; begin a "
                "transaction first"
            )
        isolation: str = level
        return isolation

    def _run_step(self, step: unique_insert.Step) -> Steps[Any]:
        if isinstance(step, unique_insert.StoreUnique):
            return (yield from self._insert(step.jobs))
        values = {name: storable(value) if isinstance(value, str) else value for name, value in step.values.items()}
        (answer,) = yield self._host.sql[step.statement], values
        return answer

    def _insert(self, jobs: Sequence[NewJob]) -> Steps[list[bool]]:
        values = {"j": storable(as_json(jobs)), "expected": len(jobs), "channel": self._channel}
        values |= event_params(page(arrivals(jobs)))
        added, *_ = yield self._host.sql["insert"], values
        if added is not None:
            yield from self._undo(jobs, added)
        return [True] * len(jobs)

    def _find_our_tables(self) -> Steps[None]:
        schema = self._host.address.schema
        database, found = yield _DATABASE_SQL, {"table": f'"{schema}".headrace_store'}
        if not found:
            raise InvalidJob(
                f"connection: it is to the database {database!r}, which has no tables of headrace in the schema "
                f"{schema!r}; the jobs of this app are in {self._host.url}"
            )
        (identity,) = yield self._host.sql["identity"], {}
        if identity != self._identity:
            raise InvalidJob(
                f"connection: its database {database!r} has the tables of another store; the jobs of this app are in "
                f"{self._host.url}"
            )

    def _undo(self, jobs: Sequence[NewJob], added: str) -> Steps[None]:
        """Delete what was stored, and raise the reason why not all of it was."""
        inserted = set(_names.decode(added))
        if inserted:  # another process took one of the ids just now
            yield qualified(_UNDO, self._host.address.schema), {"ids": as_json(sorted(inserted))}
        (text,) = yield self._host.sql["store_status"], {}
        store_status = _store_status.decode(text) if text else None
        if store_status is not None and store_status.kind == "moved":
            raise StoreMoved(store_status.other)
        raise DuplicateJob(next(job.id for job in jobs if job.id not in inserted))


class PostgresJoined:
    """Writes in the transaction of a caller's connection."""

    def __init__(self, statements: JoinedStatements, store: str) -> None:
        self._statements = statements
        self._store_url = store

    def insert(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
    ) -> list[InsertResult]:
        insert = DecidedInsert(jobs, unique, edges, flow)
        return self._run(connection, lambda driver: self._statements.insert(driver, insert), jobs)

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
        return await self._arun(connection, lambda driver: self._statements.insert(driver, insert), jobs)

    def save_step(self, connection: Any, lease: Lease, step: Step | None) -> bool:
        return self._run(connection, lambda driver: self._statements.save_step(driver, lease, step))

    async def asave_step(self, connection: Any, lease: Lease, step: Step | None) -> bool:
        return await self._arun(connection, lambda driver: self._statements.save_step(driver, lease, step))

    def _run(self, connection: Any, make: Callable[[Any], Steps[R]], jobs: Sequence[NewJob] = ()) -> R:
        borrowed = borrowed_postgres(connection, self._store_url)
        self._statements.prepare(jobs)
        steps = make(borrowed.open())
        row: Row = None
        while True:
            try:
                statement = steps.send(row)
            except StopIteration as end:
                result: R = end.value
                return result
            row = borrowed.fetch_row(*statement)

    async def _arun(self, connection: Any, make: Callable[[Any], Steps[R]], jobs: Sequence[NewJob] = ()) -> R:
        from asyncio import to_thread  # deferred: a caller that gets here has loaded it

        borrowed = async_borrowed_postgres(connection, self._store_url)
        await to_thread(self._statements.prepare, jobs)
        steps = make(await borrowed.open())
        row: Row = None
        while True:
            try:
                statement = steps.send(row)
            except StopIteration as end:
                result: R = end.value
                return result
            row = await borrowed.fetch_row(*statement)


def _mark_known(known: WeakSet[Any], driver: Any) -> None:
    try:
        known.add(driver)
    except TypeError:  # its class allows no weak references: check each time
        return


def _refuse_twins(jobs: Sequence[NewJob]) -> None:
    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            raise DuplicateJob(job.id)
        seen.add(job.id)


def _refuse_taken(jobs: Sequence[NewJob], taken: set[str]) -> None:
    for job in jobs:
        if job.id in taken:
            raise DuplicateJob(job.id)
