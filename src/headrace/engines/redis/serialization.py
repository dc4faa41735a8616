"""The encoding of records for the scripts: MessagePack, whose arrays the scripts read value by value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from headrace.core.damaged_records import CORRUPT_RECORD, DAMAGE
from headrace.core.jobs.dependencies import POLICIES, Dependency, FlowRow, FlowSummary
from headrace.core.jobs.records import (
    Claim,
    DeadLetterRow,
    Filter,
    HistoryRow,
    JobRow,
    LogLine,
    QueueCount,
    WorkerRow,
)
from headrace.core.jobs.states import FINAL, State
from headrace.core.jobs.steps import Step
from headrace.core.retention.retention import FinishedJob
from headrace.core.schedules.records import Occurrence, ScheduleRow
from headrace.engines.redis.damaged_records import Salvage
from headrace.engines.redis.script_records import RECORDS, SearchFilter, StoredJob, head
from headrace.errors import PayloadTooLarge

V = TypeVar("V")
Names = Callable[[Sequence[bytes]], Mapping[bytes, bytes]]  # the ids of jobs by their numbers
encode = msgspec.msgpack.Encoder().encode
_MAX_BATCH_BYTES = 500 * 2**20  # Redis accepts no text above 512 MB
queue_counts = Salvage(QueueCount)
history_row, line, step, occurrence = Salvage(HistoryRow), Salvage(LogLine), Salvage(Step), Salvage(Occurrence)
worker, _dead_letter, _flow = Salvage(WorkerRow), Salvage(DeadLetterRow), Salvage(FlowRow)
finished = Salvage(FinishedJob)
schedule = msgspec.msgpack.Decoder(ScheduleRow)


class Record(Struct, array_like=True, gc=False):
    """A job's record, in the order of `StoredJob`. Values that may be large stay raw."""

    state: State
    finished_at: int | None
    result: Raw
    result_checksum: int | None
    reason: str | None
    updated_at: int | None
    version: int
    attempt: int
    progress: Raw
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


_record, _records = msgspec.msgpack.Decoder(Record), msgspec.msgpack.Decoder(list[Record])
_HEAD = head(len(RECORDS["Record"].__struct_fields__))  # which a stored record lacks


def records(count: int, joined: bytes) -> list[Record] | None:
    """The jobs of these joined records, each but the first after its head; None if any of them is damaged."""
    try:
        return _records.decode(b"\xdd" + count.to_bytes(4, "big") + (_HEAD if count else b"") + joined)
    except DAMAGE:
        return None


def record(stored: bytes | None) -> Record | None:
    """The job of a record; None if it is deleted or damaged."""
    try:
        return _record.decode(_HEAD + stored) if stored else None
    except DAMAGE:
        return None


_POLICIES = {policy[0].encode(): policy for policy in POLICIES}
_values = msgspec.msgpack.Decoder(list[Any])
_stored_jobs = msgspec.msgpack.Decoder(list[StoredJob])
_salvage = Salvage(StoredJob)
_RECORD_SIZE = StoredJob.__struct_fields__.index("releases") + 1  # values of a stored job: its number and its record
_CLAIM_HEAD = head(len(RECORDS["ClaimedJob"].__struct_fields__)) + b"\xac"
_CLAIM = re.compile(re.escape(_CLAIM_HEAD) + rb"(?=\d{12})")  # no text contains these bytes
_in_row_order = itemgetter(*map(StoredJob.__struct_fields__.index, JobRow.__struct_fields__))


def job(answer: bytes, names: Names) -> JobRow:
    """One job of an answer; of a damaged one, what is left."""
    try:
        stored = _values.decode(answer)
        stored[0] = int(stored[0])
        # By position: naming each field takes three times as long.
        return msgspec.convert(_in_row_order(stored), JobRow)
    except (*DAMAGE, IndexError, TypeError):
        return _readable_job(answer, names)


def _readable_job(answer: bytes, names: Names) -> JobRow:
    stored, valid_count = _salvage.salvage(answer)
    fields = {name: getattr(stored, name) for name in JobRow.__struct_fields__}
    fields["seq"] = int(stored.seq) if stored.seq.isdigit() else 0
    if stored.state in FINAL and stored.finished_at is None:
        fields["finished_at"] = 0
    if _is_damaged(stored, valid_count):
        member = stored.seq.encode()
        fields["id"] = names([member]).get(member, member).decode("utf-8", "replace")
        fields["reason"] = CORRUPT_RECORD
    return JobRow(**fields)


