"""The archive of finished jobs as values: its rows, their compressed bodies, and the partition of each time.

A partition is a week, a day or a month of UTC, by the time at which its jobs finished. Its name gives its range, so
that partitions of several kinds may coexist after the setting was changed. Pure; reads no clock.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from headrace.core.codec.encryption import MARK as SEALED
from headrace.core.damaged_records import CORRUPT_RECORD, DAMAGE, read
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import HistoryRow, JobRow, LogLine
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport
from headrace.errors import CorruptPayload, InvalidJob

Key = tuple[str, int, int]  # of a row: its id, when the job was created and when it finished
Interval = Literal["weekly", "daily", "monthly"]
AHEAD = 2
SUMMARY = 200  # characters
_DAY = 86_400_000
_NAME = re.compile(r"(\d{4})-(?:W(\d\d)|(\d\d)-(\d\d)|(\d\d))")
_CURSOR = re.compile(r"(-?\d{1,18}):(\S{1,512})")


class ArchiveRow(Struct, frozen=True, array_like=True, kw_only=True):
    """A finished job in the archive: its search fields, and the whole job, compressed, in `body`.

    Two rows of one id are two jobs if they were created at different times: a user may reuse an id.
    """

    id: str
    task: str
    queue: str
    state: State
    created_at: int
    finished_at: int
    duration: int | None
    attempts: int
    summary: str | None
    tags: str | None
    body: bytes
    bytes: int


class ArchivePage(Struct, frozen=True):
    """Rows, newest first, and the cursor that continues after the last one (None at the end)."""

    rows: list[ArchiveRow]
    cursor: str | None


class PartitionChanges(NamedTuple):
    """The names of partitions: the new ones, those that could not be created, and the dropped ones, each in one step.

    A partition that cannot be created is logged, reported here once until it is created, and a finding of every
    inspection. Its rows are stored all the same, and move into it when a later call can create it.
    """

    created: list[str]
    failed: list[str]
    dropped: list[str]


class PartitionRow(Struct, frozen=True, array_like=True):
    """A partition of the archive: jobs that finished from the first time on, before the second; None for any."""

    name: str
    since: int | None
    until: int | None
    jobs: int
    bytes: int


class Durations(Struct, frozen=True, array_like=True):
    """How long the archived jobs of one task ran, in milliseconds."""

    task: str
    jobs: int
    average: float
    p95: int
    longest: int


# -- partitions


def partition_of(moment: int, interval: Interval) -> str:
    """The name of the partition of a time: 2026-W46, 2026-11-16 or 2026-11."""
    day = datetime.fromtimestamp(moment / 1000, UTC).date()
    if interval == "weekly":
        year, week, _ = day.isocalendar()  # the ISO year: 2027-01-01 is a day of 2026-W53
        return f"{year:04d}-W{week:02d}"
    return f"{day:%Y-%m-%d}" if interval == "daily" else f"{day:%Y-%m}"


def span_of(partition: str) -> tuple[int, int] | None:
    """The range of finish times of a partition; None if this is not the name of one."""
    found = _NAME.fullmatch(partition)
    if found is None:
        return None
    year, week, month, day, whole_month = (int(part) if part else None for part in found.groups())
    try:
        if week is not None:
            first = date.fromisocalendar(year or 0, week, 1)
            return _ms(first), _ms(first + timedelta(days=7))
        if day is not None:
            first = date(year or 0, month or 0, day)
            return _ms(first), _ms(first) + _DAY
        first = date(year or 0, whole_month or 0, 1)
        return _ms(first), _ms((first + timedelta(days=31)).replace(day=1))
    except (ValueError, OverflowError):
        return None


def ahead(now: int, interval: Interval, count: int = AHEAD) -> list[str]:
    """The partition of this time, and the following ones."""
    names = [partition_of(now, interval)]
    for _ in range(count):
        span = span_of(names[-1])
        assert span is not None
        names.append(partition_of(span[1], interval))
    return names


def is_past(partition: str, before: int) -> bool:
    """Whether every job of the partition finished before this time."""
    span = span_of(partition)
    return span is not None and span[1] <= before


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


# -- rows


class ArchivedJob(Struct, frozen=True, array_like=True):
    """The contents of a row's body. Fields are only ever added at the end: archives are kept for years."""

    job: JobRow
    history: list[HistoryRow]
    logs: list[LogLine]
    steps: list[Step] = []
    edges: list[Dependency] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ArchivedJob).decode
_FORMAT = b"\x01"  # the first byte of a body: the format of the rest
# Common parts of bodies, the most usual at the end. A body is read with the dictionary it was written with: another
# dictionary needs another format.
_COMMON = (
    b'Traceback (most recent call last):\n  File "/usr/lib/python3/site-packages/", line , in \n    raise '
    b"ConnectionError: TimeoutError: ValueError: worker_lost attempts_used_up permanent timeout "
    b"\xa5retry\xa7running\xa8retrying\xa4fail\xa7running\xa6failed\xa6cancel\xa9cancelled\xa6revive\xa7pending"
    b"\xa4info\xa7warning\xa5error\xa7default\xa9completed\x00\x00\x01\x04\x00\x00\xa7[[],{}]\xcf\x00\x00\x01\x9d"
    b"\xc0\xc0\xc0\xc0\xc0\xc0\xc0\xa0\xc0\x00\x90\x90\x90\x90"
)


