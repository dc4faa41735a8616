"""Rates and concurrency: a store never lets more start than its rules allow, and tells when it will let more.

Time is simulated wherever a rate is measured, so every count is exact. Lanes have a file of their own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules
from headrace.core.jobs.records import Claim, ClaimRequest, Filter, Outcome, QueueShare
from headrace.core.jobs.states import State, Trigger
from headrace.core.queues.limits import Limit, lane_of
from headrace.core.queues.rates import starts_left
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    fail,
    gated,
    give_up,
    ids,
    keyed,
    lease_of,
    look,
    new_job,
    numbered,
    only,
    park,
    per_second,
    release,
    retry,
    row,
    running_jobs,
    settle,
    snooze,
    started,
    states,
    succeed,
    tenant,
    together,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

TENTH = 100
TEN_A_SECOND = per_second(10, burst=5)
RAN_OUT = NOW + LEASE

WAYS_TO_END: dict[str, Callable[[Claim], Outcome]] = {
    "succeed": succeed,
    "fail": fail,
    "retry": lambda claimed: retry(claimed, NOW + HOUR),
    "snooze": lambda claimed: snooze(claimed, NOW + HOUR),
    "release": release,
    "park": lambda claimed: park(claimed, NOW + HOUR),
    "give up": give_up,
}
however_it_ends = pytest.mark.parametrize("end", WAYS_TO_END.values(), ids=WAYS_TO_END)


def rated(engine: Engine, rate: Rate | None, queue: str = "default") -> None:
    engine.rule_store.set_rules(queue, QueueRules(rate=rate))


def at_once(engine: Engine, jobs: int | None, queue: str = "default") -> None:
    engine.rule_store.set_rules(queue, QueueRules(concurrency=jobs))


# -- the rate of a queue


def test_a_burst_starts_at_once_and_then_one_at_each_interval(engine: Engine) -> None:
    engine.insert(numbered(50), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert started(engine) == [f"j000{number}" for number in range(5)]
    for number in range(5, 10):
        moment = NOW + (number - 4) * TENTH
        assert started(engine, now=moment - 1) == []
        assert started(engine, now=moment) == [f"j000{number}"]
        assert started(engine, now=moment) == []


@pytest.mark.parametrize("every", [100_000, 333_333, 1_000, 1_001, 1_999, 7_000_001])
def test_the_answer_tells_exactly_when_the_next_one_may_start(engine: Engine, every: int) -> None:
    """To the millisecond, rounded up: a worker that comes at that moment is never sent away again."""
    engine.insert(numbered(20), now=NOW)
    rated(engine, Rate(every, 3))
    now, begun = NOW, 0
    while begun < 15:
        turn = look(engine, now=now)
        begun += len(turn.claims)
        assert turn.claims, f"nothing at {now - NOW} ms after {begun} jobs, where one was promised"
        assert turn.next_at == NOW + -(-((begun - 2) * every) // 1000)
        assert started(engine, now=turn.next_at - 1) == []
        now = turn.next_at


def test_who_comes_too_early_is_told_the_same_moment(engine: Engine) -> None:
    engine.insert(numbered(20), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert [look(engine, now=now).next_at for now in (NOW, NOW, NOW + 50, NOW + 99)] == [NOW + TENTH] * 4


def test_who_takes_less_than_the_burst_may_take_the_rest(engine: Engine) -> None:
    engine.insert(numbered(20), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert [len(started(engine, 2)) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.slow
def test_over_30_seconds_three_workers_start_exactly_what_the_rate_allows(store: StoreUnderTest) -> None:
    worker_state = [store.open() for _ in range(3)]
    worker_state[0].insert(numbered(3100), now=NOW)
    rated(worker_state[0], per_second(100, burst=20))
    begun: list[str] = []
    for turn, elapsed in enumerate(range(0, 30 * SECOND + 1, 50)):
        begun += started(worker_state[turn % 3], now=NOW + elapsed, worker=f"w{turn % 3}", lease=HOUR)
        assert len(begun) == 20 + elapsed // 10
    assert len(set(begun)) == 3020


def test_a_worker_with_one_slot_comes_as_often_as_the_rate_allows(engine: Engine) -> None:
    engine.insert(numbered(100), now=NOW)
    rated(engine, per_second(10, burst=2))
    moments = [elapsed for elapsed in range(0, 2001, 20) if started(engine, 1, now=NOW + elapsed)]
    assert moments == [0, 20, *range(100, 2001, 100)]


def test_a_rate_that_is_given_up_is_lifted_at_once(engine: Engine) -> None:
    engine.insert(numbered(50), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert len(started(engine)) == 5
    rated(engine, None)
    turn = look(engine)
    assert (len(turn.claims), turn.next_at) == (45, None)


def test_a_rested_bucket_is_full_again_and_never_fuller(engine: Engine) -> None:
    engine.insert(numbered(50), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert [len(started(engine, now=NOW + rest)) for rest in (0, 200, 24 * HOUR, 24 * HOUR + 450)] == [5, 2, 5, 4]


def test_a_claim_that_finds_no_job_spends_nothing(engine: Engine) -> None:
    rated(engine, TEN_A_SECOND)
    assert [started(engine) for _ in range(10)] == [[]] * 10
    engine.insert(numbered(3), now=NOW)
    assert len(started(engine)) == 3
    engine.insert(numbered(3, "k"), now=NOW)
    assert len(started(engine)) == 2


def test_queues_do_not_share_their_rates(engine: Engine) -> None:
    engine.insert(
        [*numbered(20, "a", queue="a"), *numbered(20, "b", queue="b"), *numbered(20, "c", queue="c")], now=NOW
    )
    rated(engine, per_second(10, burst=2), "a")
    rated(engine, per_second(2, burst=3), "b")
    turn = look(engine)
    assert sorted(job_id[0] for job_id in ids(turn.claims)) == ["a"] * 2 + ["b"] * 3 + ["c"] * 20
    assert turn.next_at == NOW + TENTH
    turn = look(engine, now=NOW + 5 * TENTH)
    assert sorted(job_id[0] for job_id in ids(turn.claims)) == ["a", "a", "b"]


@however_it_ends
def test_what_has_started_counts_however_it_ends(engine: Engine, end: Callable[[Claim], Outcome]) -> None:
    engine.insert(numbered(20), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert settle(engine, *map(end, look(engine).claims)) == []
    assert started(engine) == []
    assert len(started(engine, now=NOW + TENTH)) == 1


def test_a_job_that_starts_again_takes_a_start_again(engine: Engine) -> None:
    engine.insert(numbered(1), now=NOW)
    rated(engine, per_second(10, burst=2))
    for _ in range(2):
        (claimed,) = look(engine).claims
        settle(engine, release(claimed))
    assert started(engine) == []
    assert started(engine, now=NOW + TENTH) == ["j0000"]


def test_a_share_and_what_is_left_after_it_are_one_rate(engine: Engine) -> None:
    """A claim takes from a queue up to its share, and once more if room is left."""
    engine.insert([*numbered(20, "a", queue="a"), *numbered(1, "b", queue="b")], now=NOW)
    rated(engine, TEN_A_SECOND, "a")
    wanted = ClaimRequest("w1", 50, LEASE, (QueueShare("a", 2), QueueShare("b", 2)))
    assert len(engine.exchange([], wanted, now=NOW).claims) == 6
    assert engine.exchange([], wanted, now=NOW).claims == []


def test_a_share_and_what_is_left_after_it_are_one_concurrency(engine: Engine) -> None:
    engine.insert([*numbered(20, "a", queue="a"), *numbered(1, "b", queue="b")], now=NOW)
    at_once(engine, 3, "a")
    wanted = ClaimRequest("w1", 50, LEASE, (QueueShare("a", 2), QueueShare("b", 2)))
    assert len(engine.exchange([], wanted, now=NOW).claims) == 4
    assert running_jobs(engine) == 4


def test_whatever_comes_first_a_due_job_or_the_next_start_is_told(engine: Engine) -> None:
    engine.insert([*numbered(20), new_job("soon", run_at=NOW + 30), new_job("late", run_at=NOW + HOUR)], now=NOW)
    rated(engine, TEN_A_SECOND)
    assert look(engine).next_at == NOW + 30
    assert look(engine, now=NOW + 30).next_at == NOW + TENTH


def test_a_rate_made_anew_holds_from_the_next_claim_on(engine: Engine) -> None:
    """What was spent by a slow rate must not keep a queue shut for hours by a fast one."""
    engine.insert(numbered(50), now=NOW)
    rated(engine, Rate(3_600_000_000, 5))  # one an hour
    assert len(started(engine)) == 5
    rated(engine, per_second(10, burst=5))
    begun = sum(len(started(engine, now=NOW + elapsed)) for elapsed in range(0, 1001, 10))
    assert 9 <= begun <= 15


def test_a_slower_rate_holds_from_the_next_claim_on(engine: Engine) -> None:
    engine.insert(numbered(50), now=NOW)
    rated(engine, per_second(100, burst=10))
    assert len(started(engine)) == 10
    rated(engine, per_second(1, burst=1))
    assert sum(len(started(engine, now=NOW + elapsed)) for elapsed in range(0, 5001, 100)) in (5, 6)


def test_rules_made_anew_with_the_same_rate_spend_nothing_anew(engine: Engine) -> None:
    engine.insert(numbered(50), now=NOW)
    rated(engine, TEN_A_SECOND)
    assert len(started(engine)) == 5
    engine.rule_store.set_rules("default", QueueRules(rate=TEN_A_SECOND, weight=3, concurrency=40))
    assert look(engine).next_at == NOW + TENTH
    assert started(engine) == []


def test_what_one_engine_spent_another_one_minds(store: StoreUnderTest) -> None:
    first = store.open()
    first.insert(numbered(20), now=NOW)
    rated(first, TEN_A_SECOND)
    second = store.open()
    assert len(started(first)) == 5
    turn = look(second)
    assert (turn.claims, turn.next_at) == ([], NOW + TENTH)
    first.close()
    assert look(store.open()).claims == []
    assert len(look(second, now=NOW + 3 * TENTH).claims) == 3


def test_a_rate_leaves_other_queues_with_their_order(engine: Engine) -> None:
    engine.insert([new_job("low", queue="plain"), new_job("high", queue="plain", priority=9)], now=NOW)
    engine.insert(numbered(9, queue="rated"), now=NOW)
    rated(engine, TEN_A_SECOND, "rated")
    begun = started(engine)
    assert begun.index("high") < begun.index("low")
    assert len(begun) == 7


def test_a_rate_does_not_change_the_order(engine: Engine) -> None:
    engine.insert([new_job(f"p{number}", priority=number % 4, lifo=number % 3 == 0) for number in range(20)], now=NOW)
    shown = [job.id for job in engine.queries.peek("default", 100)]
    rated(engine, TEN_A_SECOND)
    begun: list[str] = []
    for elapsed in range(0, 2000, TENTH):
        begun += started(engine, now=NOW + elapsed)
    assert begun == shown


# -- the concurrency of a queue


def test_no_more_run_at_once_than_the_rule_says(store: StoreUnderTest) -> None:
    one, other = store.open(), store.open()
    one.insert(numbered(20), now=NOW)
    at_once(one, 5)
    assert [len(started(engine, 3, worker=worker)) for engine, worker in ((one, "a"), (other, "b"), (one, "c"))] == [
        3,
        2,
        0,
    ]
    assert one.rule_store.limit_state(now=NOW).running == [("default", "work", "", 5)]


def test_a_concurrency_that_is_given_up_is_lifted_at_once(engine: Engine) -> None:
    engine.insert(numbered(20), now=NOW)
    at_once(engine, 5)
    assert len(started(engine)) == 5
    at_once(engine, None)
    assert len(started(engine)) == 15


def test_a_concurrency_that_is_lowered_lets_none_start_until_enough_have_ended(engine: Engine) -> None:
    engine.insert(numbered(20), now=NOW)
    at_once(engine, 5)
    claims = look(engine).claims
    at_once(engine, 2)
    for claimed in claims[:3]:
        assert started(engine) == []
        settle(engine, succeed(claimed))
    assert started(engine) == []
    settle(engine, succeed(claims[3]))
    assert len(started(engine)) == 1


@however_it_ends
def test_a_slot_returns_however_an_attempt_ends(engine: Engine, end: Callable[[Claim], Outcome]) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    first, second = look(engine).claims
    assert started(engine) == []
    assert settle(engine, end(first)) == []
    assert len(started(engine)) == 1
    assert started(engine) == []
    assert running_jobs(engine) == 2
    assert row(engine, second.id).state is State.RUNNING


def test_a_slot_returns_to_the_turn_that_settles(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    claims = look(engine).claims
    assert len(started(engine, done=[succeed(claimed) for claimed in claims])) == 2


def test_a_slot_returns_when_an_operator_cancels_its_job(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    first, _ = look(engine).claims
    assert engine.queries.move(Filter(ids=(first.id,)), Trigger.CANCEL, 1, now=NOW) == [first.id]
    assert len(started(engine)) == 1
    assert started(engine) == []


def test_a_slot_returns_when_the_lease_has_run_out_though_nobody_reaped_it(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    assert started(engine) == ["j0000", "j0001"]
    assert running_jobs(engine, RAN_OUT - 1) == 2
    assert started(engine, now=RAN_OUT - 1) == []
    assert running_jobs(engine, RAN_OUT) == 0
    assert started(engine, now=RAN_OUT, worker="w2") == ["j0002", "j0003"]
    assert started(engine, now=RAN_OUT, worker="w2") == []


def test_a_slot_returns_when_its_job_is_reaped(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    assert started(engine) == ["j0000", "j0001"]
    assert len(engine.reap(10, now=RAN_OUT)) == 2
    assert running_jobs(engine, RAN_OUT) == 0
    assert len(started(engine, now=RAN_OUT)) == 2
    assert started(engine, now=RAN_OUT) == []


def test_a_slot_returns_when_a_claim_is_disowned(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    first, second = look(engine).claims
    assert engine.release_unknown_claims("w1", [lease_of(first)], now=NOW) == [second.id]
    assert len(started(engine)) == 1


def test_a_slot_is_held_for_as_long_as_its_lease_is_renewed(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    leases = [lease_of(claimed) for claimed in look(engine).claims]
    assert engine.renew(worker_row(), leases, LEASE, now=RAN_OUT - 1).lost == frozenset()
    assert started(engine, now=RAN_OUT) == []
    assert started(engine, now=RAN_OUT + LEASE - 2) == []
    assert len(started(engine, now=RAN_OUT + LEASE - 1)) == 2


def test_queues_do_not_share_their_slots(engine: Engine) -> None:
    engine.insert([*numbered(9, "a", queue="a"), *numbered(9, "b", queue="b"), *numbered(9, "c", queue="c")], now=NOW)
    at_once(engine, 2, "a")
    at_once(engine, 3, "b")
    assert sorted(job_id[0] for job_id in started(engine)) == ["a"] * 2 + ["b"] * 3 + ["c"] * 9


def test_what_ran_before_the_rule_was_made_counts(engine: Engine) -> None:
    engine.insert(numbered(20), now=NOW)
    assert len(started(engine, 4)) == 4
    at_once(engine, 5)
    assert len(started(engine)) == 1


def test_a_rate_and_a_concurrency_both_hold(engine: Engine) -> None:
    engine.insert(numbered(50), now=NOW)
    engine.rule_store.set_rules("default", QueueRules(rate=TEN_A_SECOND, concurrency=3))
    claims = look(engine).claims
    assert len(claims) == 3
    second = look(engine, done=[succeed(claimed) for claimed in claims]).claims
    assert len(second) == 2  # what the burst has left
    settle(engine, *map(succeed, second))
    assert started(engine) == []
    assert len(started(engine, now=NOW + SECOND)) == 3


def test_a_full_queue_says_no_time_for_only_a_ring_can_tell(engine: Engine) -> None:
    engine.insert(numbered(9), now=NOW)
    at_once(engine, 2)
    look(engine)
    assert look(engine).next_at is None


@pytest.mark.parametrize("end", ["settle", "wait", "fail", "cancel", "reap"])
def test_whoever_waits_for_a_slot_is_woken_when_one_is_free(store: StoreUnderTest, end: str) -> None:
    working, waiting = store.open(), store.open()
    working.insert(numbered(9), now=NOW)
    at_once(working, 1)
    (claimed,) = look(working).claims
    if end == "wait":  # its success is not its end, and yet it holds its place no longer
        later = new_job("later", state=State.SCHEDULED, run_at=NOW + HOUR)
        working.insert([later], edges=[Dependency("later", claimed.id)], now=NOW)
    bell = waiting.listen("work")
    try:
        while bell.wait(0.1):  # what is still on its way from before
            pass
        assert started(waiting) == []
        if end in ("settle", "wait"):
            settle(working, succeed(claimed))
        elif end == "fail":
            settle(working, fail(claimed))
        elif end == "cancel":
            working.queries.move(Filter(ids=(claimed.id,)), Trigger.CANCEL, 1, now=NOW)
        else:
            working.reap(10, now=RAN_OUT)
        assert bell.wait(PATIENCE)
    finally:
        bell.close()


# -- rules as everybody sees them


def test_rules_hold_from_the_next_claim_of_another_engine_on(store: StoreUnderTest) -> None:
    operator, working = store.open(), store.open()
    operator.insert(numbered(50), now=NOW)
    assert len(started(working, 1)) == 1
    at_once(operator, 4)
    assert len(started(working)) == 3
    rated(operator, per_second(10, burst=2))
    assert len(started(working)) == 2
    rated(operator, None)
    assert len(started(working)) == 44


def test_the_answer_tells_the_weights_of_the_queues_that_have_one(store: StoreUnderTest) -> None:
    operator, working = store.open(), store.open()
    operator.insert([new_job(name, queue=name) for name in ("a", "b", "c")], now=NOW)
    assert look(working, 1).weights == {}
    operator.rule_store.set_rules("a", QueueRules(weight=5))
    operator.rule_store.set_rules("b", QueueRules(weight=2, concurrency=1))
    operator.rule_store.set_rules("c", QueueRules(max_length=10))
    assert look(working, 1).weights == {"a": 5, "b": 2}
    operator.rule_store.set_rules("a", QueueRules())
    assert look(working, 1).weights == {"b": 2}


def test_tasks_are_listed_by_name_with_their_rules(store: StoreUnderTest) -> None:
    engine, other = store.open(), store.open()
    assert engine.queries.rules().tasks == []
    rules = {
        "mail.send": TaskRules(paused=True),
        "a.b": TaskRules(rate=Rate(500_000, 3), concurrency=2),
        "z": TaskRules(concurrency=1),
        "it's %s {x}*?": TaskRules(paused=True, concurrency=7),
    }
    for name, of_task in rules.items():
        engine.rule_store.set_rules(name, of_task)
    assert other.queries.rules().tasks == [TaskRow(name, rules[name]) for name in sorted(rules)]


def test_new_rules_of_a_task_take_the_place_of_the_old_ones_and_none_remove_it(engine: Engine) -> None:
    engine.rule_store.set_rules("work", TaskRules(paused=True))
    engine.rule_store.set_rules("work", TaskRules(concurrency=2))
    assert engine.queries.rules().tasks == [TaskRow("work", TaskRules(concurrency=2))]
    engine.rule_store.set_rules("work", TaskRules())
    assert engine.queries.rules().tasks == []
    engine.rule_store.set_rules("never had any", TaskRules())
    assert engine.queries.rules().tasks == []


def test_a_new_rule_of_a_task_wakes_the_workers(store: StoreUnderTest) -> None:
    engine, listening = store.open(), store.open()
    engine.insert([new_job("a")], now=NOW)
    bell = listening.listen("work")
    engine.rule_store.set_rules("work", TaskRules(concurrency=5))
    assert bell.wait(PATIENCE)
    bell.close()


def test_the_desk_tells_what_runs_by_queue_task_and_lane(engine: Engine) -> None:
    engine.insert(
        [
            *numbered(3, "a", queue="a", task="one"),
            *numbered(2, "b", queue="a", task="two"),
            keyed("c", "k", queue="b", task="one"),
            new_job("later", run_at=NOW + HOUR),
        ],
        now=NOW,
    )
    assert engine.rule_store.limit_state(now=NOW).running == []
    assert len(started(engine)) == 6
    found = sorted(engine.rule_store.limit_state(now=NOW).running)
    assert found == [("a", "one", "", 3), ("a", "two", "", 2), ("b", "one", '["c:k"]', 1)]
    assert engine.rule_store.limit_state(now=RAN_OUT).running == []


# -- many at once


class Gauge:
    """How many run of each kind, as those who run them see it: never more than truly run, so an excess is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.begun: list[str] = []

    def begin(self, claims: list[Claim], kind: Callable[[Claim], str]) -> None:
        with self._lock:
            self.begun += ids(claims)
            for claimed in claims:
                name = kind(claimed)
                self.now[name] = self.now.get(name, 0) + 1
                self.most[name] = max(self.most.get(name, 0), self.now[name])

    def end(self, claims: list[Claim], kind: Callable[[Claim], str]) -> None:
        with self._lock:
            for claimed in claims:
                self.now[kind(claimed)] -= 1


