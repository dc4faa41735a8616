"""Errors of jobs in Sentry, with their task, queue and attempt, and check-ins of schedules as cron monitors.

    import sentry_sdk
    from headrace.contrib.sentry import instrument

    sentry_sdk.init(dsn="...")
    instrument(app)

Each attempt runs in an isolation scope of its own. A job that failed for good is one issue; attempts that are retried
are reported only with `attempts=True`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.utils import event_from_exception

from headrace import CancelJob, Headrace, JobContext, Snooze
from headrace.core.codec.redaction import redact
from headrace.core.jobs.fingerprint import fingerprint
from headrace.core.jobs.records import ErrorInfo
from headrace.core.jobs.steps import suspension_in

_KEPT = "__headrace_sentry__"  # on an error: the scope of its attempt, and what masks its secrets
_FIELDS = ("job", "task", "queue", "attempt", "worker", "correlation_id")
_MECHANISM = {"type": "headrace", "handled": False}


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
            own = {"job": job.id, **{name: getattr(job, name) for name in _FIELDS[1:]}}
            _describe(scope, own)
            try:
                yield
                status = "ok"
            except BaseException as error:
                if isinstance(error, Snooze | CancelJob) or suspension_in(error) is not None:
                    status = "ok"
                _keep(error, scope, app, job.task)
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
        if getattr(record, "event", None) in self._events:
            try:
                self._send(record)
            except Exception:  # it must not disturb the worker
                self.handleError(record)

    def _send(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        kept, mask = getattr(error, _KEPT, (None, None))
        with sentry_sdk.new_scope() as scope:
            if kept is not None:
                scope.update_from_scope(kept)
            _describe(scope, {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)})
            if record.exc_info and error is not None:
                options = sentry_sdk.get_client().options
                event, hint = event_from_exception(record.exc_info, client_options=options, mechanism=_MECHANISM)
                _mask_variables(event, mask)
                scope.capture_event(event, hint)
            else:
                scope.capture_event(_without_stack(record))


def _describe(scope: sentry_sdk.Scope, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        scope.set_tag(f"headrace.{name}", value)
    scope.set_transaction_name(str(fields.get("task")), source="task")
    scope.set_context("job", {"id": fields.get("job"), **{name: fields.get(name) for name in _FIELDS[1:4]}})


def _keep(error: BaseException, scope: sentry_sdk.Scope, app: Headrace, task: str) -> None:
    known = app.find_task(task)  # headrace's own tasks, such as webhooks, have hooks too
    hidden = frozenset(() if known is None else known.options.redact or ())
    mask = functools.partial(redact, names=hidden, words=app.submitter.words)
    with contextlib.suppress(AttributeError):  # an exception with slots: it is reported without breadcrumbs
        setattr(error, _KEPT, (scope.fork(), mask))


def _without_stack(record: logging.LogRecord) -> Any:
    """The event of a failure in a sandbox, or with a masked secret: its type and message, without a stack."""
    kind, text = record.args[-2:] if isinstance(record.args, tuple) else ("", record.getMessage())
    error = {"type": kind, "value": text, "mechanism": _MECHANISM}
    # Messages of one kind differ in ids and numbers, and there is no stack to group them by.
    group = fingerprint(str(getattr(record, "task", "")), ErrorInfo(str(kind), str(text)), "")
    return {"level": "error", "exception": {"values": [error]}, "fingerprint": [group]}


def _mask_variables(event: Any, mask: Callable[[Any], Any] | None) -> None:
    """Mask local variables that have the name of a hidden argument."""
    for error in event["exception"]["values"] if mask is not None else ():
        for frame in (error.get("stacktrace") or {}).get("frames", ()):
            if mask is not None and "vars" in frame:
                frame["vars"] = mask(frame["vars"])
