"""update: changes to a job that has not started, and to no other."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import JobUpdate
from headrace.core.jobs.states import NOT_STARTED, State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    HOUR,
    LATER,
    NOW,
    SECOND,
    bring,
    claim,
    ids,
    new_job,
    only,
    row,
    settle,
    submit_and_claim,
    succeed,
)


@pytest.mark.parametrize("state", sorted(NOT_STARTED))
def test_a_job_that_has_not_started_takes_a_new_priority(engine: Engine, state: State) -> None:
    bring(engine, state)
    before = row(engine)
    assert engine.queries.update("job", JobUpdate(priority=9), now=NOW)
    after = row(engine)
    assert (after.priority, after.state, after.version) == (9, state, before.version + 1)
    assert (after.queue, after.run_at, after.rank) == (before.queue, before.run_at, before.rank)


@pytest.mark.parametrize("state", sorted(set(State) - NOT_STARTED))
def test_a_started_or_finished_job_is_left_alone(engine: Engine, state: State) -> None:
    bring(engine, state)
    before, filed = row(engine), engine.queries.details("job").history
    assert not engine.queries.update("job", JobUpdate(priority=9, queue="other", run_at=LATER), now=NOW)
    assert (row(engine), engine.queries.details("job").history) == (before, filed)


def test_a_job_that_does_not_exist_is_not_amended(engine: Engine) -> None:
    assert not engine.queries.update("ghost", JobUpdate(priority=9), now=NOW)
    assert not engine.queries.update("ghost", JobUpdate(queue="haunted"), now=NOW)
    assert engine.queries.rules().queues == []


def test_priority_may_be_set_to_zero(engine: Engine) -> None:
    engine.insert([new_job("job", priority=5)], now=NOW)
    assert engine.queries.update("job", JobUpdate(priority=0), now=NOW)
    assert row(engine).priority == 0


def test_a_new_priority_counts_at_the_next_claim(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    engine.queries.update("b", JobUpdate(priority=1), now=NOW)
    assert ids(claim(engine)) == ["b", "a"]


def test_a_job_moved_to_a_queue_nobody_knew_is_found_there(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    assert engine.queries.update("job", JobUpdate(queue="brand new"), now=NOW)
    assert [queue.name for queue in engine.queries.rules().queues] == ["brand new", "default"]
    assert engine.exchange([], only("default"), now=NOW).claims == []
    assert ids(engine.exchange([], only("brand new"), now=NOW).claims) == ["job"]


@pytest.mark.parametrize(
    ("state", "run_at", "target"),
    [
        (State.PENDING, LATER, State.SCHEDULED),
        (State.PENDING, NOW, State.PENDING),
        (State.PENDING, NOW - HOUR, State.PENDING),
        (State.SCHEDULED, LATER + HOUR, State.SCHEDULED),
        (State.SCHEDULED, NOW + 1, State.SCHEDULED),
        (State.SCHEDULED, NOW, State.PENDING),
        (State.RETRYING, LATER + HOUR, State.RETRYING),
        (State.RETRYING, NOW, State.PENDING),
        (State.WAITING, LATER, State.WAITING),
        (State.WAITING, NOW - HOUR, State.WAITING),
    ],
)
def test_a_new_time_leads_to_the_state_that_fits_it(engine: Engine, state: State, run_at: int, target: State) -> None:
    bring(engine, state)
    assert engine.queries.update("job", JobUpdate(run_at=run_at), now=NOW)
    after = row(engine)
    assert (after.state, after.run_at, after.rank) == (target, run_at, run_at)
    entry = engine.queries.details("job").history[-1]
    assert (entry.event, entry.source, entry.target) == (Trigger.UPDATE, state, target)


@pytest.mark.parametrize("state", sorted(NOT_STARTED))
def test_the_record_of_a_change_that_moves_nothing_names_the_state_twice(engine: Engine, state: State) -> None:
    bring(engine, state)
    engine.queries.update("job", JobUpdate(priority=1), now=NOW)
    entry = engine.queries.details("job").history[-1]
    assert (entry.source, entry.target) == (state, state)


def test_a_postponed_job_is_not_early(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    engine.queries.update("job", JobUpdate(run_at=LATER), now=NOW)
    assert claim(engine, now=LATER - 1) == []
    assert ids(claim(engine, now=LATER)) == ["job"]


def test_a_lifo_job_stays_lifo(engine: Engine) -> None:
    engine.insert([new_job("job", lifo=True)], now=NOW)
    engine.queries.update("job", JobUpdate(run_at=LATER), now=NOW)
    assert row(engine).rank == -LATER


def test_who_changed_what_is_on_record(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    engine.queries.update("job", JobUpdate(priority=3, queue="mail"), by="ann", now=NOW + SECOND)
    (entry,) = engine.queries.details("job").history
    assert (entry.event, entry.at) == (Trigger.UPDATE, NOW + SECOND)
    for word in ("priority=3", "queue=mail", "ann"):
        assert word in (entry.detail or "")


def test_an_amended_retry_keeps_its_attempts_and_refuses_its_old_worker(engine: Engine) -> None:
    lease = bring(engine, State.RETRYING)
    engine.queries.update("job", JobUpdate(run_at=NOW), now=NOW)
    assert row(engine).attempt == 1
    assert settle(engine, succeed(lease)) == [succeed(lease)]


def test_a_claim_between_look_and_change_wins(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    assert not engine.queries.update("job", JobUpdate(queue="elsewhere"), now=NOW)
    assert row(engine).queue == "default"
    assert settle(engine, succeed(claimed)) == []
