"""Stored steps of running jobs in a SQL database, and the events they wait for.

Every change of a job's steps locks its row first. So a suspension and the event it waits for are serialized, and the
second one sees the first: no event is lost, and no job is woken twice for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.jobs.records import Lease, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Step, is_woken_by
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.lease_recovery import record_moves
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import refuse_if_closed

_numbers = msgspec.json.Decoder(list[int])


def save_step(database: Database, lease: Lease, step: Step, now: int) -> bool:
    """Store the step and its history unless it exists; False if the lease is lost."""

    return database.write(lambda tx: save_leased(tx, lease, step, now))


def save_leased(tx: Transaction, lease: Lease, step: Step, now: int) -> bool:
    """The same in an open transaction."""
    seqs = _numbers.decode(tx.fetch("lock_leased", id=lease.id, version=lease.version))
    if seqs:
        _save(tx, seqs[0], step, now)
    return bool(seqs)


def signal(database: Database, job_id: str, name: str, value: str | None, checksum: int | None, now: int) -> bool:
    """Store an event for a job, and wake it if it waits for that; False if it is finished or does not exist."""

    def write(tx: Transaction) -> tuple[bool, bool]:
        refuse_if_closed(tx)
        seqs = _numbers.decode(tx.fetch("lock_open", id=job_id))
        if not seqs:
            return False, False
        number = tx.fetch("events_so_far", seq=seqs[0], name=name) + 1
        _save(tx, seqs[0], Step("event", name, number, now, value, checksum), now)
        return True, _wake(tx, seqs[0], name, now)

    is_open, woken = database.write(write)
    if woken:
        database.ring("work")
    return is_open


def _save(tx: Transaction, seq: int, step: Step, now: int) -> None:
    if tx.run("save_step", seq=seq, s=as_json([step])):
        tx.run("record_step", seq=seq, at=now, kind=step.kind, name=step.name)


def _wake(tx: Transaction, seq: int, name: str, now: int) -> bool:
    if not is_woken_by(tx.fetch("scheduled_because", seq=seq), name):
        return False
    record_moves(tx, [seq], Trigger.PROMOTE_NOW, State.PENDING, f"event {name!r} came", now)
    tx.run("wake", seq=seq, now=now)
    return True


def wake_if_come(tx: Transaction, settled: Sequence[Outcome]) -> None:
    """Wake the just suspended jobs whose event came while they ran."""
    if suspended := [outcome for outcome in settled if outcome.awaits is not None]:
        tx.run("wake_if_come", o=as_json(suspended), now=max(outcome.at for outcome in suspended))


def forget(tx: Transaction, seqs: Sequence[int], event: Trigger) -> None:
    """Before a move: delete the steps of deleted jobs, and of completed jobs that run again."""
    if event is Trigger.DELETE:
        tx.run("delete_steps", seqs=as_json(seqs))
    elif event is Trigger.REVIVE:
        tx.run("delete_steps_of_completed", seqs=as_json(seqs))
