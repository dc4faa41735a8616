"""What an attempt that raised ends in: never a retry too many, never a failure that its task did not mean."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.codec.result_refs import MissingResult, UnfitResult
from headrace.core.jobs.records import Claim, ErrorInfo, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Suspended
from headrace.core.tasks.failure import delay_after, outcome_after, outcome_requested
from headrace.core.tasks.retry import Delay, Retry
from headrace.errors import CancelJob, CorruptPayload, PermanentError, RetryLater, Snooze

NOW = 1_000_000
AWAY = OSError("away")
RETRY = Retry(limit=3, base=2, jitter=0)
CENTURY = 100 * 365 * 86_400_000


def claim(attempt: int = 1) -> Claim:
    return Claim("job", 7, "task", "default", 0, 5, attempt, 4, "{}", 0, 0, 0, 0, 0, None, None)


def ended(error: BaseException, delay: Delay = None, attempt: int = 1) -> Outcome:
    return outcome_after(claim(attempt), RETRY, error, ErrorInfo("Error", "text"), delay, NOW)


def requested(error: BaseException) -> Outcome | None:
    return outcome_requested(claim(), error, str, NOW)


# -- whether there is a next attempt


def test_a_failure_waits_as_the_retry_says() -> None:
    assert [delay_after(claim(attempt), RETRY, AWAY, 0.5) for attempt in (1, 2, 3)] == [2, 4, 8]


def test_the_last_attempt_is_not_repeated() -> None:
    assert delay_after(claim(4), RETRY, AWAY, 0.5) is None


def test_the_attempts_used_up_stop_even_a_task_that_asks_for_a_retry() -> None:
    assert delay_after(claim(4), RETRY, RetryLater("full", delay=9), 0.5) is None


def test_a_delay_that_the_task_names_is_taken_as_it_is() -> None:
    assert delay_after(claim(), RETRY, RetryLater("full", delay=9), 0.5) == 9


def test_retry_later_without_a_delay_waits_as_the_retry_says() -> None:
    assert delay_after(claim(2), RETRY, RetryLater("full"), 0.5) == 4


@pytest.mark.parametrize(
    "error",
    [Snooze(5), CancelJob("enough"), CorruptPayload("bad"), PermanentError("never"), Suspended(NOW, "sleeps")],
)
def test_what_is_not_to_be_retried_asks_no_backoff_function(error: BaseException) -> None:
    asked: list[int] = []

    def backoff(attempt: int, error: BaseException) -> float:
        asked.append(attempt)
        return 1.0

    assert delay_after(claim(), Retry(backoff=backoff), error, 0.5) is None
    assert asked == []


def test_a_backoff_coroutine_is_left_to_the_caller() -> None:
    async def backoff(attempt: int, error: BaseException) -> float:
        return attempt + 0.5

    delay: Any = delay_after(claim(2), Retry(backoff=backoff), AWAY, 0.5)
    with pytest.raises(StopIteration) as stop:
        delay.send(None)
    assert stop.value.value == 2.5


# -- what a failure ends in


@pytest.mark.parametrize(
    ("delay", "wait"),
    [(1.5, 1500), (0, 0), (-3, 0), (timedelta(minutes=1), 60_000), (1e300, CENTURY), (float("inf"), CENTURY)],
)
def test_a_delay_is_a_retry_after_it_within_a_century(delay: float | timedelta, wait: int) -> None:
    outcome = ended(AWAY, delay)
    assert (outcome.event, outcome.state, outcome.run_at) == (Trigger.RETRY, State.RETRYING, NOW + wait)
    assert (outcome.max_attempts, outcome.reason) == (4, "attempt 1 of 4 failed")


@pytest.mark.parametrize(
    ("error", "attempt", "reason"),
    [
        (AWAY, 4, "attempts_used_up"),
        (AWAY, 1, "permanent_error"),  # its backoff function said so
        (PermanentError("never"), 4, "permanent_error"),
        (CorruptPayload("bad"), 1, "corrupt_payload"),
        (UnfitResult("bad"), 1, "parent_result_unfit"),
        (MissingResult("gone"), 1, "parent_result_missing"),
    ],
)
def test_a_failure_for_good_names_its_reason(error: BaseException, attempt: int, reason: str) -> None:
    outcome = ended(error, None, attempt)
    assert (outcome.event, outcome.reason, outcome.finished_at) == (Trigger.FAIL, reason, NOW)
    assert (outcome.error_type, outcome.error_message) == ("Error", "text")


# -- what a task asks for


def test_a_snooze_spends_no_attempt() -> None:
    outcome = requested(Snooze(60, "later"))
    assert outcome is not None
    assert (outcome.event, outcome.run_at, outcome.attempt_refund, outcome.reason) == (
        Trigger.SNOOZE,
        NOW + 60_000,
        1,
        "later",
    )


@pytest.mark.parametrize(("text", "reason"), [("enough", "enough"), ("", "cancelled by its task")])
def test_a_cancellation_has_a_reason_in_any_case(text: str, reason: str) -> None:
    outcome = requested(CancelJob(text))
    assert outcome is not None
    assert (outcome.event, outcome.reason) == (Trigger.CANCEL, reason)


def test_a_suspension_inside_a_group_waits_for_its_event() -> None:
    outcome = requested(BaseExceptionGroup("", [Suspended(NOW + 5, "waits", (("paid", 2),))]))
    assert outcome is not None
    assert (outcome.state, outcome.run_at, outcome.awaits) == (State.SCHEDULED, NOW + 5, (("paid", 2),))


@pytest.mark.parametrize("error", [AWAY, RetryLater("full", delay=9), CorruptPayload("bad"), SystemExit(1)])
def test_a_failure_is_nothing_that_a_task_asks_for(error: BaseException) -> None:
    assert requested(error) is None
