"""One exchange of a worker: settles and claims, in as few round trips as possible.

Two tables say which path is taken when: `EXCHANGES` for the exchange as a whole, `SETTLES` for its outcomes in a
transaction. The first path that fits is taken. The choice depends on the batch and on what earlier exchanges met; it
decides about speed alone, never about the result.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from msgspec import Struct

from headrace.core.events.log import EventGroup
from headrace.core.jobs.records import ClaimRequest, ExchangeResult, JobNote, Outcome
from headrace.engines.postgres import settle_and_claim
from headrace.engines.postgres.connections import Connection, ConnectionPool
from headrace.engines.postgres.settle_and_claim import SUCCEED, ClaimResult, SettleContext, SettleResult
from headrace.engines.postgres.transaction import PostgresTransaction
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import lease_recovery
from headrace.engines.sql.dependencies import MustWaitForChildren, Wakeups
from headrace.engines.sql.rate_buckets import charge_used_units

T = TypeVar("T")
_MANY = 50  # jobs settled and claimed that are worth a thread
_MOST_NUMBERS = 100_000  # remembered; those of claims that others settled are never asked for


class ExchangeBatch(NamedTuple):
    """What one exchange has to do."""

    outcomes: Sequence[Outcome]
    want: ClaimRequest | None
    notes: Sequence[JobNote]
    now: int
    groups: Sequence[EventGroup]

    @property
    def worker(self) -> str | None:
        return self.want.worker if self.want else None

    @property
    def limit(self) -> int:
        """How many jobs to claim."""
        return self.want.limit if self.want else 0

    @property
    def settles(self) -> bool:
        return bool(self.outcomes or self.notes or self.groups)

    @property
    def only_successes(self) -> bool:
        return not self.notes and all(outcome.event is SUCCEED and outcome.units is None for outcome in self.outcomes)


class ExchangeHints(Struct):
    """What the last exchanges met: whether rules or limits exist, whether a settled job had dependencies, and whether a
    success had to wait for its children. A wrong hint costs a repetition."""

    has_rules: bool = False
    has_dependencies: bool = False
    some_wait: bool = False


class ExchangePath(NamedTuple):
    """A way to execute an exchange, and when it is taken."""

    name: str
    when: Callable[[ExchangeBatch], bool]
    run: Callable[[Exchange, ExchangeBatch], tuple[SettleResult, ClaimResult | None]]


class SettlePath(NamedTuple):
    """A way to settle outcomes inside a transaction, and when it is taken."""

    name: str
    when: Callable[[ExchangeBatch, ExchangeHints], bool]
    settle: Callable[..., SettleResult]


class Exchange:
    """Executes exchanges."""

    def __init__(self, server: ConnectionPool, sql: Mapping[str, str], channel: str) -> None:
        self._server = server
        self._sql = sql
        self._channel = channel
        self._cursors: dict[str, str] = {}
        self._hints = ExchangeHints()
        self._numbers: dict[str, int] = {}  # of claimed jobs: their outcomes need no lookup by id

    def __call__(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote],
        now: int,
        groups: Sequence[EventGroup] = (),
    ) -> tuple[ExchangeResult, set[str]]:
        """The result, and the topics to ring in this process."""
        batch = ExchangeBatch(outcomes, want, notes, now, groups)
        path = next(path for path in EXCHANGES if path.when(batch))
        settled, taken = path.run(self, batch)
        if want is None or taken is None:
            answer = ExchangeResult(settled.refused, [])
        else:
            answer = self._claimed(want, taken, settled, now)
        self._remember_numbers(outcomes, answer)
        return answer, self._topics(outcomes, settled)

    def _remember_numbers(self, outcomes: Sequence[Outcome], answer: ExchangeResult) -> None:
        for outcome in outcomes:
            self._numbers.pop(outcome.id, None)
        if len(self._numbers) > _MOST_NUMBERS:
            self._numbers.clear()
        self._numbers.update([(claim.id, claim.ref) for claim in answer.claims])

    def _context(self, batch: ExchangeBatch) -> SettleContext:
        return SettleContext(self._channel, batch.groups, self._numbers)

    # -- the paths of an exchange

    def _settle_only(self, batch: ExchangeBatch) -> tuple[SettleResult, None]:
        return self._settle_alone(batch), None

    def _claim_only(self, batch: ExchangeBatch) -> tuple[SettleResult, ClaimResult]:
        return SettleResult([], Wakeups()), self._server.run(lambda db: self._claim(db, batch))

    def _both_at_once(self, batch: ExchangeBatch) -> tuple[SettleResult, ClaimResult]:
        """Both in a commit of their own, each in a server process of its own: the two are independent."""
        settled, taken = _in_parallel(
            lambda: self._settle_alone(batch), lambda: self._server.run(lambda db: self._claim(db, batch))
        )
        if settled.effects.work:  # too late for this claim
            taken = taken._replace(due=batch.now)
        return settled, taken

    def _both_in_one_commit(self, batch: ExchangeBatch) -> tuple[SettleResult, ClaimResult]:
        return self._transact(lambda db, hints: (self._settle(db, batch, hints), self._claim(db, batch)))

    def _claim(self, db: Connection, batch: ExchangeBatch) -> ClaimResult:
        assert batch.want is not None
        return settle_and_claim.claim(db, self._sql, self._channel, batch.want, batch.now)

    # -- settle

    def _settle_alone(self, batch: ExchangeBatch) -> SettleResult:
        """Nearly always one statement settles everything, without a transaction around it."""
        if self._hints.has_dependencies or not batch.only_successes:
            return self._transact(lambda db, hints: self._settle(db, batch, hints))

        left, effects = self._server.run(
            lambda db: settle_and_claim.complete(self._tx(db), batch.outcomes, self._context(batch))
        )
        if not left:
            return SettleResult([], effects)

        def settle_rest(db: Connection) -> SettleResult:
            tx = self._tx(db)
            tx.fetch("share_dependencies")
            return settle_and_claim.settle_with_dependencies(tx, left, batch.worker, self._context(batch), batch.now)

        rest = self._server.transact(settle_rest)
        rest.effects.add(effects)
        return rest

    def _transact(self, act: Callable[[Connection, ExchangeHints], T]) -> T:
        """Call it in a transaction; again, with a better hint, if a success has to wait for children."""
        hints = ExchangeHints(self._hints.has_rules, self._hints.has_dependencies, self._hints.some_wait)
        try:
            return self._server.transact(lambda db: act(db, hints))
        except MustWaitForChildren:
            hints.some_wait = True
            return self._server.transact(lambda db: act(db, hints))

    def _settle(self, db: Connection, batch: ExchangeBatch, hints: ExchangeHints) -> SettleResult:
        tx = self._tx(db)
        if hints.has_dependencies:
            tx.fetch("share_dependencies")
        settle_and_claim.note(tx, batch.notes)
        charge_used_units(tx, batch.outcomes, batch.now)
        if self._may_unblock(batch.outcomes):
            tx.fetch("ring", messages=as_json(["work"]), channel=self._channel)
        path = next(path for path in SETTLES if path.when(batch, hints))
        return path.settle(tx, batch.outcomes, batch.worker, self._context(batch), batch.now)

    def _topics(self, outcomes: Sequence[Outcome], settled: SettleResult) -> set[str]:
        """The topics to ring."""
        topics = {*settle_and_claim.topics_of(outcomes), *settled.effects.topics()}
        if outcomes:
            self._hints.has_dependencies, self._hints.some_wait = settled.had_dependencies, settled.some_wait
        return topics | {"work"} if self._may_unblock(outcomes) else topics

    def _may_unblock(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether another worker's job may start because of these; for successes the store knows more precisely."""
        return self._hints.has_rules and any(outcome.event is not SUCCEED for outcome in outcomes)

    # -- claim

    def _claimed(self, want: ClaimRequest, taken: ClaimResult, settled: SettleResult, now: int) -> ExchangeResult:
        """The result of a claim, after expired jobs were cancelled and limits checked."""
        if settle_and_claim.is_past(taken.next_expiry, now):
            expired, effects = self._server.transact(lambda db: self._cancel_expired(db, now))
            settled.effects.add(effects)
            if expired == settle_and_claim.DUE_BATCH_SIZE:
                # Too many for one commit: claim again for the rest.
                return ExchangeResult(settled.refused, [], now, tuple(taken.queues), taken.snapshot.weights)
            again = functools.partial(settle_and_claim.claim, sql=self._sql, channel=self._channel, want=want, now=now)
            taken = self._server.run(lambda db: again(db, after_expiry=True))
        taken = self._claim_under_limits(want, taken, now)
        return ExchangeResult(settled.refused, taken.claims, taken.due, tuple(taken.queues), taken.snapshot.weights)

    def _claim_under_limits(self, want: ClaimRequest, taken: ClaimResult, now: int) -> ClaimResult:
        """Claim from the queues with limits; the capacity that is left goes to the others."""
        self._hints.has_rules = taken.snapshot.has_rules
        if not settle_and_claim.needs_limits(want, taken):
            return taken
        taken = self._server.transact(lambda db: self._claim_limited(db, want, taken, now))
        if len(taken.claims) == want.limit:
            return taken
        return self._server.run(lambda db: settle_and_claim.claim_remaining(db, self._sql, want, taken, now))

    def _claim_limited(self, db: Connection, want: ClaimRequest, taken: ClaimResult, now: int) -> ClaimResult:
        # A copy: additions must be undone if the transaction is repeated.
        taken = taken._replace(claims=[*taken.claims])
        tx = self._tx(db)
        if taken.unknown:  # the claim before had locked their jobs: a worker that knows them may have skipped them
            tx.run("ring", messages=as_json(["work"]))
        return settle_and_claim.claim_limited(tx, want, taken, self._cursors, now)

    def _cancel_expired(self, db: Connection, now: int) -> tuple[int, Wakeups]:
        tx = self._tx(db)
        tx.fetch("lock_dependencies")
        expired, effects = lease_recovery.cancel_expired(tx, now, settle_and_claim.DUE_BATCH_SIZE)
        if topics := effects.topics():
            tx.run("ring", messages=as_json(topics), channel=self._channel)
        return expired, effects

    def _tx(self, db: Connection) -> PostgresTransaction:
        return PostgresTransaction(db, self._sql, self._channel)


