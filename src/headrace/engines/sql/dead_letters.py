"""The dead letters in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headrace.core.dead_letters.records import (
    ADDABLE,
    STATUSES,
    Added,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterResolution,
    DeadLetterStats,
    NewDeadLetter,
    RequeueChange,
    Requeued,
    RequeueRequest,
    Status,
    bounds,
    group_of,
    history_anew,
    stored_anew,
)
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.decisions import actor_suffix
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.requeue_decisions import decide, resolution_of
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import steps, unique_insert
from headrace.engines.sql.dependencies import Wakeups, propagate_failures
from headrace.engines.sql.events import without_events
from headrace.engines.sql.lease_recovery import record_moves
from headrace.engines.sql.records import DeadLetterInsert
from headrace.engines.sql.retry_finished import revive
from headrace.engines.sql.transaction import Database, Transaction
from headrace.engines.sql.transfer import record_history

_dead_letters = Rows(DeadLetterRow)
_groups = msgspec.json.Decoder(list[tuple[str, str, str, str, int, int, int]])
_stats = msgspec.json.Decoder(list[DeadLetterStats])
_jobs = msgspec.json.Decoder(list[tuple[str, int, State]])
_EQUAL = ("reason", "task", "queue", "fingerprint", "requeues")


@timed_part
class SqlDeadLetterStore:
    """Reads and resolves dead letters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(
        self, which: DeadLetterFilter, limit: int, beyond: str | None = None, *, oldest_first: bool = False
    ) -> list[DeadLetterRow]:
        statement = "find_oldest_dead_letters" if oldest_first else "find_dead_letters"

        def read(tx: Transaction) -> Any:
            where, values = _conditions(tx, which, *((beyond, None) if oldest_first else (None, beyond)))
            return tx.fetch(statement, where, **values, limit=limit)

        return _dead_letters.decode(self._database.read(read))

    def count(self, which: DeadLetterFilter) -> int:
        def read(tx: Transaction) -> int:
            where, values = _conditions(tx, which)
            return int(tx.fetch("count_dead_letters", where, **values))

        return self._database.read(read)

    def groups(self, statuses: Collection[Status], limit: int) -> list[DeadLetterGroup]:
        where = _of(statuses or STATUSES)
        found = _groups.decode(self._database.read(lambda tx: tx.fetch("dead_letter_groups", where, limit=limit)))
        return [group_of(*fields) for fields in found]

    def stats(self) -> list[DeadLetterStats]:
        return _stats.decode(self._database.read(lambda tx: tx.fetch("dead_letter_stats")))

    def add(
        self, request: NewDeadLetter, by: str | None = None, note: str | None = None, now: int | None = None
    ) -> Added:
        at = self._database.at(now)
        added, effects = self._database.write(lambda tx: add_dead_letter(tx, request, by, note, at))
        effects.ring(self._database.ring)
        return added

    def requeue(
        self,
        requests: Sequence[RequeueRequest],
        by: str | None = None,
        note: str | None = None,
        detail: str | None = None,
        now: int | None = None,
    ) -> list[Requeued]:
        at = self._database.at(now)
        done = self._database.write(lambda tx: _RequeueRun(tx, by, note, detail, at).requeue(requests))
        if any(each.result in ("requeued", "stored_anew") for each in done):
            self._database.ring("work")
        return done

    def update(
        self,
        ids: Sequence[str],
        status: Status | None,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> list[str]:
        at = self._database.at(now)

        def change(tx: Transaction) -> list[str]:
            found = [record for record in _locked(tx, ids) if status is None or record.status == "pending"]
            if found:
                changes = [resolution_of(record, status, by, note, at) for record in found]
                tx.run("resolve_dead_letters", c=as_json(changes))
            return [record.id for record in found]

        changed = self._database.write(change)
        if changed and status is not None:
            self._database.ring("events")
        return changed

    def delete(self, which: DeadLetterFilter, limit: int) -> int:
        # Named records are waited for; of others, those that another process has locked are left to it.
        statement = "delete_named_dead_letters" if which.ids or which.latest_of else "delete_dead_letters"

        def delete_them(tx: Transaction) -> int:
            where, values = _conditions(tx, which)
            return tx.run(statement, where, **values, limit=limit)

        return self._database.write(delete_them)


def add_dead_letter(
    tx: Transaction, request: NewDeadLetter, by: str | None, note: str | None, at: int
) -> tuple[Added, Wakeups]:
    """Open a record; a job that has not started fails with it. The result, and the wake-ups."""
    tx.fetch("lock_dependencies")
    unique_insert.refuse_if_closed(tx)
    ids, effects = as_json([request.job_id]), Wakeups()
    for _, seq, state in _jobs.decode(tx.fetch("lock_named", ids=ids)):
        if state not in ADDABLE:
            return "busy", effects
        if any(record.status == "pending" for record in _dead_letters.decode(tx.fetch("dead_letters_of", ids=ids))):
            return "pending", effects
        if state not in FINAL:
            record_moves(tx, [seq], Trigger.FAIL, State.FAILED, request.reason + actor_suffix(by), at)
        dead_letter_insert = DeadLetterInsert(
            seq, request.reason, request.error_type, request.error_message, request.fingerprint
        )
        tx.run("add_dead_letters", b=as_json([dead_letter_insert]), now=at)
        (record,) = _dead_letters.decode(tx.fetch("dead_letters_of", ids=ids))
        tx.run("resolve_dead_letters", c=as_json([resolution_of(record, None, by, note, at)]))
        if state not in FINAL:
            tx.run("move_stale", seqs=as_json([seq]), now=at, reason=request.reason)
            effects = propagate_failures(tx, [seq], at)
            effects.done = effects.work = True  # a slot of a limit may be free
        return "added", effects
    return "missing", effects


class _RequeueRun:
    """One commit of requeue orders. Jobs are locked before their records, as a settling worker does."""

    def __init__(self, tx: Transaction, by: str | None, note: str | None, detail: str | None, at: int) -> None:
        self._tx = tx
        self._by = by
        self._note = note
        self._detail = detail
        self._at = at
        self._resolutions: list[DeadLetterResolution] = []
        self._changes: list[RequeueChange] = []
        self._deleted: list[tuple[DeadLetterRow, RequeueRequest]] = []

    def requeue(self, requests: Sequence[RequeueRequest]) -> list[Requeued]:
        self._tx.fetch("lock_dependencies")
        unique_insert.refuse_if_closed(self._tx)
        ids = as_json([request.id for request in requests])
        job_ids = [record.job_id for record in _dead_letters.decode(self._tx.fetch("dead_letters", ids=ids))]
        locked = _jobs.decode(self._tx.fetch("lock_named", ids=as_json(job_ids)))
        jobs = {job_id: (seq, state) for job_id, seq, state in locked}
        dead_letters = {
            record.id: record for record in _dead_letters.decode(self._tx.fetch("lock_dead_letters", ids=ids))
        }
        done = [self._decide(request, dead_letters.pop(request.id, None), jobs) for request in requests]
        self._write()
        return done

    def _decide(
        self, request: RequeueRequest, record: DeadLetterRow | None, jobs: dict[str, tuple[int, State]]
    ) -> Requeued:
        seq, state = jobs.get(record.job_id, (0, None)) if record else (0, None)
        decision = decide(request, record, state, self._by, self._note, self._at)
        if decision.resolution is not None:
            self._resolutions.append(decision.resolution)
        if record is not None and decision.result.result == "requeued":
            self._changes.append(_change(seq, request, max(request.run_at or self._at, self._at)))
        elif record is not None and decision.result.result == "stored_anew":
            self._deleted.append((record, request))
        return decision.result

    def _write(self) -> None:
        if self._resolutions:
            self._tx.run("resolve_dead_letters", c=as_json(self._resolutions))
        if self._changes:
            seqs = [each.seq for each in self._changes]
            later = {each.seq for each in self._changes if each.run_at > self._at}
            steps.forget(self._tx, seqs, Trigger.REVIVE)
            revive(self._tx, seqs, self._detail, self._at, later)
            self._tx.run("raise_revived", r=as_json(self._changes))
            if changed := [each for each in self._changes if each.tags is not None]:
                self._tx.run("drop_tags", seqs=as_json([each.seq for each in changed]))
                self._tx.run("tag_revived", r=as_json(changed))
        if self._deleted:
            self._insert_deleted()

    def _insert_deleted(self) -> None:
        jobs = [stored_anew(record, request, self._at) for record, request in self._deleted]
        self._tx.insert(jobs)
        with without_events(self._tx):
            record_history(
                self._tx,
                (
                    (job.id, history_row)
                    for (record, _), job in zip(self._deleted, jobs, strict=True)
                    for history_row in history_anew(record, job, self._detail)
                ),
            )


def _change(seq: int, request: RequeueRequest, run_at: int) -> RequeueChange:
    return RequeueChange(seq, request.boost, run_at, request.payload, request.checksum, request.tags)


def _locked(tx: Transaction, ids: Sequence[str]) -> list[DeadLetterRow]:
    return _dead_letters.decode(tx.fetch("lock_dead_letters", ids=as_json(ids)))


def _of(statuses: Collection[Status]) -> str:
    """A condition of literals from our own enumeration, so that a partial index can be chosen."""
    listed = ", ".join(f"'{status}'" for status in STATUSES if status in statuses)
    return f"dead_letter.status IN ({listed})" if len(statuses) > 1 else f"dead_letter.status = {listed}"


def _conditions(
    tx: Transaction, which: DeadLetterFilter, after: str | None = None, before: str | None = None
) -> tuple[str, dict[str, Any]]:
    """A WHERE of fixed fragments and its parameters."""
    values: dict[str, Any] = {name: value for name in _EQUAL if (value := getattr(which, name)) is not None}
    conditions = [tx.fragment(f"where_dead_letter_{name}") for name in values]
    if which.statuses or conditions:  # there is an index for each status
        conditions.append(_of(which.statuses or STATUSES))
    if which.ids:
        values["ids"] = as_json(which.ids)
        conditions.append(tx.fragment("where_dead_letter_named"))
    if which.latest_of:
        values["job_ids"] = as_json(which.latest_of)
        conditions.append(tx.fragment("where_dead_letter_latest"))
    if which.ended_before is not None:
        values["ended_before"] = which.ended_before
        conditions.append(tx.fragment("where_dead_letter_ended"))
    first, last = bounds(which)
    values |= {"first": first, "last": last if before is None else min(before, last)}
    conditions.append(tx.fragment("where_dead_letter_ids"))
    if after is not None:
        values["after"] = after
        conditions.append(tx.fragment("where_dead_letter_after"))
    return " AND ".join(conditions), values