def by_key(claimed: Claim) -> str:
    return claimed.id.split("-")[0]


def run_all(
    worker_state: list[Engine], jobs: int, gauge: Gauge, kind: Callable[[Claim], str], room: int = 3
) -> list[int]:
    """Start and end every job with all engines at once; the numbers of running jobs that the desk told meanwhile."""
    counts: list[int] = []
    deadline = time.monotonic() + PATIENCE

    def work(number: int) -> None:
        held: list[Claim] = []
        while len(gauge.begun) < jobs:
            assert time.monotonic() < deadline, f"only {len(gauge.begun)} of {jobs} jobs were started in time"
            claims = look(worker_state[number], room, worker=f"w{number}").claims
            gauge.begin(claims, kind)
            held += claims
            counts.append(running_jobs(worker_state[number]))
            gauge.end(held, kind)
            assert settle(worker_state[number], *map(succeed, held)) == []
            held = []

    together(len(worker_state), work)
    return counts


@pytest.mark.slow_on("postgres")
def test_eight_at_once_never_run_more_than_the_concurrency(store: StoreUnderTest) -> None:
    worker_state = [store.open() for _ in range(8)]
    worker_state[0].insert(numbered(200), now=NOW)
    at_once(worker_state[0], 5)
    gauge = Gauge()
    counts = run_all(worker_state, 200, gauge, lambda claimed: "all")
    assert sorted(gauge.begun) == [f"j{number:04}" for number in range(200)]
    assert gauge.most["all"] <= 5
    assert max(counts) <= 5
    assert set(states(worker_state[0]).values()) == {State.COMPLETED}


