"""Sending an event to a job that may wait for it."""

from __future__ import annotations

from typing import Any

from headrace.app.hub import AppHub
from headrace.core import codec
from headrace.core.options import check_name, check_text
from headrace.runtime.job import Job


def send(hub: AppHub, job: Job[Any] | str, name: str, data: Any, largest: int) -> bool:
    """Leave it for the job; False if the job is over."""
    job_id = check_text("job", job.id if isinstance(job, Job) else job)
    text = None if data is None else codec.encode(data, models=True, limit=largest, where="data")
    if text is not None:
        text = hub.sealed(text, f"event {check_name('event', name)}", job_id)
    checksum = None if text is None else codec.checksum(text)
    return hub.signal(job_id, check_name("event", name), text, checksum)
