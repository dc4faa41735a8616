"""What an attempt that raised ends in. Pure: the caller supplies randomness, the delay and the described error.

The delay is passed in because a task's backoff function may be a coroutine, or raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from headrace.core.clock import to_ms
from headrace.core.codec.result_refs import MISSING, UNFIT, MissingResult, UnfitResult
from headrace.core.jobs import outcomes
from headrace.core.jobs.budgets import REASON
from headrace.core.jobs.records import Claim, ErrorInfo, Outcome
from headrace.core.jobs.steps import suspension_in
from headrace.core.tasks.retry import Delay, Retry
from headrace.errors import BreakerOpen, BudgetExceeded, CancelJob, CorruptPayload, RetryLater, Snooze

_LONGEST_WAIT = 100 * 365 * 86_400
_NO_FAILURE = (Snooze, CancelJob, CorruptPayload)


def delay_after(claim: Claim, retry: Retry, error: BaseException, spread: float) -> Delay | Awaitable[Delay]:
    """The time until the next attempt, None for no retry; an awaitable of either if the backoff function is async."""
    if isinstance(error, _NO_FAILURE) or suspension_in(error) is not None:
        return None
    if claim.attempt >= retry.max_attempts or not retry.covers(error):
        return None
    if isinstance(error, RetryLater) and error.delay is not None:
        return error.delay
    return retry.delay(claim.attempt, error, spread)


def outcome_requested(
    claim: Claim, error: BaseException, message: Callable[[BaseException], str], now: int
) -> Outcome | None:
    """The outcome that the task asked for by raising; None if the error is a failure."""
    if (rest := suspension_in(error)) is not None:
        return outcomes.suspend(claim, rest.until, rest.reason, now, rest.awaits)
    if isinstance(error, Snooze):
        snoozed = outcomes.snooze(claim, _wait(error.delay), message(error), now)
        return outcomes.without_units(claim, snoozed) if isinstance(error, BreakerOpen) else snoozed
    if isinstance(error, CancelJob):
        return outcomes.cancel(claim, message(error) or "cancelled by its task", now)
    return None


def outcome_after(
    claim: Claim, retry: Retry, error: BaseException, error_info: ErrorInfo, delay: Delay, now: int
) -> Outcome:
    """The outcome of a failure, with the delay that `delay_after()` returned."""
    if delay is not None:
        return outcomes.retry(claim, error_info, _wait(delay), retry.max_attempts, now)
    return outcomes.fail(claim, _reason(claim, retry, error), error_info, retry.max_attempts, now)


def _reason(claim: Claim, retry: Retry, error: BaseException) -> str:
    if isinstance(error, BudgetExceeded):
        return REASON
    if isinstance(error, UnfitResult):
        return UNFIT
    if isinstance(error, CorruptPayload):
        return "corrupt_payload"
    if isinstance(error, MissingResult):
        return MISSING
    used_up = claim.attempt >= retry.max_attempts and retry.covers(error)
    return "attempts_used_up" if used_up else "permanent_error"


def _wait(delay: float | timedelta) -> int:
    """The delay of a task or a backoff function in milliseconds, at most a century, as no store can count much more."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    return to_ms(min(max(seconds, 0), _LONGEST_WAIT))