@pytest.mark.slow_on("postgres")
def test_eight_at_once_never_start_more_than_the_rate(store: StoreUnderTest) -> None:
    worker_state = [store.open() for _ in range(8)]
    worker_state[0].insert(numbered(400), now=NOW)
    rated(worker_state[0], per_second(10, burst=50))

    def take_all(elapsed: int) -> int:
        def take(number: int) -> int:
            return sum(len(started(worker_state[number], 3, now=NOW + elapsed, worker=f"w{number}")) for _ in range(8))

        return sum(together(8, take))

    assert [take_all(elapsed) for elapsed in (0, 0, SECOND, 3 * SECOND, 3 * SECOND, HOUR)] == [50, 0, 10, 20, 0, 50]


@pytest.mark.slow_on("postgres")
def test_eight_at_once_never_run_more_of_a_key_than_allowed(store: StoreUnderTest) -> None:
    worker_state = [store.open() for _ in range(8)]
    worker_state[0].rule_store.set_rules("default", QueueRules(key_concurrency=2))
    worker_state[0].insert([keyed(f"k{number % 12}-{number}", f"k{number % 12}") for number in range(180)], now=NOW)
    gauge = Gauge()
    run_all(worker_state, 180, gauge, by_key)
    assert len(set(gauge.begun)) == len(gauge.begun) == 180
    assert set(gauge.most) == {f"k{number}" for number in range(12)}
    assert max(gauge.most.values()) <= 2


