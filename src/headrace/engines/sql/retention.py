"""Retention in a SQL database: lists finished jobs page by page, exports them, and deletes them by id and version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.core.jobs.records import JobRow, Lease
from headrace.core.jobs.states import State
from headrace.core.retention.retention import FinishedJob
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.events import append_move_events
from headrace.engines.sql.transaction import Database, Transaction

_rows = Rows(JobRow)
_names = msgspec.json.Decoder(list[str])
_numbers = msgspec.json.Decoder(list[int])
_finished = Rows(FinishedJob)
EASED_AFTER = 2000  # jobs
_END = 1 << 62  # beyond every time and every job number


class JobToDelete(Struct, frozen=True, array_like=True):
    """A job that is about to be deleted."""

    seq: int
    id: str
    has_dependencies: int
    flow: str | None
    state: State


_jobs_to_delete = msgspec.json.Decoder(list[JobToDelete])


@timed_part
class SqlRetentionStore:
    """Lists and deletes finished jobs. `ease` is called between two deletions, after every few thousand jobs."""

    def __init__(self, database: Database, ease: Callable[[], None] | None = None) -> None:
        self._database = database
        self._ease = ease
        self._since_ease = 0

    def finished(
        self,
        queue: str,
        state: State,
        before: int,
        limit: int,
        after: FinishedJob | None = None,
        *,
        newest: bool = False,
    ) -> list[FinishedJob]:
        start = (_END, _END) if newest else (-_END, -_END)
        at, seq = start if after is None else (after.finished_at, after.seq)
        statement = "finished_newest" if newest else "finished_oldest"
        params: dict[str, Any] = {
            "queue": queue,
            "state": state.value,
            "before": before,
            "limit": limit,
            "at": at,
            "seq": seq,
        }

        def read_page(tx: Transaction) -> list[FinishedJob]:
            rows = _finished.decode(tx.fetch(statement, **params))
            busy = _open_flows(tx, [row.flow for row in rows])
            cut_off = _cut_off(tx, rows)
            return [replace(row, held=True) if row.flow in busy or row.seq in cut_off else row for row in rows]

        return self._database.read(read_page)

    def delete(self, leases: Sequence[Lease]) -> list[str]:
        now = self._database.at(None)

        def remove(tx: Transaction) -> list[str]:
            if tx.fetch("any_dependents", ids=as_json([lease.id for lease in leases])):
                tx.fetch("lock_dependencies")  # before any row is locked, as in every other path
            tx.run("hold_inserts")  # the store status must not change until they are deleted
            if tx.fetch("store_status"):  # jobs are not deleted during a transfer
                return []
            return _remove(tx, now, _jobs_to_delete.decode(tx.fetch("lock_jobs_to_delete", lease=as_json(leases))))

        deleted = self._database.write(remove) if leases else []
        if deleted:
            self._database.ring("done")
        self._since_ease += len(deleted)
        if self._ease is not None and self._since_ease >= EASED_AFTER:
            self._since_ease = 0
            self._ease()
        return deleted


def _remove(tx: Transaction, now: int, jobs: list[JobToDelete]) -> list[str]:
    parents = as_json([job.seq for job in jobs if job.has_dependencies])
    awaited = set(_numbers.decode(tx.fetch("open_parents", seqs=parents))) if parents != "[]" else set()
    busy = _open_flows(tx, [job.flow for job in jobs])
    awaited |= _cut_off(tx, jobs)
    deletable = [job for job in jobs if job.seq not in awaited and job.flow not in busy]
    if not deletable:
        return []
    seqs = as_json([job.seq for job in deletable])
    append_move_events(tx, "job.removed", [job.seq for job in deletable], now)
    tx.run("delete_steps", seqs=seqs)
    tx.run("move_delete", seqs=seqs)
    if flows := {job.flow for job in deletable if job.flow is not None}:
        tx.run("drop_flows", ids=as_json(sorted(flows)))
    return [job.id for job in deletable]


def _open_flows(tx: Transaction, flows: Sequence[str | None]) -> set[str]:
    """Those of these flows with an open job or a pending dead letter; each flow is read once, whatever its size."""
    names = sorted({flow for flow in flows if flow is not None})
    return set(_names.decode(tx.fetch("open_flows", ids=as_json(names)))) if names else set()


def _cut_off(tx: Transaction, jobs: Sequence[FinishedJob] | Sequence[JobToDelete]) -> set[int]:
    """Jobs cancelled together with a job whose dead letter is pending: a requeue would let them run."""
    seqs = [job.seq for job in jobs if job.state is State.CANCELLED and job.flow is None]  # flows stay complete anyway
    return set(_numbers.decode(tx.fetch("cut_off", seqs=as_json(seqs)))) if seqs else set()
