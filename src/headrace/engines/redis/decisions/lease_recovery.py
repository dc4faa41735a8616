"""Recovery of jobs in Redis whose lease ran out or whose worker died."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.events.log import EventGroup, page
from headrace.core.jobs.fingerprint import CRASH_LOOP
from headrace.core.jobs.history_texts import is_cancel_request
from headrace.core.jobs.outcomes import opens_dead_letter
from headrace.core.jobs.records import Lease, ReapedJob
from headrace.core.jobs.states import State, Trigger
from headrace.engines.redis import serialization
from headrace.engines.redis.decisions.apply import StoredRecords, change, read_records, retried, write
from headrace.engines.redis.script_records import RecordChange, WriteBatch
from headrace.engines.redis.serialization import Record
from headrace.engines.shared import liveness_file
from headrace.engines.shared.lease_decisions import (
    ERROR_TYPE,
    UNKNOWN,
    ExpiredLease,
    Recovery,
    lost_error,
    lost_text,
    recover,
)

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_MINUTE = 60_000


def reap(
    database: RedisDatabase,
    folder: Path,
    limit: int,
    max_crashes: int | None,
    now: int,
    alive: bool,
    dead_letters: bool | Collection[str],
) -> list[ReapedJob]:
    """Take overdue jobs away, also from workers whose death shows in the folder."""
    # A bucket that has been full for a minute can be deleted; the minute allows for clock differences.
    database.connections.command("ZREMRANGEBYSCORE", _key(database, "rate_buckets"), "-inf", 1000 * (now - _MINUTE))
    dead = liveness_file.find_dead(folder)
    reaped = retried(lambda: _reap(database, dead, None if alive else now, limit, max_crashes, now, dead_letters))
    if reaped is None:
        return []
    if len(reaped) < limit:
        for worker_id in dead:
            liveness_file.remove_file(folder, worker_id)
    return reaped


def _reap(
    database: RedisDatabase,
    dead: Mapping[str, set[int]],
    as_of: int | None,
    limit: int,
    max_crashes: int | None,
    now: int,
    dead_letters: bool | Collection[str],
) -> list[ReapedJob] | None:
    """The jobs taken away; None if they have to wait."""
    # Overdue leases come first; only for dead workers all have to be read.
    end, most = ("+inf", -1) if dead or as_of is None else (str(as_of), limit)
    leases = _leases(database, end, most)
    found = read_records(database, members=list(leases)) if leases else StoredRecords(None, {})
    if found.status is not None and found.status.kind == "arriving":
        return None  # dependents of these jobs may not have arrived yet
    reaped: list[ReapedJob] = []
    changes: list[RecordChange] = []
    expectations: list[Sequence[Any]] = [found.same_status] if leases else []
    commands: list[Sequence[Any]] = []
    for member, lease_until in leases.items():
        if len(reaped) == limit:
            break
        job = found.jobs.get(member)
        if job is None or job.state is not State.RUNNING:  # the entry or the record is damaged
            commands.append(("ZREM", ":leases", member.decode()))
            changes += [change(member, job)] if job else []
        elif (job.worker or "") in dead or as_of is None or int(float(lease_until)) <= as_of:
            expectations.append((lease_until.decode(), "ZSCORE", ":leases", member.decode()))  # it is not renewed
            recovery = recover(_expired(member, job), dead.get(job.worker or ""), max_crashes)
            changes.append(_recovered(database, member, job, recovery, now, dead_letters))
            reaped.append(ReapedJob(job.id, job.queue, recovery.target, job.worker))
    gone = [worker for worker in dead if _is_registered(database, worker)] if len(reaped) < limit else []
    expectations += [(1, "HEXISTS", ":workers", worker) for worker in gone]  # one process reports its death
    batch = WriteBatch(changes, expectations, [*commands, *(("HDEL", ":workers", worker) for worker in gone)])
    if gone:
        events = page([EventGroup("worker.lost", now, worker=worker) for worker in gone])
        batch.page = (events.text, str(events.size), str(events.at))
    if batch.changes or batch.commands:
        write(database, batch, now, without_memory=True)
    if damaged := found.damaged():
        database.damaged.fail(damaged, now)
    return reaped


def _leases(database: RedisDatabase, end: str, limit: int) -> dict[bytes, bytes]:
    """Running jobs by number, with the ends of their leases, the first ones first."""
    key = _key(database, "leases")
    found = database.connections.command("ZRANGEBYSCORE", key, "-inf", end, "WITHSCORES", "LIMIT", 0, limit)
    return dict(zip(found[::2], found[1::2], strict=True))


def _is_registered(database: RedisDatabase, worker: str) -> bool:
    return bool(database.connections.command("HEXISTS", _key(database, "workers"), worker))


def _expired(member: bytes, job: Record) -> ExpiredLease:
    return ExpiredLease(int(member), job.worker or "", job.attempt < job.max_attempts, job.crashes, job.reason)


def _recovered(
    database: RedisDatabase,
    member: bytes,
    job: Record,
    recovery: Recovery,
    now: int,
    dead_letters: bool | Collection[str],
) -> RecordChange:
    if recovery.event is Trigger.RELEASE:
        return _released(member, job, recovery)
    if recovery.event is Trigger.CANCEL:
        return change(member, job, recovery.event, recovery.detail, state=recovery.target, finished_at=now)
    values: dict[str, Any] = {"state": recovery.target, "crashes": job.crashes + 1, "reason": recovery.reason}
    if recovery.target is State.FAILED:
        values["finished_at"] = now
    else:
        values |= {"worker": None, "finished_at": None}
    dead_letter = None
    if recovery.reason is not None and opens_dead_letter(dead_letters, recovery.reason):
        dead_letter = _dead_letter(database, member, job, recovery.reason, now)
    error = (ERROR_TYPE, lost_text(job.worker), "")
    return change(member, job, recovery.event, recovery.detail, error=error, dead_letter=dead_letter, **values)


def _released(member: bytes, job: Record, recovery: Recovery) -> RecordChange:
    values: dict[str, Any] = {
        "worker": None,
        "started_at": None,
        "attempt": job.attempt - 1,
        "releases": job.releases + 1,
    }
    return change(member, job, recovery.event, recovery.detail, state=recovery.target, **values)


def _dead_letter(database: RedisDatabase, member: bytes, job: Record, reason: str, now: int) -> dict[str, Any]:
    crashes: list[tuple[int, str]] = []
    if reason == CRASH_LOOP:
        stored = database.connections.command("LRANGE", f"{_key(database, 'history')}:{member.decode()}", 0, -1)
        history = [serialization.history_row.decode(entry) for entry in stored]
        lost = [(row.at, row.worker or "unknown") for row in history if row.event == Trigger.LEASE_EXPIRED]
        crashes = [*lost, (now, job.worker or "unknown")][-job.crashes - 1 :]  # those before a revival do not count
    error = lost_error(job.task, reason, [worker for _, worker in crashes])
    return {
        "reason": reason,
        "at": now,
        "error_type": ERROR_TYPE,
        "error_message": error.message,
        "error_traceback": "",
        "fingerprint": error.fingerprint,
        "crashes": msgspec.json.encode(crashes).decode(),
    }


def release_unknown_claims(database: RedisDatabase, worker: str, held: Sequence[Lease], now: int) -> list[str]:
    """Release the running jobs that the worker does not hold."""
    known = {(lease.id, lease.version) for lease in held}

    def release() -> list[str]:
        found = read_records(database, members=list(_leases(database, "+inf", -1))).whole()
        lost = {
            member: job
            for member, job in found.items()
            if job.state is State.RUNNING
            and job.worker == worker
            and (job.id, job.version) not in known
            # Such a job runs under another version than its worker has claimed.
            and not is_cancel_request(job.reason)
        }
        if lost:
            changes = [_released(member, job, UNKNOWN) for member, job in lost.items()]
            write(database, WriteBatch(changes), now, without_memory=True)
        return [job.id for job in lost.values()]

    return retried(release)


def _key(database: RedisDatabase, name: str) -> str:
    return f"{{{database.prefix}}}:{name}"
