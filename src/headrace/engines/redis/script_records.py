"""The records that scripts read and write, by the names that scripts use; their fields are never counted by hand.

`$Name` in a script stands for the fields of a record, in their order:

    $HistoryRow              at, event, source, ...
    $HistoryRow(h)           h.at, h.event, h.source, ...
    $HistoryRow{}            {at = at, event = event, ...}
    #$HistoryRow             how many there are
    $HistoryRow.version      the position of one
    $HistoryRow[..version]   the fields up to one, or from one on, or from one to another; all other forms go with it
    $HistoryRow:head         the head of an array of these values, a text; #$HistoryRow:head is its length
    $HistoryRow:names        the names as texts
    $HistoryRow:defaults     the default values, encoded
    $HistoryRow:differs(h)   whether any of these is not that of `h`

`$Version` are the fields that every change of a job sets, `$next_version(version, now)` their new values.
`$Text.EXPIRED` stands for a text of `core/jobs/history_texts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from headrace.core.dead_letters.records import DeadLetterResolution
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.history_texts import TEXTS
from headrace.core.jobs.records import (
    DeadLetterRow,
    ErrorInfo,
    HistoryRow,
    JobNote,
    JobRow,
    LogLine,
    NewJob,
    Outcome,
    QueueCount,
    ReapedJob,
    WorkerRow,
)
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import UniqueCondition, UniqueRule
from headrace.core.retention.retention import FinishedJob
from headrace.core.schedules.records import ScheduleRow


class StoredJob(Struct, array_like=True, gc=False):
    """A whole job in a script's answer: its number, its record, its payload record, the end of its lease, its flow.

    A success changes the record up to the version, a claim up to the worker: the rest of it is copied unchanged.
    """

    seq: str
    # The record.
    state: State
    finished_at: int | None
    result: str | None
    result_checksum: int | None
    reason: str | None
    updated_at: int | None
    version: int
    attempt: int
    progress: str | None
    started_at: int | None
    worker: str | None
    queue: str
    lane: str
    expires_at: int | None
    id: str
    task: str
    priority: int
    rank: int
    max_attempts: int
    created_at: int
    run_at: int
    crashes: int
    releases: int
    # The payload record.
    payload: str
    checksum: int
    options: str | None
    tags: str | None
    metadata: str | None
    mark: int
    unique_key: str | None
    # From other keys.
    lease_until: int | None = None
    flow: str | None = None
    has_dependencies: int = 0


class SearchFilter(Struct, array_like=True):
    """A filter for the jobs of a search. If `startable`, waiting jobs whose own run is over do not match."""

    states: Sequence[str]
    queue: str | None
    task: str | None
    tag: str | None
    worker: str | None
    text: str | None
    since: int | None
    before: int | None
    ids: Sequence[str] | None
    flow: str | None
    startable: bool


class RecordChange(Struct, array_like=True):
    """A change of one job that was decided at this version.

    `values` are the new values of its record, false for none; without values it neither moves nor gets a new version,
    and with nothing else it must only be unchanged. `payload` are those of its payload record. `dead_letter` has the
    values of the dead letter that it opens, `resolution` resolves the one that it has.
    """

    member: str
    version: int
    values: dict[str, Any] | None = None
    event: str | None = None
    detail: str | None = None
    error: Sequence[str] | None = None
    dead_letter: dict[str, Any] | None = None
    resolution: DeadLetterResolution | None = None
    payload: dict[str, Any] | None = None
    commands: Sequence[Sequence[Any]] | None = None


class WriteBatch(Struct, array_like=True):
    """Everything that one decision writes.

    An expectation is the answer of a read, its command, the end of its key, and its arguments. A command is written in
    the same way, after the jobs. `inserts` are new jobs with their histories; `mark` is that of this insert. `page` is
    a page of events, its size and its time.
    """

    changes: Sequence[RecordChange] = ()
    expectations: Sequence[Sequence[Any]] = ()
    commands: Sequence[Sequence[Any]] = ()
    topics: Sequence[str] = ()
    page: tuple[str, str, str] | None = None
    resolutions: Sequence[DeadLetterResolution] = ()
    inserts: Sequence[tuple[NewJob, Sequence[HistoryRow]]] = ()
    mark: int = 0


def _part(first: str, last: str) -> type[Struct]:
    """The fields of a stored job from one to another."""
    names = [field.name for field in fields(StoredJob)]
    chosen = fields(StoredJob)[names.index(first) : names.index(last) + 1]
    return msgspec.defstruct("Part", [(field.name, field.type) for field in chosen], array_like=True)


_WHOLE = (
    StoredJob,
    SearchFilter,
    Dependency,
    DeadLetterResolution,
    DeadLetterRow,
    ErrorInfo,
    FinishedJob,
    HistoryRow,
    RecordChange,
    JobNote,
    JobRow,
    LogLine,
    NewJob,
    Outcome,
    QueueCount,
    ReapedJob,
    ScheduleRow,
    Step,
    UniqueCondition,
    UniqueRule,
    WorkerRow,
    WriteBatch,
)
RECORDS: dict[str, type[Struct]] = {
    **{record.__name__: record for record in _WHOLE},
    "Record": _part("state", "releases"),
    "Payload": _part("payload", "unique_key"),
    "Version": _part("updated_at", "version"),
    "ClaimedJob": _part("seq", "unique_key"),
}
_MACRO = re.compile(
    r"(?P<count>#)?\$(?P<name>[A-Z]\w+)(?:\[(?P<first>\w*)\.\.(?P<last>\w*)\])?(?::(?P<form>\w+)|\.(?P<field>\w+))?"
    r"(?:\((?P<table>\w+)\)|(?P<new>\{\}))?"
)


_NEXT_VERSION = re.compile(r"\$next_version\(([\w.]+), (\w+)\)")


def head(size: int) -> bytes:
    """The head of an array of this many values."""
    return bytes([0x90 + size]) if size < 16 else b"\xdc" + size.to_bytes(2, "big")


def expand(script: str) -> str:
    """The script with the fields of its records."""
    return _NEXT_VERSION.sub(r"\2, \1 + 1", _MACRO.sub(_expanded, script))


def _expanded(match: re.Match[str]) -> str:
    count, name, first, last, form, field, table, new = match.groups()
    if name == "Text":
        return str(len(TEXTS[field].encode())) if count else _quoted(TEXTS[field])
    found = fields(RECORDS[name])
    names = [each.name for each in found]
    if field:
        return str(names.index(field) + 1)
    part = slice(names.index(first) if first else 0, names.index(last) + 1 if last else None)
    names, found = names[part], found[part]
    if form == "head":
        return str(len(head(len(names)))) if count else _literal(head(len(names)))
    if form == "defaults":
        return _literal(b"".join(msgspec.msgpack.encode(each.default) for each in found))
    return str(len(names)) if count else _listed(names, form, table, is_new=new is not None)


def _listed(names: Sequence[str], form: str | None, table: str | None, *, is_new: bool) -> str:
    if form == "names":
        return ", ".join(f"'{each}'" for each in names)
    if form == "differs":
        return "(" + " or ".join(f"{table}.{each} ~= {each}" for each in names) + ")"
    if is_new:
        return "{" + ", ".join(f"{each} = {each}" for each in names) + "}"
    return ", ".join(f"{table}.{each}" for each in names) if table else ", ".join(names)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(value: bytes) -> str:
    return "'" + "".join(f"\\{byte:03d}" for byte in value) + "'"
