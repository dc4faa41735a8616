"""The dead letters in Redis. A long search takes several scripts, so that other clients wait only briefly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from headrace.core.dead_letters.records import (
    ADDABLE,
    STATUSES,
    Added,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterStats,
    NewDeadLetter,
    Requeued,
    RequeueRequest,
    Status,
    bounds,
    is_matched,
    snapshot_of,
    with_note,
)
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.engines.redis import serialization
from headrace.engines.redis.decisions.apply import change, read_records, retried, write
from headrace.engines.redis.decisions.requeue import requeue, update
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.redis.script_records import RecordChange, WriteBatch
from headrace.engines.redis.serialization import Record
from headrace.engines.shared.decisions import actor_suffix
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.database import RedisDatabase

_SCAN_SIZE = 1000  # records that one script reads
_ROWS = 250  # records that one script returns
_BATCH_SIZE = 500  # fingerprints that one script reads
_EVERYTHING = 1 << 40

_get, _find, _groups, _stats = (load(f"dead_letters/{name}") for name in ("get", "find", "groups", "stats"))
_delete = load("dead_letters/delete")


@timed_part
class RedisDeadLetterStore:
    """Reads and resolves dead letters."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def _rows(self, kind: str, ids: Iterable[str]) -> list[DeadLetterRow]:
        known = [each for each in dict.fromkeys(ids) if serialization.encodable(each)]
        rows: list[DeadLetterRow] = []
        for start in range(0, len(known), _ROWS):
            some = known[start : start + _ROWS]
            rows += serialization.dead_letters(*self._run(_get, kind, len(some), serialization.encode(some)))
        return rows

    def find(
        self, which: DeadLetterFilter, limit: int, beyond: str | None = None, *, oldest_first: bool = False
    ) -> list[DeadLetterRow]:
        if which.ids or which.latest_of:
            known = [row for row in self._named(which) if _is_beyond(row, beyond, oldest_first)]
            return sorted(known, key=lambda row: row.id, reverse=not oldest_first)[: max(limit, 0)]
        found: list[DeadLetterRow] = []
        for status in _statuses(which):
            for rows, ids in self._search(which, status, limit, "rows", beyond, oldest_first):
                found += serialization.dead_letters(ids, rows)
        return sorted(found, key=lambda row: row.id, reverse=not oldest_first)[:limit]

    def count(self, which: DeadLetterFilter) -> int:
        if which.ids or which.latest_of:
            return len(self._named(which))
        return sum(
            found for status in _statuses(which) for found, _ in self._search(which, status, _EVERYTHING, "count")
        )

    def _named(self, which: DeadLetterFilter) -> list[DeadLetterRow]:
        """The matching ones of the records or jobs that the filter names."""
        rows = self._rows("jobs", which.latest_of) if which.latest_of else self._rows("ids", which.ids)
        return [row for row in rows if is_matched(which, row)]

    def _search(
        self,
        which: DeadLetterFilter,
        status: Status | Literal[""],
        limit: int,
        what: str,
        beyond: str | None = None,
        oldest_first: bool = False,
    ) -> Iterator[tuple[Any, list[bytes]]]:
        """The records found, or their number, with their ids."""
        conditions = _encode_wanted(which)
        if conditions is None or not serialization.encodable(beyond or ""):
            return
        first, last = bounds(which)
        start: str | bytes = (
            f"({beyond}" if oldest_first and beyond and beyond >= first else f"[{first}" if first else ""
        )
        end: str | bytes = min(beyond, last) if beyond and not oldest_first else last
        reached: bytes | None = b""
        while reached is not None and limit > 0:
            most = min(limit, _ROWS if what == "rows" else _SCAN_SIZE)
            way, ended = "up" if oldest_first else "down", _or_nothing(which.ended_before)
            reached, found, ids = self._run(_find, status, start, end, _SCAN_SIZE, most, what, way, ended, conditions)
            yield found, ids
            if reached and oldest_first:
                start = b"(" + reached
            elif reached:
                end = reached
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
        return {row.id: row for row in self._rows("ids", ids)}

    def add(
        self, request: NewDeadLetter, by: str | None = None, note: str | None = None, now: int | None = None
    ) -> Added:
        self._database.prepare()
        if not serialization.encodable(request.job_id):
            return "missing"
        at = self._database.at(now)
        return retried(lambda: self._add(request, by, note, at))

    def _add(self, request: NewDeadLetter, by: str | None, note: str | None, now: int) -> Added:
        found = read_records(self._database, ids=[request.job_id])
        found.refuse_if_closed()
        for member, job in found.whole().items():
            if job.state not in ADDABLE:
                return "busy"
            key = f"{{{self._database.prefix}}}:dead_pending"
            if self._database.connections.command("HEXISTS", key, job.id):
                return "pending"
            failed = _failed(member, job, request, by, note, now)
            none_pending = (False, "HGET", ":dead_pending", job.id)
            write(self._database, WriteBatch([failed], [found.same_status, none_pending]), now)
            return "added"
        return "missing"

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
        self._database.prepare()
        at = self._database.at(now)
        return requeue(self._database, requests, by, note, detail, at)

    def update(
        self,
        ids: Sequence[str],
        status: Status | None,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> list[str]:
        self._database.prepare()
        at = self._database.at(now)
        return update(self._database, ids, status, by, note, at)

    def delete(self, which: DeadLetterFilter, limit: int) -> int:
        deleted, (first, last) = 0, bounds(which)
        conditions = _encode_wanted(which)
        if conditions is None:
            return 0
        parts: list[list[Value]] = [[]]
        if which.ids or which.latest_of:
            ids = [row.id for row in self._named(which)]
            parts = [[serialization.encode(ids[at : at + _SCAN_SIZE])] for at in range(0, len(ids), _SCAN_SIZE)]
        for status, only in product(_statuses(which), parts):
            start: str | bytes | None = f"[{first}" if first else ""
            while start is not None and deleted < limit:
                most, ended = min(limit - deleted, _SCAN_SIZE), _or_nothing(which.ended_before)
                args: list[Value] = [status, start, last, _SCAN_SIZE, most, ended, conditions]
                reached, removed = self._run(_delete, *args, *only)
                deleted += removed
                start = None if reached is None else b"(" + reached
        return deleted

    def _run(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)


def _wanted(which: DeadLetterFilter) -> tuple[str | int | None, ...]:
    """The fields by which records are selected, in the order of the script."""
    return which.task, which.queue, which.reason, which.fingerprint, which.requeues


def _encode_wanted(which: DeadLetterFilter) -> bytes | None:
    """The same for a script; None if no record can have them."""
    wanted = _wanted(which)
    if not all(serialization.encodable(text) for text in wanted if isinstance(text, str)):
        return None
    return serialization.encode([False if value is None else value for value in wanted])


def _or_nothing(moment: int | None) -> int | str:
    return "" if moment is None else moment


def _is_beyond(row: DeadLetterRow, beyond: str | None, oldest_first: bool) -> bool:
    return beyond is None or (row.id > beyond if oldest_first else row.id < beyond)


def _statuses(which: DeadLetterFilter) -> Sequence[Status | Literal[""]]:
    """The sets to search, one for each status; without any condition the one set of all records."""
    if which.statuses:
        return which.statuses
    return ("",) if all(value is None for value in _wanted(which)) else STATUSES


def _failed(
    member: bytes, job: Record, request: NewDeadLetter, by: str | None, note: str | None, now: int
) -> RecordChange:
    """The job with a dead letter. One that has not started fails by it."""
    dead_letter = {
        "reason": request.reason,
        "at": now,
        "error_type": request.error_type,
        "error_message": request.error_message,
        "error_traceback": "",
        "fingerprint": request.fingerprint,
        "notes": with_note(None, note, by, now),
    }
    if job.state in FINAL:
        return change(member, job, dead_letter=dead_letter)
    values: dict[str, Any] = {"state": State.FAILED, "finished_at": now, "reason": request.reason}
    return change(member, job, Trigger.FAIL, request.reason + actor_suffix(by), dead_letter=dead_letter, **values)


def _group(count: int, oldest: DeadLetterRow, newest: DeadLetterRow) -> DeadLetterGroup:
    snapshot = snapshot_of(newest)
    error = (snapshot.error_type, snapshot.error_message)
    seen = (oldest.entered_at, newest.entered_at)
    return DeadLetterGroup(newest.fingerprint, newest.task, newest.reason, *error, count, *seen)
