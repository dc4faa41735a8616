"""renew: extends what is still held, and nothing that was lost comes back to life."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import Lease
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    claim,
    claim_one,
    lease_of,
    new_job,
    release,
    row,
    settle,
    submit_and_claim,
    succeed,
    worker_row,
)

RAN_OUT = NOW + LEASE


def test_a_renewal_extends_the_lease_from_now(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    answer = engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=NOW + SECOND)
    assert answer.lost == frozenset()
    assert row(engine).lease_until == NOW + SECOND + LEASE


def test_a_renewal_changes_nothing_but_the_lease(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    before = row(engine)
    engine.renew(worker_row(), [lease_of(claimed)], HOUR, now=NOW)
    after = row(engine)
    assert (after.version, after.state, after.attempt) == (before.version, before.state, before.attempt)
    assert settle(engine, succeed(claimed)) == []


def test_a_renewed_job_is_not_reaped_at_its_old_time(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=RAN_OUT - 1)
    assert engine.reap(10, now=RAN_OUT + SECOND) == []
    assert row(engine).state is State.RUNNING


def test_many_leases_are_renewed_at_once_and_the_lost_ones_named(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(500)], now=NOW)
    claims = claim(engine, 500)
    settle(engine, *(release(claimed) for claimed in claims[::5]))
    answer = engine.renew(worker_row(), [lease_of(claimed) for claimed in claims], LEASE, now=NOW + SECOND)
    assert answer.lost == {lease_of(claimed) for claimed in claims[::5]}
    held = [row(engine, claimed.id).lease_until for claimed in claims[1::5]]
    assert set(held) == {NOW + SECOND + LEASE}


@pytest.mark.parametrize("other", [-1, 1])
def test_a_lease_of_another_version_is_lost(engine: Engine, other: int) -> None:
    claimed = submit_and_claim(engine)
    answer = engine.renew(worker_row(), [Lease("job", claimed.version + other)], HOUR, now=NOW)
    assert answer.lost == {Lease("job", claimed.version + other)}
    assert row(engine).lease_until == RAN_OUT


def test_a_lease_of_a_job_that_never_was_is_lost(engine: Engine) -> None:
    assert engine.renew(worker_row(), [Lease("ghost", 2)], LEASE, now=NOW).lost == {Lease("ghost", 2)}


def test_a_cancelled_job_is_reported_lost_so_that_its_worker_stops(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=NOW).lost == {lease_of(claimed)}
    assert (row(engine).state, row(engine).lease_until) == (State.CANCELLED, None)


def test_a_settled_job_is_not_held_any_more(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    settle(engine, succeed(claimed))
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=NOW).lost == {lease_of(claimed)}


def test_a_reaped_job_is_lost_even_when_nobody_has_taken_it_yet(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.reap(10, now=RAN_OUT)
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=RAN_OUT).lost == {lease_of(claimed)}
    assert (row(engine).state, row(engine).lease_until) == (State.PENDING, None)


def test_a_late_renewal_does_not_take_a_job_from_its_new_worker(engine: Engine) -> None:
    old = submit_and_claim(engine, worker="old")
    engine.reap(10, now=RAN_OUT)
    new = claim_one(engine, worker="new", now=RAN_OUT)
    assert engine.renew(worker_row("old"), [lease_of(old)], HOUR, now=RAN_OUT).lost == {lease_of(old)}
    assert (row(engine).worker, row(engine).lease_until) == ("new", RAN_OUT + LEASE)
    assert settle(engine, succeed(new)) == []


@pytest.mark.parametrize("late", [0, 1, HOUR])
def test_a_lease_that_ran_out_is_not_revived_although_nobody_has_reaped_it(engine: Engine, late: int) -> None:
    claimed = submit_and_claim(engine)
    answer = engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=RAN_OUT + late)
    assert answer.lost == {lease_of(claimed)}
    assert row(engine).lease_until == RAN_OUT
    assert [job.id for job in engine.reap(10, now=RAN_OUT + late)] == ["job"]


def test_one_millisecond_before_the_end_a_lease_is_still_held(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=RAN_OUT - 1).lost == frozenset()


def test_a_lease_named_twice_is_held_once_and_not_lost(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    lease = lease_of(claimed)
    assert engine.renew(worker_row(), [lease, lease], LEASE, now=NOW).lost == frozenset()


def test_a_held_and_a_stale_lease_of_one_job_count_as_lost_without_harm_to_the_held(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    both = [Lease("job", claimed.version - 1), lease_of(claimed)]
    assert engine.renew(worker_row(), both, LEASE, now=NOW + SECOND).lost == {both[0]}
    assert row(engine).lease_until == NOW + SECOND + LEASE


def test_a_renewal_without_leases_only_reports_the_worker(engine: Engine) -> None:
    assert engine.renew(worker_row("idle"), [], LEASE, now=NOW).lost == frozenset()
    assert [worker.id for worker in engine.queries.workers()] == ["idle"]


def test_a_renewal_brings_the_operators_wish(engine: Engine) -> None:
    assert engine.renew(worker_row("w1"), [], LEASE, now=NOW).command == "run"
    engine.queries.command_worker("w1", "pause")
    assert engine.renew(worker_row("w1"), [], LEASE, now=NOW).command == "pause"
    assert engine.renew(worker_row("w2"), [], LEASE, now=NOW).command == "run"


def test_a_worker_cannot_talk_its_operator_out_of_a_wish(engine: Engine) -> None:
    engine.renew(worker_row("w1"), [], LEASE, now=NOW)
    engine.queries.command_worker("w1", "stop")
    assert engine.renew(worker_row("w1", command="run"), [], LEASE, now=NOW).command == "stop"
