"""Every state × every event of the table, through public operations: the legal happen, the others change nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from headrace.core.jobs.records import Filter, JobUpdate, Lease, Outcome
from headrace.core.jobs.states import NOT_STARTED, TRANSITIONS, State, Trigger, is_legal
from headrace.core.retention.policy_fields import OnStale
from headrace.core.retention.staleness import StaleAction
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    LATER,
    NOTHING,
    NOW,
    bring,
    fail,
    give_up,
    new_job,
    only,
    park,
    release,
    retry,
    row,
    settle,
    snooze,
    succeed,
)

# Every combination is tried on SQLite and Redis at once, on PostgreSQL with the slow tests.
pytestmark = pytest.mark.slow_on("postgres")

EXPIRES = LATER - 1  # after every worker's lease, before anything that was put off is due
THE_JOB = Filter(ids=("job",))

Act = Callable[[Engine, Lease], object]


def outcome(make: Callable[[Lease], Outcome]) -> Act:
    """What the job's last worker says, whether or not it still holds the job."""
    return lambda engine, lease: settle(engine, make(lease))


def move(event: Trigger) -> Act:
    return lambda engine, _: engine.queries.move(THE_JOB, event, 1, now=NOW)


def judged(action: OnStale) -> Act:
    return lambda engine, _: engine.staleness_store.mark_stale(
        [StaleAction("job", row(engine).version, action, "too long")], now=NOW
    )


def at(now: int) -> Act:
    """Let the time come, by a claim that takes nothing."""
    return lambda engine, _: engine.exchange([], NOTHING, now=now)


ACTS: dict[Trigger, list[Act]] = {
    Trigger.SUBMIT: [lambda engine, _: engine.insert([new_job("job", payload='["again"]')], now=NOW)],
    Trigger.PROMOTE: [at(LATER)],
    Trigger.CLAIM: [lambda engine, _: engine.exchange([], only("default"), now=NOW)],
    Trigger.SUCCEED: [outcome(succeed)],
    Trigger.RETRY: [outcome(lambda lease: retry(lease, LATER))],
    Trigger.SNOOZE: [outcome(lambda lease: snooze(lease, LATER))],
    Trigger.RELEASE: [outcome(release), outcome(lambda lease: park(lease, LATER))],
    Trigger.FAIL: [outcome(fail)],
    Trigger.LEASE_EXPIRED: [lambda engine, _: engine.reap(10, now=LATER)],
    Trigger.CANCEL: [outcome(give_up), move(Trigger.CANCEL)],
    Trigger.EXPIRE: [at(EXPIRES)],
    Trigger.REVIVE: [move(Trigger.REVIVE)],
    Trigger.PROMOTE_NOW: [move(Trigger.PROMOTE_NOW)],
    Trigger.UPDATE: [
        lambda engine, _: engine.queries.update("job", JobUpdate(priority=5), now=NOW),
        lambda engine, _: engine.queries.update("job", JobUpdate(run_at=LATER + 1), now=NOW),
        lambda engine, _: engine.queries.update("job", JobUpdate(run_at=NOW), now=NOW),
    ],
    Trigger.STALE: [judged("dead"), judged("fail")],
    Trigger.DELETE: [move(Trigger.DELETE)],
}
NO_OPERATION_YET = {Trigger.UNBLOCK, Trigger.CANCEL_REQUEST}  # the latter: see test_cancel_running
ONLY_A_WORKER_MAY = {(Trigger.CANCEL, 0)}  # this way of cancelling needs the lease, so only a running job has it
NOT_BY_A_WORKER = {(Trigger.FAIL, state) for state in NOT_STARTED}  # a person does this: see test_letters_add


def cases(*events: Trigger) -> list[Any]:
    return [
        pytest.param(event, way, state, id=f"{event}-{way}-{state}")
        for event in events
        for way, state in product(range(len(ACTS[event])), State)
    ]


def is_expected(event: Trigger, way: int, state: State) -> bool:
    if (event, way) in ONLY_A_WORKER_MAY:
        return state is State.RUNNING
    return state in TRANSITIONS[event].sources and (event, state) not in NOT_BY_A_WORKER


def test_every_event_of_the_table_is_acted_out_here() -> None:
    assert set(ACTS) | NO_OPERATION_YET == set(TRANSITIONS)
    assert not set(ACTS) & NO_OPERATION_YET


@pytest.mark.parametrize(("event", "way", "state"), cases(*(event for event in ACTS if event is not Trigger.STALE)))
def test_an_event_happens_where_the_table_allows_it_and_nowhere_else(
    engine: Engine, event: Trigger, way: int, state: State
) -> None:
    try_event(engine, event, way, state)


@pytest.mark.needs("staleness")
@pytest.mark.parametrize(("event", "way", "state"), cases(Trigger.STALE))
def test_staleness_ends_a_job_where_the_table_allows_it_and_nowhere_else(
    engine: Engine, event: Trigger, way: int, state: State
) -> None:
    try_event(engine, event, way, state)


def try_event(engine: Engine, event: Trigger, way: int, state: State) -> None:
    lease = bring(engine, state, expires_at=EXPIRES if event is Trigger.EXPIRE else None)
    before = row(engine)
    ACTS[event][way](engine, lease)
    after = engine.queries.get(["job"])
    if not is_expected(event, way, state):
        assert after == [before]
    elif event is Trigger.DELETE:
        assert after == []
    else:
        assert is_legal(event, state, after[0].state)
        assert after[0].version == before.version + 1
        assert (after[0].lease_until is not None) == (after[0].state is State.RUNNING)


@pytest.mark.parametrize("state", State)
def test_a_job_can_be_brought_to_every_state(engine: Engine, state: State) -> None:
    bring(engine, state)
    assert row(engine).state is state
