"""The dead letters in Redis. A long search takes several scripts, so that other clients wait only briefly."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.dead_letters.records import (
    REQUEUED_TOO_OFTEN,
    STATUSES,
    Added,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterNote,
    DeadLetterStats,
    NewDeadLetter,
    Requeued,
    RequeueRequest,
    Status,
    bounds,
    history_anew,
    id_at,
    snapshot_of,
    stored_anew,
    used_up_text,
)
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, NewJob
from headrace.engines.redis import serialization
from headrace.engines.redis.insert import unless_closed
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.decisions import actor_suffix
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.queries import RedisDatabase

_SCAN_SIZE = 1000  # records that one script reads
_ROWS = 250  # records that one script returns
_BATCH_SIZE = 500  # fingerprints that one script reads
_EVERYTHING = 1 << 40

_get, _find, _groups, _stats = (load(f"dead_letters/{name}") for name in ("get", "find", "groups", "stats"))
_requeue, _resolve, _note, _purge = (load(f"dead_letters/{name}") for name in ("requeue", "resolve", "note", "purge"))
_remove, _add = load("dead_letters/remove"), load("dead_letters/add")


@timed_part
class RedisDeadLetterStore:
    """Reads and resolves dead letters."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def get(self, ids: Sequence[str] = (), *, job_ids: Sequence[str] = ()) -> list[DeadLetterRow]:
        return [*self._rows("ids", ids), *self._rows("jobs", job_ids)]

    def _rows(self, kind: str, ids: Iterable[str]) -> list[DeadLetterRow]:
        known = [each for each in dict.fromkeys(ids) if serialization.encodable(each)]
        rows: list[DeadLetterRow] = []
        for start in range(0, len(known), _ROWS):
            some = known[start : start + _ROWS]
            rows += serialization.dead_letters(*self._run(_get, kind, len(some), serialization.encode(some)))
        return rows

    def find(self, which: DeadLetterFilter, limit: int, before: str | None = None) -> list[DeadLetterRow]:
        found: list[DeadLetterRow] = []
        for status in which.statuses or STATUSES:
            for rows, ids in self._search(which, status, limit, "rows", before):
                found += serialization.dead_letters(ids, rows)
        return sorted(found, key=lambda row: row.id, reverse=True)[:limit]

    def oldest(self, status: Status, limit: int) -> list[str]:
        self._database.prepare()
        found = self._database.connections.command("ZRANGE", f"{{{self._database.prefix}}}:dead:{status}", 0, limit - 1)
        return [each.decode() for each in found] if limit > 0 else []

    def count(self, which: DeadLetterFilter) -> int:
        statuses = which.statuses or STATUSES
        return sum(found for status in statuses for found, _ in self._search(which, status, _EVERYTHING, "count"))

    def _search(
        self, which: DeadLetterFilter, status: Status, limit: int, what: str, before: str | None = None
    ) -> Iterator[tuple[Any, list[bytes]]]:
        """The records found, or their number, with their ids."""
        wanted = (which.task, which.queue, which.reason, which.fingerprint, which.requeues)
        if not all(serialization.encodable(text) for text in (*wanted, before) if isinstance(text, str)):
            return
        conditions = serialization.encode([False if value is None else value for value in wanted])
        first, end = bounds(which)
        last: str | bytes | None = end if before is None else min(before, end)
        while last is not None and limit > 0:
            most = min(limit, _ROWS if what == "rows" else _SCAN_SIZE)
            last, found, ids = self._run(_find, status, first, last, _SCAN_SIZE, most, what, conditions)
            yield found, ids
            limit -= found if isinstance(found, int) else len(found)

    def groups(self, statuses: Collection[Status], limit: int) -> list[DeadLetterGroup]:
        encoded_statuses = serialization.encode([status for status in STATUSES if status in statuses or not statuses])
        self._database.prepare()
        fingerprints = sorted(
            self._database.connections.command("SMEMBERS", f"{{{self._database.prefix}}}:dead_fingerprints")
        )
        found: list[tuple[int, str, str]] = []
        for start in range(0, len(fingerprints), _BATCH_SIZE):
            answer = self._run(
                _groups, encoded_statuses, serialization.encode_names(fingerprints[start : start + _BATCH_SIZE])
            )
            kinds = zip(answer[::3], answer[1::3], answer[2::3], strict=True)
            found += [(count, first.decode(), last.decode()) for count, first, last in kinds if count]
        biggest = sorted(found, key=lambda group: (group[0], group[2]), reverse=True)[:limit]
        rows = self._by_id([name for _, first, last in biggest for name in (first, last)])
        return [
            _group(count, rows[first], rows[last]) for count, first, last in biggest if first in rows and last in rows
        ]

    def stats(self) -> list[DeadLetterStats]:
        answer = self._run(_stats, serialization.encode(STATUSES))
        kinds = list(zip(*(answer[part::6] for part in range(6)), strict=True))
        rows = self._by_id([name.decode() for kind in kinds for name in kind[4:]])
        return [
            DeadLetterStats(
                reason.decode(),
                status.decode(),
                count,
                requeues,
                rows[first.decode()].entered_at,
                rows[last.decode()].entered_at,
            )
            for reason, status, count, requeues, first, last in kinds
            if first.decode() in rows and last.decode() in rows
        ]

    def _by_id(self, ids: Sequence[str]) -> dict[str, DeadLetterRow]:
        return {row.id: row for row in self.get(ids)}

    def add(
        self, request: NewDeadLetter, by: str | None = None, note: str | None = None, now: int | None = None
    ) -> Added:
        self._database.prepare()
        if not serialization.encodable(request.job_id):
            return "missing"
        at = self._database.at(now)
        fields = [value or "" for value in msgspec.structs.astuple(request)]
        call = (at, secrets.token_hex(8), _encode_note(note, by, at), request.reason + actor_suffix(by), *fields)
        answer = unless_closed(self._database.connections.run(_add, *call))
        result: Added = msgspec.convert(answer.decode(), Added)
        return result

    def requeue(
        self,
        requests: Sequence[RequeueRequest],
        by: str | None = None,
        note: str | None = None,
        detail: str | None = None,
        now: int | None = None,
    ) -> list[Requeued]:
        if not requests:
            return []
        # A pending record never changes, so the job that may have to be inserted can be prepared.
        dead_letters = self._by_id([request.id for request in requests])
        at = self._database.at(now)
        encoded_requests = [_encode_request(request, dead_letters.get(request.id), detail, at) for request in requests]
        call = (
            at,
            by or "",
            _encode_note(note, by, at),
            detail or "",
            secrets.randbits(50),
            serialization.encode(encoded_requests),
        )
        answer = unless_closed(self._database.connections.run(_requeue, *call))
        kinds = zip(requests, answer[::3], answer[1::3], answer[2::3], strict=True)
        return [
            msgspec.convert((request.id, job_id.decode(), result.decode(), requeues), Requeued)
            for request, job_id, result, requeues in kinds
        ]

    def resolve(
        self,
        ids: Sequence[str],
        status: Status,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> list[str]:
        self._database.prepare()
        at = self._database.at(now)
        known = [each for each in ids if serialization.encodable(each)]
        done = self._database.connections.run(
            _resolve, at, status, by or "", _encode_note(note, by, at), serialization.encode(known)
        )
        return [each.decode() for each in done]

    def note(self, dead_letter_id: str, text: str, by: str | None = None, now: int | None = None) -> bool:
        self._database.prepare()
        if not serialization.encodable(dead_letter_id):
            return False
        return bool(
            self._database.connections.run(_note, dead_letter_id, _encode_note(text, by, self._database.at(now)))
        )

    def purge(self, statuses: Collection[Status], before: int, limit: int) -> int:
        removed = 0
        for status in statuses:
            after: str | bytes | None = ""
            while after is not None and removed < limit:
                most = min(limit - removed, _SCAN_SIZE)
                after, deleted = self._run(_purge, status, after, id_at(before), before, _SCAN_SIZE, most)
                removed += deleted
        return removed

    def remove(self, ids: Sequence[str]) -> list[str]:
        known = [each for each in ids if serialization.encodable(each)]
        return [each.decode() for each in self._run(_remove, serialization.encode(known))]

    def _run(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)


def _group(count: int, oldest: DeadLetterRow, newest: DeadLetterRow) -> DeadLetterGroup:
    snapshot = snapshot_of(newest)
    error = (snapshot.error_type, snapshot.error_message)
    seen = (oldest.entered_at, newest.entered_at)
    return DeadLetterGroup(newest.fingerprint, newest.task, newest.reason, *error, count, *seen)


def _encode_note(text: str | None, by: str | None, at: int) -> str:
    return msgspec.json.encode(DeadLetterNote(at, text, by)).decode() if text else ""


def _encode_request(request: RequeueRequest, record: DeadLetterRow | None, detail: str | None, at: int) -> list[Any]:
    job: NewJob | bool = False
    history: list[HistoryRow] = []
    if record is not None and record.status == "pending":
        job = stored_anew(record, request, at)
        history = history_anew(record, job, detail)
    ends = _encode_note(used_up_text(record.requeues if record else 0, request.most), None, at), REQUEUED_TOO_OFTEN
    return [False if value is None else value for value in (*msgspec.structs.astuple(request), job, history, *ends)]
