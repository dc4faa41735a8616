"""Celery's exceptions, as headrace understands them, and the refusal of what does not carry over."""

from __future__ import annotations

import ast
import builtins
import contextlib
from datetime import timedelta
from typing import Any

from headrace.errors import CancelJob, ConfigError, JobCancelled, JobFailed, PermanentError, RetryLater

TimeoutError = builtins.TimeoutError  # result.get(timeout=...) raises it
TaskRevokedError = JobCancelled


class CeleryError(ConfigError):
    """A part of Celery's API that does not carry over, or is used wrongly; the text says what to use instead."""


class CeleryRetry(RetryLater):
    """What `self.retry()` raises: the attempt ends, and the task runs again later."""

    def __init__(
        self,
        message: str = "retry later",
        exc: BaseException | None = None,
        when: float | timedelta | None = None,
    ) -> None:
        super().__init__(message if exc is None else f"{type(exc).__name__}: {exc}", delay=when)
        self.exc = exc
        self.when = when


class MaxRetriesExceededError(PermanentError):
    """`self.retry()` was called after the last retry."""


class Ignore(CancelJob):
    """End the job without a result: it is cancelled."""


class Reject(PermanentError):
    """End the job as failed, without a retry."""

    def __init__(self, reason: object = "rejected", requeue: bool = False) -> None:
        if requeue:
            raise CeleryError("Reject(requeue=True): raise headrace.Snooze(seconds) to run the job again later")
        super().__init__(str(reason))


class SoftTimeLimitExceeded(Exception):
    """The task has used up its soft_time_limit; it may clean up until its time_limit."""


def original_error(failed: JobFailed) -> BaseException:
    """The error of a failed job as its task raised it, if its type is a builtin one; else the JobFailed itself."""
    kind: Any = getattr(builtins, failed.error_type or "", None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return failed
    text = failed.error_message
    if kind is KeyError:  # its text is the repr() of the key
        with contextlib.suppress(ValueError, SyntaxError):
            text = ast.literal_eval(str(text))
    try:
        error: BaseException = kind(text)
    except Exception:  # some builtin errors take other arguments
        return failed
    error.__cause__ = failed
    return error


def refuse(name: str, instead: str) -> CeleryError:
    """The error for a word of Celery that headrace has no equal for."""
    return CeleryError(f"{name}: {instead}")