@pytest.mark.slow_on("postgres")
def test_eight_at_once_under_every_kind_of_limit(store: StoreUnderTest) -> None:
    """Keys, rates of keys, a queue's rate and concurrency, and a task's: none is exceeded by anybody."""
    worker_state = [store.open() for _ in range(8)]
    rules = QueueRules(rate=per_second(10, 70), concurrency=6, key_concurrency=2, key_rate=per_second(1, 12))
    worker_state[0].rule_store.set_rules("default", rules)
    worker_state[0].rule_store.set_rules("work", TaskRules(concurrency=5))
    jobs = [
        gated(f"k{number % 8}-{number}", Limit("key", f"k{number % 8}"), Limit("rate", f"k{number % 8}"))
        for number in range(160)
    ]
    worker_state[0].insert([*jobs, *[tenant(f"t-{number}", "t") for number in range(40)]], now=NOW)
    gauge = Gauge()
    counts = run_all(worker_state, 70, gauge, by_key)
    assert len(set(gauge.begun)) == len(gauge.begun) == 70
    assert max(counts) <= 5
    assert all(most <= 2 for key, most in gauge.most.items() if key != "t")
    starts = {key: sum(job_id.startswith(f"{key}-") for job_id in gauge.begun) for key in gauge.most}
    assert max(starts.values()) <= 12
    assert started(worker_state[0]) == []


