"""Runs the function of a task with `keep_logs`: what it logs and prints is kept with its job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.runtime.context.current_job import current
from headrace.runtime.context.output import JobOutput
from headrace.runtime.jobs.task import Task
from headrace.runtime.payloads.payloads import Payloads
from headrace.runtime.worker.error_redaction import redactor_over


def keeping_logs(
    function: Callable[..., Any], task: Task[..., Any, Any], payloads: Payloads | None
) -> Callable[..., Any]:
    """The task's function, with its output kept. Secrets of the call are masked in it, as in errors."""

    def output() -> JobOutput:
        job = current.get()
        return JobOutput(job, redactor_over(job.claim, task, payloads).over)

    async def acall(*args: Any, **kwargs: Any) -> Any:
        with output():
            return await function(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        with output():
            return function(*args, **kwargs)

    return acall if task.is_async else call
