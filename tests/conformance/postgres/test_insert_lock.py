"""PostgreSQL: whoever is about to store jobs while the store moves away either is in time, or is told so.

Whoever puts up the notice waits for a caller's open transaction, and others who write queue up behind it, with what
they read before. Acted out with connections of their own, each known to wait before the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.retention.staleness import StaleAction
from headrace.engines.postgres import settle_and_claim
from headrace.engines.protocol.engine import Engine
from headrace.errors import StoreMoved
from tests.conformance.flows.dependency_builders import child, spawning
from tests.support import servers
from tests.support.builders import (
    NOW,
    claim,
    firing,
    new_job,
    row,
    schedule,
    settle,
    states,
    submit_and_claim,
    succeed,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("postgres")

MOVED = StoreStatus("moved", "redis://elsewhere/0", NOW)
T = TypeVar("T")

# By the schema of the table: other tests are at work on the same server.
WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation
WHERE relname = 'headrace_jobs' AND relnamespace = to_regnamespace(%s) AND mode = %s AND NOT granted
"""


class Door:
    """A store that somebody is about to close, as soon as a caller's transaction has ended."""

    def __init__(self, store: StoreUnderTest) -> None:
        self.engine = store.open()
        self.engine.insert([new_job("known")], now=NOW)
        claim(self.engine)
        self._store = store
        self._schema = store.address.rpartition("schema=")[2]
        self._watch = servers.postgres_connection(store.address)
        self._caller = psycopg.connect(servers._without(store.address, "schema"))
        self._worker_state = ThreadPoolExecutor(2)

    def close_behind(self, act: Callable[[Engine], T]) -> T:
        """What comes of an act that began before the store had moved, and went on after."""
        self.engine.joined.insert(self._caller, [new_job("a caller's")])
        closing = self._worker_state.submit(self.engine.transfer.set_status, MOVED)
        self._until_one_waits_for("ShareLock")
        acting = self._worker_state.submit(act, self._store.open())
        self._until_one_waits_for("RowExclusiveLock")
        self._caller.commit()
        closing.result(PATIENCE)
        return acting.result(PATIENCE)

    def _until_one_waits_for(self, mode: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._watch.execute(WAITING, [self._schema, mode]).fetchone() != (1,):
            assert time.monotonic() < deadline, f"nobody waits for a {mode}"
            time.sleep(0.005)

    def leave(self) -> None:
        self._caller.close()  # whoever still waits for it goes on
        self._worker_state.shutdown()


@pytest.fixture
def door(store: StoreUnderTest) -> Iterator[Door]:
    door = Door(store)
    yield door
    door.leave()


def test_a_success_that_leaves_jobs_behind_is_refused_with_them(door: Door) -> None:
    """It is the same as a lost lease: where the job is now it runs again, and leaves them there."""
    held = submit_and_claim(door.engine, "parent")
    outcome = spawning(held, [child("one"), new_job("two")], [Dependency("parent", "one")])
    assert door.close_behind(lambda engine: settle(engine, outcome)) == [outcome]
    assert (row(door.engine, "parent").state, row(door.engine, "parent").version) == (State.RUNNING, held.version)
    assert states(door.engine).keys() == {"known", "a caller's", "parent"}


def test_a_schedule_does_not_fire(door: Door) -> None:
    tick = schedule()
    assert door.engine.schedule_store.put(tick, new=True)
    assert door.close_behind(lambda engine: engine.schedule_store.fire([firing(tick, new_job("fired"))], now=NOW)) == [
        False
    ]
    assert door.engine.schedule_store.get() == [tick]
    assert door.engine.schedule_store.occurrences(tick.id) == []


def test_a_plant_is_refused_for_what_it_is(door: Door) -> None:
    jobs, edges = [new_job("parent"), child("one")], [Dependency("parent", "one")]
    with pytest.raises(StoreMoved, match="redis://elsewhere/0"):
        door.close_behind(lambda engine: engine.insert(jobs, edges=edges, now=NOW))
    assert states(door.engine).keys() == {"known", "a caller's"}


def test_a_job_is_not_revived_by_hand(door: Door) -> None:
    door.engine.insert([new_job("cold")], now=NOW)
    door.engine.queries.move(Filter(ids=("cold",)), Trigger.CANCEL, 1, now=NOW)
    with pytest.raises(StoreMoved, match="redis://elsewhere/0"):
        door.close_behind(lambda engine: engine.queries.move(Filter(ids=("cold",)), Trigger.REVIVE, 1, now=NOW))
    assert states(door.engine)["cold"] is State.CANCELLED


def test_nothing_is_swept_up(door: Door) -> None:
    done = submit_and_claim(door.engine, "old")
    settle(door.engine, succeed(done))
    leaving = Lease("old", row(door.engine, "old").version)
    assert door.close_behind(lambda engine: engine.retention_store.delete([leaving])) == []
    assert states(door.engine)["old"] is State.COMPLETED


def test_nothing_is_judged_by_its_age(door: Door) -> None:
    door.engine.insert([new_job("old")], now=NOW)
    judged = [StaleAction("old", 1, "dead", "pending for long", "print")]
    assert door.close_behind(lambda engine: engine.staleness_store.mark_stale(judged, now=NOW)) == [False]
    assert states(door.engine)["old"] is State.PENDING


def test_nothing_is_claimed_by_rules_after_the_look_that_saw_no_notice(
    store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, operator = store.open(), store.open()
    operator.rule_store.set_rules("default", QueueRules(concurrency=3))
    worker.insert([new_job("job")], now=NOW)
    take = settle_and_claim.claim_limited

    def take_late(*given: Any) -> settle_and_claim.ClaimResult:
        operator.transfer.set_status(MOVED)
        return take(*given)

    monkeypatch.setattr(settle_and_claim, "claim_limited", take_late)
    assert claim(worker) == []
    assert operator.transfer.store_status() == MOVED
    assert states(operator) == {"job": State.PENDING}
