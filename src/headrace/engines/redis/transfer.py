"""Exports and imports the contents of a Redis store, a page of jobs at a time, and keeps the store status."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, UnsetType

from headrace.core.jobs.dependencies import FlowRow
from headrace.core.jobs.details import log_and_stream
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.records import DeadLetterRow, Filter
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.schedules.records import Occurrence
from headrace.engines.protocol.transfer import Record
from headrace.engines.redis import serialization
from headrace.engines.redis.insert import unless_closed
from headrace.engines.redis.queries import storable_ids
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.decisions import CopyFinished

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.database import RedisDatabase

_set_status, _replace_status, _export_jobs, _import_jobs = (
    load("transfer/set_store_status"),
    load("transfer/replace_store_status"),
    load("transfer/export_jobs"),
    load("transfer/import_jobs"),
)
_export_jobs_by_id = load("transfer/export_jobs_by_id")
_import_flows, _import_edges = load("transfer/import_flows"), load("transfer/import_dependencies")
_import_dead_letters, _import_queues = (
    load("transfer/import_dead_letters"),
    load("transfer/import_queues"),
)


class RedisTransfer:
    """Exports and imports jobs."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def store_status(self) -> StoreStatus | None:
        self._database.prepare()
        key = f"{{{self._database.prefix}}}:status"
        kind, other, at = self._database.connections.command("HMGET", key, "kind", "other", "at")
        if kind is None:
            return None
        return StoreStatus("moved" if kind == b"moved" else "arriving", other.decode(), int(at))

    def set_status(self, store_status: StoreStatus | None, *, expected: StoreStatus | UnsetType | None = UNSET) -> bool:
        self._database.prepare()
        if expected is UNSET:
            fields = _fields(store_status)
            self._database.connections.run(_set_status, *fields, repeat=fields)
            return True
        both = serialization.encode(_fields(expected)), serialization.encode(_fields(store_status))
        return bool(self._database.connections.run(_replace_status, *both))

    def export_jobs(self, after: int = 0, limit: int = 1000, *, ids: Sequence[str] | None = None) -> list[JobExport]:
        self._database.prepare()
        if ids is None:
            args: tuple[Value, ...] = (serialization.encode_filter(Filter(), (), ()), after, limit)
            found = self._database.connections.run(_export_jobs, *args, repeat=args)
        else:
            args = tuple(storable_ids(ids))
            found = self._database.connections.run(_export_jobs_by_id, *args, repeat=args) if args else ()
        return job_exports(found, self._database.damaged.names)

    def import_records(self, records: Sequence[Record], origin: str | None = None) -> int:
        self._database.prepare()
        if not records:
            return 0
        if isinstance(records[0], JobExport):
            return self._import_jobs(cast("Sequence[JobExport]", records), origin)
        if isinstance(records[0], DeadLetterRow):
            return self._import_dead_letters(cast("Sequence[DeadLetterRow]", records), origin)
        if isinstance(records[0], Occurrence):
            self._add_occurrences(cast("Sequence[Occurrence]", records))
        elif isinstance(records[0], QueueRow):
            rows = cast("Sequence[QueueRow]", records)
            self._import(_import_queues, *(part for row in rows for part in (row.name, int(row.paused), _stored(row))))
        elif isinstance(records[0], FlowRow):
            flows = cast("Sequence[FlowRow]", records)
            self._import(_import_flows, *(part for flow in flows for part in (flow.id, serialization.encode(flow))))
        else:
            self._import(_import_edges, serialization.encode_batch(records))
        return 0

    def _import(self, script: Script, *args: Value) -> None:
        self._database.connections.run(script, *args, repeat=args)

    def _add_occurrences(self, occurrences: Sequence[Occurrence]) -> None:
        for occurrence in occurrences:
            key = f"{{{self._database.prefix}}}:occurrences:{occurrence.schedule}"
            self._database.connections.command("LPUSH", key, serialization.encode(occurrence))

    def _import_jobs(self, exports: Sequence[JobExport], origin: str | None) -> int:
        args: list[Value] = [self._database.at(None), secrets.randbits(50), origin or ""]
        for job_export in exports:
            args.append(serialization.encode(job_export.job))
            for records in (job_export.history, *log_and_stream(job_export.logs), job_export.steps):
                args += [len(records), *map(serialization.encode, records)]
        return _unless_finished(unless_closed(self._database.connections.run(_import_jobs, *args)))

    def _import_dead_letters(self, dead_letters: Sequence[DeadLetterRow], origin: str | None) -> int:
        return _unless_finished(
            self._database.connections.run(_import_dead_letters, origin or "", *map(serialization.encode, dead_letters))
        )


def job_exports(answer: Any, names: serialization.Names) -> list[JobExport]:
    """The jobs of an answer, each with its history, its log, its stream and its steps."""
    return [
        JobExport(
            serialization.job(row, names),
            [serialization.history_row.decode(entry) for entry in history],
            [serialization.line.decode(entry) for entry in (*log, *stream)],
            [serialization.step.decode(entry) for entry in steps],
        )
        for row, history, log, stream, steps in zip(*(answer[part::5] for part in range(5)), strict=True)
    ]


def _fields(store_status: StoreStatus | None) -> tuple[Value, ...]:
    return () if store_status is None else (store_status.kind, store_status.other, store_status.at)


def _unless_finished(stored: int | None) -> int:
    if stored is None:
        raise CopyFinished
    return stored


def _stored(row: QueueRow) -> str:
    """The creation time of the queue and its rules, in their stored form."""
    return f"{row.created_at} {row.rules}" if row.rules else str(row.created_at)
