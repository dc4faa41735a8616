"""Celery's API over headrace: change the import, and a module of tasks runs on a store.

    from headrace.contrib.celery import Celery, chain, chord, crontab, group, shared_task

    app = Celery("shop", broker="sqlite:///jobs.db")

Celery itself is not needed. `headrace worker --app shop.tasks:app` runs the tasks. What does not carry over raises a
CeleryError that says what to use instead; `headrace from-celery shop.tasks` finds it before.
"""

from __future__ import annotations

import logging

from headrace.contrib.celery import signals
from headrace.contrib.celery.app import Celery, shared_task
from headrace.contrib.celery.canvas import CelerySignature as Signature
from headrace.contrib.celery.canvas import chain, chord, group, signature, subtask
from headrace.contrib.celery.current import current_app
from headrace.contrib.celery.exceptions import (
    CeleryError,
    Ignore,
    MaxRetriesExceededError,
    Reject,
    SoftTimeLimitExceeded,
    TaskRevokedError,
    TimeoutError,
)
from headrace.contrib.celery.exceptions import CeleryRetry as Retry
from headrace.contrib.celery.results import AsyncResult as _AsyncResult
from headrace.contrib.celery.results import EagerResult, GroupResult
from headrace.contrib.celery.schedules import crontab, schedule
from headrace.contrib.celery.tasks import CeleryTask as Task
from headrace.contrib.celery.tasks import current_task

__all__ = [
    "AsyncResult",
    "Celery",
    "CeleryError",
    "EagerResult",
    "GroupResult",
    "Ignore",
    "MaxRetriesExceededError",
    "Reject",
    "Retry",
    "Signature",
    "SoftTimeLimitExceeded",
    "Task",
    "TaskRevokedError",
    "TimeoutError",
    "chain",
    "chord",
    "crontab",
    "current_app",
    "current_task",
    "get_task_logger",
    "group",
    "schedule",
    "shared_task",
    "signals",
    "signature",
    "subtask",
]


def AsyncResult(id: str, app: Celery | None = None) -> _AsyncResult:  # noqa: N802 - the name that Celery gave it
    """The result of a job by its id, of the current app without another."""
    found: _AsyncResult = (app or current_app()).AsyncResult(id)
    return found


def get_task_logger(name: str) -> logging.Logger:
    """A logger for tasks; its lines carry the job's id in the logs of a worker."""
    return logging.getLogger(name)
