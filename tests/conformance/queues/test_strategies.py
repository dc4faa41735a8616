"""The order of a queue: by priority, by age, by the newest, by chance; as its rules or the worker ask."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise

import pytest

from headrace.core.jobs.queue_rules import QueueRules, Strategy
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    NOW,
    SECOND,
    keyed,
    needing,
    new_job,
    one_by_one,
    per_second,
    started,
    together,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

# Every combination is tried on SQLite and Redis at once, on PostgreSQL with the slow tests.
pytestmark = pytest.mark.slow_on("postgres")

CLAIM = NOW + 100 * SECOND  # when every job of a test is due


def ordered(engine: Engine, strategy: Strategy | None, queue: str = "default", ageing: int | None = None) -> None:
    engine.rule_store.set_rules(queue, QueueRules(strategy=strategy, ageing=ageing))


def a_mixed_queue(engine: Engine) -> None:
    """Neither by age nor by priority as submitted; the letters tell the age."""
    waiting = {"d": (3, 0), "a": (0, -2), "c": (2, 9), "f": (5, -2), "b": (1, 4), "e": (4, 9)}
    jobs = [new_job(name, run_at=NOW + 10 * age, priority=priority) for name, (age, priority) in waiting.items()]
    engine.insert(jobs, now=NOW)


BY_STRATEGY: dict[Strategy, str] = {
    "priority": "cebdaf",
    "fifo": "abcdef",
    "lifo": "fedcba",
    "fresh_first": "cebdaf",  # where nothing was tried; see test_fresh_first
}
every_strategy = pytest.mark.parametrize(("strategy", "order"), BY_STRATEGY.items(), ids=BY_STRATEGY)
at_any_room = pytest.mark.parametrize("room", [1, 2, 4, 100])


def all_started(engine: Engine, room: int, strategy: Strategy | None = None) -> str:
    order: list[str] = []
    while begun := started(engine, room, now=CLAIM, strategy=strategy):
        order += begun
    return "".join(order)


@at_any_room
@every_strategy
def test_a_queue_is_claimed_in_the_order_of_its_strategy(
    engine: Engine, strategy: Strategy, order: str, room: int
) -> None:
    a_mixed_queue(engine)
    ordered(engine, strategy)
    assert all_started(engine, room) == order


@at_any_room
@every_strategy
def test_a_worker_claims_in_the_order_of_its_own_strategy(
    engine: Engine, strategy: Strategy, order: str, room: int
) -> None:
    a_mixed_queue(engine)
    assert all_started(engine, room, strategy) == order


@pytest.mark.parametrize("of_queue", ["priority", "fifo", "lifo", "weighted_random", "fresh_first"])
@every_strategy
def test_the_workers_strategy_goes_over_the_queues(
    engine: Engine, strategy: Strategy, order: str, of_queue: Strategy
) -> None:
    a_mixed_queue(engine)
    ordered(engine, of_queue)
    assert all_started(engine, 2, strategy) == order


def test_by_priority_is_the_order_of_a_queue_without_rules(engine: Engine) -> None:
    a_mixed_queue(engine)
    assert all_started(engine, 2) == "cebdaf"


def test_each_queue_has_its_own_strategy(engine: Engine) -> None:
    for queue in "pqr":
        engine.insert([new_job(f"{queue}{number}", queue=queue, priority=number % 2) for number in range(4)], now=NOW)
    ordered(engine, "lifo", "p")
    ordered(engine, "fifo", "q")
    begun = started(engine)
    assert [job_id for job_id in begun if job_id[0] == "p"] == ["p3", "p2", "p1", "p0"]
    assert [job_id for job_id in begun if job_id[0] == "q"] == ["q0", "q1", "q2", "q3"]
    assert [job_id for job_id in begun if job_id[0] == "r"] == ["r1", "r3", "r0", "r2"]


def test_a_strategy_that_is_given_up_is_forgotten(engine: Engine) -> None:
    a_mixed_queue(engine)
    ordered(engine, "lifo")
    assert started(engine, 1, now=CLAIM) == ["f"]
    ordered(engine, None)
    assert all_started(engine, 2) == "cebda"


def test_jobs_of_the_same_moment_go_by_submission(engine: Engine) -> None:
    engine.insert([new_job(name) for name in "cab"], now=NOW)
    engine.insert([new_job(name) for name in "xw"], now=NOW)
    assert started(engine, 2, strategy="fifo") == ["c", "a"]
    assert started(engine, 2, strategy="lifo") == ["w", "x"]


def test_the_newest_goes_first_while_new_ones_come(engine: Engine) -> None:
    ordered(engine, "lifo")
    for number in range(5):
        engine.insert([new_job(f"{number}a", run_at=NOW + number), new_job(f"{number}b", run_at=NOW + number)], now=NOW)
        assert started(engine, 1, now=CLAIM) == [f"{number}b"]
    assert started(engine, now=CLAIM) == ["4a", "3a", "2a", "1a", "0a"]


@pytest.mark.parametrize("laned", [False, True])
@at_any_room
def test_a_job_that_asks_to_be_first_is_first_among_its_equals_only(engine: Engine, room: int, laned: bool) -> None:
    engine.insert(
        [
            new_job("c", priority=1, run_at=NOW + 1, lifo=True),
            new_job("d", priority=1),
            new_job("b", priority=1, run_at=NOW + 2, lifo=True),
            new_job("a", priority=2),
            new_job("e", priority=0, lifo=True),
        ],
        now=NOW,
    )
    if laned:  # then the claim goes another way
        engine.insert([needing("gpu", "gpu")], now=NOW)
    assert all_started(engine, room) == "abcde"


@pytest.mark.parametrize("strategy", ["fifo", "lifo"])
def test_by_age_a_job_that_asked_to_be_first_is_one_like_any_other(engine: Engine, strategy: Strategy) -> None:
    engine.insert(
        [new_job(f"j{age}", run_at=NOW + age, lifo=age % 2 == 0, priority=age % 3) for age in range(8)], now=NOW
    )
    expected = [f"j{age}" for age in range(8)]
    begun = [job_id for _ in range(4) for job_id in started(engine, 2, now=CLAIM, strategy=strategy)]
    assert begun == (expected if strategy == "fifo" else expected[::-1])


# -- by chance


def test_by_chance_every_priority_gets_its_part_and_the_higher_ones_more(engine: Engine) -> None:
    """Six points are four times the weight. The bounds are six deviations wide."""
    levels = (0, 3, 6)
    engine.insert([new_job(f"{level}-{n:03}", priority=level) for level in levels for n in range(600)], now=NOW)
    ordered(engine, "weighted_random")
    begun = [job_id for _ in range(35) for job_id in started(engine, 20)]
    drawn = Counter(int(job_id.split("-")[0]) for job_id in begun)
    assert drawn.total() == 700
    assert 44 <= drawn[0] <= 160
    assert 125 <= drawn[3] <= 275
    assert 315 <= drawn[6] <= 485
    for level in levels:
        mine = [job_id for job_id in begun if job_id.startswith(f"{level}-")]
        assert mine == sorted(mine), "inside a priority the oldest goes first"


def test_by_chance_single_jobs_are_drawn_as_well(engine: Engine) -> None:
    engine.insert([new_job(f"{level}-{n:03}", priority=level) for level in (0, 3) for n in range(150)], now=NOW)
    drawn = Counter(job_id[0] for job_id in one_by_one(engine, 120, strategy="weighted_random"))
    assert drawn.total() == 120
    assert 10 <= drawn["0"] <= 72
    assert drawn["3"] == 120 - drawn["0"]


def test_by_chance_everything_is_started_in_the_end(engine: Engine) -> None:
    engine.insert([new_job(f"j{n}", priority=(n % 5) * 50 - 100) for n in range(50)], now=NOW)
    ordered(engine, "weighted_random")
    begun = [job_id for _ in range(20) for job_id in started(engine, 7)]
    assert sorted(begun) == sorted(f"j{n}" for n in range(50))


# -- ageing


@pytest.mark.parametrize(
    ("head_start", "first"),
    [(0, "urgent"), (4999, "urgent"), (5000, "old"), (5001, "old"), (90_000, "old")],
)
def test_waiting_is_worth_exactly_so_many_points(engine: Engine, head_start: int, first: str) -> None:
    ordered(engine, None, ageing=SECOND)
    engine.insert([new_job("old"), new_job("urgent", priority=5, run_at=NOW + head_start)], now=NOW)
    assert started(engine, 1, now=CLAIM) == [first]


def test_a_stream_of_urgent_jobs_starves_nobody_who_ages(engine: Engine) -> None:
    ordered(engine, "priority", ageing=100)
    engine.insert([new_job("old")], now=NOW)
    begun: list[str] = []
    for second in range(20):
        now = NOW + second * SECOND
        engine.insert([new_job(f"u{second}", priority=50, run_at=now, created_at=now)], now=now)
        engine.insert([new_job(f"v{second}", priority=50, run_at=now, created_at=now)], now=now)
        begun += started(engine, 1, now=now)
    assert "old" in begun
    assert begun.index("old") >= 5


def test_without_ageing_a_stream_of_urgent_jobs_goes_first(engine: Engine) -> None:
    engine.insert([new_job("old"), new_job("urgent", priority=1, run_at=NOW + 50 * SECOND)], now=NOW)
    assert started(engine, 1, now=CLAIM) == ["urgent"]


def test_with_ageing_the_whole_order_is_by_age_and_priority_together(engine: Engine) -> None:
    ordered(engine, None, ageing=10)
    moments = {f"j{n:02}": ((n * 37) % 100, (n * 7) % 11 - 5) for n in range(40)}
    engine.insert([new_job(name, run_at=NOW + at, priority=level) for name, (at, level) in moments.items()], now=NOW)
    expected = sorted(moments, key=lambda name: (moments[name][0] - 10 * moments[name][1], name))
    assert [job_id for _ in range(8) for job_id in started(engine, 5, now=CLAIM)] == expected


def test_ageing_changes_nothing_by_age(engine: Engine) -> None:
    a_mixed_queue(engine)
    ordered(engine, "fifo", ageing=1)
    assert all_started(engine, 2) == "abcdef"


# -- together with the rest


@every_strategy
def test_a_lane_that_is_shut_does_not_disturb_the_order(engine: Engine, strategy: Strategy, order: str) -> None:
    a_mixed_queue(engine)
    engine.insert([needing("gpu", "gpu", priority=3)], now=NOW)
    ordered(engine, strategy)
    assert all_started(engine, 2) == order


def test_a_lane_that_is_shut_does_not_disturb_the_ageing(engine: Engine) -> None:
    ordered(engine, None, ageing=SECOND)
    engine.insert([new_job("old"), new_job("urgent", priority=5, run_at=NOW + 6 * SECOND)], now=NOW)
    engine.insert([needing("gpu", "gpu", priority=3)], now=NOW)
    assert started(engine, 1, now=CLAIM) == ["old"]


@every_strategy
def test_the_jobs_of_a_lane_go_in_the_order_of_the_strategy(engine: Engine, strategy: Strategy, order: str) -> None:
    waiting = {"d": (3, 0), "a": (0, -2), "c": (2, 9), "f": (5, -2), "b": (1, 4), "e": (4, 9)}
    jobs = [keyed(name, "k", run_at=NOW + 10 * age, priority=level) for name, (age, level) in waiting.items()]
    engine.insert(jobs, now=NOW)
    ordered(engine, strategy)
    assert "".join(one_by_one(engine, 6, now=CLAIM)) == order


@every_strategy
def test_a_rate_does_not_disturb_the_order(engine: Engine, strategy: Strategy, order: str) -> None:
    a_mixed_queue(engine)
    engine.rule_store.set_rules("default", QueueRules(strategy=strategy, rate=per_second(10)))
    begun = [job_id for turn in range(6) for job_id in started(engine, now=CLAIM + 100 * turn)]
    assert "".join(begun) == order


def test_workers_with_different_strategies_start_each_job_once(store: StoreUnderTest) -> None:
    worker_state = [store.open() for _ in range(4)]
    jobs = [new_job(f"j{n:03}", priority=n % 7, run_at=NOW + n % 13, lifo=n % 5 == 0) for n in range(600)]
    worker_state[0].insert(jobs, now=CLAIM)
    begun: list[list[str]] = [[], [], [], []]
    strategies: list[Strategy | None] = [None, "fifo", "lifo", "weighted_random"]
    deadline = time.monotonic() + PATIENCE

    def drain(number: int) -> None:
        while sum(map(len, begun)) < 600:
            assert time.monotonic() < deadline, "some jobs were never started"
            begun[number] += started(
                worker_state[number], 5, now=CLAIM, worker=f"w{number}", strategy=strategies[number]
            )

    together(4, drain)
    everything = [job_id for part in begun for job_id in part]
    assert sorted(everything) == [f"j{n:03}" for n in range(600)]
    assert {job.attempt for job in worker_state[0].queries.find(EVERYTHING, 1000).jobs} == {1}


def test_workers_with_different_strategies_meet_in_the_middle(engine: Engine) -> None:
    engine.insert([new_job(f"{n:02}", run_at=NOW + n) for n in range(20)], now=NOW)
    old: list[str] = []
    new: list[str] = []
    for _ in range(5):
        old += started(engine, 2, now=CLAIM, strategy="fifo", worker="w1")
        new += started(engine, 2, now=CLAIM, strategy="lifo", worker="w2")
    assert old == [f"{n:02}" for n in range(10)]
    assert new == [f"{n:02}" for n in range(19, 9, -1)]
    assert all(one > other for one, other in pairwise(new))
