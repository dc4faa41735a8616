"""A worker is not handed jobs of tasks that it does not know; whoever knows them finds them as they were."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.known_tasks import KnownTasks
from headrace.core.model import Claim, Want
from headrace.core.regulation import Strategy, TaskRules
from headrace.core.states import State
from headrace.engines.protocol import Engine
from tests.support.builders import LEASE, NOW, give_up, ids, keyed, needing, new_job, numbered, row, settle, succeed


def ignorant(engine: Engine, *unknown: str, limit: int = 100, **more: Any) -> list[Claim]:
    return engine.exchange([], Want("w1", limit, LEASE, known=all_but(*unknown), **more), now=NOW).claims


def all_but(*unknown: str) -> KnownTasks:
    return KnownTasks(lambda task: task not in unknown)


def knowing(engine: Engine, limit: int = 100, **more: Any) -> list[Claim]:
    return engine.exchange([], Want("w2", limit, LEASE, **more), now=NOW).claims


def test_jobs_of_an_unknown_task_are_passed_over_and_stay_as_they_are(engine: Engine) -> None:
    engine.insert([new_job("a", task="new"), new_job("b", task="old"), new_job("c", task="new")], now=NOW)
    before = row(engine, "a")
    assert ids(ignorant(engine, "new", "other")) == ["b"]
    after = row(engine, "a")
    assert (after.state, after.version, after.attempt, after.worker) == (State.PENDING, before.version, 0, None)
    assert ignorant(engine, "new") == []
    assert ids(knowing(engine)) == ["a", "c"]


@pytest.mark.parametrize("strategy", [None, "priority", "fifo", "lifo", "fresh_first"])
def test_in_any_order_only_known_ones_are_claimed(engine: Engine, strategy: Strategy | None) -> None:
    jobs = [new_job(f"j{n}", task="new" if n % 2 else "old", priority=n % 3) for n in range(12)]
    engine.insert(jobs, now=NOW)
    assert {claim.task for claim in ignorant(engine, "new", strategy=strategy)} == {"old"}
    assert {claim.task for claim in knowing(engine, strategy=strategy)} == {"new"}


def test_the_most_urgent_one_goes_first_for_who_knows_it(engine: Engine) -> None:
    engine.insert([new_job("low", task="new"), new_job("plain", task="old", priority=3)], now=NOW)
    assert ids(ignorant(engine, "new")) == ["plain"]
    engine.insert([new_job("high", task="new", priority=9), new_job("middle", task="old", priority=5)], now=NOW)
    assert ids(knowing(engine)) == ["high", "middle", "low"]


def test_keys_and_needs_hold_as_before(engine: Engine) -> None:
    engine.insert(
        [keyed("k1", "k", task="new"), keyed("k2", "k", task="new"), needing("n", "gpu", task="new")], now=NOW
    )
    assert ignorant(engine, "new", capabilities=("gpu",)) == []
    [first] = knowing(engine)
    assert first.id == "k1"
    assert settle(engine, succeed(first)) == []
    assert sorted(ids(knowing(engine, capabilities=("gpu",)))) == ["k2", "n"]


def test_the_rules_of_a_task_hold_beside(engine: Engine) -> None:
    engine.desk.rule_task("new", TaskRules(concurrency=1))
    engine.insert(numbered(3, task="new"), now=NOW)
    assert ignorant(engine, "new") == []
    assert len(knowing(engine)) == 1


def test_known_jobs_are_found_behind_thousands_of_unknown_ones(engine: Engine) -> None:
    engine.insert([*numbered(3000, task="new"), new_job("known", task="old")], now=NOW)
    found: list[Claim] = []
    claims = 0
    while not found and claims < 10:
        found, claims = ignorant(engine, "new", limit=5), claims + 1
    assert ids(found) == ["known"]
    assert len(knowing(engine, limit=1000)) == 1000


def test_a_queue_is_claimed_from_in_the_usual_way_when_they_are_gone(engine: Engine) -> None:
    engine.insert([new_job("a", task="new")], now=NOW)
    assert ignorant(engine, "new") == []
    [claimed] = knowing(engine)
    assert settle(engine, give_up(claimed)) == []
    engine.insert(numbered(5, task="old"), now=NOW)
    assert ids(ignorant(engine)) == [job.id for job in numbered(5)]
