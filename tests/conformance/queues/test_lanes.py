"""Lanes: jobs wait behind the gates they asked for and behind their own kind, never behind anybody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.jobs.records import Claim, Filter, JobUpdate, NewJob
from headrace.core.jobs.states import State, Trigger
from headrace.core.queues.limits import Limit, group_limit, lane_limits_of, lane_of
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    gated,
    ids,
    keyed,
    look,
    needing,
    new_job,
    numbered,
    one_by_one,
    only,
    per_second,
    release,
    retry,
    row,
    rows,
    settle,
    snooze,
    started,
    succeed,
    tenant,
    worker_row,
)
from tests.support.engines import StoreUnderTest

RAN_OUT = NOW + LEASE
ODD_NAMES = ["k", "it's %s", 'a"b\\c', "a:b", "c:", "[]", "{x}*?", "grüße 🚰", " space ", "ünïcode", "]", ","]


def done(claims: list[Claim], engine: Engine, now: int = NOW) -> None:
    assert settle(engine, *(succeed(claimed, at=now) for claimed in claims), now=now) == []


# -- a key that only so many may hold


def test_of_one_key_one_job_runs_at_a_time_in_their_order(engine: Engine) -> None:
    engine.insert([keyed(f"j{number}", "k") for number in range(4)], now=NOW)
    for number in range(4):
        claims = look(engine).claims
        assert ids(claims) == [f"j{number}"]
        assert started(engine, worker="w2") == []
        done(claims, engine)


def test_keys_do_not_wait_for_each_other(engine: Engine) -> None:
    engine.insert([keyed(f"{key}{number}", key) for key in "abc" for number in range(3)], now=NOW)
    claims = look(engine).claims
    assert sorted(ids(claims)) == ["a0", "b0", "c0"]
    done([claimed for claimed in claims if claimed.id == "b0"], engine)
    assert started(engine) == ["b1"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_key_may_have_any_name(engine: Engine, name: str) -> None:
    engine.insert([keyed("one", name), keyed("two", name), keyed("other", f"{name}!")], now=NOW)
    assert sorted(started(engine)) == ["one", "other"]
    assert lane_limits_of(row(engine, "two").lane) == [Limit("key", name)]


def test_a_queue_may_let_more_of_a_key_run(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_concurrency=3))
    engine.insert([keyed(f"{key}{number}", key) for key in "ab" for number in range(5)], now=NOW)
    assert sorted(started(engine)) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert started(engine, worker="w2") == []


def test_a_group_has_a_number_of_its_own_whatever_the_queue_allows_a_key(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_concurrency=5))
    limits = {"a": group_limit(2, "one"), "b": group_limit(12, "two"), "c": group_limit(1, "three")}
    engine.insert([gated(f"{name}{n:02}", limit) for name, limit in limits.items() for n in range(14)], now=NOW)
    claims = look(engine).claims
    assert Counter(job_id[0] for job_id in ids(claims)) == {"a": 2, "b": 12, "c": 1}
    assert started(engine, worker="w2") == []
    done([claimed for claimed in claims if claimed.id == "a01"], engine)
    assert started(engine) == ["a02"], "the next one starts when any ends"


@pytest.mark.parametrize("name", ["0\tg", "x2\tg", "2 g", "-2\tg", "2.5\tg", "\tg"])
def test_a_key_without_a_proper_number_follows_the_queue(engine: Engine, name: str) -> None:
    engine.insert([keyed(f"k{n}", name) for n in range(3)], now=NOW)
    assert started(engine) == ["k0"]


def test_claims_of_one_job_each_stop_at_the_same_number(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_concurrency=3))
    engine.insert([keyed(f"a{number}", "a") for number in range(5)], now=NOW)
    assert [len(started(engine, 1)) for _ in range(5)] == [1, 1, 1, 0, 0]


def test_keyed_jobs_do_not_keep_free_jobs_waiting(engine: Engine) -> None:
    engine.insert([*[keyed(f"k{number}", "k") for number in range(50)], *numbered(5, "free")], now=NOW)
    begun = started(engine)
    assert sorted(begun) == ["free0000", "free0001", "free0002", "free0003", "free0004", "k0"]


def test_a_key_is_held_across_queues(engine: Engine) -> None:
    engine.insert([keyed("a", "k", queue="a"), keyed("b", "k", queue="b")], now=NOW)
    claims = engine.exchange([], only("a"), now=NOW).claims
    assert ids(claims) == ["a"]
    assert engine.exchange([], only("b"), now=NOW).claims == []
    done(claims, engine)
    assert ids(engine.exchange([], only("b"), now=NOW).claims) == ["b"]


def test_in_one_claim_a_key_is_held_across_queues(engine: Engine) -> None:
    engine.insert([keyed("a", "k", queue="a"), keyed("b", "k", queue="b")], now=NOW)
    assert len(started(engine)) == 1


def test_a_key_is_free_when_its_lease_has_run_out(engine: Engine) -> None:
    engine.insert([keyed("one", "k"), keyed("two", "k")], now=NOW)
    assert started(engine) == ["one"]
    assert started(engine, now=RAN_OUT - 1) == []
    assert started(engine, now=RAN_OUT, worker="w2") == ["two"]


def test_a_key_is_free_when_its_job_is_cancelled(engine: Engine) -> None:
    engine.insert([keyed("one", "k"), keyed("two", "k")], now=NOW)
    assert started(engine) == ["one"]
    engine.queries.move(Filter(ids=("one",)), Trigger.CANCEL, 1, now=NOW)
    assert started(engine) == ["two"]


def test_a_keyed_job_starts_when_it_is_due(engine: Engine) -> None:
    """The claim that finds it due is the one that starts it: there may be no other for long."""
    engine.insert([keyed("later", "k", run_at=NOW + SECOND)], now=NOW)
    assert look(engine).next_at == NOW + SECOND
    assert started(engine, now=NOW + SECOND) == ["later"]


def test_a_keyed_job_starts_when_its_retry_is_due(engine: Engine) -> None:
    engine.insert([keyed("one", "k")], now=NOW)
    (claimed,) = look(engine).claims
    settle(engine, retry(claimed, NOW + SECOND))
    assert started(engine) == []
    assert started(engine, now=NOW + SECOND) == ["one"]


def test_a_keyed_job_that_expired_does_not_start(engine: Engine) -> None:
    engine.insert([keyed("one", "k", expires_at=NOW + SECOND), keyed("two", "k")], now=NOW)
    assert started(engine, now=NOW + SECOND) == ["two"]
    assert row(engine, "one").state in {State.CANCELLED, State.FAILED}


def test_nothing_starts_from_a_lane_of_a_paused_queue(engine: Engine) -> None:
    engine.insert([keyed("one", "k")], now=NOW)
    engine.queries.pause_queue("default", True)
    assert started(engine) == []
    engine.queries.pause_queue("default", False)
    assert started(engine) == ["one"]


# -- a key of which only so many may start in a time


def test_each_key_has_a_rate_of_its_own(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_rate=per_second(2, burst=3)))
    engine.insert([tenant(f"{key}{number}", key) for key in "ab" for number in range(9)], now=NOW)
    assert Counter(job_id[0] for job_id in started(engine)) == {"a": 3, "b": 3}
    engine.insert([tenant(f"c{number}", "c") for number in range(9)], now=NOW)
    turn = look(engine)
    assert ids(turn.claims) == ["c0", "c1", "c2"]
    assert turn.next_at == NOW + SECOND // 2
    assert started(engine, now=NOW + SECOND // 2 - 1) == []
    assert sorted(started(engine, now=NOW + SECOND // 2)) == ["a3", "b3", "c3"]


def test_a_rate_of_keys_leaves_the_jobs_without_one_alone(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_rate=per_second(1)))
    engine.insert([tenant("a0", "a"), tenant("a1", "a"), *numbered(20), keyed("k", "a")], now=NOW)
    begun = started(engine)
    assert "a1" not in begun
    assert len(begun) == 22


def test_a_rate_key_without_a_rate_holds_nothing_back(engine: Engine) -> None:
    engine.insert([tenant(f"a{number}", "a") for number in range(20)], now=NOW)
    assert len(started(engine)) == 20


def test_a_rate_of_keys_that_is_given_up_is_lifted(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_rate=per_second(1)))
    engine.insert([tenant(f"a{number}", "a") for number in range(20)], now=NOW)
    assert len(started(engine)) == 1
    engine.rule_store.set_rules("default", QueueRules())
    assert len(started(engine)) == 19


@pytest.mark.parametrize(("one", "other"), [(("a", "k"), ("b", "k")), (("a:b", "c"), ("a", "b:c"))])
def test_the_rate_of_a_key_is_that_of_its_queue(engine: Engine, one: tuple[str, str], other: tuple[str, str]) -> None:
    """Whatever the names: one queue's key must not be taken for another one's."""
    for queue, _ in (one, other):
        engine.rule_store.set_rules(queue, QueueRules(key_rate=per_second(1, burst=2)))
    engine.insert(
        [tenant(f"{queue}-{key}-{number}", key, queue=queue) for queue, key in (one, other) for number in range(5)],
        now=NOW,
    )
    assert [len(engine.exchange([], only(queue), now=NOW).claims) for queue, _ in (one, other)] == [2, 2]


def test_the_rate_of_a_key_over_ten_seconds_is_exact(store: StoreUnderTest) -> None:
    worker_state = [store.open(), store.open()]
    worker_state[0].rule_store.set_rules("default", QueueRules(key_rate=per_second(5, burst=2)))
    worker_state[0].insert([tenant(f"{key}{number}", key) for key in "ab" for number in range(80)], now=NOW)
    begun: Counter[str] = Counter()
    for turn, elapsed in enumerate(range(0, 10 * SECOND + 1, 100)):
        begun += Counter(job_id[0] for job_id in started(worker_state[turn % 2], now=NOW + elapsed, lease=HOUR))
        assert begun == dict.fromkeys("ab", 2 + elapsed // 200)


# -- what a worker must have


def test_a_job_starts_only_where_everything_it_needs_is(engine: Engine) -> None:
    engine.insert([needing("both", "gpu", "eu"), needing("gpu", "gpu"), needing("eu", "eu"), new_job("free")], now=NOW)
    assert started(engine, has=()) == ["free"]
    assert started(engine, has=("eu",)) == ["eu"]
    assert started(engine, has=("GPU", "eu", "gp", "gpu2")) == []
    assert sorted(started(engine, has=("x", "gpu", "eu"))) == ["both", "gpu"]


def test_needs_hold_no_slots(engine: Engine) -> None:
    engine.insert([needing(f"j{number}", "gpu") for number in range(20)], now=NOW)
    assert len(started(engine, has=("gpu",))) == 20


def test_jobs_nobody_can_run_keep_nobody_waiting(engine: Engine) -> None:
    engine.insert([*[needing(f"n{number}", "gpu", priority=9) for number in range(200)], *numbered(3)], now=NOW)
    turn = look(engine, 2)
    assert ids(turn.claims) == ["j0000", "j0001"]
    turn = look(engine, 2)
    assert (ids(turn.claims), turn.next_at) == (["j0002"], None)


# -- tasks that an operator limits


def of_task(task: str, count: int = 3, **more: object) -> list[NewJob]:
    return [new_job(f"{task}{number}", task=task, **more) for number in range(count)]  # type: ignore[arg-type]


def test_a_paused_task_does_not_start_whenever_its_jobs_were_stored(engine: Engine) -> None:
    engine.insert([*of_task("a"), *of_task("b")], now=NOW)
    engine.rule_store.set_rules("a", TaskRules(paused=True))
    assert started(engine) == ["b0", "b1", "b2"]
    engine.insert([new_job("a3", task="a"), new_job("b3", task="b")], now=NOW)
    assert started(engine) == ["b3"]
    assert look(engine).next_at is None


def test_a_task_that_is_not_paused_any_more_starts_in_its_order(engine: Engine) -> None:
    engine.insert(
        [
            new_job("second", task="a"),
            new_job("third", task="a"),
            new_job("first", task="a", priority=5),
            new_job("zeroth", task="a", priority=5, lifo=True),
        ],
        now=NOW,
    )
    engine.rule_store.set_rules("a", TaskRules(paused=True))
    assert started(engine) == []
    engine.insert([new_job("fourth", task="a"), new_job("last", task="a", priority=-5)], now=NOW)
    assert started(engine) == []
    engine.rule_store.set_rules("a", TaskRules())
    assert one_by_one(engine, 6) == ["zeroth", "first", "second", "third", "fourth", "last"]


def test_a_paused_task_in_front_keeps_nobody_waiting(engine: Engine) -> None:
    engine.insert([*of_task("a", 150, priority=7), *of_task("b", 2)], now=NOW)
    engine.rule_store.set_rules("a", TaskRules(paused=True))
    assert [started(engine, 1) for _ in range(3)] == [["b0"], ["b1"], []]
    engine.rule_store.set_rules("a", TaskRules())
    assert len(started(engine, 200)) == 150


def test_a_task_is_limited_over_all_queues(engine: Engine) -> None:
    engine.insert(
        [new_job(f"{queue}{number}", task="a", queue=queue) for queue in "pq" for number in range(5)], now=NOW
    )
    engine.rule_store.set_rules("a", TaskRules(concurrency=3))
    claims = look(engine).claims
    assert len(claims) == 3
    assert started(engine) == []
    done(claims[:1], engine)
    assert len(started(engine)) == 1


def test_what_runs_already_of_a_task_counts(engine: Engine) -> None:
    engine.insert(of_task("a", 9), now=NOW)
    assert len(started(engine, 2)) == 2
    engine.rule_store.set_rules("a", TaskRules(concurrency=3))
    assert len(started(engine)) == 1
    assert len(started(engine, now=RAN_OUT)) == 3


def test_a_task_has_a_rate_over_all_queues(engine: Engine) -> None:
    engine.insert(
        [new_job(f"{queue}{number}", task="a", queue=queue) for queue in "pq" for number in range(9)], now=NOW
    )
    engine.insert(of_task("b"), now=NOW)
    engine.rule_store.set_rules("a", TaskRules(rate=per_second(10, burst=4)))
    turn = look(engine)
    assert len(turn.claims) == 7
    assert turn.next_at == NOW + 100
    assert started(engine, now=NOW + 99) == []
    assert len(started(engine, now=NOW + 100)) == 1
    assert len(started(engine, now=NOW + 350)) == 2


def test_other_tasks_and_other_queues_go_on_as_ever(engine: Engine) -> None:
    engine.insert([*of_task("b", 5, queue="q"), new_job("urgent", task="c", queue="q", priority=3)], now=NOW)
    engine.rule_store.set_rules("a", TaskRules(paused=True))
    assert started(engine, 3) == ["urgent", "b0", "b1"]


@pytest.mark.parametrize(
    "lane_limit", [Limit("key", "k"), Limit("rate", "k"), Limit("needs", "gpu")], ids=lambda lane_limit: lane_limit.kind
)
def test_a_task_is_limited_whatever_else_its_jobs_wait_for(engine: Engine, lane_limit: Limit) -> None:
    engine.insert([gated(f"a{number}", lane_limit, task="a") for number in range(2)], now=NOW)
    engine.rule_store.set_rules("a", TaskRules(paused=True))
    engine.insert([gated("a2", lane_limit, task="a")], now=NOW)
    assert started(engine, has=("gpu",)) == []
    engine.rule_store.set_rules("a", TaskRules())
    assert one_by_one(engine, 4, has=("gpu",)) == ["a0", "a1", "a2"]


def test_the_limits_of_a_task_count_jobs_with_other_gates_too(engine: Engine) -> None:
    jobs = [tenant(f"t{number}", f"t{number % 4}", task="a") for number in range(12)]
    engine.insert([*jobs, *of_task("a", 12)], now=NOW)
    engine.rule_store.set_rules("a", TaskRules(concurrency=5))
    claims = look(engine).claims
    assert len(claims) == 5
    done(claims, engine)
    engine.rule_store.set_rules("a", TaskRules(rate=per_second(10, burst=3)))
    assert len(started(engine)) == 3
    assert len(started(engine, now=NOW + 200)) == 2


def test_a_paused_task_leaves_the_key_to_other_tasks(engine: Engine) -> None:
    engine.insert([keyed("a", "k", task="a"), keyed("b", "k", task="b")], now=NOW)
    engine.rule_store.set_rules("a", TaskRules(paused=True))
    turns = [started(engine) for _ in range(3)]
    assert [job_id for turn in turns for job_id in turn] == ["b"]


# -- a job with several gates


def test_a_job_starts_when_all_of_its_gates_are_open(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_rate=per_second(1)))
    lane_limits = (Limit("key", "k"), Limit("rate", "t"), Limit("needs", "gpu"))
    engine.insert([gated(f"j{number}", *lane_limits) for number in range(3)], now=NOW)
    assert started(engine) == []
    claims = look(engine, has=("gpu",)).claims
    assert ids(claims) == ["j0"]
    assert started(engine, has=("gpu",), now=NOW + SECOND) == []  # the key is held
    done(claims, engine, NOW + SECOND)
    assert started(engine, now=NOW + SECOND) == []
    claims = look(engine, has=("gpu",), now=NOW + SECOND).claims
    assert ids(claims) == ["j1"]
    done(claims, engine, NOW + SECOND)
    assert started(engine, has=("gpu",), now=NOW + SECOND) == []  # too early for the rate


def test_a_job_that_is_held_by_one_gate_spends_nothing_at_another(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_rate=per_second(1, burst=2)))
    engine.insert([gated("held", Limit("rate", "t"), Limit("needs", "gpu"))], now=NOW)
    assert [started(engine) for _ in range(5)] == [[]] * 5
    engine.insert([tenant(f"t{number}", "t") for number in range(3)], now=NOW)
    assert started(engine) == ["t0", "t1"]


def test_two_lanes_through_one_gate_share_it(engine: Engine) -> None:
    engine.insert(
        [keyed("plain", "k"), gated("gpu", Limit("key", "k"), Limit("needs", "gpu")), keyed("other", "j")], now=NOW
    )
    assert sorted(started(engine, has=("gpu",))) == ["other", "plain"]


def test_a_lane_and_its_queue_both_limit(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(concurrency=3, rate=per_second(10, burst=4)))
    engine.insert([keyed(f"{key}{number}", key) for key in "abcdef" for number in range(2)], now=NOW)
    claims = look(engine).claims
    assert len(claims) == 3
    done(claims, engine)
    turn = look(engine)
    assert (len(turn.claims), turn.next_at) == (1, NOW + 100)


# -- turns


@pytest.mark.parametrize("room", [1, 2, 5, 20])
def test_a_tenant_with_ten_jobs_is_done_long_before_one_with_a_thousand(engine: Engine, room: int) -> None:
    engine.insert([tenant(f"a{number}", "a") for number in range(1000)], now=NOW)
    engine.insert([tenant(f"b{number}", "b") for number in range(10)], now=NOW)
    begun: list[str] = []
    while len(begun) < 20:
        claims = look(engine, min(room, 20 - len(begun))).claims
        begun += ids(claims)
        done(claims, engine)
    assert [job_id for job_id in begun if job_id.startswith("b")] == [f"b{number}" for number in range(10)]
    assert [job_id for job_id in begun if job_id.startswith("a")] == [f"a{number}" for number in range(10)]


def test_turns_are_fair_when_several_workers_take_one_job_each(store: StoreUnderTest) -> None:
    worker_state = [store.open() for _ in range(3)]
    for key in "abcd":
        worker_state[0].insert([tenant(f"{key}{number}", key) for number in range(60)], now=NOW)
    begun: Counter[str] = Counter()
    for turn in range(60):
        begun.update(job_id[0] for job_id in one_by_one(worker_state[turn % 3], 1, worker=f"w{turn % 3}"))
    assert begun.total() == 60
    assert min(begun[key] for key in "abcd") >= 10


def test_free_jobs_get_their_turn_among_the_lanes(engine: Engine) -> None:
    engine.insert([tenant(f"t{number}", "t") for number in range(500)], now=NOW)
    engine.insert(numbered(5, "f"), now=NOW)
    begun = one_by_one(engine, 12)
    assert [job_id for job_id in begun if job_id.startswith("f")] == [f"f000{number}" for number in range(5)]


def test_lanes_get_their_turn_among_the_free_jobs(engine: Engine) -> None:
    engine.insert(numbered(500, "f"), now=NOW)
    engine.insert([tenant(f"t{number}", "t") for number in range(5)], now=NOW)
    begun = one_by_one(engine, 12)
    assert [job_id for job_id in begun if job_id.startswith("t")] == [f"t{number}" for number in range(5)]


def test_the_most_urgent_job_goes_first_whatever_its_lane(engine: Engine) -> None:
    engine.insert(
        [
            tenant("low", "a", priority=-3),
            tenant("mid", "b"),
            tenant("high", "c", priority=4),
            new_job("free and higher", priority=5),
            tenant("behind its like", "a", priority=-4),
            new_job("free and lowest", priority=-9),
        ],
        now=NOW,
    )
    expected = ["free and higher", "high", "mid", "low", "behind its like", "free and lowest"]
    assert one_by_one(engine, 6) == expected


@pytest.mark.parametrize("lanes", [40, 120])
def test_among_many_lanes_the_most_urgent_job_goes_first_too(engine: Engine, lanes: int) -> None:
    engine.insert([tenant(f"t{number:03}", f"t{number:03}") for number in range(lanes)], now=NOW)
    engine.insert([tenant("urgent", "z", priority=9), tenant("more urgent", f"t{lanes // 2:03}", priority=10)], now=NOW)
    assert one_by_one(engine, 2) == ["more urgent", "urgent"]


def test_an_urgent_job_behind_a_shut_gate_keeps_nobody_waiting(engine: Engine) -> None:
    engine.insert([keyed("holds", "k")], now=NOW)
    assert started(engine) == ["holds"]
    engine.insert([keyed("urgent", "k", priority=100), keyed("calm", "j"), new_job("free")], now=NOW)
    assert sorted(started(engine)) == ["calm", "free"]


@pytest.mark.slow_on("postgres")
def test_three_hundred_lanes_all_get_served(engine: Engine) -> None:
    jobs = [keyed(f"k{lane:03}-{number}", f"k{lane:03}") for lane in range(300) for number in range(2)]
    engine.insert(jobs, now=NOW)
    claims: list[Claim] = []
    for _ in range(60):
        claims += look(engine, 10).claims
    assert sorted(ids(claims)) == [f"k{lane:03}-0" for lane in range(300)]
    done(claims, engine)
    again: list[str] = []
    for _ in range(60):
        again += started(engine, 10)
    assert sorted(again) == [f"k{lane:03}-1" for lane in range(300)]


@pytest.mark.slow
def test_three_hundred_lanes_share_a_single_slot(engine: Engine) -> None:
    """However they were submitted: nobody has a second turn long before another one's first."""
    engine.insert(
        [tenant(f"t{lane:03}-{number}", f"t{lane:03}") for lane in range(300) for number in range(4)], now=NOW
    )
    begun = Counter(job_id.split("-")[0] for job_id in one_by_one(engine, 600))
    assert len(begun) == 300
    assert max(begun.values()) <= 3


