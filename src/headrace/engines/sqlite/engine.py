"""The SQLite engine's hot path: insert, exchange, renew, reap. Operators' queries are in `sql.queries`.

Each method is one transaction. Batches travel as one JSON parameter and come back as one JSON value, so a statement is
a single step: with row-wise calls a busy Python thread would lengthen the transaction by a switch of the interpreter
lock for every row (measured: 93 jobs/s against 10 000 beside one computing thread).
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from headrace.core.clock import Clock, SystemClock
from headrace.core.events.log import EventGroup
from headrace.core.health.findings import MigrationResult
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.outcomes import starts_again
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
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.joined import JoinedWrites
from headrace.engines.shared import liveness_file
from headrace.engines.shared.operation_timing import timed_engine
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import lease_recovery, steps, unique_insert
from headrace.engines.sql.dead_letters import SqlDeadLetterStore
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.documents import SqlDocumentStore
from headrace.engines.sql.events import SqlEventStore
from headrace.engines.sql.flows import SqlFlowStore
from headrace.engines.sql.insert import DecidedInsert
from headrace.engines.sql.limited_claim import earlier, rules_snapshot
from headrace.engines.sql.queries import SqlQueries
from headrace.engines.sql.queue_rules import SqlRuleStore
from headrace.engines.sql.rate_buckets import charge_used_units
from headrace.engines.sql.retention import SqlRetentionStore
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sql.schedules import SqlScheduleStore
from headrace.engines.sql.staleness import SqlStalenessStore
from headrace.engines.sql.transaction import Transaction
from headrace.engines.sql.transfer import SqlTransfer
from headrace.engines.sqlite import insert as inserts
from headrace.engines.sqlite import schema, settle
from headrace.engines.sqlite.claim import ClaimRun
from headrace.engines.sqlite.commit_watcher import CommitWatcher
from headrace.engines.sqlite.maintenance import SqliteMaintenance
from headrace.engines.sqlite.settle import SettleRun
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.transaction import SqliteTransaction
from headrace.engines.sqlite_file.database import Durability, SqliteDatabase, scalar
from headrace.engines.sqlite_file.errors import explained
from headrace.engines.wakeup.local import LocalBells
from headrace.errors import EngineUnavailable, SchemaMismatch, StoreMoved

if TYPE_CHECKING:
    from headrace.engines.sqlite.archive import SqliteArchive
    from headrace.engines.sqlite.temporary_store import TemporaryStore

_names = msgspec.json.Decoder(list[str])
_leases = msgspec.json.Decoder(list[Lease])
_numbers = msgspec.json.Decoder(list[int])
_DUE_BATCH_SIZE = 5000
T = TypeVar("T")


@timed_engine
class SqliteEngine:
    """Jobs in one SQLite file."""

    def __init__(
        self,
        path: Path | None,
        *,
        durability: Durability = "normal",
        auto_migrate: bool = True,
        clock: Clock | None = None,
        record_events: bool = True,
    ) -> None:
        if path is None:
            self._temporary_store: TemporaryStore | None = _new_temporary_store()
            self.store = SqliteDatabase(
                self._temporary_store.path, "off", prepare_folder=self._temporary_store.create_folder
            )
        else:
            self._temporary_store, self.store = None, SqliteDatabase(path, durability)
        self.url = "memory://" if path is None else f"sqlite:///{path}"
        self.clock: Clock = clock or SystemClock()
        self.queries = SqlQueries(self)
        self.flow_store = SqlFlowStore(self)
        self.rule_store = SqlRuleStore(self)
        self.schedule_store = SqlScheduleStore(self)
        self.transfer = SqlTransfer(self)
        self.dead_letters = SqlDeadLetterStore(self)
        self.retention_store = SqlRetentionStore(self, self.store.write_back)
        self.staleness_store = SqlStalenessStore(self)
        self.document_store = SqlDocumentStore(self)
        self.maintenance = SqliteMaintenance(self)
        self.events = SqlEventStore(self)
        self.handled = 0  # jobs stored or settled by this process; counted without a lock, so approximate
        self._auto_migrate = auto_migrate
        self._record_events = record_events
        self._local_bells = LocalBells(self.store.folder)
        self._commit_watcher = CommitWatcher(self.store, lambda: self.ring("work"))
        self._known_queues: set[str] = set()
        self._rules_cache = RulesCache()
        self._cursors: dict[str, str] = {}
        self._has_rules = False
        self._has_dependencies = False
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
        if unique or edges or flow is not None:
            return self._insert_decided(DecidedInsert(jobs, unique, edges, flow, all_or_nothing), self.at(now))
        names = {job.queue for job in jobs}
        try:
            with self.store.writing() as db:
                if not names <= self._known_queues:
                    db.execute(SQL["add_queues"], {"names": as_json(sorted(names)), "now": self.at(now)})
                if lengths := self._lengths(db, names):
                    unique_insert.run(unique_insert.refuse_if_full(jobs, lengths), SqliteTransaction(db))
                fresh = inserts.insert(db, self._rules_cache.with_lanes(jobs), all_or_nothing, self._record_events)
        except sqlite3.IntegrityError:
            self._refuse_if_moved()
            raise
        self._known_queues |= names
        self.handled += len(jobs)
        self.ring("work")
        return results_of(jobs, fresh)

    def _insert_decided(self, insert: DecidedInsert, now: int) -> list[InsertResult]:
        try:
            with self.store.writing() as db:
                tx = SqliteTransaction(db)
                if not self._rules_cache.are_fresh:
                    self._rules_cache.refresh(tx)
                results, effects = unique_insert.run(insert.steps(self._rules_cache, now), tx)
        except sqlite3.IntegrityError:
            self._refuse_if_moved()
            raise
        effects.work = True
        effects.ring(self.ring)
        return results

    def _lengths(self, db: sqlite3.Connection, queues: Collection[str]) -> dict[str, int]:
        if not self._rules_cache.are_fresh:
            self._rules_cache.refresh(SqliteTransaction(db))
        return self._rules_cache.lengths_of(queues)

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote] = (),
        now: int | None = None,
        groups: Sequence[EventGroup] = (),
    ) -> ExchangeResult:
        self.prepare()
        at = self.at(now)
        with self.store.writing() as db:
            settle.note(db, notes)
            charge_used_units(SqliteTransaction(db), outcomes, at)
            settle_run = SettleRun(db, at, dependencies_first=self._has_dependencies)
            refused = settle_run.settle_with_events(outcomes, want.worker if want else None, groups)
            effects = settle_run.effects
            answer = self._claim(db, want, at, effects) if want and want.limit > 0 else ExchangeResult([], [])
        if outcomes:
            self._has_dependencies = settle_run.had_dependencies
            self.handled += len(outcomes)
        effects.done |= any(outcome.finished_at is not None for outcome in outcomes)
        effects.work |= any(map(starts_again, outcomes))
        # Under limits, any finished job may let another worker's job start.
        effects.work |= bool(outcomes and self._has_rules)
        effects.ring(self.ring)
        return msgspec.structs.replace(answer, refused=refused) if refused else answer

    def _claim(self, db: sqlite3.Connection, want: ClaimRequest, now: int, effects: Wakeups) -> ExchangeResult:
        due, next_expiry, names, pending, text = db.execute(SQL["claim_preamble"]).fetchone()
        snapshot = rules_snapshot(text)
        self._has_rules = snapshot.has_rules
        if names is None:  # a store status is set: dependents may not have arrived, and its end will ring
            return ExchangeResult([], [], None, (), snapshot.weights)
        queues = _names.decode(names)
        if _is_past(next_expiry, now):
            effects.add(lease_recovery.cancel_expired(SqliteTransaction(db), now, _DUE_BATCH_SIZE)[1])
            due, next_expiry, *_ = db.execute(SQL["claim_preamble"]).fetchone()
            if _is_past(next_expiry, now):  # too many for one commit: none of the rest may start, so claim again
                return ExchangeResult([], [], now, tuple(queues), snapshot.weights)
        if _is_past(due, now):
            seqs = scalar(db, SQL["due"], {"now": now, "limit": _DUE_BATCH_SIZE})
            db.execute(SQL["promote"], {"seqs": seqs, "now": now})
            db.execute(SQL["append_move_events"], {"type": "job.promoted", "seqs": seqs, "now": now})
            due, _, _, pending, text = db.execute(SQL["claim_preamble"]).fetchone()
            snapshot = rules_snapshot(text)  # promoted jobs may have lanes
        claim_run = ClaimRun(db, want, snapshot, self._cursors, now)
        claims = claim_run.claim_all(_names.decode(pending))
        return ExchangeResult([], claims, earlier(due, claim_run.next_at), tuple(queues), snapshot.weights)

    def save_step(self, lease: Lease, step: Step, now: int | None = None) -> bool:
        return steps.save_step(self, lease, step, self.at(now))

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> RenewResult:
        self.prepare()
        at = self.at(now)
        with self.store.writing(quiet=True) as db:
            db.execute(SQL["register_worker"], msgspec.structs.astuple(worker))
            command, next_expiry = db.execute(SQL["worker_command"], {"id": worker.id}).fetchone()
            lost: frozenset[Lease] = frozenset()
            if leases:
                batch = {"lease": as_json(leases), "now": at}
                if db.execute(SQL["renew"], {**batch, "until": at + ttl}).rowcount != len(leases):
                    lost = frozenset(_leases.decode(scalar(db, SQL["lost"], batch)))
        return RenewResult(lost, command, next_expiry)

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
        return lease_recovery.reap(self, self.store.folder, limit, max_crashes, self.at(now), alive, dead_letters)

    def release_unknown_claims(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        return lease_recovery.release_unknown_claims(self, worker, held, self.at(now))

    @property
    def joined(self) -> JoinedWrites:
        # Deferred: most programs never use it.
        from headrace.engines.sqlite.joined import SqliteJoined

        return SqliteJoined(self, self._commit_watcher)

    @functools.cached_property
    def archive(self) -> SqliteArchive:
        # Deferred: most programs never use it.
        from headrace.engines.sqlite.archive import SqliteArchive

        return SqliteArchive(self.store)

    # -- workers and bells

    def register_worker(self, worker: WorkerRow) -> liveness_file.LivenessFile:
        self.prepare()
        with explained(self.store.path):
            self.store.make_folder()
            held = liveness_file.LivenessFile(self.store.folder, worker.id)
        self.renew(worker, (), 0)
        return held

    def unregister_worker(self, worker_id: str) -> None:
        self.prepare()
        with self.store.writing() as db:
            db.execute(SQL["unregister_workers"], {"ids": as_json([worker_id])})

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        self.prepare()
        # These are rare and read at each renewal, so commits of other processes need not wake the listener.
        if topic in ("commands", "schedules"):
            return self._local_bells.listen(topic, lambda: False)
        others = _Changed(self.store.changes_of_others)
        if topic == "events":
            own = _Changed(lambda: self.store.event_commits)
            return self._local_bells.listen(topic, lambda: others() | own())
        # With sockets, every commit of this process has rung.
        return self._local_bells.listen(topic, _Changed(self.store.change_count), others)

    def ring(self, topic: str) -> None:
        self._local_bells.ring(topic)

    # -- transactions by statement name

    def write(self, act: Callable[[Transaction], T]) -> T:
        self.prepare()
        with self.store.writing() as db:
            return act(SqliteTransaction(db))

    def read(self, act: Callable[[Transaction], T]) -> T:
        self.prepare()
        with self.store.reading() as db:
            return act(SqliteTransaction(db))

    def forget_rules(self) -> None:
        self._rules_cache.forget()

    # -- the file

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        return self.clock.now() if now is None else now

    def prepare(self) -> None:
        """Check, once, that the tables exist and have our version."""
        if self._ready:
            return
        with self.store.reading() as db:  # the write lock may be held by a transaction of this thread, as in Django
            version = schema.version_of(db)
            schema.refuse_unknown(db, version, str(self.store.path))
        if version < schema.CURRENT:
            if version and not self._auto_migrate:
                raise SchemaMismatch(
                    f"{self.store.path} has tables of version {version}, this headrace needs {schema.CURRENT}; "
                    "run `headrace migrate`"
                )
            self.migrate()
        self._ready = True

    def _refuse_if_moved(self) -> None:
        store_status = self.transfer.store_status()
        if store_status is not None and store_status.kind == "moved":
            raise StoreMoved(store_status.other)

    def migrate(self, *, dry_run: bool = False) -> MigrationResult:
        if dry_run:
            with self.store.reading() as db:
                return MigrationResult(schema.version_of(db), schema.CURRENT, [])
        with self.store.writing() as db:
            found = schema.version_of(db)
            return MigrationResult(found, schema.CURRENT, schema.migrate(db, str(self.store.path), self.clock.now()))

    def close(self) -> None:
        self._commit_watcher.close()
        self._local_bells.close()
        self.store.close()

        if self._temporary_store is not None:
            self._temporary_store.remove()
        self.start_over()

    def start_over(self) -> None:
        """Forget everything known of the file: it may be another one at the next use."""
        self._ready = False
        self._known_queues.clear()
        self._rules_cache.forget()


class _Changed:
    """Whether a count has changed since the last call."""

    def __init__(self, count: Callable[[], object | None]) -> None:
        self._count = count
        self._seen = count()

    def __call__(self) -> bool:
        before = self._seen
        try:
            self._seen = self._count() or before
        except EngineUnavailable:
            return True  # users of the store get the error
        return before != self._seen


def _new_temporary_store() -> TemporaryStore:
    # Deferred: a store with a path does not need it.
    from headrace.engines.sqlite.temporary_store import TemporaryStore

    return TemporaryStore()


def _is_past(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now
