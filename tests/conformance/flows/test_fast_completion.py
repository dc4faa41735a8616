"""Successes of jobs that have kin, one turn after another: what is done for all at once must be right for each."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Claim
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.conformance.flows.dependency_builders import child
from tests.support import servers
from tests.support.builders import NOW, claim, claim_one, fail, new_job, row, settle, states, succeed
from tests.support.engines import KINDS, StoreUnderTest
from tests.support.waiting import PATIENCE


def held_family(engine: Engine) -> dict[str, Claim]:
    """Four that `sum` waits for, all claimed; one of them is settled, so the engine expects more of the kind."""
    parents = ("a", "b", "c", "d")
    engine.insert([*map(new_job, parents), child("sum")], edges=[Dependency(name, "sum") for name in parents], now=NOW)
    held = {found.id: found for found in claim(engine)}
    assert settle(engine, succeed(held.pop("a"))) == []
    return held


def test_the_last_of_many_lets_the_child_run(engine: Engine) -> None:
    held = held_family(engine)
    assert settle(engine, succeed(held["b"])) == []
    assert states(engine)["sum"] is State.WAITING
    assert settle(engine, succeed(held["d"]), succeed(held["c"])) == []
    assert claim_one(engine).id == "sum"
    assert [entry.event for entry in engine.queries.details("sum").history] == [Trigger.UNBLOCK]


def test_one_that_got_something_to_wait_for_waits_and_those_beside_it_do_not(engine: Engine) -> None:
    held = held_family(engine)
    engine.insert([new_job("inner")], edges=[Dependency("inner", "b")], now=NOW)
    assert settle(engine, succeed(held["b"]), succeed(held["c"]), succeed(held["d"])) == []
    assert [states(engine)[name] for name in "bcd"] == [State.WAITING, State.COMPLETED, State.COMPLETED]
    assert [row(engine, name).version for name in "bcd"] == [held[name].version + 1 for name in "bcd"]
    assert states(engine)["sum"] is State.WAITING
    assert settle(engine, succeed(claim_one(engine))) == []
    assert states(engine)["b"] is State.COMPLETED
    assert claim_one(engine).id == "sum"


def test_turns_after_one_that_had_to_wait_are_right_as_well(engine: Engine) -> None:
    held = held_family(engine)
    for number, name in enumerate("bcd"):
        engine.insert([new_job(f"inner{number}")], edges=[Dependency(f"inner{number}", name)], now=NOW)
        assert settle(engine, succeed(held[name])) == []
        assert states(engine)[name] is State.WAITING
        assert settle(engine, succeed(claim_one(engine))) == []
        assert states(engine)[name] is State.COMPLETED
    assert claim_one(engine).id == "sum"


def test_what_is_stale_or_there_twice_is_refused_among_the_rest(engine: Engine) -> None:
    held = held_family(engine)
    assert settle(engine, succeed(held["b"])) == []
    outcomes = [succeed(held["b"]), succeed(held["c"]), succeed(held["c"]), succeed(held["d"])]
    assert sorted(refused.id for refused in settle(engine, *outcomes)) == ["b", "c"]
    assert [row(engine, name).version for name in "bcd"] == [held[name].version + 1 for name in "bcd"]
    assert claim_one(engine).id == "sum"


def test_jobs_without_kin_are_settled_in_the_same_turn(engine: Engine) -> None:
    held = held_family(engine)
    engine.insert([new_job("alone"), new_job("late")], now=NOW)
    held |= {found.id: found for found in claim(engine)}
    assert settle(engine, succeed(held["alone"]), succeed(held["b"])) == []
    assert settle(engine, succeed(held["late"])) == []
    assert [states(engine)[name] for name in ("alone", "late", "b")] == [State.COMPLETED] * 3
    assert states(engine)["sum"] is State.WAITING


def test_a_failure_between_successes_is_followed_as_agreed(engine: Engine) -> None:
    held = held_family(engine)
    assert settle(engine, succeed(held["b"]), fail(held["c"]), succeed(held["d"])) == []
    assert states(engine)["sum"] is State.CANCELLED


@pytest.mark.engines("postgres")
@pytest.mark.skipif("postgres" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES")
def test_a_success_sees_what_was_added_while_it_waited_for_the_lock(store: StoreUnderTest) -> None:
    """The statement that stores it has begun before, and can't know of it."""
    engine = store.open()
    held = held_family(engine)
    with psycopg.connect(servers._without(store.address, "schema")) as borrowed:
        engine.joined.insert(borrowed, [new_job("inner")], edges=[Dependency("inner", "b")])
        settling = threading.Thread(target=settle, args=(engine, succeed(held["b"]), succeed(held["c"])))
        settling.start()
        wait_until_blocked(store.address, borrowed.info.backend_pid)
        borrowed.commit()
        settling.join(PATIENCE)
    assert [states(engine)[name] for name in "bc"] == [State.WAITING, State.COMPLETED]
    settle(engine, succeed(held["d"]), succeed(claim_one(engine)))
    assert claim_one(engine).id == "sum"


def wait_until_blocked(address: str, holder: int) -> None:
    """Until somebody waits for a lock of this backend."""
    asking = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    deadline = time.monotonic() + PATIENCE
    while servers.postgres_connection(address).execute(asking, (holder,)).fetchone() == (0,):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.005)