def test_shut_lanes_do_not_hide_an_open_one(engine: Engine) -> None:
    """Over several claims, as long as each says that there is more to look at."""
    engine.insert([needing(f"n{number:04}", f"n{number:04}") for number in range(1200)], now=NOW)
    engine.insert([tenant("open", "z")], now=NOW)
    for _ in range(5):
        turn = look(engine, 1)
        if turn.claims:
            assert ids(turn.claims) == ["open"]
            return
        assert turn.next_at == NOW, "nothing found, and no word that there is more to look at"
    pytest.fail("five claims did not find it")


def test_shut_lanes_do_not_keep_a_worker_busy(engine: Engine) -> None:
    """Once all were looked at and none is open, there is nothing to come back for."""
    engine.insert([needing(f"n{number:04}", f"n{number:04}") for number in range(1200)], now=NOW)
    moments = [look(engine, 1).next_at for _ in range(6)]
    assert None in moments


def test_what_opens_while_the_lanes_are_looked_at_is_found(engine: Engine) -> None:
    engine.insert([keyed(f"k{number:04}", f"k{number % 600:04}") for number in range(1200)], now=NOW)
    claims = look(engine, 600).claims
    assert len({claimed.id for claimed in claims}) == 600
    for claimed in claims[::97]:
        done([claimed], engine)
        found = [job_id for _ in range(4) for job_id in started(engine, 1)]
        assert found == [f"k{int(claimed.id[1:]) + 600:04}"]


