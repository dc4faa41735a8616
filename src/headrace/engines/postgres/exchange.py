"""One exchange of a worker: settles and claims, in as few round trips as possible.

A small exchange is one commit. In a large one the server's own work takes longest, so two backends share it: one
settles while the other claims. The two are independent, and each is atomic.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from headrace.core.events.log import EventGroup
from headrace.core.jobs.records import ClaimRequest, ExchangeResult, JobNote, Outcome
from headrace.core.jobs.states import Trigger
from headrace.engines.postgres import settle_and_claim
from headrace.engines.postgres.connections import Connection, ConnectionPool
from headrace.engines.postgres.settle_and_claim import ClaimResult, SettleResult
from headrace.engines.postgres.transaction import PostgresTransaction
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import lease_recovery
from headrace.engines.sql.dependencies import MustWaitForChildren, Wakeups

T = TypeVar("T")
_MANY = 50  # jobs settled and claimed that are worth a thread


class Exchange:
    """Executes exchanges."""

    def __init__(self, server: ConnectionPool, sql: Mapping[str, str], channel: str) -> None:
        self._server = server
        self._sql = sql
        self._channel = channel
        self._cursors: dict[str, str] = {}
        self._has_rules = False
        self._has_dependencies = False
        self._some_wait = False

    def __call__(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote],
        now: int,
        groups: Sequence[EventGroup] = (),
    ) -> tuple[ExchangeResult, set[str]]:
        """The result, and the topics to ring in this process."""
        worker = want.worker if want else None

        def settle(db: Connection, check_children: bool) -> SettleResult:
            return self._settle(db, outcomes, worker, notes, now, groups, check_children)

        def settle_alone() -> SettleResult:
            if notes or self._has_dependencies or any(outcome.event is not Trigger.SUCCEED for outcome in outcomes):
                return self._transact(settle)
            return self._complete(outcomes, worker, now, groups)

        if want is None or want.limit <= 0:
            settled = settle_alone()
            return ExchangeResult(settled.refused, []), self._topics(outcomes, settled)

        def claim(db: Connection) -> ClaimResult:
            return settle_and_claim.claim(db, self._sql, self._channel, want, now)

        if min(len(outcomes), want.limit) >= _MANY:
            settled, taken = _in_parallel(settle_alone, lambda: self._server.run(claim))
            if settled.effects.work:  # too late for this claim
                taken = taken._replace(due=now)
        elif outcomes or notes or groups:
            settled, taken = self._transact(lambda db, check_children: (settle(db, check_children), claim(db)))
        else:
            settled, taken = SettleResult([], Wakeups()), self._server.run(claim)
        answer = self._claimed(want, taken, settled, now)
        return answer, self._topics(outcomes, settled)

    def _transact(self, act: Callable[[Connection, bool], T]) -> T:
        """Try the optimistic way, unless a success had open children lately; repeat with checks if one has."""
        try:
            return self._server.transact(lambda db: act(db, self._some_wait))
        except MustWaitForChildren:
            return self._server.transact(lambda db: act(db, True))

    def _settle(
        self,
        db: Connection,
        outcomes: Sequence[Outcome],
        worker: str | None,
        notes: Sequence[JobNote],
        now: int,
        groups: Sequence[EventGroup],
        check_children: bool,
    ) -> SettleResult:
        tx = PostgresTransaction(db, self._sql, self._channel)
        if self._has_dependencies:
            tx.fetch("share_dependencies")
        settle_and_claim.note(tx, notes)
        if self._may_unblock(outcomes):
            tx.fetch("ring", messages=as_json(["work"]), channel=self._channel)
        optimistic = (
            self._has_dependencies and outcomes and not check_children and all(map(settle_and_claim.is_plain, outcomes))
        )
        settle = settle_and_claim.settle_optimistic if optimistic else settle_and_claim.settle
        return settle(tx, outcomes, worker, self._channel, now, groups)

    def _claimed(self, want: ClaimRequest, taken: ClaimResult, settled: SettleResult, now: int) -> ExchangeResult:
        """The result of a claim, after expired jobs were cancelled and limits checked."""
        if settle_and_claim.is_past(taken.next_expiry, now):
            expired, effects = self._server.transact(lambda db: self._cancel_expired(db, now))
            settled.effects.add(effects)
            if expired == settle_and_claim.DUE_BATCH_SIZE:
                # Too many for one commit: claim again for the rest.
                return ExchangeResult(settled.refused, [], now, taken.queues, taken.snapshot.weights)
            again = functools.partial(settle_and_claim.claim, sql=self._sql, channel=self._channel, want=want, now=now)
            taken = self._server.run(lambda db: again(db, after_expiry=True))
        taken = self._claim_under_limits(want, taken, now)
        return ExchangeResult(settled.refused, taken.claims, taken.due, taken.queues, taken.snapshot.weights)

    def _complete(
        self, outcomes: Sequence[Outcome], worker: str | None, now: int, groups: Sequence[EventGroup]
    ) -> SettleResult:
        """Nearly always one statement settles everything, without a transaction around it."""

        def tx(db: Connection) -> PostgresTransaction:
            return PostgresTransaction(db, self._sql, self._channel)

        left, effects = self._server.run(lambda db: settle_and_claim.complete(tx(db), outcomes, self._channel, groups))
        if not left:
            return SettleResult([], effects)

        def settle_with_dependencies(db: Connection) -> SettleResult:
            tx(db).fetch("share_dependencies")
            return settle_and_claim.settle_with_dependencies(tx(db), left, worker, self._channel, now, groups)

        rest = self._server.transact(settle_with_dependencies)
        rest.effects.add(effects)
        return rest

    def _topics(self, outcomes: Sequence[Outcome], settled: SettleResult) -> set[str]:
        """The topics to ring."""
        topics = {*settle_and_claim.topics_of(outcomes), *settled.effects.topics()}
        if outcomes:
            self._has_dependencies, self._some_wait = settled.had_dependencies, settled.some_wait
        return topics | {"work"} if self._may_unblock(outcomes) else topics

    def _may_unblock(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether another worker's job may start because of these; for successes the store knows more precisely."""
        return self._has_rules and any(outcome.event is not Trigger.SUCCEED for outcome in outcomes)

    def _claim_under_limits(self, want: ClaimRequest, taken: ClaimResult, now: int) -> ClaimResult:
        """Claim from the queues with limits; the capacity that is left goes to the others."""
        self._has_rules = taken.snapshot.has_rules
        if not settle_and_claim.needs_limits(want, taken):
            return taken
        taken = self._server.transact(lambda db: self._claim_limited(db, want, taken, now))
        if len(taken.claims) == want.limit:
            return taken
        return self._server.run(lambda db: settle_and_claim.claim_remaining(db, self._sql, want, taken, now))

    def _claim_limited(self, db: Connection, want: ClaimRequest, taken: ClaimResult, now: int) -> ClaimResult:
        tx = PostgresTransaction(db, self._sql, self._channel)
        # A copy: additions must be undone if the transaction is repeated.
        return settle_and_claim.claim_limited(tx, want, taken._replace(claims=[*taken.claims]), self._cursors, now)

    def _cancel_expired(self, db: Connection, now: int) -> tuple[int, Wakeups]:
        tx = PostgresTransaction(db, self._sql, self._channel)
        tx.fetch("lock_dependencies")
        expired, effects = lease_recovery.cancel_expired(tx, now, settle_and_claim.DUE_BATCH_SIZE)
        if topics := effects.topics():
            tx.run("ring", messages=as_json(topics), channel=self._channel)
        return expired, effects


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
