"""What a success leaves behind, where something of it can't be: the success itself is never in danger."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Claim, NewJob, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from tests.support.builders import HOUR, NOW, claim, claim_one, fail, new_job, row, settle, states, succeed
from tests.support.engines import KINDS, StoreUnderTest


def leaving(claimed: Claim, jobs: list[NewJob], edges: list[Dependency]) -> Outcome:
    """A success that spawns these."""
    return Outcome(
        claimed.id,
        claimed.version,
        Trigger.SUCCEED,
        State.COMPLETED,
        NOW,
        finished_at=NOW,
        spawned=tuple(jobs),
        edges=tuple(edges),
    )


def test_a_job_left_behind_that_waits_for_one_that_is_gone_runs(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    held = claim_one(engine)
    left = new_job("left", state=State.WAITING)
    assert settle(engine, leaving(held, [left], [Dependency("left", "a"), Dependency("gone", "left")])) == []
    assert claim_one(engine).id == "left"
    assert states(engine)["a"] is State.WAITING


def test_others_of_the_turn_are_settled_though_one_of_them_gets_a_child_by_it(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b"), new_job("c")], now=NOW)
    held = {found.id: found for found in claim(engine)}
    left = new_job("left", state=State.WAITING)
    outcomes = [leaving(held["a"], [left], [Dependency("left", "a"), Dependency("b", "left")]), succeed(held["b"])]
    assert settle(engine, *outcomes, succeed(held["c"])) == []
    assert claim_one(engine).id == "left"
    assert states(engine)["b"] is states(engine)["c"] is State.COMPLETED


def test_a_circle_costs_one_bond_and_no_other(engine: Engine) -> None:
    engine.insert(
        [new_job("x"), new_job("a"), new_job("q", state=State.WAITING)], edges=[Dependency("a", "q")], now=NOW
    )
    held = {found.id: found for found in claim(engine)}
    jobs = [new_job(name, state=State.WAITING) for name in ("s", "t")]
    edges = [Dependency("s", "a"), Dependency("q", "s"), Dependency("x", "t")]
    assert settle(engine, leaving(held["a"], jobs, edges)) == []
    assert claim_one(engine).id == "s"
    assert states(engine)["t"] is State.WAITING, "it waits for x still"
    settle(engine, succeed(held["x"]))
    assert claim_one(engine).id == "t"


def test_at_a_store_that_has_moved_nothing_is_left_behind(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    held = {found.id: found for found in claim(engine)}
    engine.transfer.set_status(StoreStatus("moved", "elsewhere", NOW))
    outcome = leaving(held["a"], [new_job("left")], [Dependency("left", "a")])
    assert settle(engine, outcome, succeed(held["b"])) == [outcome]
    assert states(engine) == {"a": State.RUNNING, "b": State.COMPLETED}


def test_a_run_that_is_over_does_not_expire(engine: Engine) -> None:
    engine.insert([new_job("a", expires_at=NOW + HOUR)], now=NOW)
    held = claim_one(engine)
    settle(engine, leaving(held, [new_job("left")], [Dependency("left", "a")]))
    [left] = claim(engine, now=NOW + 2 * HOUR)
    assert row(engine, "a").state is State.WAITING
    settle(engine, succeed(left), now=NOW + 2 * HOUR)
    assert row(engine, "a").state is State.COMPLETED


@pytest.mark.parametrize("elsewhere", KINDS)
def test_a_run_that_is_over_does_not_expire_where_it_is_carried_to_either(
    engine: Engine, elsewhere: str, folder: Path
) -> None:
    engine.insert([new_job("a", expires_at=NOW + HOUR)], now=NOW)
    settle(engine, leaving(claim_one(engine), [new_job("left")], [Dependency("left", "a")]))
    assert row(engine, "a").expires_at is None
    (folder / "target").mkdir()
    with ExitStack() as at_end:
        target = StoreUnderTest(elsewhere, folder / "target", at_end).open()
        target.transfer.import_records(engine.transfer.export_jobs(0, 10))
        target.transfer.import_records(engine.flow_store.edges(["a", "left"]))
        [left] = claim(target, now=NOW + 2 * HOUR)
        settle(target, succeed(left), now=NOW + 2 * HOUR)
        assert row(target, "a").state is State.COMPLETED


def test_a_parent_that_was_lost_before_the_job_waits_counts_all_the_same(engine: Engine) -> None:
    """A child of a running job fails, the job retries, and then is given another child: nobody else would tell it."""
    engine.insert([new_job("a")], now=NOW)
    held = claim_one(engine)
    engine.insert([new_job("first")], edges=[Dependency("first", "a")], now=NOW)
    settle(engine, fail(claim_one(engine)))
    again = Outcome(held.id, held.version, Trigger.RETRY, State.RETRYING, NOW, run_at=NOW + HOUR, reason="error")
    settle(engine, again)
    engine.insert([new_job("second")], edges=[Dependency("second", "a")], now=NOW)
    assert states(engine)["a"] is State.CANCELLED
