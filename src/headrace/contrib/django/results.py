"""Jobs as Django's task results."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from headrace.contrib.django.task_api import InvalidTask, Status, Task, TaskError, TaskResult
from headrace.core.events.history import AttemptError
from headrace.core.jobs.states import State, Trigger
from headrace.runtime.jobs.job import Job

_STATUSES = {
    State.RUNNING: Status.RUNNING,
    State.COMPLETED: Status.SUCCESSFUL,
    State.FAILED: Status.FAILED,
    State.CANCELLED: Status.FAILED,
}


def task_of(job: Job[Any]) -> Any:
    """The task of Django that the job runs, with the job's queue and priority. ImportError if there is none."""
    task = import_string(job.task)
    if not isinstance(task, Task):
        raise ImportError(f"{job.task} is no task of Django")
    try:
        return task.using(priority=job.priority, queue_name=job.queue)
    except InvalidTask:  # an operator moved the job to a queue that is not in QUEUES
        return task


def result_of(job: Job[Any], task: Any, alias: str) -> Any:
    """The result of a job, as it is known now."""
    starts = [entry for entry in job.history() if entry.event is Trigger.CLAIM] if job.attempt else []
    result = new_result(job.id, task, alias, job.args, job.kwargs, job.created_at)
    _set(
        result,
        status=_STATUSES.get(job.state, Status.READY),
        started_at=_moment(starts[0].at) if starts else None,
        last_attempted_at=_moment(starts[-1].at) if starts else None,
        finished_at=_moment(job.finished_at),
        errors=[TaskError(exception_class_path=_path(error), traceback=error.traceback) for error in job.errors],
        worker_ids=[entry.worker for entry in starts if entry.worker],
    )
    if job.state is State.COMPLETED:
        _set(result, _return_value=job.outcome())
    return result


def new_result(job_id: str, task: Any, alias: str, args: Any, kwargs: Any, enqueued_at: datetime | None) -> Any:
    """The result of a job that was just enqueued."""
    return TaskResult(
        task=task,
        id=job_id,
        status=Status.READY,
        enqueued_at=_moment(enqueued_at),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _moment(at: datetime | None) -> datetime | None:
    """As Django writes times: naive and local without USE_TZ."""
    return at if at is None or settings.USE_TZ else timezone.make_naive(at)


def _path(error: AttemptError) -> str:
    """Where to import the class of the error from, which only the last line of its traceback shows."""
    last = error.traceback.rstrip().rpartition("\n")[2]
    found = re.match(rf"(?:[\w.]+\.)?{re.escape(error.type)}(?=:|$)", last)
    path = found[0] if found else error.type
    return path if "." in path else f"builtins.{path}"


def _set(result: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)  # it is frozen; Django's own backends do the same
