"""Exports and imports the contents of a SQL database, a page of jobs at a time, and keeps the store status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from headrace.core.damaged_records import stored_tags
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, JobRow, LogLine
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.schedules.records import Occurrence
from headrace.engines.protocol.transfer import Record
from headrace.engines.shared.damaged_records import NumberedRows, Rows
from headrace.engines.shared.decisions import CopyFinished
from headrace.engines.shared.sql_files import as_json, most
from headrace.engines.sql.events import without_events
from headrace.engines.sql.transaction import Database, Transaction
from headrace.errors import HeadraceError, StoreMoved

_rows = Rows(JobRow)
_history_rows, _steps, _lines = NumberedRows(HistoryRow), NumberedRows(Step), NumberedRows(LogLine)
_names = msgspec.json.Decoder(list[str])
_store_status = msgspec.json.Decoder(StoreStatus)


# The statement for each type of records, and its parameter.
_IMPORTS: dict[type[Record], tuple[str, str]] = {
    QueueRow: ("import_queues", "r"),
    FlowRow: ("import_flows", "f"),
    Dependency: ("add_edges", "b"),
    Occurrence: ("add_occurrences", "c"),
}


class _StatusChanged(Exception):
    """The store has another status."""


class SqlTransfer:
    """Exports and imports jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def store_status(self) -> StoreStatus | None:
        text = self._database.read(lambda tx: tx.fetch("store_status"))
        return _store_status.decode(text) if text else None

    def set_status(self, store_status: StoreStatus | None, *, expected: StoreStatus | UnsetType | None = UNSET) -> bool:
        def replace(tx: Transaction) -> None:
            # Even if inserts stay open: closing them waits for claims that are running.
            if store_status is not None:
                tx.run("close_inserts")
            if expected is UNSET:
                _put_status(tx, store_status)
            elif not _replace_status(tx, expected, store_status):
                raise _StatusChanged  # so that inserts stay as they were
            if store_status is None or store_status.kind != "moved":
                tx.run("open_inserts")

        try:
            self._database.write(replace)
        except _StatusChanged:
            return False
        self._database.ring("work")
        return True

    def export_jobs(self, after: int = 0, limit: int = 1000, *, ids: Sequence[str] | None = None) -> list[JobExport]:
        def read(tx: Transaction) -> list[JobExport]:
            if ids is None:
                return exports_of(tx, _rows.decode(tx.fetch("export_jobs", after=after, limit=limit)))
            return exports_of(tx, _rows.decode(tx.fetch("get", ids=as_json(ids), most=most(light=False))))

        return [] if ids is not None and not ids else self._database.read(read)

    def import_records(self, records: Sequence[Record], origin: str | None = None) -> int:
        if not records:
            return 0
        if isinstance(records[0], JobExport):
            return self._import_jobs(cast("Sequence[JobExport]", records), origin)
        if isinstance(records[0], DeadLetterRow):
            return self._import_dead_letters(cast("Sequence[DeadLetterRow]", records), origin)
        statement, parameter = _IMPORTS[type(records[0])]
        self._database.write(lambda tx: _import_plain(tx, statement, **{parameter: as_json(records)}))
        return 0

    def _import_jobs(self, job_exports: Sequence[JobExport], origin: str | None = None) -> int:
        now = self._database.at(None)

        def store_new(tx: Transaction) -> int:
            _hold_store_status(tx, origin)
            taken = _taken(tx, job_exports)
            fresh = [job_export for job_export in job_exports if job_export.job.id not in taken]
            if not fresh:
                return 0
            jobs = [job_export.job for job_export in fresh]
            tx.run("add_queues", names=as_json(sorted({job.queue for job in jobs})), now=now)
            added = tx.run("import_jobs", r=as_json([msgspec.structs.astuple(job)[1:] for job in jobs]))
            if tagged := [
                msgspec.structs.replace(job, payload="", result=None) for job in jobs if stored_tags(job.tags)
            ]:
                tx.run("import_tags", r=as_json(tagged))
            with without_events(tx):
                record_history(
                    tx, ((job_export.job.id, history_row) for job_export in fresh for history_row in job_export.history)
                )
            _import_records(
                tx, "import_logs", ((job_export.job.id, line) for job_export in fresh for line in job_export.logs)
            )
            _import_records(
                tx, "import_steps", ((job_export.job.id, step) for job_export in fresh for step in job_export.steps)
            )
            return added

        try:
            return self._database.write(store_new)
        except (HeadraceError, CopyFinished):
            raise
        except Exception:
            # A job with such an id may have been submitted since the read.
            if not self._database.read(lambda tx: _taken(tx, job_exports)):
                raise
        if len(job_exports) == 1:
            return 0
        return sum(self._import_jobs([job_export], origin) for job_export in job_exports)

    def _import_dead_letters(self, records: Sequence[DeadLetterRow], origin: str | None = None) -> int:
        def store(tx: Transaction) -> int:
            if origin is not None:
                _hold_store_status(tx, origin)
            with without_events(tx):
                return tx.run("import_dead_letters", r=as_json(records))

        return self._database.write(store)