def test_queues_without_rules_are_not_slowed_by_who_minds_rules_elsewhere(store: StoreUnderTest) -> None:
    """Each job of both queues exactly once, whoever claims how."""
    worker_state = [store.open() for _ in range(4)]
    at_once(worker_state[0], 1000, "ruled")
    worker_state[0].insert([*numbered(300, "p", queue="plain"), *numbered(300, "r", queue="ruled")], now=NOW)
    deadline = time.monotonic() + PATIENCE
    begun: list[str] = []

    def drain(number: int) -> None:
        wanted = [only("plain", 7, f"w{number}"), only("ruled", 7, f"w{number}")]
        while len(begun) < 600:
            assert time.monotonic() < deadline
            for one in wanted:
                begun.extend(ids(worker_state[number].exchange([], one, now=NOW).claims))

    together(4, drain)
    assert len(set(begun)) == len(begun) == 600
    assert worker_state[0].queries.count(EVERYTHING).jobs == 600


def test_a_queue_with_rules_has_its_share_beside_a_busy_one_without(engine: Engine) -> None:
    engine.rule_store.set_rules("ruled", QueueRules(concurrency=1000))
    engine.insert([new_job(f"p{n}", queue="plain") for n in range(100)], now=NOW)
    engine.insert([new_job(f"r{n}", queue="ruled") for n in range(20)], now=NOW)
    shares = (QueueShare("plain", 5), QueueShare("ruled", 5))
    turns = [engine.exchange([], ClaimRequest("w1", 10, HOUR, shares), now=NOW).claims for _ in range(4)]
    assert [Counter(claim.queue for claim in claims) for claims in turns] == [{"plain": 5, "ruled": 5}] * 4
    claims = engine.exchange([], ClaimRequest("w1", 10, HOUR, shares), now=NOW).claims
    assert Counter(claim.queue for claim in claims) == {"plain": 10}, "what it can't use goes to the others"


