"""The Redis engine's hot path: insert, exchange, renew, reap. Operators' queries are in `queries`.

Each method is one script, and so one commit, whatever the size of its batch. While a script runs, Redis does nothing
else: an insert of 10 000 jobs blocks all clients for 0.1 to 0.2 s, so many small batches are better than a large one.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headrace.core.clock import Clock
from headrace.core.events.log import EventGroup, page
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
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.joined import JoinedWrites
from headrace.engines.redis import health, schema, serialization, store_url
from headrace.engines.redis import insert as inserts
from headrace.engines.redis.damaged_records import Damaged
from headrace.engines.redis.dead_letters import RedisDeadLetterStore
from headrace.engines.redis.decisions import lease_recovery
from headrace.engines.redis.documents import RedisDocumentStore
from headrace.engines.redis.events import RedisEventStore
from headrace.engines.redis.flows import RedisFlowStore
from headrace.engines.redis.maintenance import RedisMaintenance
from headrace.engines.redis.pubsub_listener import Sender, SubscribedConnection
from headrace.engines.redis.queries import RedisQueries
from headrace.engines.redis.queue_rules import RedisRuleStore
from headrace.engines.redis.retention import RedisRetentionStore
from headrace.engines.redis.schedules import RedisScheduleStore
from headrace.engines.redis.script_loader import load
from headrace.engines.redis.staleness import RedisStalenessStore
from headrace.engines.redis.transfer import RedisTransfer
from headrace.engines.shared import liveness_file
from headrace.engines.shared.decisions import refuse_unique_graph
from headrace.engines.shared.operation_timing import timed_engine
from headrace.engines.shared.server_clock import ServerClock
from headrace.engines.wakeup.server import ServerBells
from headrace.errors import ConfigError, EngineUnavailable, UnsupportedByEngine

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections

_exchange, _save_step, _renew = load("jobs/exchange"), load("jobs/save_step"), load("jobs/renew")
_MAX_TRIES = 50  # how often one claim repeats because of tasks that the worker does not know


@timed_engine
class RedisEngine:
    """Jobs in a Redis or Valkey server."""

    def __init__(self, url: str, *, clock: Clock | None = None, record_events: bool = True) -> None:
        address = store_url.parse(url)
        self.url = address.shown
        self.prefix = address.prefix
        self.connections: RedisConnections = _open_connections(address)
        self._server_clock = ServerClock(self._read_time)
        self.clock: Clock = clock or self._server_clock
        self.damaged = Damaged(self)
        self.queries = RedisQueries(self)
        self.flow_store = RedisFlowStore(self, self.queries)
        self.rule_store = RedisRuleStore(self)
        self.schedule_store = RedisScheduleStore(self)
        self.transfer = RedisTransfer(self)
        self.dead_letters = RedisDeadLetterStore(self)
        self.retention_store = RedisRetentionStore(self)
        self.archive: Archive | None = None  # memory is expensive: another store may hold the archive
        self.staleness_store = RedisStalenessStore(self)
        self.document_store = RedisDocumentStore(self)
        self.maintenance = RedisMaintenance(self)
        self.events = RedisEventStore(self)
        self._record_events = record_events
        self._channel = f"{{{self.prefix}}}:bell"
        self._sender = Sender()
        self._server_bells = ServerBells(lambda: SubscribedConnection(self.connections, self._channel, self._sender))
        self._store: str | None = None
        self._lane_positions: dict[str, str] = {}  # by queue, the lane positions that the script returned

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
        if edges or flow is not None:
            refuse_unique_graph(unique)
            return inserts.insert_graph(self.connections, jobs, edges, flow, self.at(now))
        if not jobs:
            return []
        if unique:
            return inserts.insert_unique(self.connections, jobs, unique, all_or_nothing, self.at(now))
        return inserts.insert(self.connections, jobs, all_or_nothing, self.at(now), self._record_events)

    def save_step(self, lease: Lease, step: Step, now: int | None = None) -> bool:
        self.prepare()
        names = (lease.id, lease.version, step.kind, step.name, step.number)
        args = (self.at(now), *names, serialization.encode(step))
        return bool(self.connections.run(_save_step, *args, repeat=args))

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote] = (),
        now: int | None = None,
        groups: Sequence[EventGroup] = (),
    ) -> ExchangeResult:
        self.prepare()
        limit = want.limit if want else 0
        if not outcomes and not notes and not groups and limit <= 0:
            return ExchangeResult([], [])
        at = self.at(now)
        answer, unknown_pairs = self._exchange_once(outcomes, want, notes, at, groups)
        unknown_in: set[str] = set()
        tries = 0
        while unknown_pairs and want is not None and want.known is not None and len(answer.claims) < limit:
            unknown_in |= {queue for queue, task in unknown_pairs if task not in want.known}
            tries += 1
            if want.known.undecided or tries == _MAX_TRIES:
                return msgspec.structs.replace(answer, next_at=at)
            rest = msgspec.structs.replace(want, limit=limit - len(answer.claims))
            more, unknown_pairs = self._exchange_once((), rest, (), at, (), tuple(unknown_in))
            answer = msgspec.structs.replace(more, refused=answer.refused, claims=[*answer.claims, *more.claims])
        return answer

    def _exchange_once(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote],
        now: int,
        groups: Sequence[EventGroup],
        unknown_in: tuple[str, ...] = (),
    ) -> tuple[ExchangeResult, list[tuple[str, str]]]:
        """The result, and the queues that gave nothing, each with a task that the worker may not know."""
        answer = self.connections.run(
            _exchange,
            now,
            want.worker if want else "",
            secrets.token_hex(8),
            *_claim_args(want),
            len(outcomes),
            serialization.encode([outcome.id for outcome in outcomes]),
            serialization.encode_batch(outcomes),
            len(notes),
            serialization.encode(notes),
            *self._preferences(want, unknown_in),
            int(any(outcome.spawned or outcome.edges for outcome in outcomes)),
            *_page_of(groups, outcomes),
            want.known.known_names if want and want.known is not None else "",
            _used_units(outcomes),
        )
        refused, taken, next_at, queues, weights, positions, damaged_members, unknown_pairs = answer
        claims, damaged = serialization.claims(taken)
        if damaged_members or damaged:
            self.damaged.fail((*damaged_members, *damaged), now)
        for queue, lane_position in serialization.named(positions, serialization.text).items():
            self._keep_lane_position(queue, lane_position)
        exchanged = ExchangeResult(
            [outcomes[position - 1] for position in refused],
            claims,
            now if damaged_members else None if next_at is None else int(next_at),
            tuple([serialization.text(name) for name in queues]),
            serialization.named(weights, int),
        )
        names = iter([serialization.text(name) for name in unknown_pairs])
        return exchanged, list(zip(names, names, strict=True))

    def _keep_lane_position(self, queue: str, lane_position: str) -> None:
        if lane_position:
            self._lane_positions[queue] = lane_position
        else:
            self._lane_positions.pop(queue, None)

    def _preferences(self, want: ClaimRequest | None, unknown_in: tuple[str, ...]) -> tuple[bytes, int]:
        if want is None:
            return b"", 0
        positions = [part for lane_position in tuple(self._lane_positions.items()) for part in lane_position]
        known = want.known
        unknown = () if known is None else tuple(name for name in sorted(known.unknown) if known.excludes(name))
        encoded = serialization.encode((want.capabilities, want.strategy, positions, unknown, unknown_in))
        return encoded, int(bool(positions or unknown_in) or want.strategy is not None)

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> RenewResult:
        self.prepare()
        at = self.at(now)
        args = (at, at + ttl, serialization.encode(worker), len(leases), *_parts(leases))
        command, lost, expiry = self.connections.run(_renew, *args, repeat=args)
        next_expiry = None if expiry is None else int(expiry)
        return RenewResult(frozenset(leases[position - 1] for position in lost), command.decode(), next_expiry)

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
        self.prepare()
        return lease_recovery.release_unknown_claims(self, worker, held, self.at(now))

    # -- workers and bells

    def register_worker(self, worker: WorkerRow) -> liveness_file.LivenessFile:
        self.prepare()
        folder = self._folder()
        try:
            held = liveness_file.LivenessFile(folder, worker.id)
        except OSError as error:
            raise EngineUnavailable(f"{folder}: {error}; workers keep their liveness files there") from error
        try:
            self.renew(worker, (), 0)
        except BaseException:
            held.close()
            raise
        return held

    def unregister_worker(self, worker_id: str) -> None:
        self.prepare()
        self.connections.command("HDEL", f"{{{self.prefix}}}:workers", worker_id)

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        self.prepare()
        return self._server_bells.listen(topic, queues)

    def ring(self, topic: str) -> None:
        self._server_bells.ring(topic)
        self.connections.command("PUBLISH", self._channel, self._sender.signed(topic))

    # -- the server

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        if now is not None:
            return now
        if self.clock is self._server_clock:
            self._server_clock.refresh()
        return self.clock.now()

    def prepare(self) -> None:
        """Check, once, that the store exists and has our version."""
        if self._store is None:
            health.refuse_old(self.connections)
            self._store = schema.open_store(self.connections, self.url)[1]

    def migrate(self, *, dry_run: bool = False) -> MigrationResult:
        if dry_run:
            return MigrationResult(schema.version_of(self.connections), schema.CURRENT, [])
        health.refuse_old(self.connections)
        before, self._store = schema.open_store(self.connections, self.url)
        return MigrationResult(before, schema.CURRENT, schema.names_since(before))

    @property
    def joined(self) -> JoinedWrites:
        raise UnsupportedByEngine(
            "Redis has no transaction that your data and your jobs could share: enqueue after your commit, or put the "
            "queue on PostgreSQL or SQLite beside your data"
        )

    def close(self) -> None:
        self._server_bells.close()
        self.connections.close()
        self._store = None  # it may be another store when it is opened again

    def _folder(self) -> Path:
        return liveness_file.local_folder(f"redis {self._store}")

    def _read_time(self) -> int:
        seconds, micros = self.connections.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


def _page_of(groups: Sequence[EventGroup], outcomes: Sequence[Outcome]) -> tuple[str, int, int, int]:
    """The page of events of an exchange, or nothing, and the number of successes in it."""
    if not groups:
        return "", 0, 0, 0
    events = page(groups)
    return events.text, events.size, events.at, sum(1 for outcome in outcomes if outcome.event is Trigger.SUCCEED)


def _used_units(outcomes: Sequence[Outcome]) -> bytes:
    """The units that outcomes report, or nothing."""
    used = [(outcome.id, outcome.version, outcome.units) for outcome in outcomes if outcome.units is not None]
    return serialization.encode(used) if used else b""


def _open_connections(address: store_url.RedisUrl) -> RedisConnections:
    try:  # deferred: only users of Redis need its client
        from headrace.engines.redis.connections import RedisConnections
    except ImportError as error:
        raise ConfigError(
            f"url {address.shown}: it needs a driver ({error}); install it: pip install 'headrace[redis]'"
        ) from None
    return RedisConnections(address)


def _claim_args(want: ClaimRequest | None) -> tuple[int, int, int, bytes]:
    if want is None:
        return 0, 0, 0, serialization.encode(())
    shares = [part for share in want.shares for part in (share.queue, share.quota)]
    return want.limit, want.lease, int(want.others), serialization.encode(shares)


def _parts(leases: Sequence[Lease]) -> tuple[bytes, bytes]:
    return serialization.encode([lease.id for lease in leases]), serialization.encode(
        [lease.version for lease in leases]
    )
