"""Every exception headrace raises, and the ones a task may raise to steer its own job.

HeadraceError
├── InvalidJob (ValueError)         the call, an option or an argument breaks a rule; nothing was stored
│   ├── PayloadTooLarge
│   └── UnknownTask
├── DuplicateJob                    the given job_id is taken, or a job that is `unique` is there already
├── QueueFull                       the queue is at its max_length, or the spool at its limit
├── QueueNotEmpty                   a queue that is to be deleted has unfinished jobs
├── JobNotFound (KeyError)
│   ├── FlowNotFound
│   └── DeadLetterNotFound
├── WebhookNotFound (KeyError)
├── DeadLetterClosed                somebody has dealt with this dead letter already
├── JobFailed                       result() of a job that failed for good
├── JobCancelled                    result() of a job that was cancelled or expired
├── ResultUnavailable               the job completed, but its result could not be stored
├── LeaseLost                       this attempt no longer owns its job
├── CorruptPayload                  stored data that no longer decodes
├── EngineUnavailable               the store can't be reached or is not usable now
├── UnsupportedByEngine
├── InvalidSchedule (ValueError)
├── InvalidAlert (ValueError)       a rule, a channel or a silence breaks a rule; nothing was stored
├── AlertNotFound (KeyError)        no alert, rule, channel or silence has this name
└── ConfigError
    ├── SchemaMismatch              the store's tables are older or newer than this headrace
    └── StoreMoved                  the jobs of this store were carried over to another one

JobTimeout (TimeoutError)           what an attempt that ran out of time is recorded as

Raised by a task, caught by the worker:
RetryLater · Snooze · CancelJob · PermanentError · RetryableError
"""

from __future__ import annotations

from datetime import timedelta


class HeadraceError(Exception):
    """Something headrace itself refused or could not do."""


class InvalidJob(HeadraceError, ValueError):
    """The job breaks a rule and was not stored."""


class PayloadTooLarge(InvalidJob):
    """The encoded arguments or result are over the size limit."""


class UnknownTask(InvalidJob):
    """No task of that name is registered here."""


class DuplicateJob(HeadraceError):
    """A job with this id, or one that counts as the same, exists already; nothing was stored. `job_id` is its id."""

    def __init__(self, job_id: str, told: str = "job_id {} is taken by an existing job; nothing was stored") -> None:
        super().__init__(told.format(repr(job_id)))
        self.job_id = job_id


class QueueFull(HeadraceError):
    """The queue has no room for these jobs by its `max_length`, or the spool has none; nothing was stored."""


class JobNotFound(HeadraceError, KeyError):
    """There is no job with this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        return f"no job has the id {self.job_id!r}; it may have been deleted"


class FlowNotFound(JobNotFound):
    """There is no flow with this id."""

    def __str__(self) -> str:
        return (
            f"no flow has the id {self.job_id!r}; it goes with the last of its jobs, which may have been deleted, or "
            "archived: those are found by app.jobs.find(archived=True)"
        )


class WebhookNotFound(HeadraceError, KeyError):
    """There is no webhook of this id."""

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f"there is no webhook {webhook_id!r}; app.webhooks.list() tells those there are")

    def __str__(self) -> str:
        return str(self.args[0])


class DeadLetterNotFound(JobNotFound):
    """There is no dead letter with this id, and no job with this id has one."""

    def __str__(self) -> str:
        return f"no dead letter has the id {self.job_id!r}, nor has a job of that id one; it may have been purged"


class QueueNotEmpty(HeadraceError):
    """The queue has jobs that are not finished, so it was not deleted. `jobs` is how many."""

    def __init__(self, queue: str, jobs: int) -> None:
        many = "1 job that is" if jobs == 1 else f"{jobs} jobs that are"
        super().__init__(f"queue {queue!r} has {many} not finished; let them run, cancel or delete them first")
        self.queue = queue
        self.jobs = jobs


class DeadLetterClosed(HeadraceError):
    """The dead letter is not pending: somebody has dealt with it already. `status` tells how."""

    def __init__(self, letter_id: str, status: str) -> None:
        super().__init__(f"dead letter {letter_id} is {status} already; only a pending one can be dealt with")
        self.letter_id = letter_id
        self.status = status


class JobFailed(HeadraceError):
    """The job failed for good. `error_type`, `error_message` and `error_traceback` tell its last error."""

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


class ResultUnavailable(HeadraceError):
    """The job completed, but its return value could not be stored."""


class LeaseLost(HeadraceError):
    """This attempt lost its lease: the job was cancelled, or another worker has it. Stop working on it."""


class CorruptPayload(HeadraceError):
    """Stored data no longer decodes or its checksum does not match."""


class EngineUnavailable(HeadraceError):
    """The store can't be reached or refuses to work just now."""


class UnsupportedByEngine(HeadraceError):
    """This engine can't do that; the message names the alternative."""


class InvalidSchedule(HeadraceError, ValueError):
    """The schedule's expression, zone or range is not valid."""


class InvalidAlert(HeadraceError, ValueError):
    """A rule, a channel or a silence of alerts is not valid; nothing was stored."""


class AlertNotFound(HeadraceError, KeyError):
    """There is no alert, rule, channel or silence of this name."""

    def __init__(self, what: str, name: str, hint: str = "") -> None:
        super().__init__(name)
        self.told = f"there is no {what} {name!r}{hint}"

    def __str__(self) -> str:
        return self.told


class ConfigError(HeadraceError):
    """A setting, a task definition or the environment is wrong."""


class SchemaMismatch(ConfigError):
    """The store's tables are not of the version this headrace works with."""


class StoreMoved(ConfigError):
    """The jobs of this store were carried over to another one; nothing was stored here."""

    def __init__(self, other: str) -> None:
        super().__init__(
            f"the jobs of this store were carried over to {other}; use that URL, or bring this store back into use "
            "with `headrace copy --reopen`"
        )
        self.other = other


class JobTimeout(TimeoutError):
    """The attempt ran longer than its timeout. Told apart from a TimeoutError the task itself raised."""


class RetryLater(Exception):
    """Raise in a task to fail this attempt and run again after `delay` seconds."""

    def __init__(self, message: str = "retry later", *, delay: float | timedelta | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Snooze(Exception):
    """Raise in a task to run it again after `delay` seconds without spending an attempt."""

    def __init__(self, delay: float | timedelta, message: str = "snoozed") -> None:
        super().__init__(message)
        self.delay = delay


class CancelJob(Exception):
    """Raise in a task to cancel its own job."""


class PermanentError(Exception):
    """Raise in a task (or derive from it) to fail the job now, whatever retries are left."""


class RetryableError(Exception):
    """Raise in a task (or derive from it) to have the attempt retried while retries are left."""
