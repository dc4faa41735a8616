"""Dead letters of Redis that are requeued or resolved, and jobs that run again."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from headrace.core.damaged_records import stored_tags
from headrace.core.dead_letters.records import (
    DeadLetterResolution,
    Requeued,
    RequeueRequest,
    Status,
    history_anew,
    raised,
    stored_anew,
)
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, NewJob
from headrace.core.jobs.states import State, Trigger
from headrace.engines.redis import serialization
from headrace.engines.redis.decisions.apply import change, rank_at, read_records, retried, write
from headrace.engines.redis.script_loader import load
from headrace.engines.redis.script_records import RecordChange, WriteBatch
from headrace.engines.redis.serialization import Record
from headrace.engines.shared.requeue_decisions import decide, resolution_of

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_get = load("dead_letters/get")
_ROWS = 250  # dead letters that one script returns
_NOTHING = ("finished_at", "started_at", "worker", "result", "result_checksum", "progress", "reason", "expires_at")


class StoredLetter(NamedTuple):
    """A dead letter as it was read, and the size of its record, which every note changes."""

    row: DeadLetterRow
    size: int


def read_letters(database: RedisDatabase, ids: Iterable[str]) -> dict[str, StoredLetter]:
    """The dead letters of these ids. Of a damaged one, too, the status is known."""
    known = [each for each in dict.fromkeys(ids) if serialization.encodable(each)]
    letters: dict[str, StoredLetter] = {}
    for start in range(0, len(known), _ROWS):
        some = known[start : start + _ROWS]
        args = ("ids", len(some), serialization.encode(some))
        names, stored = database.connections.run(_get, *args, repeat=args)
        places = database.connections.command("ZMSCORE", f"{{{database.prefix}}}:dead:pending", *names)
        pending = {name.decode() for name, place in zip(names, places, strict=True) if place is not None}
        sizes = {name.decode(): len(row or b"") for name, row in zip(names, stored, strict=True)}
        for row in serialization.dead_letters(names, stored):
            status = "pending" if row.id in pending else row.status if row.status != "pending" else "requeued"
            letters[row.id] = StoredLetter(replace(row, status=status), sizes[row.id])
    return letters


def pending_of(database: RedisDatabase, job_ids: Sequence[str]) -> dict[str, StoredLetter]:
    """The pending dead letters of these jobs, by the ids of the jobs."""
    ids = database.connections.command("HMGET", f"{{{database.prefix}}}:dead_pending", *job_ids)
    letters = read_letters(database, [each.decode() for each in ids if each is not None])
    found = {job_id: letters.get(each.decode()) for job_id, each in zip(job_ids, ids, strict=True) if each is not None}
    return {job_id: letter for job_id, letter in found.items() if letter and letter.row.status == "pending"}


def unchanged(letters: Iterable[StoredLetter]) -> list[Sequence[Any]]:
    """The expectations that these dead letters are pending or not as before, and have no new notes."""
    found: list[Sequence[Any]] = []
    for letter in letters:
        found.append(("0" if letter.row.status == "pending" else False, "ZSCORE", ":dead:pending", letter.row.id))
        found.append((letter.size, "HSTRLEN", ":dead_letters", letter.row.id))
    return found


def update(
    database: RedisDatabase, ids: Sequence[str], status: Status | None, by: str | None, note: str | None, now: int
) -> list[str]:
    """Resolve pending dead letters, or without a status add a note to any; the ids of the changed ones."""

    def write_all() -> list[str]:
        letters = read_letters(database, ids).values()
        found = [letter for letter in letters if status is None or letter.row.status == "pending"]
        if found:
            resolutions = [resolution_of(letter.row, status, by, note, now) for letter in found]
            write(database, WriteBatch(expectations=unchanged(found), resolutions=resolutions), now)
        return [letter.row.id for letter in found]

    return retried(write_all)


def requeue(
    database: RedisDatabase,
    requests: Sequence[RequeueRequest],
    by: str | None,
    note: str | None,
    detail: str | None,
    now: int,
) -> list[Requeued]:
    """Run the jobs of pending dead letters again; a deleted job is inserted anew."""

    def write_all() -> list[Requeued]:
        letters = read_letters(database, [request.id for request in requests])
        job_ids = list(dict.fromkeys(letter.row.job_id for letter in letters.values()))
        found = read_records(database, ids=job_ids)
        found.refuse_if_closed()
        jobs = {job.id: (member, job) for member, job in found.whole().items()}
        states = _states(database, job_ids, jobs)
        results: list[Requeued] = []
        changes: list[RecordChange] = []
        resolutions: list[DeadLetterResolution] = []
        inserts: list[tuple[NewJob, list[HistoryRow]]] = []
        expectations: list[Sequence[Any]] = [found.same_status]
        for request in requests:
            letter = letters.pop(request.id, None)
            row = letter.row if letter else None
            decision = decide(request, row, states.get(row.job_id) if row else None, by, note, now)
            results.append(decision.result)
            if letter is None or row is None or row.status != "pending":
                continue
            expectations += unchanged([letter])  # also of one whose job is busy: it may be requeued by now
            if decision.resolution is None:
                continue
            resolutions.append(decision.resolution)
            if decision.result.result == "requeued":
                changes.append(_requeued(*jobs[letter.row.job_id], request, detail, now))
            elif decision.result.result == "stored_anew":
                job = stored_anew(letter.row, request, now)
                inserts.append((job, history_anew(letter.row, job, detail)))
                expectations.append((False, "HGET", ":ids", job.id))
        if len(expectations) > 1:
            batch = WriteBatch(changes, expectations, (), (), None, resolutions, inserts, secrets.randbits(50))
            write(database, batch, now)
        return results

    return retried(write_all)


def _states(
    database: RedisDatabase, job_ids: Sequence[str], jobs: Mapping[str, tuple[bytes, Record]]
) -> dict[str, State]:
    """The states of existing jobs. A damaged one is left alone: it counts as running."""
    known = database.connections.command("HMGET", f"{{{database.prefix}}}:ids", *job_ids) if job_ids else ()
    return {
        job_id: jobs[job_id][1].state if job_id in jobs else State.RUNNING
        for job_id, member in zip(job_ids, known, strict=True)
        if member is not None
    }


def _requeued(member: bytes, job: Record, request: RequeueRequest, detail: str | None, now: int) -> RecordChange:
    payload: dict[str, Any] = {}
    if request.payload is not None:
        payload = {"payload": request.payload, "checksum": request.checksum or 0}
    if request.payload is not None and request.tags is not None:
        payload["tags"] = request.tags if stored_tags(request.tags) else None
    priority = raised(job.priority, request.boost)
    run_at = max(request.run_at or now, now)
    return revived(member, job, detail, now, run_at, payload=payload, priority=priority)


def revived(
    member: bytes,
    job: Record,
    detail: str | None,
    now: int,
    run_at: int,
    commands: Sequence[Sequence[Any]] = (),
    **more: Any,
) -> RecordChange:
    """A finished job that runs again, from this time on. It waits if any of its parents is open."""
    values: dict[str, Any] = {
        **dict.fromkeys(_NOTHING),
        "state": State.PENDING if run_at <= now else State.SCHEDULED,
        "attempt": 0,
        "crashes": 0,
        "run_at": run_at,
        "rank": rank_at(job, run_at),
        **more,
    }
    # A completed job begins anew; one that failed goes on with its steps.
    forgotten = [("UNLINK", f":steps:{member.decode()}")] if job.state is State.COMPLETED else []
    return change(member, job, Trigger.REVIVE, detail, commands=[*commands, *forgotten] or None, **values)