# -- a job stays in its lane


WAYS_BACK: dict[str, Callable[[Engine, Claim], object]] = {
    "release": lambda engine, claimed: settle(engine, release(claimed)),
    "retry": lambda engine, claimed: settle(engine, retry(claimed, NOW)),
    "snooze": lambda engine, claimed: settle(engine, snooze(claimed, NOW)),
    "reap": lambda engine, claimed: engine.reap(10, now=RAN_OUT),
    "disown": lambda engine, claimed: engine.release_unknown_claims("w1", [], now=NOW),
    "revive": lambda engine, claimed: (
        engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW),
        engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW),
    ),
}


@pytest.mark.parametrize("back", WAYS_BACK.values(), ids=WAYS_BACK)
def test_a_job_that_comes_back_is_in_its_lane_again(engine: Engine, back: Callable[[Engine, Claim], object]) -> None:
    engine.insert([gated("one", Limit("key", "k"), Limit("needs", "gpu"))], now=NOW)
    (claimed,) = look(engine, has=("gpu",)).claims
    back(engine, claimed)
    assert row(engine, "one").lane == lane_of([Limit("key", "k"), Limit("needs", "gpu")])
    engine.insert([keyed("two", "k", priority=-1)], now=NOW)
    assert started(engine, now=RAN_OUT, has=("gpu",)) == ["one"]
    assert started(engine, now=RAN_OUT, has=("gpu",)) == []


