"""Errors of jobs in Sentry, with their task, queue and attempt, and check-ins of schedules as cron monitors.

    import sentry_sdk
    from headrace.contrib.sentry import instrument

    sentry_sdk.init(dsn="...")
    instrument(app)

Each attempt runs in an isolation scope of its own. A job that failed for good is one issue; attempts that are retried
are reported only with `attempts=True`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.integrations.logging import ignore_logger

from headrace import CancelJob, Headrace, JobContext, Snooze

_SCOPE = "__headrace_sentry_scope__"
_TAGS = ("job", "task", "queue", "attempt", "worker", "correlation_id")


def instrument(app: Headrace, *, attempts: bool = False, monitors: bool = True) -> None:
    """Report failed jobs of this app's workers to Sentry.

    `attempts`: also each attempt that will be retried. `monitors`: check-ins for the jobs of schedules, under the name
    of the schedule.
    """

    @app.around_attempt
    def report(job: JobContext) -> Iterator[None]:
        schedule = job.metadata.get("schedule_id") if monitors else None
        began = time.monotonic()
        check_in = None if schedule is None else capture_checkin(str(schedule), status="in_progress")
        status = "error"
        with sentry_sdk.isolation_scope() as scope:
            _describe(scope, job)
            try:
                yield
                status = "ok"
            except (Snooze, CancelJob):
                status = "ok"
                raise
            except Exception as error:
                _keep_scope(error, scope)
                raise
            finally:
                if schedule is not None:
                    duration = time.monotonic() - began
                    capture_checkin(str(schedule), check_in_id=check_in, status=status, duration=duration)

    logger = logging.getLogger("headrace.worker")
    for handler in [handler for handler in logger.handlers if isinstance(handler, FailureHandler)]:
        logger.removeHandler(handler)  # one report for each failure, however many apps are instrumented
    logger.addHandler(FailureHandler(attempts=attempts))
    ignore_logger("headrace.worker")  # its error lines would be reported a second time, without the job


class FailureHandler(logging.Handler):
    """Sends the failures that a worker logs: only the worker knows whether a job failed for good."""

    def __init__(self, *, attempts: bool) -> None:
        super().__init__(logging.WARNING)
        self._events = {"job.failed", "job.attempt_failed"} if attempts else {"job.failed"}

    def emit(self, record: logging.LogRecord) -> None:
        """Send one failure, in the scope of its attempt if that ran in this process."""
        if getattr(record, "event", None) not in self._events:
            return
        error = record.exc_info[1] if record.exc_info else None
        with sentry_sdk.new_scope() as scope:
            if (kept := getattr(error, _SCOPE, None)) is not None:
                scope.update_from_scope(kept)
            for name in _TAGS:
                if (value := getattr(record, name, None)) is not None:
                    scope.set_tag(f"headrace.{name}", value)
            if error is not None:
                scope.capture_exception(error)
            else:  # it was raised in a sandbox, or a secret was masked in it
                scope.capture_message(record.getMessage(), level="error")


def _describe(scope: sentry_sdk.Scope, job: JobContext) -> None:
    scope.set_transaction_name(job.task)
    scope.set_context("job", {"id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt})


def _keep_scope(error: Exception, scope: Any) -> None:
    try:
        setattr(error, _SCOPE, scope.fork())
    except AttributeError:  # an exception with slots: it is reported without breadcrumbs
        return
