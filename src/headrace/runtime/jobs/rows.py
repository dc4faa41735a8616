"""The row of a job as its handle reads it, and the changes that a handle makes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.core.clock import to_datetime
from headrace.core.jobs.records import JobRow, JobUpdate, NewJob
from headrace.core.option_times import check_run_at
from headrace.core.tasks.options import check_priority, check_queue
from headrace.errors import InvalidJob


def moment_of(ms: int) -> datetime:
    moment = to_datetime(ms)
    assert moment is not None
    return moment


_FRESH: dict[str, Any] = dict.fromkeys(
    ("started_at", "finished_at", "worker", "lease_until", "result", "result_checksum", "progress", "reason")
)


def as_row(new: NewJob, seq: int = 0) -> JobRow:
    """The row of a job that was just enqueued."""
    known: dict[str, Any] = {**msgspec.structs.asdict(new), **_FRESH}
    return JobRow(seq=seq, attempt=0, crashes=0, releases=0, **known)


def job_update(priority: int | None, run_at: datetime | None, queue: str | None) -> JobUpdate:
    """The checked change of a job; at least one of these is given."""
    if priority is None and run_at is None and queue is None:
        raise InvalidJob("update() needs at least one of priority, run_at, queue")
    return JobUpdate(
        priority=None if priority is None else check_priority("priority", priority),
        run_at=None if run_at is None else check_run_at("run_at", run_at),
        queue=None if queue is None else check_queue("queue", queue),
    )
