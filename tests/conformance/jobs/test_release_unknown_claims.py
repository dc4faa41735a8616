"""disown: claims whose answer was lost come back at once, unspent, and nothing that anybody holds is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.jobs.records import Claim, Lease, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    bring,
    claim,
    claim_one,
    fail,
    ids,
    lease_of,
    new_job,
    retry,
    row,
    rows,
    settle,
    submit_and_claim,
    succeed,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

LATER = NOW + SECOND


def test_a_claim_that_never_reached_its_worker_is_pending_again_with_its_attempt(engine: Engine) -> None:
    lost = submit_and_claim(engine)
    assert engine.release_unknown_claims("w1", [], now=LATER) == ["job"]
    stored = row(engine)
    assert (stored.state, stored.attempt, stored.releases, stored.crashes) == (State.PENDING, 0, 1, 0)
    assert (stored.version, stored.worker, stored.lease_until) == (lost.version + 1, None, None)
    assert (stored.started_at, stored.finished_at, stored.reason) == (None, None, None)


def test_it_keeps_its_place_in_the_queue(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(4)], now=NOW)
    claim(engine, 2)
    assert engine.release_unknown_claims("w1", [], now=LATER) == ["j0", "j1"]
    assert ids(claim(engine, now=LATER)) == ["j0", "j1", "j2", "j3"]


def test_its_next_claim_is_its_first_attempt(engine: Engine) -> None:
    lost = submit_and_claim(engine, max_attempts=1)
    engine.release_unknown_claims("w1", [], now=LATER)
    again = claim_one(engine, now=LATER)
    assert (again.attempt, again.releases, again.version) == (1, 1, lost.version + 2)
    assert settle(engine, succeed(again)) == []


def test_an_attempt_that_failed_before_stays_spent(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine), NOW))
    assert claim_one(engine).attempt == 2
    engine.release_unknown_claims("w1", [], now=LATER)
    assert (row(engine).attempt, row(engine).releases) == (1, 1)


def test_it_is_filed_with_the_worker_that_never_saw_it(engine: Engine) -> None:
    lost = submit_and_claim(engine, worker="w9")
    engine.release_unknown_claims("w9", [], now=LATER)
    (entry,) = engine.queries.history("job")
    assert (entry.event, entry.source, entry.target) == (Trigger.RELEASE, State.RUNNING, State.PENDING)
    assert (entry.at, entry.version, entry.attempt, entry.worker) == (LATER, lost.version + 1, 1, "w9")
    assert entry.detail == "its claim never reached the worker"
    assert entry.error_type is None


def test_what_the_worker_holds_is_untouched(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(6)], now=NOW)
    claims = claim(engine)
    before = rows(engine)
    held, lost = claims[::2], claims[1::2]
    assert engine.release_unknown_claims("w1", [lease_of(each) for each in held], now=LATER) == ids(lost)
    after = rows(engine)
    assert [after[each.id] for each in held] == [before[each.id] for each in held]
    assert settle(engine, *(succeed(each) for each in held)) == []


def test_a_lease_of_an_older_claim_does_not_hold_the_job(engine: Engine) -> None:
    """The same job went out twice to the same worker; only the first answer arrived."""
    first = submit_and_claim(engine)
    engine.reap(10, now=NOW + LEASE)
    second = claim_one(engine, now=NOW + LEASE)
    assert engine.release_unknown_claims("w1", [lease_of(first)], now=NOW + LEASE) == ["job"]
    assert row(engine).version == second.version + 1
    assert row(engine).attempt == 1  # the one that the reaper spent


def test_other_workers_keep_their_jobs(engine: Engine) -> None:
    mine = submit_and_claim(engine, "mine", worker="w1")
    theirs = submit_and_claim(engine, "theirs", worker="w2")
    alike = submit_and_claim(engine, "alike", worker="w11")
    assert engine.release_unknown_claims("w1", [], now=LATER) == [mine.id]
    assert engine.renew(worker_row("w2"), [lease_of(theirs), lease_of(alike)], LEASE, now=LATER).lost == frozenset()


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_a_job_that_does_not_run_is_none_of_its_business(engine: Engine, state: State) -> None:
    bring(engine, state)
    before, history = row(engine), engine.queries.history("job")
    assert engine.release_unknown_claims("w1", [], now=LATER) == []
    assert (row(engine), engine.queries.history("job")) == (before, history)


@pytest.mark.parametrize("held", [[], [Lease("ghost", 2)]])
def test_with_nothing_to_give_back_it_answers_nothing(engine: Engine, held: list[Lease]) -> None:
    assert engine.release_unknown_claims("nobody", held, now=NOW) == []


def test_a_second_time_there_is_nothing_left(engine: Engine) -> None:
    submit_and_claim(engine)
    assert engine.release_unknown_claims("w1", [], now=LATER) == ["job"]
    assert engine.release_unknown_claims("w1", [], now=LATER) == []
    assert len(engine.queries.history("job")) == 1


def test_a_lease_that_ran_out_but_was_not_reaped_is_given_back_as_well(engine: Engine) -> None:
    submit_and_claim(engine)
    assert engine.release_unknown_claims("w1", [], now=NOW + HOUR) == ["job"]
    assert engine.reap(10, now=NOW + HOUR) == []
    assert (row(engine).attempt, row(engine).crashes) == (0, 0)


def test_more_than_fits_one_breath_is_given_back_at_once(engine: Engine) -> None:
    engine.insert([new_job(f"j{number:04}") for number in range(2500)], now=NOW)
    claims = claim(engine, 2500)
    held = [lease_of(each) for each in claims[:1200]]
    assert engine.release_unknown_claims("w1", held, now=LATER) == ids(claims[1200:])
    assert engine.queries.count(EVERYTHING) == 2500
    assert len(claim(engine, 5000, now=LATER)) == 1300


@pytest.mark.parametrize("outcome", [succeed, fail, lambda lost: retry(lost, NOW)])
def test_a_late_settle_of_a_disowned_claim_is_refused(engine: Engine, outcome: Callable[[Claim], Outcome]) -> None:
    late = outcome(submit_and_claim(engine))
    engine.release_unknown_claims("w1", [], now=LATER)
    assert settle(engine, late, now=LATER) == [late]
    assert (row(engine).state, row(engine).attempt) == (State.PENDING, 0)
    assert [entry.event for entry in engine.queries.history("job")] == [Trigger.RELEASE, "lease_lost"]


def test_a_renewal_tells_that_a_disowned_claim_is_lost(engine: Engine) -> None:
    lost = submit_and_claim(engine)
    engine.release_unknown_claims("w1", [], now=LATER)
    assert engine.renew(worker_row(), [lease_of(lost)], LEASE, now=LATER).lost == {lease_of(lost)}


def test_it_rings_for_whoever_waits_for_work(store: StoreUnderTest) -> None:
    engine, other = store.open(), store.open()
    submit_and_claim(engine)
    bells = [engine.listen("work"), other.listen("work", ["default"])]
    for bell in bells:
        bell.wait(0)
    engine.release_unknown_claims("w1", [], now=LATER)
    assert [bell.wait(PATIENCE) for bell in bells] == [True, True]
    for bell in bells:
        bell.close()


def test_what_is_given_back_can_be_claimed_by_another_process_at_once(store: StoreUnderTest) -> None:
    engine, other = store.open(), store.open()
    submit_and_claim(engine)
    assert claim(other, worker="w2", now=LATER) == []
    engine.release_unknown_claims("w1", [], now=LATER)
    assert ids(claim(other, worker="w2", now=LATER)) == ["job"]