EXCHANGES = (
    # Nothing to combine.
    ExchangePath("settle only", lambda batch: batch.limit <= 0, Exchange._settle_only),
    # The server's own work takes longest: two of its processes share it.
    ExchangePath("both at once", lambda batch: min(len(batch.outcomes), batch.limit) >= _MANY, Exchange._both_at_once),
    # One wait for the disk instead of two.
    ExchangePath("both in one commit", lambda batch: batch.settles, Exchange._both_in_one_commit),
    # No BEGIN and COMMIT.
    ExchangePath("claim only", lambda batch: True, Exchange._claim_only),
)

SETTLES = (
    # Jobs of flows: complete all, decide their dependents afterwards; roll back if a success has to wait for children.
    SettlePath(
        "optimistic",
        lambda batch, hints: (
            hints.has_dependencies
            and not hints.some_wait
            and len(batch.outcomes) > 0
            and all(map(settle_and_claim.is_plain, batch.outcomes))
        ),
        settle_and_claim.settle_optimistic,
    ),
    SettlePath("checked", lambda batch, hints: True, settle_and_claim.settle),
)


def _in_parallel(first: Callable[[], T], second: Callable[[], ClaimResult]) -> tuple[T, ClaimResult]:
    """Run both at once; when this returns or raises, both have ended."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(first())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="headrace-settle", daemon=True)
    thread.start()
    try:
        answer = second()
    finally:
        thread.join()
    return future.result(), answer
