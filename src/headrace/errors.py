"""All exceptions of headrace, and those a task may raise to control its own job.

HeadraceError
├── InvalidJob (ValueError)         the call, an option or an argument is invalid; nothing was stored
│   ├── PayloadTooLarge
│   └── UnknownTask
├── DuplicateJob                    a job with this job_id or unique key exists already
├── QueueFull                       the queue is at its max_length, or the spool at its limit
├── QueueNotEmpty                   a queue to delete has unfinished jobs
├── NotFound (KeyError)             nothing has this id or name
│   ├── JobNotFound
│   │   ├── FlowNotFound
│   │   └── DeadLetterNotFound
│   ├── QueueNotFound
│   ├── WorkerNotFound
│   ├── ScheduleNotFound
│   ├── WebhookNotFound
│   ├── QuestionNotFound
│   ├── BreakerNotFound
│   └── AlertNotFound
│       ├── AlertRuleNotFound
│       ├── AlertChannelNotFound
│       └── AlertSilenceNotFound
├── DeadLetterClosed                this dead letter is not pending
├── JobFailed                       result() of a job that failed for good
├── JobCancelled                    result() of a job that was cancelled or expired
├── ResultUnavailable               the job completed, but its result could not be stored
├── LeaseLost                       this attempt no longer owns its job
├── ReplayStopped                   a replay can't go on: the job waits, spawns or has an unrecorded step there
├── CorruptPayload                  stored data that no longer decodes
├── EngineUnavailable               the store can't be reached or is not usable now
│   └── PayloadStoreUnavailable     the same of the payload store
├── AppClosed (RuntimeError)        the app was closed
├── UnsupportedByEngine
├── InvalidSchedule (ValueError)
├── InvalidAlert (ValueError)       a rule, a channel or a silence is invalid; nothing was stored
└── ConfigError
    ├── SchemaMismatch              the store's tables are older or newer than this headrace
    └── StoreMoved                  the jobs of this store were copied to another one

JobTimeout (TimeoutError)           the recorded error of an attempt that timed out
JobInterrupted (BaseException)      raised inside a task with interrupt=True when its attempt has to end

Raised by a task, caught by the worker:
RetryLater · Snooze · BreakerOpen · CancelJob · PermanentError · BudgetExceeded · RetryableError
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

_BY_MESSAGE = ""  # the first word of the message is the field
_FIELD = re.compile(r"(?:@app\.task: )?(?:(?:retry|unique|cache|log) )?([a-z][a-z0-9_]*)(?:, [a-z][a-z0-9_]*)*: ")
_PLAIN = (str, int, float, bool, type(None))


class _Portable(Exception):
    """Copy and pickle restore the attributes instead of calling __init__, whose arguments differ."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return _again, (type(self), self.args), dict(self.__dict__)


