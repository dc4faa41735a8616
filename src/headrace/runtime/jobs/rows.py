"""The row of a job as its handle reads it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.core.clock import to_datetime
from headrace.core.jobs.records import JobRow, NewJob


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
