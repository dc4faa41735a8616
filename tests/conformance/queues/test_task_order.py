"""The order of a task among its own jobs, whatever the order of their queue."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.core.jobs.queue_rules import QueueRules, Strategy, TaskRules
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.unique_rules import UniqueInsert
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    NOW,
    SECOND,
    insert_unique,
    keyed,
    look,
    new_job,
    one_by_one,
    started,
)
from tests.support.engines import StoreUnderTest

# Every combination is tried on SQLite and Redis at once, on PostgreSQL with the slow tests.
pytestmark = pytest.mark.slow_on("postgres")

CLAIM = NOW + 100 * SECOND
WAITING = {"d": (3, 0), "a": (0, -2), "c": (2, 9), "f": (5, -2), "b": (1, 4), "e": (4, 9)}  # age and priority
BY_STRATEGY: dict[Strategy, str] = {"priority": "cebdaf", "fifo": "abcdef", "lifo": "fedcba"}
every_strategy = pytest.mark.parametrize(("strategy", "order"), BY_STRATEGY.items(), ids=BY_STRATEGY)
at_any_room = pytest.mark.parametrize("room", [1, 4])


def ordered(engine: Engine, strategy: Strategy | None, task: str = "a") -> None:
    engine.rule_store.set_rules(task, TaskRules(strategy=strategy))


def a_mixture(task: str = "a", **more: object) -> list[NewJob]:
    return [
        new_job(name, task=task, run_at=NOW + 10 * age, priority=priority, **more)  # type: ignore[arg-type]
        for name, (age, priority) in WAITING.items()
    ]


def all_started(engine: Engine, room: int, strategy: Strategy | None = None) -> str:
    order: list[str] = []
    while begun := started(engine, room, now=CLAIM, strategy=strategy):
        order += begun
    return "".join(order)


@at_any_room
@every_strategy
@pytest.mark.parametrize("stored", ["before", "after", "half"])
def test_the_jobs_of_a_task_start_in_its_order_whenever_they_were_stored(
    engine: Engine, strategy: Strategy, order: str, room: int, stored: str
) -> None:
    jobs = a_mixture()
    cut = {"before": 6, "after": 0, "half": 3}[stored]
    engine.insert(jobs[:cut], now=NOW)
    ordered(engine, strategy)
    engine.insert(jobs[cut:], now=NOW)
    assert all_started(engine, room) == order


@pytest.mark.parametrize("of_queue", ["priority", "fifo", "lifo", "weighted_random", "fresh_first"])
@every_strategy
def test_it_holds_whatever_the_order_of_the_queue(
    engine: Engine, strategy: Strategy, order: str, of_queue: Strategy
) -> None:
    engine.rule_store.set_rules("default", QueueRules(strategy=of_queue))
    ordered(engine, strategy)
    engine.insert(a_mixture(), now=NOW)
    assert all_started(engine, 2) == order


@every_strategy
def test_it_holds_whatever_the_order_of_the_worker(engine: Engine, strategy: Strategy, order: str) -> None:
    ordered(engine, strategy)
    engine.insert(a_mixture(), now=NOW)
    assert all_started(engine, 2, "fifo" if strategy == "lifo" else "lifo") == order


@at_any_room
def test_other_tasks_of_the_queue_keep_their_order(engine: Engine, room: int) -> None:
    ordered(engine, "lifo")
    engine.insert([new_job(f"{n}", task="b", run_at=NOW + n, priority=n % 2) for n in range(4)], now=NOW)
    engine.insert(a_mixture(), now=NOW)
    begun = all_started(engine, room)
    assert [name for name in begun if name in "0123"] == ["1", "3", "0", "2"]
    assert [name for name in begun if name not in "0123"] == list("fedcba")


@at_any_room
def test_the_turn_of_a_task_comes_with_its_most_urgent_job(engine: Engine, room: int) -> None:
    """The newest is let start by the urgent one behind it, and what is less urgent in other tasks waits for both."""
    ordered(engine, "lifo")
    engine.insert(
        [
            new_job("A", task="a", priority=9),
            new_job("B", task="a", priority=0, run_at=NOW + 1),
            new_job("x", task="b", priority=5),
            new_job("C", task="a", priority=-3, run_at=NOW - 1),
            new_job("y", task="b", priority=-1),
        ],
        now=NOW,
    )
    assert all_started(engine, room) == "BAxyC"


def test_each_task_has_its_own(engine: Engine) -> None:
    ordered(engine, "lifo", "a")
    ordered(engine, "fifo", "b")
    jobs = [new_job(f"{task}{n}", task=task, priority=n % 3, run_at=NOW + n) for task in "abc" for n in range(6)]
    engine.insert(jobs, now=NOW)
    begun = [name for _ in range(9) for name in started(engine, 2, now=CLAIM)]
    orders = {task: [int(name[1]) for name in begun if name[0] == task] for task in "abc"}
    assert orders == {"a": [5, 4, 3, 2, 1, 0], "b": [0, 1, 2, 3, 4, 5], "c": [2, 5, 1, 4, 0, 3]}


def test_by_chance_the_higher_priorities_of_a_task_are_drawn_more_often(engine: Engine) -> None:
    ordered(engine, "weighted_random")
    engine.insert(
        [new_job(f"{level}-{n:03}", task="a", priority=level) for level in (0, 6) for n in range(200)], now=NOW
    )
    drawn = Counter(name[0] for _ in range(20) for name in started(engine, 5, now=CLAIM))
    assert drawn.total() == 100
    assert 0 < drawn["0"] < 50 < drawn["6"]


def test_the_newest_of_many_goes_first(store: StoreUnderTest) -> None:
    """Also if others, and other processes, stored them, with a thousand in front of it."""
    engine, other = store.open(), store.open()
    other.insert([new_job(f"x{n:04}", task="b") for n in range(300)], now=NOW)
    other.insert([new_job(f"a{n:04}", task="a", run_at=NOW + n) for n in range(1200)], now=NOW + 2000)
    ordered(engine, "lifo")
    begun = started(engine, 4, now=CLAIM)
    assert [name for name in begun if name[0] == "a"][:2] == ["a1199", "a1198"]
    engine.insert([new_job("a9999", task="a", run_at=NOW + 9999)], now=NOW + 10_000)
    assert "a9999" in started(engine, 2, now=CLAIM)


def test_an_order_that_is_lifted_is_forgotten(engine: Engine) -> None:
    ordered(engine, "lifo")
    engine.insert(a_mixture(), now=NOW)
    assert started(engine, 1, now=CLAIM) == ["f"]
    ordered(engine, None)
    assert all_started(engine, 2) == "cebda"


def test_a_job_that_comes_back_takes_its_place_in_the_order(engine: Engine) -> None:
    ordered(engine, "lifo")
    engine.insert([new_job("later", task="a", run_at=NOW + 5 * SECOND), new_job("now", task="a")], now=NOW)
    assert started(engine, 1, now=NOW + SECOND) == ["now"]
    engine.insert([new_job("third", task="a", run_at=NOW + 2 * SECOND)], now=NOW + 2 * SECOND)
    assert all_started(engine, 1) == "laterthird"


def test_it_goes_together_with_limits_of_the_task(engine: Engine) -> None:
    engine.rule_store.set_rules("a", TaskRules(concurrency=2, strategy="lifo"))
    engine.insert(a_mixture(), now=NOW)
    assert started(engine, now=CLAIM) == ["f", "e"]
    assert started(engine, now=CLAIM) == []


def test_jobs_with_a_key_are_in_order_among_those_of_their_key(engine: Engine) -> None:
    ordered(engine, "lifo")
    engine.insert([keyed(f"{key}{n}", key, task="a", run_at=NOW + n) for key in "kl" for n in range(3)], now=NOW)
    begun = one_by_one(engine, 6, now=CLAIM)
    for key in "kl":
        assert [name for name in begun if name[0] == key] == [f"{key}{n}" for n in (2, 1, 0)]


def test_jobs_stored_under_a_rule_of_their_own_are_in_order_too(engine: Engine) -> None:
    ordered(engine, "lifo")
    insert_unique(engine, [UniqueInsert(job) for job in a_mixture()], now=NOW)
    assert all_started(engine, 2) == "fedcba"


def test_queues_without_such_jobs_are_claimed_from_as_ever(engine: Engine) -> None:
    ordered(engine, "lifo")
    engine.insert([new_job(f"x{n}", task="b", queue="q") for n in range(3)], now=NOW)
    assert started(engine, now=CLAIM) == ["x0", "x1", "x2"]
    assert look(engine, now=CLAIM).next_at is None
