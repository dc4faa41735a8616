"""What running jobs remember in a SQL database, and the events that come for them.

Whoever changes a job's steps has its row first. So a suspension and the event that it waits for come one after the
other, and whichever is second finds the first: no event is lost, and nobody is woken twice for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.jobs.records import Lease, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Step, awaiting
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.lease_recovery import record_moves
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import hold_open

_numbers = msgspec.json.Decoder(list[int])


def save_step(database: Database, lease: Lease, step: Step, now: int) -> bool:
    """Store and file it unless it is there; False if the lease is lost."""

    def write(tx: Transaction) -> bool:
        seqs = _numbers.decode(tx.ask("lock_leased", id=lease.id, version=lease.version))
        if seqs:
            _keep(tx, seqs[0], step, now)
        return bool(seqs)

    return database.write(write)


def signal(database: Database, job_id: str, name: str, value: str | None, checksum: int | None, now: int) -> bool:
    """Leave an event for a job, and wake it if that is what it waits for; False if it is over or nowhere."""

    def write(tx: Transaction) -> tuple[bool, bool]:
        hold_open(tx)
        seqs = _numbers.decode(tx.ask("lock_open", id=job_id))
        if not seqs:
            return False, False
        number = tx.ask("events_so_far", seq=seqs[0], name=name) + 1
        _keep(tx, seqs[0], Step("event", name, number, now, value, checksum), now)
        return True, _wake(tx, seqs[0], name, now)

    left, woken = database.write(write)
    if woken:
        database.ring("work")
    return left


def _keep(tx: Transaction, seq: int, step: Step, now: int) -> None:
    if tx.run("save_step", seq=seq, s=as_json([step])):
        tx.run("record_step", seq=seq, at=now, kind=step.kind, name=step.name)


def _wake(tx: Transaction, seq: int, name: str, now: int) -> bool:
    if not tx.ask("is_suspended", seq=seq, reason=awaiting(name)):
        return False
    record_moves(tx, [seq], Trigger.HURRY, State.PENDING, f"event {name!r} came", now)
    tx.run("wake", seq=seq, now=now)
    return True


def wake_if_come(tx: Transaction, settled: Sequence[Outcome]) -> None:
    """Of the jobs that were just suspended, have those run at once whose event came while they ran."""
    if suspended := [outcome for outcome in settled if outcome.awaits is not None]:
        tx.run("wake_if_come", o=as_json(suspended), now=max(outcome.at for outcome in suspended))


def forget(tx: Transaction, seqs: Sequence[int], event: Trigger) -> None:
    """Before jobs are moved: what is deleted remembers nothing, and what was completed begins anew."""
    if event is Trigger.DELETE:
        tx.run("delete_steps", seqs=as_json(seqs))
    elif event is Trigger.REVIVE:
        tx.run("delete_steps_of_completed", seqs=as_json(seqs))
