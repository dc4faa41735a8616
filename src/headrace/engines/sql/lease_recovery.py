"""Recovery of jobs whose lease ran out or whose worker died, and cancellation of expired jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.events.log import EventGroup, page
from headrace.core.jobs.fingerprint import CRASH_LOOP
from headrace.core.jobs.history_texts import EXPIRED
from headrace.core.jobs.outcomes import opens_dead_letter
from headrace.core.jobs.records import Lease, ReapedJob
from headrace.core.jobs.states import State, Trigger
from headrace.engines.shared import liveness_file
from headrace.engines.shared.lease_decisions import (
    AGAIN,
    CRASHES,
    ERROR_TYPE,
    LOST,
    NOT_BEGUN,
    NOT_SETTLED,
    UNKNOWN,
    ExpiredLease,
    Recovery,
    lost_error,
    recover,
)
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies
from headrace.engines.sql.events import append_events
from headrace.engines.sql.records import DeadLetterInsert
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import is_arriving

_END = 1 << 62  # no lease is longer
_overdue = msgspec.json.Decoder(list[ExpiredLease])
_named = msgspec.json.Decoder(list[tuple[int, str]])
_crashes = msgspec.json.Decoder(list[tuple[int, int, str | None]])
_reaped = msgspec.json.Decoder(list[ReapedJob])
_numbers = msgspec.json.Decoder(list[int])
_names = msgspec.json.Decoder(list[str])


def reap(
    database: Database,
    folder: Path,
    limit: int,
    max_crashes: int | None,
    now: int,
    alive: bool = False,
    dead_letters: bool | Collection[str] = True,
) -> list[ReapedJob]:
    """Take overdue jobs away, also from workers whose death shows in the folder, and wake listeners."""
    dead = liveness_file.find_dead(folder)
    found = _reap(database, dead, _END if alive else now, limit, max_crashes, now, dead_letters)
    if found is None:
        return []
    reaped, effects = found
    if len(reaped) < limit:
        for worker_id in dead:
            liveness_file.remove_file(folder, worker_id)
    effects.work |= any(job.state in (State.PENDING, State.CANCELLED) for job in reaped)  # its key is free
    effects.done |= any(job.state in (State.FAILED, State.CANCELLED) for job in reaped)
    effects.ring(database.ring)
    return reaped


def _reap(
    database: Database,
    dead: Mapping[str, set[int]],
    as_of: int,
    limit: int,
    max_crashes: int | None,
    now: int,
    dead_letters: bool | Collection[str],
) -> tuple[list[ReapedJob], dependencies.Wakeups] | None:
    """Jobs that a dead worker had not begun, or had ended and may repeat, get their attempt back; None: try later."""
    params: dict[str, Any] = {"now": as_of, "dead": as_json(list(dead)), "limit": limit}

    def take_back(tx: Transaction) -> tuple[list[ReapedJob], dependencies.Wakeups] | None:
        tx.fetch("lock_dependencies")
        rows = _overdue.decode(tx.fetch("lock_overdue", **params))
        # Dependents of these jobs may not have been copied yet. Checked after the read: a copy could begin in between.
        if rows and is_arriving(tx.fetch("store_status")):
            return None
        found: dict[Recovery, list[ExpiredLease]] = {}
        for row in rows:
            found.setdefault(recover(row, dead.get(row.worker), max_crashes), []).append(row)
        for recovery in (NOT_BEGUN, NOT_SETTLED):
            _release(tx, [row.seq for row in found.get(recovery, ())], recovery.detail, now)
        for recovery in (AGAIN, LOST, CRASHES):
            _expire(tx, found.get(recovery, []), recovery, now, dead_letters)
        asked = [recovery for recovery in found if recovery.event is Trigger.CANCEL]
        for recovery in asked:
            _cancel(tx, [row.seq for row in found[recovery]], recovery, now)
        if len(rows) < limit:
            gone = [worker for worker in dead if tx.run("unregister_workers", ids=as_json([worker]))]
            if gone:
                append_events(tx, page([EventGroup("worker.lost", now, worker=worker) for worker in gone]))
        return _reaped_jobs(tx, rows), dependencies.propagate_failures(
            tx, [row.seq for recovery in (LOST, CRASHES, *asked) for row in found.get(recovery, ())], now
        )

    # The usual case needs no write lock.
    if not dead and not _overdue.decode(database.read(lambda tx: tx.fetch("overdue", **params))):
        return [], dependencies.Wakeups()
    return database.write(take_back)


def release_unknown_claims(database: Database, worker: str, held: Sequence[Lease], now: int) -> list[str]:
    """Release the running jobs that the worker does not hold, and wake workers."""

    def release(tx: Transaction) -> list[str]:
        seqs = _numbers.decode(tx.fetch("lock_unknown_claims", worker=worker, lease=as_json(held)))
        _release(tx, seqs, UNKNOWN.detail, now)
        return _names.decode(tx.fetch("ids_of", seqs=as_json(seqs)))

    released = database.write(release)
    if released:
        database.ring("work")
    return released


def _expire(
    tx: Transaction,
    rows: list[ExpiredLease],
    recovery: Recovery,
    now: int,
    dead_letters: bool | Collection[str] = True,
) -> None:
    if not rows:
        return
    lost: dict[str, Any] = {"seqs": as_json([row.seq for row in rows]), "now": now}
    tx.run("record_lost", **lost, target=recovery.target.value, detail=recovery.detail)
    if recovery.reason is not None and opens_dead_letter(dead_letters, recovery.reason):
        tx.run("add_dead_letters", now=now, b=as_json(_dead_letter_inserts(tx, rows, recovery.reason)))
    tx.run("expire_lease", **lost, target=recovery.target.value, reason=recovery.reason)


def _cancel(tx: Transaction, seqs: list[int], recovery: Recovery, now: int) -> None:
    record_moves(tx, seqs, recovery.event, recovery.target, recovery.detail, now)
    tx.run("move_cancel", seqs=as_json(seqs), now=now, reason=recovery.reason)


def _dead_letter_inserts(tx: Transaction, rows: list[ExpiredLease], reason: str) -> list[DeadLetterInsert]:
    seqs = as_json([row.seq for row in rows])
    tasks = dict(_named.decode(tx.fetch("tasks_of", seqs=seqs)))
    crash_log: dict[int, list[tuple[int, str]]] = {}
    if reason == CRASH_LOOP:
        for seq, at, worker in _crashes.decode(tx.fetch("crashes_of", seqs=seqs)):
            crash_log.setdefault(seq, []).append((at, worker or "unknown"))
    dead_letter_inserts = []
    for row in rows:
        crashes = crash_log.get(row.seq, [])[-row.crashes - 1 :]  # crashes before a revival do not count
        error = lost_error(tasks[row.seq], reason, [worker for _, worker in crashes])
        dead_letter_inserts.append(
            DeadLetterInsert(row.seq, reason, ERROR_TYPE, error.message, error.fingerprint, as_json(crashes))
        )
    return dead_letter_inserts


def _release(tx: Transaction, seqs: list[int], detail: str, now: int) -> None:
    if seqs:
        record_moves(tx, seqs, Trigger.RELEASE, State.PENDING, detail, now)
        tx.run("release", seqs=as_json(seqs), now=now)


def _reaped_jobs(tx: Transaction, rows: list[ExpiredLease]) -> list[ReapedJob]:
    by_worker: dict[str, list[int]] = {}
    for row in rows:
        by_worker.setdefault(row.worker, []).append(row.seq)
    return [
        reaped
        for worker, seqs in by_worker.items()
        for reaped in _reaped.decode(tx.fetch("reaped", worker=worker, seqs=as_json(seqs)))
    ]


def cancel_expired(tx: Transaction, now: int, limit: int) -> tuple[int, dependencies.Wakeups]:
    """Cancel jobs that expired before they started; how many, and the wake-ups."""
    seqs = _numbers.decode(tx.fetch("lock_expired", now=now, limit=limit))
    if not seqs:
        return 0, dependencies.Wakeups()
    record_moves(tx, seqs, Trigger.EXPIRE, State.CANCELLED, EXPIRED, now)
    tx.run("move_cancel", seqs=as_json(seqs), now=now, reason="expired")
    effects = dependencies.propagate_failures(tx, seqs, now)
    effects.done = True
    return len(seqs), effects


def record_moves(tx: Transaction, seqs: list[int], event: Trigger, target: State, detail: str | None, now: int) -> None:
    """Record the history of a move, before the jobs are moved."""
    tx.run("record_moves", seqs=as_json(seqs), event=event.value, target=target.value, detail=detail, now=now)
