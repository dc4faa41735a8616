"""An attempt ends once, whoever ends it first, and is held for exactly as long as its lease counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headrace.core.clock import SystemClock
from headrace.core.jobs.outcomes import give_back, release, succeed
from headrace.core.jobs.records import Claim
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.worker.attempt import Attempt, Stage
from headrace.runtime.worker.execution import RunSpec
from headrace.runtime.worker.state import WorkerState


@pytest.fixture
def worker_state() -> WorkerState:
    clock = SystemClock()
    return WorkerState(2, clock, lambda: None, cast(WorkerLink, SimpleNamespace(now=clock.now)))


@pytest.fixture
def attempt(worker_state: WorkerState) -> Attempt:
    [attempt] = worker_state.claimed([Claim("job", 7, "task", "default", 0, 5, 1, 4, "{}", 0, 0, 0, 0, 0, None, None)])
    attempt.plan = cast(RunSpec, SimpleNamespace(isolation="thread", timeout=None, tracer=None))
    return attempt


def test_a_run_goes_from_its_claim_to_settled_and_is_forgotten(worker_state: WorkerState, attempt: Attempt) -> None:
    assert (worker_state.attempts, worker_state.held()) == ({attempt.claim.lease: attempt}, [attempt])
    assert worker_state.begin(attempt, 0)
    assert (attempt.stage, worker_state.running, worker_state.started()) == (Stage.STARTED, 1, [attempt])
    assert worker_state.end(attempt, succeed(attempt.claim, None, None, 0))
    assert (worker_state.running, worker_state.held(), [*worker_state.done]) == (0, [attempt], [attempt])
    worker_state.settled(attempt)
    assert (attempt.stage, worker_state.attempts) == (Stage.SETTLED, {})


def test_the_first_outcome_of_a_run_counts(worker_state: WorkerState, attempt: Attempt) -> None:
    worker_state.begin(attempt, 0)
    first, second = release(attempt.claim, "timed out", 0), succeed(attempt.claim, None, None, 1)
    assert worker_state.end(attempt, first)
    assert not worker_state.end(attempt, second)
    assert not worker_state.abandon(attempt)
    assert (attempt.outcome, len(worker_state.done), worker_state.running) == (first, 1, 0)


def test_a_run_that_lost_its_lease_is_not_renewed_and_sends_its_outcome_once(
    worker_state: WorkerState, attempt: Attempt
) -> None:
    worker_state.begin(attempt, 0)
    worker_state.lose(attempt)
    assert worker_state.abandon(attempt)
    assert (worker_state.held(), worker_state.running) == ([], 0)
    assert [*worker_state.attempts] == [attempt.lease], "the worker still knows that the claim is no lost answer"
    assert not worker_state.end(attempt, succeed(attempt.claim, None, None, 0)), "its slot has another run by now"
    assert not worker_state.end(attempt, release(attempt.claim, "its lease was lost", 0))
    assert [each.outcome.event for each in worker_state.done] == ["succeed"]
    assert worker_state.held() == []


def test_a_lease_lost_while_its_outcome_waits_is_not_renewed_and_the_outcome_is_sent(
    worker_state: WorkerState, attempt: Attempt
) -> None:
    worker_state.begin(attempt, 0)
    worker_state.end(attempt, succeed(attempt.claim, None, None, 0))
    worker_state.lose(attempt)
    assert (worker_state.held(), [*worker_state.done]) == ([], [attempt])


def test_a_job_that_lost_its_lease_before_its_start_does_not_start(worker_state: WorkerState, attempt: Attempt) -> None:
    worker_state.lose(attempt)
    assert not worker_state.begin(attempt, 0)
    assert not worker_state.end_without_slot(attempt, give_back(attempt.claim, 0))
    assert (worker_state.attempts, worker_state.running, [*worker_state.done]) == ({}, 0, [])
    assert not worker_state.begun


# What each operation makes of an attempt in each stage; all others leave it as it is.
MOVES = {
    ("begin", Stage.CLAIMED): Stage.STARTED,
    ("end", Stage.STARTED): Stage.ENDED,
    ("end", Stage.ABANDONED): Stage.ENDED,
    ("end_without_slot", Stage.CLAIMED): Stage.ENDED,
    ("abandon", Stage.STARTED): Stage.ABANDONED,
    ("lose", Stage.CLAIMED): Stage.LOST,
}


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("operation", ["begin", "end", "end_without_slot", "abandon", "lose"])
def test_an_attempt_moves_only_to_the_stages_that_may_follow(
    worker_state: WorkerState, attempt: Attempt, operation: str, stage: Stage
) -> None:
    attempt.stage, worker_state.running = stage, 1
    outcome = succeed(attempt.claim, None, None, 0)
    arguments = {"begin": (0,), "end": (outcome,), "end_without_slot": (outcome,)}.get(operation, ())
    getattr(worker_state, operation)(attempt, *arguments)
    after = MOVES.get((operation, stage), stage)
    assert attempt.stage is after
    assert worker_state.running == 1 + (after is not stage) * ((after is Stage.STARTED) - (stage is Stage.STARTED))
    assert [*worker_state.done] == ([attempt] if after is Stage.ENDED is not stage else [])
