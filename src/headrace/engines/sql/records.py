"""The records in the JSON parameters and results of statements, by the names that statements use."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headrace.core.dead_letters.records import DeadLetterResolution, RequeueChange
from headrace.core.documents import Document
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.records import (
    Claim,
    DeadLetterRow,
    HistoryRow,
    JobNote,
    JobRow,
    Lease,
    LogLine,
    NewJob,
    Outcome,
    WorkerRow,
)
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import UniqueCondition
from headrace.core.queues.limits import QueuedJob
from headrace.core.retention.archive import ArchiveRow
from headrace.core.schedules.records import Occurrence


class Completion(Struct, frozen=True, array_like=True, gc=False):
    """The few fields of a success: half of a settle's cost is parsing its batch. `seq` is there if it is known."""

    id: str
    version: int
    result: str | None
    result_checksum: int | None
    finished_at: int | None
    seq: int | None = None


class SettleKey(Struct, frozen=True, array_like=True, gc=False):
    """The fields of an outcome that show whether its job has, or gets, dependencies."""

    id: str
    version: int
    spawned: bool


class DocumentRow(Struct, frozen=True, array_like=True):
    """A Document for statements, where `value` is an element of the batch."""

    kind: str
    key: str
    version: int
    text: str


class HistoryText(Struct, frozen=True, array_like=True):
    """A text for the history of a job."""

    seq: int
    detail: str


class DeadLetterInsert(Struct, frozen=True, array_like=True):
    """The dead letter of a job that no worker settled. `crashes` are the times and workers, in JSON."""

    seq: int
    reason: str
    error_type: str | None
    error_message: str | None
    fingerprint: str
    crashes: str = "[]"


def _numbered(name: str, record: type[Struct]) -> type[Struct]:
    """The record with the number of its job in front."""
    fields = [(field, record.__annotations__[field]) for field in record.__struct_fields__]
    return msgspec.defstruct(name, [("seq", int), *fields], array_like=True, frozen=True)


class UniqueLookup(Struct, frozen=True, array_like=True):
    """The part of a new job that decides which existing jobs conflict with it.

    If it `updates` what it finds, a job that has begun counts as running, also between two of its runs.
    """

    unique_key: str
    conditions: tuple[UniqueCondition, ...]
    updates: bool


def _with_job_id(name: str, record: type[Struct]) -> type[Struct]:
    """The record with the id of its job in front, as it is transferred between stores."""
    fields = [(field, record.__annotations__[field]) for field in record.__struct_fields__]
    return msgspec.defstruct(name, [("job_id", str), *fields], array_like=True, frozen=True)


def _without_number(name: str, record: type[Struct]) -> type[Struct]:
    """The record of a job without its number, which each store gives itself."""
    fields = [(field, record.__annotations__[field]) for field in record.__struct_fields__ if field != "seq"]
    return msgspec.defstruct(name, fields, array_like=True, frozen=True)


_ALL = (
    ArchiveRow,
    Dependency,
    DeadLetterInsert,
    Claim,
    DeadLetterResolution,
    Completion,
    DeadLetterRow,
    HistoryRow,
    FlowRow,
    QueuedJob,
    JobRow,
    Lease,
    LogLine,
    NewJob,
    JobNote,
    Outcome,
    Occurrence,
    Document,
    SettleKey,
    QueueRow,
    RequeueChange,
    UniqueLookup,
    DocumentRow,
    Step,
    HistoryText,
    WorkerRow,
    _numbered("Replacement", NewJob),
    _without_number("ImportedJob", JobRow),
    _with_job_id("ImportedHistoryRow", HistoryRow),
    _with_job_id("ImportedLogLine", LogLine),
    _with_job_id("ImportedStep", Step),
)
RECORDS: dict[str, type[Struct]] = {record.__name__: record for record in _ALL}
# Macros that both engines write alike. Every change of a job's state sets these columns.
MACROS = {"next_version": "version = version + 1, updated_at = {0}"}
# The files of statements that SQLite and PostgreSQL share, in the folder `sql` beside this file.
COMMON = (
    *("dead_letters", "schedules", "documents", "retention", "staleness", "maintenance", "dependencies", "search"),
    *("queries", "queue_rules", "unique", "steps", "transfer", "workers", "store", "moves", "leases", "limits"),
    *("events",),
)
