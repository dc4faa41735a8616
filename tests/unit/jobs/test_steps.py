"""Suspensions and their outcomes, without a store."""

from __future__ import annotations

from typing import cast

import pytest

from headrace.core.jobs.outcomes import suspend
from headrace.core.jobs.records import Claim, Lease
from headrace.core.jobs.states import State, Trigger, is_legal
from headrace.core.jobs.steps import (
    Step,
    Suspended,
    asleep,
    awaiting,
    is_asleep,
    is_awaiting,
    is_woken_by,
    suspension_in,
)
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.context.step_store import RetryingStepStore

CLAIM = Claim("job", 1, "add", "default", 0, 4, 2, 4, "{}", 0, 1000, 1000, 0, 0, None, None)


def test_a_suspended_job_comes_again_by_itself_and_spends_no_attempt() -> None:
    outcome = suspend(CLAIM, 9000, awaiting("paid"), 2000, (("paid", 2),))
    assert is_legal(outcome.event, State.RUNNING, outcome.state)
    assert (outcome.event, outcome.run_at, outcome.attempt_refund, outcome.quiet) == (Trigger.SNOOZE, 9000, 1, False)
    assert (outcome.awaits, outcome.reason) == ((("paid", 2),), "waits for event 'paid'")


def test_a_reason_names_the_awaited_event() -> None:
    reasons = [awaiting("a"), asleep(None), asleep("a: b"), "snoozed", "sleepsy", None]
    assert [is_awaiting(reason) for reason in reasons] == [True, False, False, False, False, False]
    assert [is_asleep(reason) for reason in reasons] == [False, True, True, False, False, False]


def test_a_job_is_woken_by_each_event_that_it_waits_for() -> None:
    assert awaiting("a", "b") == "waits for event 'a' or 'b'"
    for names in (["a"], ["a", "b"], ["it's", 'say "a"', "x or y"], ["b", "a", "é"]):
        assert [is_woken_by(awaiting(*names), name) for name in names] == [True] * len(names)
        assert is_awaiting(awaiting(*names))
    for reason in (awaiting("a", "b"), awaiting("c"), asleep("c'"), "snoozed: 'c' or 'c'", None):
        assert is_woken_by(reason, "c") is (reason == awaiting("c"))


def test_a_suspension_is_no_error_that_a_task_might_catch() -> None:
    assert not issubclass(Suspended, Exception)


def test_a_group_is_suspended_if_nothing_in_it_failed() -> None:
    first, second, failure = Suspended(1, "a"), Suspended(2, "b"), OSError("away")
    assert suspension_in(first) is first
    assert suspension_in(BaseExceptionGroup("", [BaseExceptionGroup("", [second]), first])) is second
    assert suspension_in(failure) is None
    assert suspension_in(BaseExceptionGroup("", [first, failure])) is None
    assert suspension_in(ExceptionGroup("", [failure])) is None


class Flickering:
    """A store that is away for a while."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.kept: list[tuple[Lease, Step]] = []

    def save_step(self, lease: Lease, step: Step) -> bool:
        if self.failures:
            self.failures -= 1
            raise EngineUnavailable("away")
        self.kept.append((lease, step))
        return True


def test_a_step_that_is_done_is_stored_as_soon_as_the_store_is_back() -> None:
    store, step = Flickering(2), Step("step", "charge", 1, 1000)
    assert RetryingStepStore(cast(Engine, store), 30.0).save_step(CLAIM, step)
    assert store.kept == [(Lease("job", 4), step)]


def test_a_step_waits_for_the_store_no_longer_than_its_lease() -> None:
    store = Flickering(1000)
    with pytest.raises(EngineUnavailable, match="away"):
        RetryingStepStore(cast(Engine, store), 0.2).save_step(CLAIM, Step("step", "charge", 1, 1000))
    assert store.failures < 1000