def jobs(answers: Iterable[bytes], names: Names) -> list[JobRow]:
    return [job(answer, names) for answer in answers]


def claims(answer: bytes) -> tuple[list[Claim], list[bytes]]:
    """The claimed jobs, and the numbers of those whose records are damaged.

    They are sorted here and not in the script, for which all workers wait.
    """
    try:
        return _as_claims(_stored_jobs.decode(answer)), []
    except DAMAGE:
        found = [_salvage.salvage(_CLAIM_HEAD + part) for part in _CLAIM.split(answer)[1:]]
    damaged = [stored.seq.encode() for stored, valid_count in found if _is_damaged(stored, valid_count)]
    return _as_claims([stored for stored, valid_count in found if not _is_damaged(stored, valid_count)]), damaged


def _is_damaged(stored: StoredJob, valid_count: int) -> bool:
    """Whether the record is damaged: values are missing, or a name is invalid, so that no script finds it."""
    names = (stored.worker or "", stored.queue, stored.lane, stored.id, stored.task)
    return valid_count < _RECORD_SIZE or any("\ufffd" in name for name in names)


def _as_claims(stored: Iterable[StoredJob]) -> list[Claim]:
    return [
        Claim(
            k.id,
            int(k.seq),
            k.task,
            k.queue,
            k.priority,
            k.version,
            k.attempt,
            k.max_attempts,
            k.payload,
            k.checksum,
            k.created_at,
            k.run_at,
            k.crashes,
            k.releases,
            k.options,
            k.metadata,
        )
        for k in stored
    ]


def encode_batch(batch: Sequence[Struct]) -> bytes:
    """Many records at once. Too large a batch is refused here: Redis would close the connection without an error."""
    encoded = encode(batch)
    if len(encoded) > _MAX_BATCH_BYTES:
        raise PayloadTooLarge(
            f"{len(batch)} records of {len(encoded) // 2**20} MB together: Redis takes at most 500 MB in one call",
            size=len(encoded),
            limit=_MAX_BATCH_BYTES,
        )
    return encoded


def encode_filter(which: Filter, states: Collection[State], ids: Sequence[str], startable: bool = False) -> bytes:
    """A filter for `lib/jobs/search.lua`; if `startable`, without waiting jobs whose own run is over."""
    wanted = [State(state).value for state in states]
    names = (which.queue, which.task, which.tag, which.worker, which.text)
    return encode(
        SearchFilter(wanted, *names, which.since, which.until, ids if which.ids else None, which.flow, startable)
    )


def edges(answer: Sequence[Any]) -> list[Dependency]:
    """Dependencies sorted by submission of child and parent."""
    parts = sorted(zip(*(answer[part::6] for part in range(6)), strict=True), key=lambda edge: edge[:2])
    return [
        Dependency(text(parent), text(child), _POLICIES.get(policy_code, POLICIES[0]), bool(blocks))
        for _, _, child, parent, policy_code, blocks in parts
    ]


def dead_letters(ids: Iterable[bytes], rows: Iterable[bytes | None]) -> list[DeadLetterRow]:
    """The stored dead letters. A damaged one keeps the id by which it was found."""
    found = [(text(each), _dead_letter.decode(row)) for each, row in zip(ids, rows, strict=True) if row]
    return [row if row.id == each else msgspec.structs.replace(row, id=each) for each, row in found]


def flow_summaries(answer: Sequence[Any]) -> list[FlowSummary]:
    """Flows with the counts of their jobs by state; each id is the one by which the flow was found."""
    parts = zip(answer[::3], answer[1::3], answer[2::3], strict=True)
    return [
        FlowSummary(msgspec.structs.replace(_flow.decode(row), id=text(name)), named(states, int))
        for name, row, states in parts
    ]


def named(answer: Sequence[Any], value: Callable[[Any], V]) -> dict[str, V]:
    """Names, each followed by its value."""
    return {text(name): value(of_name) for name, of_name in zip(answer[::2], answer[1::2], strict=True)}


def text(stored: bytes) -> str:
    """A text from the store; invalid bytes are replaced."""
    return stored.decode("utf-8", "replace")


def encode_names(names: Iterable[bytes]) -> bytes:
    """Texts from a script, encoded for another one."""
    return encode([text(name) for name in names])


def encodable(text: str) -> bool:
    """Whether a store can hold the text: one with a lone surrogate it cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
