"""Inserts new jobs. Rows are parameters of one multi-row statement, so no row waits for the interpreter."""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Sequence

import msgspec

from headrace.core.events.log import EventBatch, arrivals, page
from headrace.core.jobs.records import NewJob
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite_file.database import scalar
from headrace.errors import DuplicateJob

_AT_ONCE = 100  # rows of a statement: longer ones gain nothing, and each length is prepared once
_PLACES = f"({', '.join('?' * len(NewJob.__struct_fields__))})"
_names = msgspec.json.Decoder(list[str])


@functools.cache
def _statement(rows: int) -> str:
    return SQL["insert"].replace("{rows}", ", ".join([_PLACES] * rows))


def insert(
    db: sqlite3.Connection, jobs: Sequence[NewJob], all_or_nothing: bool, record_events: bool = True
) -> list[bool]:
    """Insert the jobs whose id is free, with events; which ones were. With `all_or_nothing`, all or DuplicateJob."""
    fresh = [_write(db, jobs) == 1] if len(jobs) == 1 else _write_fresh(db, jobs)
    if all_or_nothing and not all(fresh):
        raise DuplicateJob(jobs[fresh.index(False)].id)
    stored = jobs if all(fresh) else list(itertools.compress(jobs, fresh))
    _tag(db, [job for job in stored if job.tags])
    if record_events and stored:
        append_events(db, page(arrivals(stored)))
    return fresh


def append_events(db: sqlite3.Connection, batch: EventBatch) -> int:
    """Append a page of events in the transaction; its number."""
    return db.execute(SQL["append_events"], {"page": batch.text, "size": batch.size, "at": batch.at}).lastrowid or 0


def _write_fresh(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> list[bool]:
    db.execute("SAVEPOINT fresh")
    fresh = [True] * len(jobs)
    if _write(db, jobs) != len(jobs):
        db.execute("ROLLBACK TO fresh")  # afterwards old rows could not be distinguished from new ones
        fresh = _free(db, jobs)
        _write(db, [job for job, free in zip(jobs, fresh, strict=True) if free])
    db.execute("RELEASE fresh")
    return fresh


def _write(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> int:
    added = 0
    for start in range(0, len(jobs), _AT_ONCE):
        rows = jobs[start : start + _AT_ONCE]
        values = list(itertools.chain.from_iterable(map(msgspec.structs.astuple, rows)))
        added += db.execute(_statement(len(rows)), values).rowcount
    return added


def _free(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> list[bool]:
    ids = as_json([job.id for job in jobs])
    seen = set(_names.decode(scalar(db, SQL["existing_ids"], {"ids": ids})))
    free = []
    for job in jobs:
        free.append(job.id not in seen)
        seen.add(job.id)
    return free


def _tag(db: sqlite3.Connection, jobs: list[NewJob]) -> None:
    if jobs:
        db.execute(SQL["insert_tags"], {"j": as_json(jobs)})
