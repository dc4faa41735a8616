"""Ageing among lanes: who waits grows more urgent, whatever lane it waits in, and the equally urgent take turns."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headrace.core.jobs.queue_rules import QueueRules, Strategy, TaskRules
from headrace.core.jobs.records import NewJob
from headrace.core.queues.limits import Limit, lane_of
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    HOUR,
    NOW,
    SECOND,
    ids,
    keyed,
    look,
    needing,
    new_job,
    one_by_one,
    started,
    tenant,
)

# Every combination is tried on SQLite and Redis at once, on PostgreSQL with the slow tests.
pytestmark = pytest.mark.slow_on("postgres")

CLAIM = NOW + 1000 * SECOND  # when every job of a test is due
AGEING = 10 * SECOND


@pytest.fixture(autouse=True)
def aged(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(ageing=AGEING))


def level_of(job: NewJob) -> int:
    """The lower, the more urgent."""
    return abs(job.rank) // AGEING - job.priority


def place_of(job: NewJob) -> int:
    return abs(job.rank) - AGEING * job.priority


def in_plain_turns(jobs: list[NewJob], rooms: list[int]) -> list[str]:
    """What starts in claims of so many jobs each, by the rule in so many words. Equal places go by submission."""
    order, last = list[str](), None
    lanes = {job.lane: sorted((one for one in jobs if one.lane == job.lane), key=place_of) for job in jobs}
    for room in rooms:
        begun, served_last = list[NewJob](), last
        while len(begun) < room and any(lanes.values()):
            level = min(level_of(waiting[0]) for waiting in lanes.values() if waiting)
            round_of = [lane for lane, waiting in lanes.items() if waiting and level_of(waiting[0]) == level]
            if served_last is None:
                round_of.sort(key=lambda lane: (place_of(lanes[lane][0]), jobs.index(lanes[lane][0])))
            else:
                at = sorted(round_of)
                after = [lane for lane in at if lane > served_last]
                round_of = after + [lane for lane in at if lane not in after]
            for lane in round_of[: room - len(begun)]:
                begun.append(lanes[lane].pop(0))
                last = lane
        order += [job.id for job in begun]
    return order


@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("room", [1, 2, 5, None])
@pytest.mark.parametrize("seed", range(4))
def test_jobs_start_by_priority_and_age_together_and_in_turn(engine: Engine, seed: int, room: int | None) -> None:
    chance = random.Random(seed)
    lanes = [
        "",
        *(lane_of([Limit("rate", name)]) for name in "abc"),
        lane_of([Limit("needs", "gpu"), Limit("key", "k")]),
    ]
    jobs = [
        new_job(
            f"j{number:03}",
            lane=chance.choice(lanes),
            priority=chance.choice([-100, -2, 0, 0, 0, 1, 3, 100]),
            run_at=NOW + chance.randrange(5 * AGEING),
            created_at=CLAIM,
            lifo=chance.random() < 0.2,
        )
        for number in range(60)
    ]
    engine.rule_store.set_rules("default", QueueRules(ageing=AGEING, key_concurrency=100))
    engine.insert([*jobs, needing("shut", "nobody", priority=100)], now=CLAIM)
    rooms = [room or chance.randint(1, 9) for _ in range(60)]
    begun = [job_id for limit in rooms for job_id in started(engine, limit, now=CLAIM, has=("gpu",))]
    assert begun == in_plain_turns(jobs, rooms)


OLD = {
    "rate": tenant("old", "low"),
    "key": keyed("old", "low"),
    "needs": needing("old", "gpu"),
    "task": new_job("old", task="ruled"),
    "free": new_job("old"),
}


@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("old", OLD.values(), ids=OLD)
def test_a_stream_of_urgent_jobs_in_one_lane_starves_no_other(engine: Engine, old: NewJob) -> None:
    """Five points are worth fifty seconds, and within ten more it is its turn."""
    engine.rule_store.set_rules("ruled", TaskRules(concurrency=5))
    engine.insert([old, tenant("one ahead", "high", priority=5)], now=NOW)
    for second in range(61):
        now = NOW + second * SECOND
        engine.insert([tenant(f"u{second}", "high", priority=5, run_at=now, created_at=now)], now=now)
        if one_by_one(engine, 1, now=now, has=("gpu",)) == ["old"]:
            break
    else:
        pytest.fail("it was never its turn")
    assert second >= 50, "it overtook who was more urgent"


@pytest.mark.parametrize("head_start", [0, 49_999, 50_000, 90_000])
@pytest.mark.parametrize("lanes", [("a", "z"), ("z", "a")])
def test_between_lanes_waiting_is_worth_whole_points(engine: Engine, head_start: int, lanes: tuple[str, str]) -> None:
    start = NOW - NOW % AGEING
    low, high = lanes
    engine.insert([tenant("old", low, run_at=start)], now=CLAIM)
    engine.insert([tenant("urgent", high, priority=5, run_at=start + head_start)], now=CLAIM)
    begun = one_by_one(engine, 2, now=CLAIM)
    if head_start < 50_000:
        assert begun == ["urgent", "old"]
    elif head_start >= 60_000:
        assert begun == ["old", "urgent"]
    else:
        assert sorted(begun) == ["old", "urgent"], "equally urgent: whose turn it is"


@pytest.mark.parametrize("room", [1, 3, 7])
def test_of_the_equally_urgent_each_lane_has_one_before_any_has_two(engine: Engine, room: int) -> None:
    engine.insert(
        [tenant(f"{lane}{n:02}", lane) for lane in "abc" for n in range({"a": 40, "b": 4, "c": 4}[lane])], now=NOW
    )
    engine.insert([new_job(f"f{n}") for n in range(4)], now=NOW)
    begun: list[str] = []
    while len(begun) < 16:
        begun += started(engine, min(room, 16 - len(begun)), now=CLAIM)
    for first in range(0, 16, 4):
        assert sorted(job_id[0] for job_id in begun[first : first + 4]) == ["a", "b", "c", "f"]
    assert set(started(engine, 3, now=CLAIM)) == {"a04", "a05", "a06"}


def test_as_time_goes_on_the_lanes_go_on_taking_turns(engine: Engine) -> None:
    """Each claim finds a new level at the front. Who was served last at the one before is not first at the next."""
    begun: Counter[str] = Counter()
    for step in range(30):
        now = NOW + step * AGEING
        engine.insert([tenant(f"{lane}{step}", lane, run_at=now, created_at=now) for lane in "abc"], now=now)
        begun.update(job_id[0] for job_id in one_by_one(engine, 1, now=now))
    assert begun == {"a": 10, "b": 10, "c": 10}


def test_an_old_tenant_goes_before_a_new_one_until_they_are_of_an_age(engine: Engine) -> None:
    start = NOW - NOW % AGEING
    engine.insert([tenant(f"a{n}", "a", run_at=start + n * AGEING // 2) for n in range(6)], now=CLAIM)
    engine.insert([tenant(f"b{n}", "b", run_at=start + AGEING) for n in range(3)], now=CLAIM)
    begun = one_by_one(engine, 9, now=CLAIM)
    assert begun[:2] == ["a0", "a1"]
    assert sorted(begun[2:6]) == ["a2", "a3", "b0", "b1"]
    assert begun[6:] == ["b2", "a4", "a5"]


OWN_ORDERS: dict[Strategy, str] = {"fifo": "a t b c u", "lifo": "c b a t u", "fresh_first": "b a t c u"}


@pytest.mark.parametrize(("strategy", "order"), OWN_ORDERS.items(), ids=OWN_ORDERS)
@pytest.mark.parametrize("room", [1, 5])
def test_a_task_with_an_order_of_its_own_has_its_turn_with_its_most_urgent_job(
    engine: Engine, strategy: Strategy, order: str, room: int
) -> None:
    """As long as `a`, the most urgent, is left, each of the task starts with its urgency."""
    engine.rule_store.set_rules("own", TaskRules(strategy=strategy))
    own = [new_job(name, task="own", run_at=NOW + 3 * n * AGEING, priority=n % 2) for n, name in enumerate("abc")]
    others = [tenant(name, "t", run_at=NOW + n * AGEING) for name, n in (("t", 1), ("u", 9))]
    engine.insert([*own, *others], now=CLAIM)
    assert " ".join(name for _ in range(5) for name in started(engine, room, now=CLAIM)) == order


# -- more lanes than one claim looks at


def test_an_old_job_is_found_among_more_lanes_than_one_claim_looks_at(engine: Engine) -> None:
    """Each claim looks at a part of them, the next one at the next part."""
    lanes = [f"t{number:04}" for number in range(1400)]
    engine.insert([tenant(f"{name}-{n}", name, priority=3) for name in lanes for n in range(2)], now=NOW)
    engine.insert([tenant("old", "u", run_at=NOW - 60 * SECOND)], now=NOW)
    assert "old" in [job_id for _ in range(3) for job_id in started(engine, 1)]
    engine.insert([tenant("old too", "t0000", run_at=NOW - 60 * SECOND)], now=NOW)
    assert "old too" in [job_id for _ in range(3) for job_id in started(engine, 1)]


@pytest.mark.slow_on("postgres")
def test_all_lanes_are_served_if_there_are_more_than_one_claim_looks_at(engine: Engine) -> None:
    engine.insert([tenant(f"t{n:04}", f"t{n:04}", priority=n % 3) for n in range(1400)], now=NOW)
    begun: list[str] = []
    for _ in range(20):
        turn = look(engine, 200)
        begun += ids(turn.claims)
        if not turn.claims:
            break
        assert len(turn.claims) == 200 or turn.next_at == NOW, "there is more, and nobody says so"
    assert sorted(begun) == [f"t{n:04}" for n in range(1400)]
    assert look(engine).next_at is None


def test_shut_lanes_hide_no_open_one_and_keep_nobody_busy(engine: Engine) -> None:
    engine.insert([needing(f"n{number:04}", f"n{number:04}") for number in range(1200)], now=NOW)
    assert None in [look(engine, 1).next_at for _ in range(4)], "nothing may start, and each claim asks for another"
    engine.insert([tenant("open", "z")], now=NOW)
    for _ in range(5):
        turn = look(engine, 1)
        if turn.claims:
            assert ids(turn.claims) == ["open"]
            return
        assert turn.next_at == NOW, "nothing found, and no word that there is more to look at"
    pytest.fail("five claims did not find it")


@pytest.mark.slow
def test_three_hundred_lanes_share_a_single_slot_and_the_more_urgent_goes_first(engine: Engine) -> None:
    names = [f"t{lane:03}" for lane in range(300)]
    engine.insert([tenant(f"{name}-{number}", name) for name in names for number in range(4)], now=NOW)
    begun = Counter(job_id.split("-")[0] for job_id in one_by_one(engine, 450))
    assert len(begun) == 300
    assert max(begun.values()) <= 2
    for number, name in enumerate(names[::60]):
        engine.insert(
            [tenant(f"urgent {number}", name, priority=1), tenant(f"old {number}", name, run_at=NOW - HOUR)], now=NOW
        )
        assert one_by_one(engine, 2) == [f"old {number}", f"urgent {number}"]
