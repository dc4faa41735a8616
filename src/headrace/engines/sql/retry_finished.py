"""Jobs that are to run again, in a SQL database: by hand, or from the desk of dead letters."""

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
    """Open the jobs again; those that are `later` are only scheduled. What waited for them waits again."""
    # It waits for those that are open; what has ended, if not as it should, a person wants it to do without.
    tx.run("waive", seqs=as_json(seqs), all=False)
    waiting = set(_numbers.decode(tx.ask("waiting_again", seqs=as_json(seqs))))
    scheduled = set(later) - waiting
    ready = [seq for seq in seqs if seq not in waiting and seq not in scheduled]
    targets = ((State.PENDING, ready), (State.SCHEDULED, sorted(scheduled)), (State.WAITING, sorted(waiting)))
    for state, some in targets:
        if some:
            record_moves(tx, some, Trigger.REVIVE, state, detail, at)
            tx.run("move_revive", seqs=as_json(some), now=at, state=state.value)
    if kin := dependencies.with_dependents(tx, seqs):
        run(dependencies.reopen(kin, at), tx)