def test_a_job_whose_queue_is_changed_keeps_its_lane(engine: Engine) -> None:
    engine.insert([keyed("holds", "k"), keyed("moved", "k")], now=NOW)
    assert started(engine) == ["holds"]
    assert engine.queries.update("moved", JobUpdate(queue="other", priority=9), now=NOW)
    assert row(engine, "moved").lane == lane_of([Limit("key", "k")])
    assert started(engine) == []


def test_a_waiting_job_is_in_its_lane_when_it_is_promoted(engine: Engine) -> None:
    engine.insert([keyed("holds", "k"), keyed("later", "k", run_at=NOW + HOUR)], now=NOW)
    assert started(engine) == ["holds"]
    assert engine.queries.move(Filter(ids=("later",)), Trigger.PROMOTE_NOW, 1, now=NOW) == ["later"]
    assert started(engine) == []
    engine.queries.move(Filter(ids=("holds",)), Trigger.CANCEL, 1, now=NOW)
    assert started(engine) == ["later"]


def test_the_desk_shows_the_lanes_of_jobs(engine: Engine) -> None:
    engine.insert([keyed("one", "k"), new_job("free"), tenant("later", "t", run_at=NOW + HOUR)], now=NOW)
    expected = {"one": '["c:k"]', "free": "", "later": '["r:t"]'}
    assert {job_id: job.lane for job_id, job in rows(engine).items()} == expected
    assert {job.id: job.lane for job in engine.queries.get(["one", "free", "later"])} == expected