def _again(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    return kind.__new__(kind, *args)


class HeadraceError(_Portable):
    """Base class of all errors of headrace."""


class _Refusal(HeadraceError):
    """A value is invalid. `field` is the name of the option, argument, filter or setting; `value` is the value.

    Both are None if no single value is the cause. `value` is also None if it may be a secret.
    """

    def __init__(self, message: str = "", *, field: str | None = _BY_MESSAGE, value: Any = None) -> None:
        super().__init__(message)
        if field == _BY_MESSAGE:
            named = _FIELD.match(message)
            field = named.group(1) if named else None
        self.field: str | None = field
        self.value: Any = value

    def concerns(self, field: str, value: Any) -> None:
        """Set the field where the raising code does not know it."""
        self.field, self.value = field, value

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        again, args, state = super().__reduce__()
        if not isinstance(self.value, _PLAIN):  # it may be a connection or a function
            state["value"] = repr(self.value)
        return again, args, state


class InvalidJob(_Refusal, ValueError):
    """The job is invalid and was not stored. `field` and `value` name the cause, if it is a single value."""


class PayloadTooLarge(InvalidJob):
    """The arguments or the result are over the limit. `limit` and `size` are in bytes; `size` None if not measured."""

    def __init__(self, message: str = "", *, size: int | None = None, limit: int | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.size = size
        self.limit = limit


class UnknownTask(InvalidJob):
    """No task of that name is registered here."""


class DuplicateJob(HeadraceError):
    """A job with this id or unique key exists already; nothing was stored. `job_id` is its id."""

    def __init__(self, job_id: str, message: str = "job_id {} is taken by an existing job; nothing was stored") -> None:
        super().__init__(message.format(repr(job_id)))
        self.job_id = job_id


class QueueFull(HeadraceError):
    """The queue is at its `max_length`, or the spool at its limit; nothing was stored.

    `queue` is its name, None for the spool; `limit` is the maximum of waiting jobs, `waiting` their number.
    """

    def __init__(
        self, message: str = "", *, queue: str | None = None, limit: int | None = None, waiting: int | None = None
    ) -> None:
        super().__init__(message)
        self.queue = queue
        self.limit = limit
        self.waiting = waiting


class NotFound(HeadraceError, KeyError):
    """Nothing has this id or name. `id` is the requested one."""

    message = "nothing has the id {!r}"

    def __init__(self, id: str, hint: str = "") -> None:
        super().__init__(id)
        self.id = id
        self.hint = hint

    def __str__(self) -> str:
        return self.message.format(self.id) + self.hint


class JobNotFound(NotFound):
    """There is no job with this id. `job_id` is the id."""

    message = "no job has the id {!r}; it may have been deleted"

    @property
    def job_id(self) -> str:
        return self.id


class FlowNotFound(JobNotFound):
    """There is no flow with this id."""

    message = "no flow has the id {!r}; a flow is deleted with the last of its jobs. See app.jobs.find(archived=True)"


class DeadLetterNotFound(JobNotFound):
    """There is no dead letter with this id, and no job with this id has one."""

    message = "no dead letter has the id {!r}, nor has a job of that id one; it may have been purged"


class QueueNotFound(NotFound):
    """There is no queue of this name."""

    message = "there is no queue {!r}"


class WorkerNotFound(NotFound):
    """No worker that is alive has this id."""

    message = "no worker has the id {!r}; it may have ended"


class ScheduleNotFound(NotFound):
    """There is no schedule with this id."""

    message = "no schedule has the id {!r}"


class WebhookNotFound(NotFound):
    """There is no webhook of this id."""

    message = "there is no webhook {!r}; app.webhooks.list() lists them"


class QuestionNotFound(NotFound):
    """This job does not ask this question now. `id` is the job's."""

    message = "job {!r} does not wait for this answer; app.questions.list() lists what jobs ask"


class BreakerNotFound(NotFound):
    """Nothing has failed at a circuit breaker of this name, so there is nothing to reset."""

    message = "nothing has failed at breaker {!r}; app.breakers.list() lists those with failures"


class AlertNotFound(NotFound):
    """There is no alert with this id, or no rule, channel or silence of this name."""

    message = "there is no alert {!r}"


class AlertRuleNotFound(AlertNotFound):
    """There is no alert rule of this name."""

    message = "there is no alert rule {!r}"


class AlertChannelNotFound(AlertNotFound):
    """There is no alert channel of this name."""

    message = "there is no alert channel {!r}"


class AlertSilenceNotFound(AlertNotFound):
    """There is no silence with this id."""

    message = "there is no silence {!r}"


class QueueNotEmpty(HeadraceError):
    """The queue has unfinished jobs and was not deleted. `jobs` is their number."""

    def __init__(self, queue: str, jobs: int) -> None:
        many = "1 unfinished job" if jobs == 1 else f"{jobs} unfinished jobs"
        super().__init__(f"queue {queue!r} has {many}; let them run, cancel or delete them first")
        self.queue = queue
        self.jobs = jobs


class DeadLetterClosed(HeadraceError):
    """The dead letter is not pending; `status` is its status."""

    def __init__(self, dead_letter_id: str, status: str) -> None:
        super().__init__(f"dead letter {dead_letter_id} is {status} already; only a pending one can be changed")
        self.dead_letter_id = dead_letter_id
        self.status = status


class JobFailed(HeadraceError):
    """The job failed for good. `error_type`, `error_message` and `error_traceback` are its last error."""

    def __init__(
        self,
        job_id: str,
        reason: str,
        error_type: str | None = None,
        error_message: str | None = None,
        error_traceback: str | None = None,
    ) -> None:
        cause = f"{error_type}: {error_message}" if error_type else reason
        super().__init__(f"job {job_id} failed ({reason}): {cause}" if error_type else f"job {job_id} failed: {reason}")
        self.job_id = job_id
        self.reason = reason
        self.error_type = error_type
        self.error_message = error_message
        self.error_traceback = error_traceback


class JobCancelled(HeadraceError):
    """The job was cancelled, or expired before it started."""

    def __init__(self, job_id: str, reason: str | None = None) -> None:
        super().__init__(f"job {job_id} was cancelled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason


class _AboutJob(HeadraceError):
    """An error that may name its job."""

    def __init__(self, message: str = "", *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class ResultUnavailable(_AboutJob):
    """The job completed, but its return value could not be stored."""


class LeaseLost(_AboutJob):
    """This attempt lost its lease: the job was cancelled, or another worker has claimed it. Stop working on it."""


class ReplayStopped(_AboutJob):
    """The replay ended before the task did: there the job waits, spawns or runs a step without a recorded result."""


class CorruptPayload(HeadraceError):
    """Stored data no longer decodes or its checksum does not match."""


class EngineUnavailable(HeadraceError):
    """The store can't be reached or is not usable now. `permanent`: waiting alone won't help."""

    permanent = False


class PayloadStoreUnavailable(EngineUnavailable):
    """The payload store can't be reached or is not usable now."""


class AppClosed(HeadraceError, RuntimeError):
    """The app was closed; nothing was stored. `with app:` opens it again."""

    def __init__(self) -> None:
        super().__init__("the app was closed; nothing was stored. Enqueue before close(), or open it again: with app:")


class UnsupportedByEngine(HeadraceError):
    """This engine does not support that; the message names the alternative."""


class InvalidSchedule(_Refusal, ValueError):
    """The schedule's expression, zone or range is invalid. `field` and `value` name the cause."""


class InvalidAlert(_Refusal, ValueError):
    """An alert rule, channel or silence is invalid; nothing was stored. `field` and `value` name the cause."""


class ConfigError(_Refusal):
    """A setting, a task definition or the environment is wrong. `field` is the name of the setting, if it is one."""


class SchemaMismatch(ConfigError):
    """The store's schema version differs from the one this headrace needs."""


class StoreMoved(ConfigError):
    """The jobs of this store were copied to another one; nothing was stored here."""

    def __init__(self, other: str) -> None:
        text = f"the jobs of this store were copied to {other}; use that URL, or reopen this store"
        super().__init__(f"{text} with `headrace copy --reopen`")
        self.other = other


class JobTimeout(TimeoutError):
    """The attempt exceeded its timeout. Distinct from a TimeoutError that the task itself raised."""


class JobInterrupted(BaseException):
    """Raised inside a task with `interrupt` that has to end. No Exception, so code that catches errors lets it pass."""

    def __init__(self, message: str = "the attempt has to end; current_job().cancel_reason says why") -> None:
        super().__init__(message)


class RetryLater(_Portable):
    """Raise in a task to fail this attempt and run again after `delay` seconds."""

    def __init__(self, message: str = "retry later", *, delay: float | timedelta | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Snooze(_Portable):
    """Raise in a task to run it again after `delay` seconds; it does not count as an attempt."""

    def __init__(self, delay: float | timedelta, message: str = "snoozed") -> None:
        super().__init__(message)
        self.delay = delay


class BreakerOpen(Snooze):
    """A circuit breaker is open. A task that does not catch it is snoozed until the breaker lets a call through."""


class CancelJob(Exception):
    """Raise in a task to cancel its own job."""


class PermanentError(Exception):
    """Raise in a task (or derive from it) to fail the job now, whatever retries are left."""


class BudgetExceeded(PermanentError):
    """The job, or its flow, has reported more units than its budget has: its job fails, unless the task catches it."""


class RetryableError(Exception):
    """Raise in a task (or derive from it) to have the attempt retried while retries are left."""
