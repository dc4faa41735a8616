"""The dead letters in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headrace.core.dead_letters.records import (
    ADDABLE,
    REQUEUABLE,
    REQUEUED_TOO_OFTEN,
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
    used_up_text,
    with_note,
)
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.decisions import actor_suffix
from headrace.engines.shared.operation_timing import timed_part
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
_names = msgspec.json.Decoder(list[str])
_EQUAL = ("reason", "task", "queue", "fingerprint", "requeues")


@timed_part
class SqlDeadLetterStore:
    """Reads and resolves dead letters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, ids: Sequence[str] = (), *, job_ids: Sequence[str] = ()) -> list[DeadLetterRow]:
        def read(tx: Transaction) -> list[DeadLetterRow]:
            named = _dead_letters.decode(tx.fetch("dead_letters", ids=as_json(ids))) if ids else []
            return named + (_dead_letters.decode(tx.fetch("dead_letters_of", ids=as_json(job_ids))) if job_ids else [])

        return self._database.read(read)

    def find(self, which: DeadLetterFilter, limit: int, before: str | None = None) -> list[DeadLetterRow]:
        def read(tx: Transaction) -> Any:
            where, values = _conditions(tx, which, before)
            return tx.fetch("find_dead_letters", where, **values, limit=limit)

        return _dead_letters.decode(self._database.read(read))

    def oldest(self, status: Status, limit: int) -> list[str]:
        def read(tx: Transaction) -> Any:
            return tx.fetch("oldest_dead_letters", status=status, limit=limit)

        return _names.decode(self._database.read(read))

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

    def resolve(
        self,
        ids: Sequence[str],
        status: Status,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> list[str]:
        at = self._database.at(now)

        def resolve_all(tx: Transaction) -> list[str]:
            found = [record for record in _locked(tx, ids) if record.status == "pending"]
            resolutions = [_resolution(record, status, by, note, at) for record in found]
            if resolutions:
                tx.run("resolve_dead_letters", c=as_json(resolutions))
            return [record.id for record in found]

        closed = self._database.write(resolve_all)
        if closed:
            self._database.ring("events")
        return closed

    def note(self, dead_letter_id: str, text: str, by: str | None = None, now: int | None = None) -> bool:
        at = self._database.at(now)

        def add(tx: Transaction) -> bool:
            for record in _locked(tx, [dead_letter_id]):
                notes = with_note(record.notes, text, by, at)
                same = (record.status, record.resolved_at, record.resolved_by, record.requeues)
                return tx.run("resolve_dead_letters", c=as_json([DeadLetterResolution(record.id, *same, notes)])) == 1
            return False

        return self._database.write(add)

    def purge(self, statuses: Collection[Status], before: int, limit: int) -> int:
        def remove(tx: Transaction) -> int:
            # No record is resolved before it is opened, so later ids need not be read.
            where, values = _conditions(tx, DeadLetterFilter(statuses=tuple(statuses), until=before))
            return tx.run("purge_dead_letters", where, **values, before=before, limit=limit)

        return self._database.write(remove) if statuses else 0

    def remove(self, ids: Sequence[str]) -> list[str]:
        def delete(tx: Transaction) -> list[str]:
            found = [record.id for record in _locked(tx, ids)]
            if found:
                tx.run("remove_dead_letters", ids=as_json(found))
            return found

        return self._database.write(delete)


def add_dead_letter(
    tx: Transaction, request: NewDeadLetter, by: str | None, note: str | None, at: int
) -> tuple[Added, Wakeups]:
    """Open a record; a job that has not started fails with it. The result, and the wake-ups."""
    tx.fetch("lock_dependencies")
    unique_insert.refuse_if_closed(tx)
    ids, effects = as_json([request.job_id]), Wakeups()
    for _, seq, state in _jobs.decode(tx.fetch("lock_jobs", ids=ids)):
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
        noted = DeadLetterResolution(
            record.id, record.status, None, None, record.requeues, with_note(None, note, by, at)
        )
        tx.run("resolve_dead_letters", c=as_json([noted]))
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
        locked = _jobs.decode(self._tx.fetch("lock_jobs", ids=as_json(job_ids)))
        jobs = {job_id: (seq, state) for job_id, seq, state in locked}
        dead_letters = {
            record.id: record for record in _dead_letters.decode(self._tx.fetch("lock_dead_letters", ids=ids))
        }
        done = []
        for request in requests:
            done.append(self._decide(request, dead_letters.pop(request.id, None), jobs))
        self._write()
        return done

    def _decide(
        self, request: RequeueRequest, record: DeadLetterRow | None, jobs: dict[str, tuple[int, State]]
    ) -> Requeued:
        if record is None:
            return Requeued(request.id, "", "missing")
        if record.status != "pending":
            return Requeued(request.id, record.job_id, "resolved", record.requeues)
        if record.requeues >= request.most:
            resolution = _resolution(record, "permanently_failed", self._by, self._note, self._at)
            why = with_note(resolution.notes, used_up_text(record.requeues, request.most), None, self._at)
            self._resolutions.append(msgspec.structs.replace(resolution, resolved_by=REQUEUED_TOO_OFTEN, notes=why))
            return Requeued(request.id, record.job_id, "used_up", record.requeues)
        seq, state = jobs.get(record.job_id, (0, State.FAILED))
        if state not in REQUEUABLE:
            return Requeued(request.id, record.job_id, "busy", record.requeues)
        requeued = msgspec.structs.replace(record, requeues=record.requeues + 1)
        self._resolutions.append(_resolution(requeued, "requeued", self._by, self._note, self._at))
        if seq:
            run_at = max(request.run_at or self._at, self._at)
            self._changes.append(_change(seq, request, run_at))
            return Requeued(request.id, record.job_id, "requeued", requeued.requeues)
        self._deleted.append((record, request))
        return Requeued(request.id, record.job_id, "stored_anew", requeued.requeues)

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


def _resolution(
    record: DeadLetterRow, status: Status, by: str | None, note: str | None, at: int
) -> DeadLetterResolution:
    return DeadLetterResolution(record.id, status, at, by, record.requeues, with_note(record.notes, note, by, at))


def _locked(tx: Transaction, ids: Sequence[str]) -> list[DeadLetterRow]:
    return _dead_letters.decode(tx.fetch("lock_dead_letters", ids=as_json(ids)))


def _of(statuses: Collection[Status]) -> str:
    """A condition of literals from our own enumeration, so that a partial index can be chosen."""
    listed = ", ".join(f"'{status}'" for status in STATUSES if status in statuses)
    return f"dead_letter.status IN ({listed})" if len(statuses) > 1 else f"dead_letter.status = {listed}"


def _conditions(tx: Transaction, which: DeadLetterFilter, before: str | None = None) -> tuple[str, dict[str, Any]]:
    """A WHERE of fixed fragments and its parameters."""
    values: dict[str, Any] = {name: value for name in _EQUAL if (value := getattr(which, name)) is not None}
    conditions = [tx.fragment(f"where_dead_letter_{name}") for name in values]
    if which.statuses or conditions:  # there is an index for each status
        conditions.append(_of(which.statuses or STATUSES))
    first, last = bounds(which)
    values |= {"first": first, "last": last if before is None else min(before, last)}
    return " AND ".join([*conditions, tx.fragment("where_dead_letter_ids")]), values
