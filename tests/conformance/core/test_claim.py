"""exchange, its claiming half: the right jobs, in the right order, never early, never to two workers."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOTHING,
    NOW,
    SECOND,
    claim,
    claim_one,
    ids,
    lease_of,
    new_job,
    only,
    progress,
    release,
    retry,
    row,
    settle,
    states,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import StoreUnderTest

# -- order


def test_higher_priority_goes_first_whatever_came_before(engine: Engine) -> None:
    engine.insert([new_job(f"p{priority}", priority=priority) for priority in (0, 100, -100, 5, -1)], now=NOW)
    assert ids(claim(engine)) == ["p100", "p5", "p0", "p-1", "p-100"]


def test_of_one_priority_the_longer_due_goes_first(engine: Engine) -> None:
    engine.insert([new_job("now"), new_job("hour ago", run_at=NOW - HOUR), new_job("just", run_at=NOW - 1)], now=NOW)
    assert ids(claim(engine)) == ["hour ago", "just", "now"]


def test_of_one_due_time_the_earlier_submitted_goes_first(engine: Engine) -> None:
    for name in ("z", "a", "m"):
        engine.insert([new_job(name)], now=NOW)
    assert ids(claim(engine)) == ["z", "a", "m"]


def test_a_lifo_queue_hands_out_the_newest_first(engine: Engine) -> None:
    engine.insert([new_job(f"j{age}", run_at=NOW - age, lifo=True) for age in (3, 1, 2)], now=NOW)
    assert ids(claim(engine)) == ["j1", "j2", "j3"]


def test_priority_outranks_lifo(engine: Engine) -> None:
    engine.insert([new_job("new", lifo=True), new_job("old", run_at=NOW - HOUR, lifo=True, priority=1)], now=NOW)
    assert ids(claim(engine)) == ["old", "new"]


def test_a_retried_job_queues_at_its_new_due_time(engine: Engine) -> None:
    engine.insert([new_job("first")], now=NOW)
    settle(engine, retry(claim_one(engine), NOW + SECOND))
    engine.insert([new_job("second", run_at=NOW + 500), new_job("third", run_at=NOW + 2 * SECOND)], now=NOW)
    assert ids(claim(engine, now=NOW + HOUR)) == ["second", "first", "third"]


def test_a_released_job_goes_back_to_the_front(engine: Engine) -> None:
    engine.insert([new_job("first"), new_job("second")], now=NOW)
    settle(engine, release(claim_one(engine)))
    assert ids(claim(engine)) == ["first", "second"]


def test_batches_continue_where_the_last_one_ended(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(5)], now=NOW)
    assert [ids(claim(engine, 2)) for _ in range(4)] == [["j0", "j1"], ["j2", "j3"], ["j4"], []]


# -- time


def test_a_delayed_job_is_never_early_by_a_millisecond(engine: Engine) -> None:
    engine.insert([new_job("job", run_at=NOW + SECOND)], now=NOW)
    assert claim(engine, now=NOW + SECOND - 1) == []
    assert row(engine).state is State.SCHEDULED
    assert ids(claim(engine, now=NOW + SECOND)) == ["job"]


def test_a_retry_is_never_early_by_a_millisecond(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    settle(engine, retry(claim_one(engine), NOW + SECOND))
    assert claim(engine, now=NOW + SECOND - 1) == []
    assert row(engine).state is State.RETRYING
    assert ids(claim(engine, now=NOW + SECOND)) == ["job"]


def test_due_jobs_are_promoted_even_if_this_claim_takes_none_of_them(engine: Engine) -> None:
    engine.insert([new_job("due", run_at=NOW + 1), new_job("not yet", run_at=NOW + 2)], now=NOW)
    before = row(engine, "due")
    engine.exchange([], NOTHING, now=NOW + 1)
    assert states(engine) == {"due": State.PENDING, "not yet": State.SCHEDULED}
    assert row(engine, "due").version == before.version + 1
    assert row(engine, "due").attempt == 0


def test_a_waiting_job_is_not_claimable_however_late_it_is(engine: Engine) -> None:
    engine.insert([new_job("job", state=State.WAITING)], now=NOW)
    assert claim(engine, now=NOW + HOUR) == []
    assert row(engine).state is State.WAITING


def test_next_at_is_the_next_due_time(engine: Engine) -> None:
    assert engine.exchange([], want(), now=NOW).next_at is None
    engine.insert([new_job("b", run_at=NOW + 2 * SECOND), new_job("a", run_at=NOW + SECOND), new_job("now")], now=NOW)
    assert engine.exchange([], want(), now=NOW).next_at == NOW + SECOND
    assert engine.exchange([], want(), now=NOW + SECOND).next_at == NOW + 2 * SECOND
    assert engine.exchange([], want(), now=NOW + 2 * SECOND).next_at is None


def test_next_at_counts_what_the_same_exchange_settled(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    answer = engine.exchange([retry(claim_one(engine), NOW + SECOND)], want(), now=NOW)
    assert (answer.claims, answer.next_at) == ([], NOW + SECOND)


def test_next_at_is_not_kept_alive_by_a_job_that_lapsed(engine: Engine) -> None:
    engine.insert([new_job("job", run_at=NOW + HOUR, expires_at=NOW + SECOND)], now=NOW)
    assert engine.exchange([], want(), now=NOW).next_at == NOW + HOUR
    assert engine.exchange([], want(), now=NOW + SECOND).next_at is None


# -- lapse


@pytest.mark.parametrize("state", [State.PENDING, State.SCHEDULED, State.WAITING])
def test_a_job_that_expired_before_it_started_is_cancelled_instead_of_run(engine: Engine, state: State) -> None:
    engine.insert([new_job("job", state=state, expires_at=NOW + SECOND)], now=NOW)
    engine.exchange([], NOTHING, now=NOW + SECOND - 1)
    assert row(engine).state in {state, State.PENDING}
    assert claim(engine, now=NOW + SECOND) == []
    lapsed = row(engine)
    assert (lapsed.state, lapsed.reason, lapsed.finished_at) == (State.CANCELLED, "expired", NOW + SECOND)
    assert [entry.event for entry in engine.queries.details("job").history] == [Trigger.EXPIRE]


def test_a_retry_that_expired_is_not_run_again(engine: Engine) -> None:
    engine.insert([new_job("job", expires_at=NOW + SECOND)], now=NOW)
    settle(engine, retry(claim_one(engine), NOW + 500))
    assert claim(engine, now=NOW + HOUR) == []
    assert row(engine).state is State.CANCELLED


def test_a_running_job_does_not_lapse(engine: Engine) -> None:
    engine.insert([new_job("job", expires_at=NOW + SECOND)], now=NOW)
    claimed = claim_one(engine)
    engine.exchange([], want(), now=NOW + HOUR)
    assert row(engine).state is State.RUNNING
    assert settle(engine, succeed(claimed), now=NOW + HOUR) == []


def test_the_moment_before_it_expires_a_job_still_runs(engine: Engine) -> None:
    engine.insert([new_job("job", expires_at=NOW + SECOND)], now=NOW)
    assert ids(claim(engine, now=NOW + SECOND - 1)) == ["job"]


@pytest.mark.slow
def test_not_one_expired_job_slips_through_when_very_many_expire_at_once(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}", expires_at=NOW + SECOND) for number in range(12_000)], now=NOW)
    engine.insert([new_job("good")], now=NOW)
    taken: list[str] = []
    for _ in range(10):
        answer = engine.exchange([], want(50), now=NOW + SECOND)
        taken += ids(answer.claims)
        if answer.next_at is None:
            break
    assert taken == ["good"]
    assert engine.queries.count(Filter(states=(State.CANCELLED,))).jobs == 12_000


# -- what a claim does to the job


def test_a_claim_counts_the_attempt_and_the_version_and_sets_the_lease(engine: Engine) -> None:
    engine.insert([new_job("job", payload='["x"]', options="{}", metadata="{}", checksum=5)], now=NOW)
    claimed = claim_one(engine, worker="w7", now=NOW + 3, lease=LEASE)
    stored = row(engine)
    assert (claimed.version, claimed.attempt, claimed.max_attempts, claimed.crashes) == (2, 1, 3, 0)
    assert (claimed.payload, claimed.checksum, claimed.options, claimed.metadata) == ('["x"]', 5, "{}", "{}")
    assert (stored.version, stored.attempt) == (2, 1)
    assert (stored.state, stored.worker, stored.started_at) == (State.RUNNING, "w7", NOW + 3)
    assert stored.lease_until == NOW + 3 + LEASE


def test_every_claim_of_a_job_has_a_higher_version_and_attempt(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=4)], now=NOW)
    seen = []
    for turn in range(4):
        claimed = claim_one(engine, now=NOW + turn * HOUR)
        seen.append((claimed.version, claimed.attempt))
        settle(engine, retry(claimed, NOW + turn * HOUR + 1))
    assert [attempt for _, attempt in seen] == [1, 2, 3, 4]
    assert sorted(set(seen)) == seen


def test_a_new_attempt_starts_without_the_progress_of_the_last(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    claimed = claim_one(engine)
    engine.exchange([retry(claimed, NOW)], None, [progress(claimed, "half")], now=NOW)
    assert row(engine).progress == "half"
    claim_one(engine)
    assert row(engine).progress is None


def test_refs_are_unique_among_live_claims(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(50)], now=NOW)
    refs = [claimed.ref for claimed in (*claim(engine, 20), *claim(engine, 30, worker="w2"))]
    assert len(set(refs)) == 50
    assert 0 not in refs  # 0 is how a presence clears a slot


# -- whose turn


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_claim_takes_no_more_than_its_limit(engine: Engine, limit: int) -> None:
    engine.insert([new_job(f"{queue}{number}", queue=queue) for queue in "ab" for number in range(3)], now=NOW)
    assert len(claim(engine, limit)) == limit
    assert engine.queries.count(Filter(states=(State.RUNNING,))).jobs == limit


def test_a_limit_of_nothing_claims_nothing(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    assert claim(engine, 0) == []
    assert row(engine).state is State.PENDING


def test_two_workers_never_share_a_job(store: StoreUnderTest) -> None:
    one, two = store.open(), store.open()
    one.insert([new_job(f"j{number}") for number in range(10)], now=NOW)
    taken = [
        ids(claim(engine, 3, worker=name)) for engine, name in ((one, "w1"), (two, "w2"), (one, "w3"), (two, "w4"))
    ]
    assert [len(part) for part in taken] == [3, 3, 3, 1]
    assert len({name for part in taken for name in part}) == 10


def test_every_queue_gets_its_share_before_any_gets_more(engine: Engine) -> None:
    engine.insert([new_job(f"{queue}{number}", queue=queue) for queue in "abc" for number in range(9)], now=NOW)
    taken = ids(engine.exchange([], want(6, shares=(("c", 3), ("a", 2), ("b", 1))), now=NOW).claims)
    assert sorted(taken) == ["a0", "a1", "b0", "c0", "c1", "c2"]


def test_room_that_one_queue_leaves_goes_to_the_others(engine: Engine) -> None:
    engine.insert([new_job("a0", queue="a"), *(new_job(f"b{number}", queue="b") for number in range(9))], now=NOW)
    taken = ids(engine.exchange([], want(6, shares=(("a", 3), ("b", 3))), now=NOW).claims)
    assert sorted(taken) == ["a0", "b0", "b1", "b2", "b3", "b4"]


def test_what_is_left_goes_to_the_shares_in_their_order(engine: Engine) -> None:
    engine.insert([new_job(f"{queue}{number}", queue=queue) for queue in "abcd" for number in range(9)], now=NOW)
    shares = (("d", 1), ("b", 1), ("c", 1), ("a", 1))
    taken = ids(engine.exchange([], want(7, shares=shares), now=NOW).claims)
    assert sorted(taken) == ["a0", "b0", "c0", "d0", "d1", "d2", "d3"]


def test_an_order_of_a_queue_survives_being_taken_in_two_helpings(engine: Engine) -> None:
    engine.insert([new_job(f"p{priority}", queue="a", priority=priority) for priority in range(9)], now=NOW)
    taken = ids(engine.exchange([], want(6, shares=(("a", 2),)), now=NOW).claims)
    assert taken == ["p8", "p7", "p6", "p5", "p4", "p3"]


def test_queues_without_a_share_come_last_but_do_come(engine: Engine) -> None:
    engine.insert([new_job("a0", queue="a"), new_job("z0", queue="z"), new_job("z1", queue="z")], now=NOW)
    assert ids(engine.exchange([], want(2, shares=(("z", 1),)), now=NOW).claims) == ["z0", "z1"]
    assert ids(engine.exchange([], want(2, shares=(("z", 1),)), now=NOW).claims) == ["a0"]


def test_a_worker_that_wants_no_others_gets_none(engine: Engine) -> None:
    engine.insert([new_job("a0", queue="a"), new_job("b0", queue="b")], now=NOW)
    assert ids(engine.exchange([], only("b"), now=NOW).claims) == ["b0"]
    assert row(engine, "a0").state is State.PENDING


def test_without_others_what_is_left_stays_among_the_shares(engine: Engine) -> None:
    engine.insert([new_job(f"{queue}{number}", queue=queue) for queue in "abc" for number in range(4)], now=NOW)
    answer = engine.exchange([], want(9, shares=(("a", 1), ("b", 1)), others=False), now=NOW)
    assert sorted(ids(answer.claims)) == [f"{queue}{number}" for queue in "ab" for number in range(4)]


def test_shares_of_unknown_queues_are_no_hindrance(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    assert ids(engine.exchange([], want(5, shares=(("nowhere", 5), ("default", 1))), now=NOW).claims) == ["job"]


def test_a_quota_of_nothing_still_lets_the_leftovers_in(engine: Engine) -> None:
    engine.insert([new_job("a0", queue="a"), new_job("b0", queue="b")], now=NOW)
    assert ids(engine.exchange([], want(5, shares=(("a", 0), ("b", 1))), now=NOW).claims) == ["b0", "a0"]


def test_the_answer_names_the_open_queues(engine: Engine) -> None:
    engine.insert([new_job(queue, queue=queue) for queue in "abc"], now=NOW)
    engine.queries.pause_queue("b", True)
    assert sorted(engine.exchange([], only("a"), now=NOW).queues) == ["a", "c"]


# -- pauses


def test_a_paused_queue_gives_nothing_until_it_is_resumed(engine: Engine) -> None:
    engine.insert([new_job("a0", queue="a"), new_job("b0", queue="b")], now=NOW)
    engine.queries.pause_queue("a", True)
    assert ids(claim(engine)) == ["b0"]
    assert ids(engine.exchange([], only("a"), now=NOW).claims) == []
    engine.queries.pause_queue("a", False)
    assert ids(claim(engine)) == ["a0"]


@pytest.mark.needs("processes")
def test_a_pause_reaches_the_claims_of_another_process(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job("job")], now=NOW)
    store.send("pause", "default").hear()
    assert claim(engine) == []


def test_a_job_already_running_is_untouched_by_a_pause(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    claimed = claim_one(engine)
    engine.queries.pause_queue("default", True)
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=NOW).lost == frozenset()
    assert settle(engine, succeed(claimed)) == []


def test_a_queue_paused_before_its_first_job_is_paused(engine: Engine) -> None:
    engine.queries.pause_queue("default", True)
    engine.insert([new_job("job")], now=NOW)
    assert claim(engine) == []
    assert engine.queries.count(EVERYTHING).jobs == 1


def test_a_queue_whose_share_is_nothing_now_is_served_when_the_others_have_no_jobs(engine: Engine) -> None:
    engine.insert([new_job("a", queue="light"), new_job("b", queue="light")], now=NOW)
    engine.insert([new_job("c", queue="heavy")], now=NOW)
    wanted = want(2, shares=(("heavy", 2), ("light", 0)), others=False)
    assert sorted(ids(engine.exchange([], wanted, now=NOW).claims)) == ["a", "c"]
