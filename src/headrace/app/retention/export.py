"""Writes archived jobs to files: JSON lines, or Parquet with an extra package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.clock import to_datetime
from headrace.core.damaged_records import tags_of
from headrace.core.events.history import errors_of, timeline
from headrace.core.jobs.details import log_and_stream
from headrace.core.jobs.records import JobRow, LogLine
from headrace.core.retention.archive import ArchiveRow, shown
from headrace.core.tasks.trace_context import plain
from headrace.errors import ConfigError

_BATCH = 5000


def write_json_lines(path: Path, rows: Iterable[ArchiveRow]) -> int:
    """Write one complete job per line; returns their number."""
    count = 0
    with path.open("wb") as out:
        for row in rows:
            archived = shown(row)
            record = {
                **record_of(row, archived.job),
                "history": timeline(archived.job, archived.history),
                "errors": errors_of(archived.history),
                "logs": [_line(line) for line in log_and_stream(archived.logs)[0]],
            }
            out.write(msgspec.json.encode(record) + b"\n")
            count += 1
    return count


def write_parquet(path: Path, rows: Iterable[ArchiveRow]) -> int:
    """Write a table with a row per job, without history and logs; returns their number."""
    try:  # deferred: an extra, and large
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError(
            f"a Parquet file needs a package ({error}); install it: pip install 'headrace[parquet]'"
        ) from None
    moment = pyarrow.timestamp("ms", tz="UTC")
    text, number = pyarrow.string(), pyarrow.int64()
    texts = dict.fromkeys(("id", "task", "queue", "state", "summary", "reason", "args", "result", "worker"), text)
    times = dict.fromkeys(("created_at", "started_at", "finished_at"), moment)
    kinds = {
        **texts,
        **times,
        "duration_ms": number,
        "attempts": number,
        "priority": number,
        "tags": pyarrow.list_(text),
    }
    schema = pyarrow.schema(list(kinds.items()))
    count, remaining = 0, iter(rows)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(_records(islice(remaining, _BATCH), kinds)):
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count


def _records(rows: Iterable[ArchiveRow], names: Iterable[str]) -> Iterator[dict[str, Any]]:
    wanted = tuple(names)
    for row in rows:
        record = record_of(row, shown(row).job)
        texts = {**record, "args": _text(record["args"]), "result": _text(record["result"])}
        yield {name: texts[name] for name in wanted}


def record_of(row: ArchiveRow, job: JobRow) -> dict[str, Any]:
    """The record of a job. Arguments and result are in the stored form, tagged JSON."""
    return {
        "id": row.id,
        "task": row.task,
        "queue": row.queue,
        "state": row.state.value,
        "created_at": to_datetime(row.created_at),
        "started_at": to_datetime(job.started_at),
        "finished_at": to_datetime(row.finished_at),
        "duration_ms": row.duration,
        "attempts": row.attempts,
        "priority": job.priority,
        "summary": row.summary,
        "reason": job.reason,
        "worker": job.worker,
        "tags": list(tags_of(row.tags)),
        "metadata": msgspec.Raw(given.encode()) if (given := plain(job.metadata)) else None,
        "args": msgspec.Raw(job.payload.encode()),
        "result": msgspec.Raw(job.result.encode()) if job.result else None,
    }


def _line(line: LogLine) -> dict[str, Any]:
    fields = msgspec.Raw(line.fields.encode()) if line.fields else {}
    return {**msgspec.structs.asdict(line), "at": to_datetime(line.at), "fields": fields}


def _text(raw: msgspec.Raw | None) -> str | None:
    return None if raw is None else bytes(raw).decode()
