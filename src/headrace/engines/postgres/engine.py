"""The PostgreSQL engine's hot path: insert, exchange, renew, reap.

Each method is one transaction; insert is even one statement. Claims SKIP what others have LOCKED, settles are by id
and version alone, and workers are called by NOTIFY, which the server delivers with the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psycopg

from headrace.core.clock import Clock
from headrace.core.model import Claim, Exchanged, Lease, NewJob, Note, Outcome, Reaped, Renewal, Want, WorkerRow
from headrace.core.states import Event, State
from headrace.engines import presence
from headrace.engines.clock import StoreClock
from headrace.engines.postgres import health, schema
from headrace.engines.postgres.address import Address
from headrace.engines.postgres.joined import PostgresJoined, Reception
from headrace.engines.postgres.ledger import PostgresLedger, storable
from headrace.engines.postgres.line import NotifyLine
from headrace.engines.postgres.server import Connection, ConnectionLost, Server
from headrace.engines.postgres.statements import statements_in
from headrace.engines.protocol import Bell, Joined
from headrace.engines.relational import reaper
from headrace.engines.relational.desk import SqlDesk
from headrace.engines.relational.ledger import Ledger
from headrace.engines.relational.porter import SqlPorter
from headrace.engines.relational.records import Completion
from headrace.engines.sql import as_json
from headrace.engines.tower import Tower
from headrace.errors import DuplicateJob, SchemaMismatch, StoreMoved

T = TypeVar("T")
_names = msgspec.json.Decoder(list[str])
_leases = msgspec.json.Decoder(list[Lease])
_BATCH_OF_TIME = 5000
# The order of a claim, from the least to the most significant: the database returns rows as they lie.
_RANK_AND_SEQ, _PRIORITY = itemgetter(-1, 1), itemgetter(4)


class PostgresEngine:
    """Jobs in the tables of one schema."""

    def __init__(self, url: str, *, auto_migrate: bool = True, clock: Clock | None = None) -> None:
        self.address = Address(url)
        self.url = str(self.address)
        self.server = Server(self.address)
        self.sql = statements_in(self.address.schema)
        self._server_clock = StoreClock(self._ask_time)
        self.clock: Clock = clock or self._server_clock
        self.desk = SqlDesk(self)
        self.porter = SqlPorter(self)
        self._channel = f"headrace_{self.address.schema}"
        self._reception = Reception(self, self._channel)
        self._tower = Tower(
            lambda: NotifyLine(self.server, self._channel), self.address.poll if self.address.pooler else None
        )
        self._auto_migrate = auto_migrate
        self._known_queues: set[str] = set()
        self._ready = False

    # -- the hot path

    def insert(self, jobs: Sequence[NewJob], *, whole: bool = False, now: int | None = None) -> list[bool]:
        self.prepare()
        at = self.at(now)
        try:
            fresh = self._insert(jobs, whole, at)
        except ConnectionLost:  # perhaps just after the commit: then the jobs are there, and they are ours
            mine = self._mine(jobs)
            left = [job for job in jobs if job.id not in mine]
            others = iter(self._insert(left, whole, at) if left else ())
            fresh = [True if job.id in mine else next(others) for job in jobs]
        for queue in {job.queue for job in jobs}:
            self._tower.ring(f"work:{queue}")
        return fresh

    def _insert(self, jobs: Sequence[NewJob], whole: bool, now: int) -> list[bool]:
        values = {"j": storable(as_json(jobs)), "expected": len(jobs), "channel": self._channel}
        sql = self.sql["insert_whole" if whole else "insert"]
        names = {job.queue for job in jobs}
        try:
            if names <= self._known_queues:
                added = self.server.run(lambda db: _scalar(db, sql, values))
            else:
                added = self.server.transact(lambda db: self._insert_with_queues(db, sql, values, names, now))
                self._known_queues |= names
        except psycopg.errors.UniqueViolation:
            raise DuplicateJob(self._first_taken(jobs)) from None
        if added is None:
            return [True] * len(jobs)
        self._refuse_if_moved()
        return _first_of_each(jobs, set(_names.decode(added)))

    def _insert_with_queues(self, db: Connection, sql: str, values: dict[str, Any], names: set[str], now: int) -> Any:
        db.execute(self.sql["add_queues"], {"names": storable(as_json(sorted(names))), "now": now})
        return _scalar(db, sql, values)

    def _mine(self, jobs: Sequence[NewJob]) -> set[str]:
        values = {"j": storable(as_json(jobs))}
        return set(_names.decode(self.server.repeat(lambda db: _scalar(db, self.sql["mine"], values))))

    def _first_taken(self, jobs: Sequence[NewJob]) -> str:
        seen = set(_names.decode(self.read(lambda ledger: ledger.ask("taken", ids=as_json([job.id for job in jobs])))))
        for job in jobs:
            if job.id in seen:
                return job.id
            seen.add(job.id)
        return jobs[0].id

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: Want | None,
        notes: Sequence[Note] = (),
        now: int | None = None,
    ) -> Exchanged:
        self.prepare()
        at = self.at(now)

        def turn(db: Connection) -> tuple[Exchanged, list[str]]:
            ledger = PostgresLedger(db, self.sql)
            _note(ledger, notes)
            refused = _settle(ledger, outcomes, want.worker if want else None, at) if outcomes else []
            answer, lapsed = self._claim(db, want, at) if want and want.limit > 0 else (Exchanged([], []), False)
            topics = _topics(outcomes, lapsed)
            self._call(db, topics)
            return msgspec.structs.replace(answer, refused=refused) if refused else answer, topics

        answer, topics = self.server.transact(turn)
        for topic in topics:
            self._tower.ring(topic)
        return answer

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> Renewal:
        at = self.at(now)

        def beat(ledger: Ledger) -> Renewal:
            wish = ledger.ask("attend", w=as_json([worker]))
            lost: frozenset[Lease] = frozenset()
            if leases:
                held = as_json(leases)
                if ledger.run("renew", lease=held, now=at, until=at + ttl) != len(leases):
                    lost = frozenset(_leases.decode(ledger.ask("lost", lease=held, now=at)))
            return Renewal(lost, wish)

        return self.write(beat)

    def reap(self, limit: int, now: int | None = None) -> list[Reaped]:
        self.prepare()
        folder = self._folder()
        dead = presence.find_dead(folder)
        reaped = reaper.reap(self, dead, limit, self.at(now))
        if len(reaped) < limit:
            for worker_id in dead:
                presence.bury(folder, worker_id)
        if any(job.state is State.PENDING for job in reaped):
            self.ring("work")
        if any(job.state is State.FAILED for job in reaped):
            self.ring("done")
        return reaped

    def disown(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        given_back = reaper.disown(self, worker, held, self.at(now))
        if given_back:
            self.ring("work")
        return given_back

    def joined(self, connection: Any) -> Joined:
        return PostgresJoined(self._reception, self.url, connection)

    # -- claiming

    def _claim(self, db: Connection, want: Want, now: int) -> tuple[Exchanged, bool]:
        """What was claimed, and whether jobs lapsed on the way: somebody may be waiting for them."""
        due, lapses, names = _row(db, self.sql["horizon"])
        queues = tuple(_names.decode(names))
        lapsed = _is_past(lapses, now)
        if lapsed:
            reaper.lapse(PostgresLedger(db, self.sql), now, _BATCH_OF_TIME)
            due, lapses, _ = _row(db, self.sql["horizon"])
            if _is_past(lapses, now):  # more than one commit should hold: none of the rest may start, so come again
                return Exchanged([], [], now, queues), True
        if _is_past(due, now):
            db.execute(self.sql["promote"], {"now": now, "limit": _BATCH_OF_TIME})
            due = _row(db, self.sql["horizon"])[0]
        return Exchanged([], self._take(db, want, queues, now), due, queues), lapsed

    def _take(self, db: Connection, want: Want, queues: tuple[str, ...], now: int) -> list[Claim]:
        """First every queue up to its share, then, if room is left, whoever has more."""
        values = {"worker": want.worker, "now": now, "until": now + want.lease}
        quotas = _within(want.limit, [(share.queue, share.quota) for share in want.shares if share.queue in queues])
        claims = self._claimed(db, [(queue, quota) for queue, quota in quotas.items() if quota], values)
        counts = Counter([claim.queue for claim in claims])
        for queue in dict.fromkeys((*quotas, *(queues if want.others else ()))):
            room = want.limit - len(claims)
            if room > 0 and counts[queue] == quotas.get(queue, 0):  # not one that gave less than it was asked for
                claims += self._claimed(db, [(queue, room)], values)
        return claims

    def _claimed(self, db: Connection, shares: list[tuple[str, int]], values: dict[str, Any]) -> list[Claim]:
        if not shares:
            return []
        # Not prepared: a plan that does not know the limit sorts the whole queue.
        rows = db.execute(self.sql["claim"], {**values, "shares": as_json(shares)}, prepare=False).fetchall()
        rows.sort(key=_RANK_AND_SEQ)
        rows.sort(key=_PRIORITY, reverse=True)
        if len(shares) > 1:
            turn = {queue: number for number, (queue, _) in enumerate(shares)}
            rows.sort(key=lambda row: turn[row[3]])
        return [Claim(*row[:-1]) for row in rows]

    # -- workers and bells

    def attend(self, worker: WorkerRow) -> presence.LockedPresence:
        self.prepare()
        held = presence.LockedPresence(self._folder(), worker.id, worker.concurrency)
        self.renew(worker, (), 0)
        return held

    def sign_off(self, worker_id: str) -> None:
        self.write(lambda ledger: ledger.run("sign_off", ids=as_json([worker_id])))

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        self.prepare()
        return self._tower.listen(topic, queues)

    def ring(self, topic: str) -> None:
        self.server.repeat(lambda db: self._call(db, [topic]))
        self._tower.ring(topic)

    def _call(self, db: Connection, messages: Sequence[str]) -> None:
        if messages:
            db.execute(self.sql["ring"], {"channel": self._channel, "messages": as_json(messages)})

    # -- transactions by the names of their statements

    def write(self, act: Callable[[Ledger], T]) -> T:
        self.prepare()
        return self.server.transact(lambda db: act(PostgresLedger(db, self.sql)))

    def read(self, act: Callable[[Ledger], T]) -> T:
        self.prepare()
        return self.server.repeat(lambda db: act(PostgresLedger(db, self.sql)))

    # -- the store as a whole

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        if now is not None:
            return now
        if self.clock is self._server_clock:
            self._server_clock.keep_right()
        return self.clock.now()

    def _ask_time(self) -> int:
        return int(self.server.repeat(lambda db: _scalar(db, self.sql["clock"])))

    def prepare(self) -> None:
        """Make sure, once, that the tables are there and of our version."""
        if self._ready:
            return
        version, needs = self.server.repeat(lambda db: schema.version_of(db, self.address.schema))
        schema.refuse_newer(version, needs, self.url)
        if version < schema.CURRENT:
            if version and not self._auto_migrate:
                raise SchemaMismatch(
                    f"{self.url} has tables of version {version}, this headrace needs {schema.CURRENT}; "
                    "run `headrace migrate`"
                )
            self.migrate()
        self._identity = str(self.server.repeat(lambda db: _scalar(db, self.sql["identity"])))
        self._ready = True

    def _folder(self) -> Path:
        """Where the workers of this host that serve this store meet."""
        return presence.local_folder(self._identity)

    def _refuse_if_moved(self) -> None:
        notice = self.porter.notice()
        if notice is not None and notice.kind == "moved":
            raise StoreMoved(notice.other)

    def schema(self) -> tuple[int, int]:
        return self.server.repeat(lambda db: schema.version_of(db, self.address.schema))[0], schema.CURRENT

    def migrate(self) -> list[str]:
        now = self.at(None)
        return self.server.transact(lambda db: schema.migrate(db, self.address.schema, self.url, now))

    def check(self) -> list[str]:
        self.prepare()
        return self.server.repeat(lambda db: health.findings(db, self.address))

    def facts(self) -> dict[str, str | int]:
        self.prepare()
        return self.server.repeat(lambda db: health.facts(db, self.address))

    def disconnect(self) -> None:
        self._tower.close()
        self.server.close()

    def close(self) -> None:
        self.disconnect()
        self._ready = False  # the tables may be others when it is used again
        self._known_queues.clear()
        self._reception.forget()


def _row(db: Connection, sql: str, values: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return row


def _scalar(db: Connection, sql: str, values: Mapping[str, Any] | None = None) -> Any:
    return _row(db, sql, values)[0]


def _first_of_each(jobs: Sequence[NewJob], added: set[str]) -> list[bool]:
    fresh = []
    for job in jobs:
        fresh.append(job.id in added)
        added.discard(job.id)
    return fresh


def _note(ledger: Ledger, notes: Sequence[Note]) -> None:
    progress = {(note.id, note.version): note for note in notes if note.progress is not None}  # the last of each
    if progress:
        ledger.run("note_progress", n=as_json(list(progress.values())))
    if lines := [note for note in notes if note.message is not None]:
        ledger.run("note_logs", n=as_json(lines))


def _settle(ledger: Ledger, outcomes: Sequence[Outcome], worker: str | None, now: int) -> list[Outcome]:
    """Settle what is not stale; file and return what is."""
    first, again = _first_and_again(outcomes)
    done = [o for o in first if o.event is Event.SUCCEED]
    applied = _complete(ledger, done) if done else set()
    if len(done) < len(first):
        unusual = [o for o in first if o.event is not Event.SUCCEED]
        applied |= set(_leases.decode(ledger.ask("settle", o=as_json(unusual))))
    if len(applied) == len(outcomes):
        return []
    stale = [*again, *(o for o in first if Lease(o.id, o.version) not in applied)]
    ledger.run("file_stale", o=as_json(stale), now=now, worker=worker)
    return stale


def _first_and_again(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Those that are the first of their claim, and the rest: a second settle of one claim is stale."""
    first: dict[tuple[str, int], Outcome] = {}
    again = []
    for outcome in outcomes:
        if (outcome.id, outcome.version) in first:
            again.append(outcome)
        else:
            first[outcome.id, outcome.version] = outcome
    return list(first.values()), again


def _complete(ledger: Ledger, outcomes: list[Outcome]) -> set[Lease]:
    done = [Completion(o.id, o.version, o.result, o.result_checksum, o.finished_at) for o in outcomes]
    applied = ledger.ask("complete", o=as_json(done), expected=len(done))
    return {Lease(o.id, o.version) for o in outcomes} if applied is None else set(_leases.decode(applied))


def _within(limit: int, shares: list[tuple[str, int]]) -> dict[str, int]:
    """The shares, cut where they exceed the limit; a queue named twice has both."""
    granted: dict[str, int] = {}
    for queue, quota in shares:
        room = limit - sum(granted.values())
        granted[queue] = granted.get(queue, 0) + max(min(quota, room), 0)
    return granted


def _topics(outcomes: Sequence[Outcome], lapsed: bool) -> list[str]:
    """Whom a turn concerns beside its own worker."""
    topics = []
    if lapsed or any(outcome.finished_at is not None for outcome in outcomes):
        topics.append("done")
    if any(outcome.state is State.PENDING for outcome in outcomes):
        topics.append("work")
    return topics


def _is_past(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now