def _import_plain(tx: Transaction, statement: str, **values: str) -> None:
    if statement == "add_edges":
        tx.fetch(statement, **values)
    else:
        tx.run(statement, **values)


def exports_of(tx: Transaction, jobs: Sequence[JobRow]) -> list[JobExport]:
    """The jobs with their complete history."""
    seqs = as_json([job.seq for job in jobs])
    history = _by_job(_history_rows.decode(tx.fetch("export_history", seqs=seqs)))
    logs = _by_job(_lines.decode(tx.fetch("export_logs", seqs=seqs)))
    steps = _by_job(_steps.decode(tx.fetch("export_steps", seqs=seqs)))
    return [
        JobExport(job, _until(job, history.get(job.seq, [])), logs.get(job.seq, []), steps.get(job.seq, []))
        for job in jobs
    ]


def _until(job: JobRow, history: list[HistoryRow]) -> list[HistoryRow]:
    """The history up to the row's version: its worker may have settled the job a moment later."""
    return [history_row for history_row in history if history_row.version <= job.version]


def _put_status(tx: Transaction, store_status: StoreStatus | None) -> None:
    if store_status is None:
        tx.run("drop_store_status")
    else:
        tx.run("put_store_status", value=as_json(store_status))


def _replace_status(tx: Transaction, expected: StoreStatus | None, store_status: StoreStatus | None) -> bool:
    """Replace the expected status, unless it is another or another process was faster."""
    text = tx.fetch("store_status")
    if (_store_status.decode(text) if text else None) != expected:
        return False
    if text is None:
        return store_status is None or tx.run("first_store_status", value=as_json(store_status)) == 1
    if store_status is None:
        return tx.run("drop_this_store_status", expected=text) == 1
    return tx.run("change_store_status", expected=text, value=as_json(store_status)) == 1


def _hold_store_status(tx: Transaction, origin: str | None) -> None:
    """Keep the store status unchanged until the transaction ends."""
    # First: setting a status locks in this order, too.
    tx.run("hold_inserts")
    text = tx.fetch("hold_store_status")
    store_status = _store_status.decode(text) if text else None
    if origin is None:
        if store_status is not None and store_status.kind == "moved":
            raise StoreMoved(store_status.other)
    elif store_status is None or store_status.kind != "arriving" or store_status.other != origin:
        raise CopyFinished


def _taken(tx: Transaction, job_exports: Sequence[JobExport]) -> set[str]:
    ids = as_json([job_export.job.id for job_export in job_exports])
    return set(_names.decode(tx.fetch("existing_ids", ids=ids)))


def _by_job(pairs: list[tuple[int, Any]]) -> dict[int, list[Any]]:
    grouped: dict[int, list[Any]] = {}
    for seq, record in pairs:
        grouped.setdefault(seq, []).append(record)
    return grouped


def record_history(tx: Transaction, history_rows: Iterable[tuple[str, HistoryRow]]) -> None:
    """Record the history of jobs from another store, or from before they were stored, in this order."""
    _import_records(tx, "import_history", history_rows)


def _import_records(
    tx: Transaction, statement: str, records: Iterable[tuple[str, HistoryRow | LogLine | Step]]
) -> None:
    # The job's id comes first: it leads to its number in this store.
    if rows := [(job_id, *msgspec.structs.astuple(record)) for job_id, record in records]:
        tx.run(statement, r=as_json(rows))