def row_of(job_export: JobExport, edges: Sequence[Dependency] = ()) -> ArchiveRow:
    """The archive row of a finished job."""
    job = job_export.job
    assert job.finished_at is not None
    body = _encoded_body(ArchivedJob(job, job_export.history, job_export.logs, job_export.steps, list(edges)))
    return ArchiveRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        created_at=job.created_at,
        finished_at=job.finished_at,
        duration=None if job.started_at is None else max(job.finished_at - job.started_at, 0),
        attempts=job.attempt,
        summary=_summary(job_export),
        tags=job.tags,
        body=body,
        bytes=len(body),
    )


def archived_job(row: ArchiveRow) -> ArchivedJob:
    """The whole job of a row; CorruptPayload if the body is damaged."""
    if row.body[:1] != _FORMAT:
        raise CorruptPayload(
            f"job {row.id} in the archive has a format that this headrace does not know; upgrade headrace"
        )
    try:
        decompressor = zlib.decompressobj(-zlib.MAX_WBITS, zdict=_COMMON)
        return _decode(decompressor.decompress(row.body[1:]) + decompressor.flush())
    except (zlib.error, *DAMAGE) as error:
        raise CorruptPayload(f"job {row.id} in the archive no longer decodes: {error}; restore a backup") from error


def shown(row: ArchiveRow) -> ArchivedJob:
    """The whole job of a row, for display; for a damaged body, what the row itself holds."""
    return read(archived_job, row) or ArchivedJob(_outline_of(row), [], [])


def _outline_of(row: ArchiveRow) -> JobRow:
    empty: dict[str, Any] = dict.fromkeys(
        ("expires_at", "started_at", "worker", "lease_until", "result", "result_checksum", "progress", "options")
    )
    return JobRow(
        seq=0,
        id=row.id,
        task=row.task,
        queue=row.queue,
        state=row.state,
        priority=0,
        rank=0,
        version=1,
        attempt=row.attempts,
        max_attempts=row.attempts,
        crashes=0,
        releases=0,
        payload="",
        checksum=-1,
        created_at=row.created_at,
        run_at=row.created_at,
        finished_at=row.finished_at,
        reason=CORRUPT_RECORD,
        tags=row.tags,
        metadata=None,
        **empty,
    )


def revived(archived: ArchivedJob, now: int) -> JobExport:
    """The job as restored from the archive: to run again, without dependencies, with its history."""
    job = archived.job
    cleared = dict.fromkeys(("started_at", "finished_at", "worker", "result", "result_checksum", "progress", "reason"))
    revival = HistoryRow(
        *(now, Trigger.REVIVE.value, job.state.value, State.PENDING.value, job.version + 1, job.attempt, job.worker),
        *(job.started_at, job.finished_at, "brought back from the archive", None, None, None),
    )
    again = msgspec.structs.replace(
        job,
        **cleared,
        state=State.PENDING,
        version=job.version + 1,
        attempt=0,
        crashes=0,
        expires_at=None,
        run_at=now,
        rank=-now if job.rank < 0 else now,
        flow=None,
        has_dependencies=0,
    )
    steps = [] if job.state is State.COMPLETED else archived.steps
    return JobExport(again, [*archived.history, revival], archived.logs, steps)


def was_archived_before(job_export: JobExport) -> bool:
    """Whether the archive may have an older row of this job: it had finished before, and was run again."""
    return any(history_row.event == Trigger.REVIVE for history_row in job_export.history)


def _encoded_body(archived: ArchivedJob) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=_COMMON)
    return _FORMAT + compressor.compress(_encode(archived)) + compressor.flush()


def _summary(job_export: JobExport) -> str | None:
    if job_export.job.state is State.COMPLETED:
        result = job_export.job.result
        return None if result is None or result.startswith(SEALED) else result[:SUMMARY]
    for history_row in reversed(job_export.history):
        if history_row.error_type is not None:
            return f"{history_row.error_type}: {history_row.error_message}"[:SUMMARY]
    return None if job_export.job.reason is None else job_export.job.reason[:SUMMARY]


def key_of(row: ArchiveRow) -> Key:
    return row.id, row.created_at, row.finished_at


# -- cursors


def cursor_after(row: ArchiveRow) -> str:
    """The cursor behind this row."""
    return f"{row.finished_at}:{row.id}"


def place_of(cursor: str | None) -> tuple[int, str] | None:
    """The finish time and the id of a cursor's row."""
    if cursor is None:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidJob(
            f"cursor {cursor!r} is not one that find(archived=True) returned", field="cursor", value=cursor
        )
    return int(found[1]), found[2]


def page_of(rows: list[ArchiveRow], limit: int) -> ArchivePage:
    """The page of rows, read with one more than the limit."""
    more = len(rows) > limit
    return ArchivePage(rows[:limit], cursor_after(rows[limit - 1]) if more else None)


def percentile(durations: Sequence[int], share: float) -> int:
    """The value that this share of the (sorted) durations does not exceed."""
    # Rounded first: 0.95 as a float is a little more than that, and so may be its product with a length.
    return durations[math.ceil(round(len(durations) * share, 6)) - 1] if durations else 0


def refused_filters(which: Any) -> list[str]:
    """The filters among these that the archive does not support."""
    return [name for name in ("worker", "text", "flow") if getattr(which, name) is not None]
