"""The log lines of finished attempts: one per job, or one per task if an exchange settles many."""

from __future__ import annotations

import logging
import traceback
from collections import defaultdict
from collections.abc import Sequence

from headrace.core.jobs.records import Claim, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.runtime.context.logs import about
from headrace.runtime.worker.execution import describe, own_frames
from headrace.runtime.worker.state import Attempt

log = logging.getLogger("headrace.worker")

_LINES = 10  # per exchange: a worker that settles thousands of jobs a second must not spend its time on log lines
_KINDS = {
    Trigger.SUCCEED: ("completed", "completed"),
    Trigger.CANCEL: ("cancelled", "was cancelled by its task"),
    Trigger.SNOOZE: ("snoozed", "was snoozed"),
    Trigger.RELEASE: ("released", "was released"),
}


def log_finished(finished: Sequence[tuple[Attempt, Outcome]], worker: str) -> None:
    """Log attempts that ended without a failure, with their duration."""
    if not finished or not log.isEnabledFor(logging.INFO):
        return
    if len(finished) > _LINES:
        _log_by_task(finished, worker)
        return
    for run, outcome in finished:
        kind, verb = _KINDS.get(outcome.event, (outcome.event.value, f"ended with {outcome.event.value}"))
        seconds, extra = run.seconds, about(run.claim, worker, f"job.{kind}")
        text = "job %s (%s) %s after %.3f s"
        log.info(text, run.claim.id, run.claim.task, verb, seconds, extra={**extra, "seconds": round(seconds, 6)})


def _log_by_task(finished: Sequence[tuple[Attempt, Outcome]], worker: str) -> None:
    by_task: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for run, outcome in finished:
        by_task[run.claim.task, outcome.state.value].append(run.seconds)
    for (task, state), seconds in by_task.items():
        extra = {"event": f"jobs.{state}", "worker": worker, "task": task, "count": len(seconds)}
        mean = sum(seconds) / len(seconds)
        log.info("%d jobs (%s) %s, %.3f s each on average", len(seconds), task, state, mean, extra=extra)


def log_failure(claim: Claim, outcome: Outcome, worker: str, error: BaseException | None) -> None:
    """Log a failed attempt, with its stack unless a secret had to be masked in it or no log can hold its text."""
    is_final = outcome.state is State.FAILED
    is_shown = error is not None and _is_loggable(error) and describe(error).traceback == outcome.error_traceback
    log.log(
        logging.ERROR if is_final else logging.WARNING,
        "job %s (%s) %s: %s: %s",
        claim.id,
        claim.task,
        f"failed for good, {outcome.reason}" if is_final else outcome.reason,
        outcome.error_type,
        outcome.error_message,
        extra=about(claim, worker, "job.failed" if is_final else "job.attempt_failed"),
        exc_info=(type(error), error, own_frames(error.__traceback__)) if error is not None and is_shown else None,
    )


def _is_loggable(error: BaseException) -> bool:
    try:
        "".join(traceback.format_exception(error)).encode()
    except BaseException:  # surrogates, or an exception whose own __str__ raises anything
        return False
    return True