def test_a_clock_that_was_set_back_does_not_shut_a_rate_for_as_long(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(rate=Rate(100_000, 2)))
    engine.insert([new_job(f"j{n}") for n in range(10)], now=NOW)
    assert len(engine.exchange([], ClaimRequest("w1", 10, HOUR), now=NOW).claims) == 2
    before = NOW - HOUR
    answer = engine.exchange([], ClaimRequest("w1", 10, HOUR), now=before)
    assert answer.next_at is not None
    assert answer.next_at <= before + 1000
    assert len(engine.exchange([], ClaimRequest("w1", 10, HOUR), now=answer.next_at).claims) >= 1


# -- what operators ask


def left(engine: Engine, rate: Rate, now: int, queue: str = "default") -> int:
    return starts_left(
        rate, engine.rule_store.limit_state({("queue", queue): rate}).full_at.get(("queue", queue), ()), 1000 * now
    )


def test_what_is_left_of_a_rate_is_what_a_claim_would_start(engine: Engine) -> None:
    rate = per_second(10, burst=5)
    rated(engine, rate)
    assert left(engine, rate, NOW) == 5
    engine.insert(numbered(30), now=NOW)
    assert len(started(engine, 3)) == 3
    assert left(engine, rate, NOW) == 2
    for now in (NOW, NOW + TENTH, NOW + TENTH, NOW + 3 * TENTH, NOW + HOUR):
        counts = left(engine, rate, now)
        assert len(started(engine, now=now)) == counts
        assert left(engine, rate, now) == 0


