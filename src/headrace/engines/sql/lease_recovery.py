"""Recovery of jobs whose lease ran out or whose worker died, and cancellation of expired jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headrace.core.events.log import EventGroup, page
from headrace.core.jobs.fingerprint import CRASH_LOOP, WORKER_LOST, fingerprint_of_lost
from headrace.core.jobs.outcomes import opens_dead_letter
from headrace.core.jobs.records import Lease, ReapedJob
from headrace.core.jobs.states import State, Trigger
from headrace.engines.shared import liveness_file
from headrace.engines.shared.decisions import crash_loop_message
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies
from headrace.engines.sql.events import append_events
from headrace.engines.sql.records import DeadLetterInsert
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import is_arriving


class ExpiredLease(NamedTuple):
    """A job whose worker is gone. `crashes` does not count this one."""

    seq: int
    worker: str
    has_attempts: bool
    crashes: int


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
    effects.work |= any(job.state is State.PENDING for job in reaped)
    effects.done |= any(job.state is State.FAILED for job in reaped)
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
        unbegun, unsettled, again, failed, crash_loops = _classify(rows, dead, max_crashes)
        _release(tx, [row.seq for row in unbegun], "its worker died before it began", now)
        _release(tx, [row.seq for row in unsettled], "its worker died before its end was stored", now)
        _expire(tx, again, State.PENDING, now, "recovered")
        _expire(tx, failed, State.FAILED, now, "attempts used up", WORKER_LOST, dead_letters)
        _expire(tx, crash_loops, State.FAILED, now, "its workers die again and again", CRASH_LOOP, dead_letters)
        if len(rows) < limit:
            gone = [worker for worker in dead if tx.run("unregister_workers", ids=as_json([worker]))]
            if gone:
                append_events(tx, page([EventGroup("worker.lost", now, worker=worker) for worker in gone]))
        return _reaped_jobs(tx, rows), dependencies.propagate_failures(
            tx, [row.seq for row in (*failed, *crash_loops)], now
        )

    # The usual case needs no write lock.
    if not dead and not _overdue.decode(database.read(lambda tx: tx.fetch("overdue", **params))):
        return [], dependencies.Wakeups()
    return database.write(take_back)


def release_unknown_claims(database: Database, worker: str, held: Sequence[Lease], now: int) -> list[str]:
    """Release the running jobs that the worker does not hold, and wake workers."""

    def release(tx: Transaction) -> list[str]:
        seqs = _numbers.decode(tx.fetch("lock_unknown_claims", worker=worker, lease=as_json(held)))
        _release(tx, seqs, "its claim never reached the worker", now)
        return _names.decode(tx.fetch("ids_of", seqs=as_json(seqs)))

    released = database.write(release)
    if released:
        database.ring("work")
    return released


def _classify(
    rows: list[ExpiredLease], dead: Mapping[str, set[int]], max_crashes: int | None
) -> tuple[list[ExpiredLease], ...]:
    """The jobs that were not begun; had ended; may run again; may not; and that crash their workers."""
    unbegun, unsettled, again, failed, crash_loops = [], [], [], [], []
    for row in rows:
        begun = dead.get(row.worker)
        if begun is not None and row.seq not in begun and -row.seq not in begun:
            unbegun.append(row)
        elif begun is not None and -row.seq in begun and row.has_attempts:
            unsettled.append(row)  # it did not crash its worker
        elif max_crashes is not None and row.crashes + 1 >= max_crashes:
            crash_loops.append(row)
        elif row.has_attempts:
            again.append(row)
        else:
            failed.append(row)
    return unbegun, unsettled, again, failed, crash_loops


def _expire(
    tx: Transaction,
    rows: list[ExpiredLease],
    target: State,
    now: int,
    detail: str,
    reason: str | None = None,
    dead_letters: bool | Collection[str] = True,
) -> None:
    if not rows:
        return
    lost: dict[str, Any] = {"seqs": as_json([row.seq for row in rows]), "now": now}
    tx.run("record_lost", **lost, target=target.value, detail=detail)
    if reason is not None and opens_dead_letter(dead_letters, reason):
        tx.run("add_dead_letters", now=now, b=as_json(_dead_letter_inserts(tx, rows, reason)))
    tx.run("expire_lease", **lost, target=target.value, reason=reason)


def _dead_letter_inserts(tx: Transaction, rows: list[ExpiredLease], reason: str) -> list[DeadLetterInsert]:
    tasks = dict(_named.decode(tx.fetch("tasks_of", seqs=as_json([row.seq for row in rows]))))
    if reason == WORKER_LOST:
        message = "the worker died or let its lease run out"
        return [
            DeadLetterInsert(row.seq, reason, "WorkerLost", message, fingerprint_of_lost(tasks[row.seq], reason))
            for row in rows
        ]
    crash_log: dict[int, list[tuple[int, str]]] = {}
    for seq, at, worker in _crashes.decode(tx.fetch("crashes_of", seqs=as_json([row.seq for row in rows]))):
        crash_log.setdefault(seq, []).append((at, worker or "unknown"))
    dead_letter_inserts = []
    for row in rows:
        crashes = crash_log[row.seq][-row.crashes - 1 :]  # crashes before a revival do not count
        message = crash_loop_message([worker for _, worker in crashes])
        digest = fingerprint_of_lost(tasks[row.seq], reason)
        dead_letter_inserts.append(DeadLetterInsert(row.seq, reason, "WorkerLost", message, digest, as_json(crashes)))
    return dead_letter_inserts


def _release(tx: Transaction, seqs: list[int], detail: str, now: int) -> None:
    if seqs:
        record_moves(tx, seqs, Trigger.RELEASE, State.PENDING, detail, now)
        tx.run("release", seqs=as_json(seqs))


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
    record_moves(tx, seqs, Trigger.EXPIRE, State.CANCELLED, "expired before it started", now)
    tx.run("move_cancel", seqs=as_json(seqs), now=now, reason="expired")
    effects = dependencies.propagate_failures(tx, seqs, now)
    effects.done = True
    return len(seqs), effects


def record_moves(tx: Transaction, seqs: list[int], event: Trigger, target: State, detail: str | None, now: int) -> None:
    """Record the history of a move, before the jobs are moved."""
    tx.run("record_moves", seqs=as_json(seqs), event=event.value, target=target.value, detail=detail, now=now)