def test_peek_shows_the_jobs_of_every_lane_as_they_will_start(engine: Engine) -> None:
    engine.insert(
        [
            tenant("a0", "a"),
            tenant("a1", "a"),
            tenant("b0", "b", priority=2),
            new_job("free"),
            tenant("c0", "c", priority=-1),
            new_job("elsewhere", queue="other"),
        ],
        now=NOW,
    )
    shown = [job.id for job in engine.queries.peek("default", 100)]
    assert shown[0] == "b0"
    assert shown[-1] == "c0"
    assert sorted(shown) == ["a0", "a1", "b0", "c0", "free"]
    assert [job.id for job in engine.queries.peek("default", 2)] == shown[:2]
    assert ids(engine.exchange([], only("default"), now=NOW).claims) == shown


def test_peek_shows_what_waits_behind_a_shut_gate(engine: Engine) -> None:
    engine.insert([keyed("holds", "k"), keyed("waits", "k"), needing("gpu", "gpu")], now=NOW)
    assert started(engine) == ["holds"]
    assert sorted(job.id for job in engine.queries.peek("default", 10)) == ["gpu", "waits"]


def test_a_job_is_carried_to_another_store_with_its_lane(engine: Engine, target: Engine) -> None:
    engine.insert([keyed("one", "k"), keyed("two", "k"), needing("gpu", "gpu"), new_job("free")], now=NOW)
    assert len(started(engine)) == 2
    job_exports = engine.transfer.export_jobs(0, 100)
    assert target.transfer.import_records(job_exports) == 4
    assert [job_export.job.lane for job_export in job_exports] == ['["c:k"]', '["c:k"]', '["n:gpu"]', ""]
    assert {i: job.lane for i, job in rows(target).items()} == {i: job.lane for i, job in rows(engine).items()}
    assert started(target) == []  # one is still running, and nobody has a gpu
    assert started(target, has=("gpu",)) == ["gpu"]
    assert started(target, now=RAN_OUT, worker="w2") == ["two"]


