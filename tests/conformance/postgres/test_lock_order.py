"""PostgreSQL: whatever is written about several jobs at once, nobody has to be undone for it, and no renewal waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from operator import attrgetter

import psycopg
import pytest

from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.records import Lease
from headrace.core.jobs.states import Trigger
from headrace.engines.postgres import connections
from headrace.engines.postgres.engine import PostgresEngine
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    SECOND,
    claim,
    lease_of,
    new_job,
    progress,
    retry,
    row,
    settle,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("postgres")

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s) AND wait_event_type = 'Lock'"
Act = Callable[[PostgresEngine, list[Lease]], object]


def complete(engine: PostgresEngine, leases: list[Lease]) -> None:
    settle(engine, *map(succeed, leases))


def try_later(engine: PostgresEngine, leases: list[Lease]) -> None:
    settle(engine, *(retry(lease, NOW + SECOND) for lease in leases))


def note(engine: PostgresEngine, leases: list[Lease]) -> None:
    engine.exchange([], None, [progress(lease, "1") for lease in leases], now=NOW)


def wait_until_held_up(address: str, engine: PostgresEngine, acts: int) -> None:
    watch, deadline = servers.postgres_connection(address), time.monotonic() + PATIENCE
    while watch.execute(WAITING, [list(engine.server._backends.values())]).fetchone() != (acts,):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.005)


@contextmanager
def holding(store: StoreUnderTest, engine: PostgresEngine, job_id: str) -> Iterator[psycopg.Connection]:
    """Somebody else has the job for as long as this transaction lasts."""
    with closing(psycopg.connect(servers._without(store.address, "schema"))) as other:
        other.execute(f'SELECT FROM "{engine.address.schema}".headrace_jobs WHERE id = %s FOR UPDATE', [job_id])
        yield other
        other.rollback()  # closing does not wait until the server has released the lock


@pytest.fixture
def engine(store: StoreUnderTest) -> PostgresEngine:
    engine = store.open()
    assert isinstance(engine, PostgresEngine)
    engine.insert([new_job(name) for name in ("a", "middle", "z")], now=NOW)
    return engine


@pytest.mark.parametrize("act", [complete, try_later, note])
def test_an_operator_and_a_worker_who_hands_in_wait_for_each_other_in_one_order(
    store: StoreUnderTest, engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    """Both are stopped at the job in the middle: then each would have an end that the other one still wants."""
    undone: list[str] = []
    monkeypatch.setattr(connections, "_back_off", lambda: undone.append("once"))
    held = sorted(map(lease_of, claim(engine)), key=attrgetter("id"), reverse=True)
    with ThreadPoolExecutor(2) as worker_state, holding(store, engine, "middle") as other:
        moved = worker_state.submit(engine.queries.move, EVERYTHING, Trigger.CANCEL, 10, now=NOW)
        wait_until_held_up(store.address, engine, 1)
        handed_in = worker_state.submit(act, engine, held)
        wait_until_held_up(store.address, engine, 2)
        other.commit()
        assert len(moved.result(PATIENCE)) == 3
        handed_in.result(PATIENCE)
    assert undone == []


def test_a_renewal_waits_for_nobody_and_gives_nothing_up(store: StoreUnderTest, engine: PostgresEngine) -> None:
    held = [lease_of(each) for each in claim(engine)]
    later = NOW + LEASE // 2
    with ThreadPoolExecutor(1) as worker_state, holding(store, engine, "middle"):
        renewal = worker_state.submit(engine.renew, worker_row(), held, LEASE, now=later)
        assert renewal.result(PATIENCE).lost == frozenset()
        until = {name: row(engine, name).lease_until for name in ("a", "middle", "z")}
    assert until == {"a": later + LEASE, "middle": NOW + LEASE, "z": later + LEASE}
    assert engine.renew(worker_row(), held, LEASE, now=later).lost == frozenset()
    assert row(engine, "middle").lease_until == later + LEASE


@pytest.mark.parametrize("rules", [QueueRules(), QueueRules(concurrency=5)], ids=["without rules", "with a limit"])
def test_a_claim_that_passes_over_locked_jobs_is_made_again_soon(
    store: StoreUnderTest, engine: PostgresEngine, rules: QueueRules
) -> None:
    """Nobody rings when somebody who had locked a job leaves it as it was."""
    engine.rule_store.set_rules("default", rules)
    with holding(store, engine, "a"):
        answer = engine.exchange([], want(10), now=NOW)
        assert sorted(job.id for job in answer.claims) == ["middle", "z"]
        again = engine.exchange([], want(10), now=NOW)
        assert (again.claims, again.next_at) == ([], NOW + 1000)
    assert [job.id for job in engine.exchange([], want(10), now=NOW).claims] == ["a"]
    assert engine.exchange([], want(10), now=NOW).next_at is None
