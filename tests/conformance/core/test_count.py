"""count and depths: numbers an operator trusts."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import OPEN, State
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    NOW,
    SECOND,
    bring,
    claim,
    claim_one,
    new_job,
    retry,
    settle,
    submit_and_claim,
    succeed,
)


def queue_counts(engine: Engine) -> dict[tuple[str, State], tuple[int, int | None]]:
    answer = engine.queries.queue_counts()
    found = {(depth.queue, depth.state): (depth.jobs, depth.oldest) for depth in answer}
    assert len(found) == len(answer), "a queue and state was told twice"
    return found


def test_an_empty_store_counts_nothing(engine: Engine) -> None:
    assert engine.queries.count(EVERYTHING).jobs == 0
    assert engine.queries.queue_counts() == []


def test_a_count_is_not_cut_off_at_a_page(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}", queue="ab"[number % 2]) for number in range(2501)], now=NOW)
    assert engine.queries.count(EVERYTHING).jobs == 2501
    assert engine.queries.count(Filter(queue="b")).jobs == 1250
    claim(engine, 100)
    assert engine.queries.count(Filter(states=(State.RUNNING,))).jobs == 100
    assert engine.queries.count(Filter(states=(State.RUNNING, State.PENDING))).jobs == 2501


@pytest.mark.parametrize("state", State)
def test_depths_tell_each_queue_and_state_that_has_a_job(engine: Engine, state: State) -> None:
    for number in range(3):
        bring(engine, state, f"a{number}", queue="a", priority=number)
    bring(engine, state, "b0", queue="b")
    assert {place: jobs for place, (jobs, _) in queue_counts(engine).items()} == {("a", state): 3, ("b", state): 1}


def test_depths_of_many_queues_leave_none_out(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}", queue=f"q{number % 130}") for number in range(260)], now=NOW)
    assert queue_counts(engine) == {(f"q{number}", State.PENDING): (2, NOW) for number in range(130)}


def test_depths_of_open_jobs_leave_out_what_is_over(engine: Engine) -> None:
    for state in State:
        bring(engine, state, state.value, queue=state.value)
    assert {depth.state for depth in engine.queries.queue_counts(open_only=True)} == OPEN
    assert [depth for depth in engine.queries.queue_counts() if depth.state in OPEN] == engine.queries.queue_counts(
        open_only=True
    )


def test_depths_of_all_states_add_up_to_the_count(engine: Engine) -> None:
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number)
    found = queue_counts(engine)
    assert {state for _, state in found} == set(State)
    assert sum(jobs for jobs, _ in found.values()) == engine.queries.count(EVERYTHING).jobs == len(State)


def test_the_oldest_pending_job_is_the_longest_due(engine: Engine) -> None:
    engine.insert([new_job("young"), new_job("old", run_at=NOW - HOUR), new_job("mid", run_at=NOW - SECOND)], now=NOW)
    assert queue_counts(engine) == {("default", State.PENDING): (3, NOW - HOUR)}


def test_the_oldest_of_a_lifo_queue_is_a_time_and_not_its_negative(engine: Engine) -> None:
    engine.insert([new_job("young", lifo=True), new_job("old", run_at=NOW - HOUR, lifo=True)], now=NOW)
    assert queue_counts(engine) == {("default", State.PENDING): (2, NOW - HOUR)}


def test_the_oldest_scheduled_and_retrying_jobs_are_the_next_due(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine, "r"), LATER + 5))
    engine.insert([new_job("s1", run_at=LATER + 1), new_job("s2", run_at=LATER)], now=NOW)
    assert queue_counts(engine) == {
        ("default", State.RETRYING): (1, LATER + 5),
        ("default", State.SCHEDULED): (2, LATER),
    }


def test_the_oldest_running_and_finished_jobs_tell_since_when(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(4)], now=NOW)
    settle(engine, succeed(claim_one(engine, now=NOW), at=NOW + 3))
    settle(engine, succeed(claim_one(engine, now=NOW), at=NOW + 2))
    claim_one(engine, now=NOW + 8)
    claim_one(engine, now=NOW + 9)
    assert queue_counts(engine) == {
        ("default", State.COMPLETED): (2, NOW + 2),
        ("default", State.RUNNING): (2, NOW + 8),
    }