def test_each_queue_and_each_rate_is_asked_for_by_itself(engine: Engine) -> None:
    rate, other = per_second(1, burst=5), per_second(2, burst=5)
    for queue in ("default", "a", 'it"s'):
        rated(engine, rate, queue)
    engine.insert([*numbered(2), new_job("a", queue="a")], now=NOW)
    assert len(started(engine)) == 3
    queues = ("default", "a", 'it"s', "unknown")
    rested = engine.rule_store.limit_state({("queue", queue): rate for queue in queues}).full_at
    assert {queue: starts_left(rate, rested.get(("queue", queue), ()), 1000 * NOW) for queue in queues} == {
        "default": 3,
        "a": 4,
        'it"s': 5,
        "unknown": 5,
    }
    assert left(engine, other, NOW) == 5
    assert engine.rule_store.limit_state({}).full_at == {}


def test_the_buckets_of_tasks_and_rate_keys_are_read_like_those_of_queues(engine: Engine) -> None:
    rate, of_task, of_key = per_second(1, burst=5), per_second(1, burst=4), per_second(1, burst=3)
    engine.rule_store.set_rules("default", QueueRules(rate=rate, key_rate=of_key))
    engine.rule_store.set_rules("work", TaskRules(rate=of_task))
    rates = {("queue", "default"): rate, ("task", "work"): of_task, ("key", "default", "ann"): of_key}
    assert engine.rule_store.limit_state(rates).full_at == {}
    engine.insert([new_job("j", lane=lane_of([Limit("rate", "ann"), Limit("task", "work")]))], now=NOW)
    assert len(started(engine)) == 1
    full_at = engine.rule_store.limit_state(rates | {("key", "default", "bob"): of_key}).full_at
    assert full_at == {owner: [1000 * NOW + 1_000_000] for owner in rates}