# -- what operators ask


def unmet(engine: Engine, now: int = NOW) -> dict[str, int]:
    """What no live worker has, as the check reports it, and how many pending jobs need it."""
    found = [finding for finding in engine.maintenance.inspect(now) if finding.code == "needs_unmet"]
    return {
        finding.sentence.partition(", which")[0].removeprefix("no live worker of "): finding.count for finding in found
    }


def test_what_is_needed_is_told_by_queue(engine: Engine) -> None:
    gpu = Limit("needs", "gpu")
    engine.insert(
        [
            needing("a", "gpu"),
            needing("b", "gpu"),
            needing("c", "gpu", "disk"),
            needing("d", "gpu", queue="other"),
            gated("e", gpu, Limit("key", "k")),
            keyed("f", 'x"n:y'),
            new_job("g"),
            needing("later", "gpu", state=State.SCHEDULED, run_at=NOW + HOUR),
        ],
        now=NOW,
    )
    assert unmet(engine) == {
        "queue 'default' has gpu": 3,
        "queue 'default' has disk and gpu": 1,
        "queue 'other' has gpu": 1,
    }
    engine.renew(worker_row("w1", seen_at=NOW, queues='["default"]', capabilities='["gpu"]'), (), 0, now=NOW)
    assert unmet(engine) == {"queue 'default' has disk and gpu": 1, "queue 'other' has gpu": 1}
    assert len(unmet(engine, NOW + HOUR)) == 3, "it is silent"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_whatever_is_needed_is_told(engine: Engine, name: str) -> None:
    engine.insert([needing("a", name)], now=NOW)
    assert unmet(engine) == {f"queue 'default' has {name}": 1}


def test_nothing_is_needed_once_it_runs(engine: Engine) -> None:
    engine.insert([needing("a", "gpu")], now=NOW)
    assert started(engine, has=("gpu",)) == ["a"]
    assert unmet(engine) == {}


def test_needs_in_many_lanes_are_all_told(engine: Engine) -> None:
    engine.insert([gated(f"j{n}", Limit("needs", "gpu"), Limit("key", f"k{n}")) for n in range(2500)], now=NOW)
    assert unmet(engine) == {"queue 'default' has gpu": 2500}
