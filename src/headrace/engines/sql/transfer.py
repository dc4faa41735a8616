"""Carries the contents of a SQL database out and in, a page of jobs at a time, and minds its door meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headrace.core.damaged_records import tags_of
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, JobRow, LogLine, QueueRow
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.engines.shared.damaged_records import FiledRows, Rows
from headrace.engines.shared.decisions import CopyFinished
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.events import hushed
from headrace.engines.sql.transaction import Database, Transaction
from headrace.errors import HeadraceError, StoreMoved

_rows = Rows(JobRow)
_filings, _steps, _lines = FiledRows(HistoryRow), FiledRows(Step), FiledRows(LogLine)
_dead = Rows(DeadLetterRow)
_names = msgspec.json.Decoder(list[str])
_notice = msgspec.json.Decoder(StoreStatus)


class _Overtaken(Exception):
    """Another notice hangs there."""


class SqlTransfer:
    """Packs and unpacks."""

    def __init__(self, office: Database) -> None:
        self._office = office

    def notice(self) -> StoreStatus | None:
        told = self._office.read(lambda ledger: ledger.ask("notice"))
        return _notice.decode(told) if told else None

    def post(self, notice: StoreStatus | None) -> None:
        def hang_out(ledger: Transaction) -> None:
            if notice is None:
                ledger.run("drop_notice")
            else:
                # Even if it is to stay open: whoever closes the door waits for those who are in the middle of a claim.
                ledger.run("close_door")
                ledger.run("put_notice", value=as_json(notice))
            if notice is None or notice.kind != "moved":
                ledger.run("open_door")

        self._office.write(hang_out)
        self._office.ring("work")

    def swap(self, before: StoreStatus | None, notice: StoreStatus | None) -> bool:
        def exchange(ledger: Transaction) -> bool:
            if notice is not None:
                ledger.run("close_door")
            told = ledger.ask("notice")
            if (_notice.decode(told) if told else None) != before or not _replace(ledger, told, notice):
                raise _Overtaken  # so that the door is as it was
            if notice is None or notice.kind != "moved":
                ledger.run("open_door")
            return True

        try:
            done = self._office.write(exchange)
        except _Overtaken:
            return False
        self._office.ring("work")
        return done

    def pack(self, after: int, limit: int) -> list[JobExport]:
        def look(ledger: Transaction) -> list[JobExport]:
            return parcels_of(ledger, _rows.decode(ledger.ask("pack_jobs", after=after, limit=limit)))

        return self._office.read(look)

    def unpack(self, parcels: Sequence[JobExport], origin: str | None = None) -> int:
        if not parcels:
            return 0
        now = self._office.at(None)

        def put_away(ledger: Transaction) -> int:
            _hold_notice(ledger, origin)
            taken = _taken(ledger, parcels)
            fresh = [parcel for parcel in parcels if parcel.job.id not in taken]
            if not fresh:
                return 0
            jobs = [parcel.job for parcel in fresh]
            ledger.run("add_queues", names=as_json(sorted({job.queue for job in jobs})), now=now)
            added = ledger.run("unpack_jobs", r=as_json(jobs))
            if tagged := [msgspec.structs.replace(job, payload="", result=None) for job in jobs if tags_of(job.tags)]:
                ledger.run("unpack_tags", r=as_json(tagged))
            with hushed(ledger):
                file_history(ledger, ((parcel.job.id, filing) for parcel in fresh for filing in parcel.history))
            _file(ledger, "unpack_logs", ((parcel.job.id, line) for parcel in fresh for line in parcel.logs))
            _file(ledger, "unpack_steps", ((parcel.job.id, step) for parcel in fresh for step in parcel.steps))
            return added

        try:
            return self._office.write(put_away)
        except (HeadraceError, CopyFinished):
            raise
        except Exception:
            # Somebody may have submitted a job of such an id since we looked.
            if not self._office.read(lambda ledger: _taken(ledger, parcels)):
                raise
        if len(parcels) == 1:
            return 0
        return sum(self.unpack([parcel], origin) for parcel in parcels)

    def pack_dead(self, after: str, limit: int) -> list[DeadLetterRow]:
        return _dead.decode(self._office.read(lambda ledger: ledger.ask("pack_dead", after=after, limit=limit)))

    def unpack_dead(self, records: Sequence[DeadLetterRow], origin: str | None = None) -> int:
        def put_away(ledger: Transaction) -> int:
            if origin is not None:
                _hold_notice(ledger, origin)
            with hushed(ledger):
                return ledger.run("unpack_dead", r=as_json(records))

        return self._office.write(put_away) if records else 0

    def unpack_queues(self, queues: Sequence[QueueRow]) -> None:
        if queues:
            self._office.write(lambda ledger: ledger.run("unpack_queues", r=as_json(queues)))

    def unpack_flows(self, flows: Sequence[FlowRow]) -> None:
        if flows:
            self._office.write(lambda ledger: ledger.run("unpack_flows", f=as_json(flows)))

    def unpack_bonds(self, bonds: Sequence[Dependency]) -> None:
        if bonds:
            self._office.write(lambda ledger: ledger.ask("tie", b=as_json(bonds)))


def parcels_of(ledger: Transaction, jobs: Sequence[JobRow]) -> list[JobExport]:
    """The jobs with everything that was filed about them."""
    seqs = as_json([job.seq for job in jobs])
    history = _by_job(_filings.decode(ledger.ask("pack_history", seqs=seqs)))
    logs = _by_job(_lines.decode(ledger.ask("pack_logs", seqs=seqs)))
    steps = _by_job(_steps.decode(ledger.ask("pack_steps", seqs=seqs)))
    return [
        JobExport(job, _until(job, history.get(job.seq, [])), logs.get(job.seq, []), steps.get(job.seq, []))
        for job in jobs
    ]


def _until(job: JobRow, history: list[HistoryRow]) -> list[HistoryRow]:
    """What was filed up to the row as it was read: a moment later its worker may have settled it, and filed that."""
    return [filing for filing in history if filing.version <= job.version]


def _replace(ledger: Transaction, told: str | None, notice: StoreStatus | None) -> bool:
    """Put the notice in the place of what was read there, if nobody else was faster."""
    if told is None:
        return notice is None or ledger.run("first_notice", value=as_json(notice)) == 1
    if notice is None:
        return ledger.run("drop_this_notice", told=told) == 1
    return ledger.run("change_notice", told=told, value=as_json(notice)) == 1


def _hold_notice(ledger: Transaction, origin: str | None) -> None:
    """Nobody takes the notice away, or hangs one out, before the transaction ends."""
    # First: whoever hangs one out locks in this order, too.
    ledger.run("hold_door")
    told = ledger.ask("hold_notice")
    notice = _notice.decode(told) if told else None
    if origin is None:
        if notice is not None and notice.kind == "moved":
            raise StoreMoved(notice.other)
    elif notice is None or notice.kind != "arriving" or notice.other != origin:
        raise CopyFinished


def _taken(ledger: Transaction, parcels: Sequence[JobExport]) -> set[str]:
    ids = as_json([parcel.job.id for parcel in parcels])
    return set(_names.decode(ledger.ask("taken", ids=ids)))


def _by_job(pairs: list[tuple[int, Any]]) -> dict[int, list[Any]]:
    grouped: dict[int, list[Any]] = {}
    for seq, record in pairs:
        grouped.setdefault(seq, []).append(record)
    return grouped


def file_history(ledger: Transaction, filings: Iterable[tuple[str, HistoryRow]]) -> None:
    """File what happened to jobs elsewhere, or before they were stored, in this order."""
    _file(ledger, "unpack_history", filings)


def _file(ledger: Transaction, statement: str, records: Iterable[tuple[str, HistoryRow | LogLine | Step]]) -> None:
    # The job's id goes in front: its number in this store is found by it.
    if rows := [(job_id, *msgspec.structs.astuple(record)) for job_id, record in records]:
        ledger.run(statement, r=as_json(rows))
