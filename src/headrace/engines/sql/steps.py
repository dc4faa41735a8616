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
from headrace.engines.sql.lease_recovery import file_moves
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.unique_insert import hold_open

_numbers = msgspec.json.Decoder(list[int])


def remember(office: Database, lease: Lease, step: Step, now: int) -> bool:
    """Store and file it unless it is there; False if the lease is lost."""

    def write(ledger: Transaction) -> bool:
        seqs = _numbers.decode(ledger.ask("lock_leased", id=lease.id, version=lease.version))
        if seqs:
            _keep(ledger, seqs[0], step, now)
        return bool(seqs)

    return office.write(write)


def signal(office: Database, job_id: str, name: str, value: str | None, checksum: int | None, now: int) -> bool:
    """Leave an event for a job, and wake it if that is what it waits for; False if it is over or nowhere."""

    def write(ledger: Transaction) -> tuple[bool, bool]:
        hold_open(ledger)
        seqs = _numbers.decode(ledger.ask("lock_open", id=job_id))
        if not seqs:
            return False, False
        number = ledger.ask("events_so_far", seq=seqs[0], name=name) + 1
        _keep(ledger, seqs[0], Step("event", name, number, now, value, checksum), now)
        return True, _wake(ledger, seqs[0], name, now)

    left, woken = office.write(write)
    if woken:
        office.ring("work")
    return left


def _keep(ledger: Transaction, seq: int, step: Step, now: int) -> None:
    if ledger.run("remember", seq=seq, s=as_json([step])):
        ledger.run("file_step", seq=seq, at=now, kind=step.kind, name=step.name)


def _wake(ledger: Transaction, seq: int, name: str, now: int) -> bool:
    if not ledger.ask("is_suspended", seq=seq, reason=awaiting(name)):
        return False
    file_moves(ledger, [seq], Trigger.HURRY, State.PENDING, f"event {name!r} came", now)
    ledger.run("wake", seq=seq, now=now)
    return True


def wake_if_come(ledger: Transaction, settled: Sequence[Outcome]) -> None:
    """Of the jobs that were just suspended, have those run at once whose event came while they ran."""
    if suspended := [outcome for outcome in settled if outcome.awaits is not None]:
        ledger.run("wake_if_come", o=as_json(suspended), now=max(outcome.at for outcome in suspended))


def forget(ledger: Transaction, seqs: Sequence[int], event: Trigger) -> None:
    """Before jobs are moved: what is deleted remembers nothing, and what was completed begins anew."""
    if event is Trigger.DELETE:
        ledger.run("forget_steps", seqs=as_json(seqs))
    elif event is Trigger.REVIVE:
        ledger.run("forget_steps_of_completed", seqs=as_json(seqs))
