"""Revival of finished jobs in a SQL database, by hand or from a dead letter."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from headrace.core.jobs.states import State, Trigger
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies
from headrace.engines.sql.lease_recovery import record_moves
from headrace.engines.sql.transaction import Transaction
from headrace.engines.sql.unique_insert import run

_numbers = msgspec.json.Decoder(list[int])


def revive(tx: Transaction, seqs: list[int], detail: str | None, at: int, later: Collection[int] = ()) -> None:
    """Reopen the jobs; those in `later` are only scheduled. Their dependents wait again."""
    # The job waits for open parents only: the operator wants it to run without those that failed.
    tx.run("ignore_edges", seqs=as_json(seqs), all=False)
    waiting = set(_numbers.decode(tx.fetch("waiting_again", seqs=as_json(seqs))))
    scheduled = set(later) - waiting
    ready = [seq for seq in seqs if seq not in waiting and seq not in scheduled]
    targets = ((State.PENDING, ready), (State.SCHEDULED, sorted(scheduled)), (State.WAITING, sorted(waiting)))
    for state, some in targets:
        if some:
            record_moves(tx, some, Trigger.REVIVE, state, detail, at)
            tx.run("move_revive", seqs=as_json(some), now=at, state=state.value)
    if linked := dependencies.with_dependents(tx, seqs):
        run(dependencies.reopen(linked, at), tx)
