"""The PostgreSQL engine's hot path: insert, exchange, renew, reap.

Each method is one transaction; insert is even one statement. Claims SKIP rows that others have LOCKED, settles are by
id and version alone, and NOTIFY wakes workers, delivered by the server with the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from headrace.core.clock import Clock
from headrace.core.events.log import EventGroup
from headrace.core.health.findings import MigrationResult
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import (
    ClaimRequest,
    ExchangeResult,
    JobNote,
    Lease,
    NewJob,
    Outcome,
    ReapedJob,
    RenewResult,
    WorkerRow,
)
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule, results_of
from headrace.engines.postgres import schema
from headrace.engines.postgres.archive import PostgresArchive
from headrace.engines.postgres.connections import Connection, ConnectionLost, ConnectionPool, scalar
from headrace.engines.postgres.exchange import Exchange
from headrace.engines.postgres.insert import Insert
from headrace.engines.postgres.joined import JoinedStatements, PostgresJoined
from headrace.engines.postgres.maintenance import PostgresMaintenance
from headrace.engines.postgres.notify_listener import EventsBell, NotifyConnection
from headrace.engines.postgres.statements import statements_in
from headrace.engines.postgres.store_url import PostgresUrl
from headrace.engines.postgres.transaction import PostgresTransaction
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.joined import JoinedWrites
from headrace.engines.shared import liveness_file
from headrace.engines.shared.operation_timing import timed_engine
from headrace.engines.shared.server_clock import ServerClock
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies, lease_recovery, steps, unique_insert
from headrace.engines.sql.dead_letters import SqlDeadLetterStore
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.documents import SqlDocumentStore
from headrace.engines.sql.events import SqlEventStore
from headrace.engines.sql.flows import SqlFlowStore
from headrace.engines.sql.insert import DecidedInsert
from headrace.engines.sql.queries import SqlQueries
from headrace.engines.sql.queue_rules import SqlRuleStore
from headrace.engines.sql.retention import SqlRetentionStore
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sql.schedules import SqlScheduleStore
from headrace.engines.sql.staleness import SqlStalenessStore
from headrace.engines.sql.transaction import Transaction
from headrace.engines.sql.transfer import SqlTransfer
from headrace.engines.wakeup.server import EVENTS, ServerBells
from headrace.errors import DuplicateJob, SchemaMismatch, StoreMoved

T = TypeVar("T")
_names = msgspec.json.Decoder(list[str])
_leases = msgspec.json.Decoder(list[Lease])


@timed_engine
class PostgresEngine:
    """Jobs in the tables of one schema."""

    def __init__(
        self, url: str, *, auto_migrate: bool = True, clock: Clock | None = None, record_events: bool = True
    ) -> None:
        self.address = PostgresUrl(url)
        self.url = str(self.address)
        self.server = ConnectionPool(self.address)
        self.sql = statements_in(self.address.schema)
        self._server_clock = ServerClock(self._read_time)
        self.clock: Clock = clock or self._server_clock
        self.queries = SqlQueries(self)
        self.flow_store = SqlFlowStore(self)
        self.rule_store = SqlRuleStore(self)
        self.schedule_store = SqlScheduleStore(self)
        self.transfer = SqlTransfer(self)
        self.dead_letters = SqlDeadLetterStore(self)
        self.retention_store = SqlRetentionStore(self)
        self.archive = PostgresArchive(self, self.address.schema)
        self.staleness_store = SqlStalenessStore(self)
        self.document_store = SqlDocumentStore(self)
        self.maintenance = PostgresMaintenance(self)
        self.events = SqlEventStore(self)
        self._channel = f"headrace_{self.address.schema}"
        self._exchange = Exchange(self.server, self.sql, self._channel)
        self._inserts = Insert(self.server, self.sql, self._channel, record_events, self._refuse_if_moved)
        self._joined_statements = JoinedStatements(self, self._channel)
        self._server_bells = ServerBells(
            lambda: NotifyConnection(self.server, self._channel), self.address.poll if self.address.pooler else None
        )
        self._auto_migrate = auto_migrate
        self._rules_cache = RulesCache()
        self._ready = False

    # -- the hot path

    def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
        all_or_nothing: bool = False,
        now: int | None = None,
    ) -> list[InsertResult]:
        self.prepare()
        at = self.at(now)
        if unique or edges or flow is not None:
            return self._insert_decided(DecidedInsert(jobs, unique, edges, flow, all_or_nothing), at)
        fresh = self._inserts(jobs, all_or_nothing, at, self.rules_for_inserts)
        for queue in {job.queue for job in jobs}:
            self._server_bells.ring(f"work:{queue}")
        return results_of(jobs, fresh)

    def rules_for_inserts(self) -> RulesCache:
        """The rules that inserts must follow."""
        if not self._rules_cache.are_fresh:
            self.read(self._rules_cache.refresh)
        return self._rules_cache

    def _insert_decided(self, insert: DecidedInsert, now: int) -> list[InsertResult]:
        rules, jobs = self.rules_for_inserts(), insert.jobs

        def store(tx: Transaction) -> tuple[list[InsertResult], Wakeups]:
            if dependencies.names_existing(jobs, insert.edges):  # new jobs alone block no other transaction
                tx.fetch("lock_dependencies")
            results, effects = unique_insert.run(insert.steps(rules, now), tx)
            effects.work |= any(result.kind in ("replaced", "rescheduled") for result in results)
            if topics := effects.topics():
                tx.fetch("ring", channel=self._channel, messages=as_json(topics))
            return results, effects

        try:
            results, effects = self.write(store)
        except ConnectionLost:
            # Dependencies alone leave no job to look for; the caller may repeat them.
            if not (insert.is_graph and jobs) or not self._inserts.stored(jobs).issuperset(job.id for job in jobs):
                raise
            results, effects = results_of(jobs, [True] * len(jobs)), Wakeups(work=True, done=True)
        except DuplicateJob:
            self._refuse_if_moved()
            raise
        if any(result.kind == "taken" for result in results):
            self._refuse_if_moved()
        for topic in {*(f"work:{job.queue}" for job in jobs), *effects.topics()}:
            self._server_bells.ring(topic)
        return results

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote] = (),
        now: int | None = None,
        groups: Sequence[EventGroup] = (),
    ) -> ExchangeResult:
        self.prepare()
        answer, topics = self._exchange(outcomes, want, notes, self.at(now), groups)
        for topic in topics:
            self._server_bells.ring(topic)
        return answer

    def save_step(self, lease: Lease, step: Step, now: int | None = None) -> bool:
        return steps.save_step(self, lease, step, self.at(now))

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> RenewResult:
        at = self.at(now)

        def beat(tx: Transaction) -> RenewResult:
            command = tx.fetch("register_worker", w=as_json([worker]))
            lost: frozenset[Lease] = frozenset()
            if leases:
                held = as_json(leases)
                if tx.run("renew", lease=held, now=at, until=at + ttl) != len(leases):
                    lost = frozenset(_leases.decode(tx.fetch("lost", lease=held, now=at)))
            return RenewResult(lost, command, tx.fetch("next_expiry"))

        return self.write(beat)

    def reap(
        self,
        limit: int,
        max_crashes: int | None = None,
        now: int | None = None,
        *,
        alive: bool = False,
        dead_letters: bool | Collection[str] = True,
    ) -> list[ReapedJob]:
        self.prepare()
        return lease_recovery.reap(self, self._folder(), limit, max_crashes, self.at(now), alive, dead_letters)

    def release_unknown_claims(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        return lease_recovery.release_unknown_claims(self, worker, held, self.at(now))

    @property
    def joined(self) -> JoinedWrites:
        return PostgresJoined(self._joined_statements, self.url)

    # -- workers and bells

    def register_worker(self, worker: WorkerRow) -> liveness_file.LivenessFile:
        self.prepare()
        held = liveness_file.LivenessFile(self._folder(), worker.id)
        self.renew(worker, (), 0)
        return held

    def unregister_worker(self, worker_id: str) -> None:
        self.write(lambda tx: tx.run("unregister_workers", ids=as_json([worker_id])))

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        self.prepare()
        bell = self._server_bells.listen(topic, queues)
        return EventsBell(bell) if topic == EVENTS else bell

    def ring(self, topic: str) -> None:
        self.server.repeat(lambda db: self._call(db, [topic]))
        self._server_bells.ring(topic)

    def _call(self, db: Connection, messages: Sequence[str]) -> None:
        if messages:
            db.execute(self.sql["ring"], {"channel": self._channel, "messages": as_json(messages)})

    # -- transactions by statement name

    def write(self, act: Callable[[Transaction], T]) -> T:
        self.prepare()
        return self.server.transact(lambda db: act(PostgresTransaction(db, self.sql, self._channel)))

    def read(self, act: Callable[[Transaction], T]) -> T:
        self.prepare()
        return self.server.repeat(lambda db: act(PostgresTransaction(db, self.sql, self._channel)))

    def forget_rules(self) -> None:
        self._rules_cache.forget()

    # -- the store as a whole

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        if now is not None:
            return now
        if self.clock is self._server_clock:
            self._server_clock.refresh()
        return self.clock.now()

    def _read_time(self) -> int:
        return int(self.server.repeat(lambda db: scalar(db, self.sql["clock"])))

    def prepare(self) -> None:
        """Check, once, that the tables exist and have our version."""
        if self._ready:
            return
        version = self.server.repeat(lambda db: schema.refuse_unknown(db, self.address.schema, self.url))
        if version < schema.CURRENT:
            if version and not self._auto_migrate:
                raise SchemaMismatch(
                    f"{self.url} has tables of version {version}, this headrace needs {schema.CURRENT}; "
                    "run `headrace migrate`"
                )
            self.migrate()
        self._identity = str(self.server.repeat(lambda db: scalar(db, self.sql["identity"])))
        self._ready = True

    def _folder(self) -> Path:
        """The folder shared by this host's workers on this store."""
        return liveness_file.local_folder(self._identity)

    def _refuse_if_moved(self) -> None:
        store_status = self.transfer.store_status()
        if store_status is not None and store_status.kind == "moved":
            raise StoreMoved(store_status.other)

    def migrate(self, *, dry_run: bool = False) -> MigrationResult:
        name = self.address.schema
        found, _ = self.server.repeat(lambda db: schema.version_of(db, name))
        if dry_run:
            return MigrationResult(found, schema.CURRENT, [])
        now = self.at(None)
        applied = self.server.transact(lambda db: schema.migrate(db, name, self.url, now))
        return MigrationResult(found, schema.CURRENT, applied)

    def close(self) -> None:
        self._server_bells.close()
        self.server.close()
        self.start_over()

    def start_over(self) -> None:
        """Forget everything known of the tables: they may be others at the next use."""
        self._ready = False
        self._inserts.forget()
        self._rules_cache.forget()
        self._joined_statements.forget()
