"""Django's signals in a worker: `task_started` before the function runs, `task_finished` once the outcome is stored.

They are sent only if a project connects a receiver: those of Django itself only write log lines, as headrace does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections

from headrace.app.app import Headrace
from headrace.contrib.django.results import result_of, task_of
from headrace.contrib.django.task_api import signals
from headrace.core.events.event import Event
from headrace.errors import JobNotFound

_FINISHED = ("job.completed", "job.failed", "job.cancelled")


def subscribe(backend: type, alias: str, app: Headrace) -> None:
    """Have the workers of this app tell the receivers of finished tasks, if there are any."""
    if has_receivers(signals.task_finished):
        app.on(*_FINISHED, name="django.task_finished")(_finished(backend, alias, app))


def _finished(backend: type, alias: str, app: Headrace) -> Callable[[Event], None]:
    def send_finished(event: Event) -> None:
        try:
            job = app.jobs.get(str(event.job_id))
            result = result_of(job, task_of(job), alias)
        except (JobNotFound, ImportError):
            return  # deleted since, or not a task of Django's
        close_old_connections()
        try:
            signals.task_finished.send_robust(backend, task_result=result)
        finally:
            close_old_connections()

    return send_finished


def has_receivers(signal: Any) -> bool:
    """Whether a function outside of Django's own module receives the signal."""
    return any(
        getattr(receiver, "__module__", None) != signals.__name__
        for receiver in map(_receiver, (entry[1] for entry in signal.receivers))
        if receiver is not None
    )


def _receiver(connected: Any) -> Any:
    return connected() if isinstance(connected, weakref.ReferenceType) else connected
