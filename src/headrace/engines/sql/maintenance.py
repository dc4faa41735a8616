"""Maintenance common to all SQL databases: orphans, lost workers, and histories that are too long.

Orphans are found by a read and deleted by number in short commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import partial

import msgspec

from headrace.core.damaged_records import CORRUPT_RECORD
from headrace.core.dead_letters.records import Added, NewDeadLetter
from headrace.core.health.findings import (
    GONE,
    KEPT_AT_START,
    LATE,
    Finding,
    IntegrityCounts,
    RecordKind,
    TrimResult,
    findings_of,
    is_gone,
)
from headrace.core.jobs.fingerprint import fingerprint
from headrace.core.jobs.records import ErrorInfo, JobRow, WorkerRow
from headrace.core.jobs.states import State
from headrace.core.queues.limits import is_damaged
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.sql_files import as_json
from headrace.engines.shared.sql_files import most as at_most
from headrace.engines.shared.unmet_needs import NeedyLane, needs_findings
from headrace.engines.sql.dead_letters import add_dead_letter
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.transaction import Database, Transaction

_numbers = msgspec.json.Decoder(list[int])
_owners = msgspec.json.Decoder(list[int | str])  # a value that is no number is no job's number
_names = msgspec.json.Decoder(list[str])
_counts = msgspec.json.Decoder(tuple[int, int, int, int])
_newly = msgspec.json.Decoder(tuple[int, int, list[int]])
_lanes = msgspec.json.Decoder(list[tuple[int, str]])
_needy_lanes = msgspec.json.Decoder(list[NeedyLane])
_workers = Rows(WorkerRow)
_rows = Rows(JobRow)
_JOB_TABLES = ("history", "logs", "steps", "tags", "dependencies")
_MAX_COUNTED = 10_000
_DROP_BATCH_SIZE = 1000


def inspect(database: Database, now: int) -> list[Finding]:
    """Findings about the contents of the tables."""

    def count(tx: Transaction) -> tuple[IntegrityCounts, list[NeedyLane]]:
        strays, unreaped, overdue, forlorn = _counts.decode(
            tx.fetch("integrity_counts", late=now - LATE, limit=_MAX_COUNTED)
        )
        orphans = {what: len(_owners.decode(tx.fetch(f"orphan_{what}", limit=_MAX_COUNTED))) for what in _JOB_TABLES}
        integrity_counts = IntegrityCounts(orphans=orphans, strays=strays, workers=_workers.decode(tx.fetch("workers")))
        if tx.fetch("store_status"):  # no worker runs here, and the copy may be incomplete
            return integrity_counts, []
        integrity_counts.damaged = len(_in_damaged_lanes(tx))
        orphans["flows"] = len(_names.decode(tx.fetch("orphan_flows", limit=_MAX_COUNTED)))
        integrity_counts.unreaped, integrity_counts.overdue, integrity_counts.forlorn = unreaped, overdue, forlorn
        return integrity_counts, _needy_lanes.decode(tx.fetch("lanes_needing"))

    integrity_counts, needy_lanes = database.read(count)
    return [*findings_of(integrity_counts, now), *needs_findings(needy_lanes, integrity_counts.workers, now)]


def repair(database: Database, codes: Collection[str], limit: int, now: int) -> dict[str, int]:
    """Delete orphans, fail damaged jobs and remove lost workers."""
    done = {f"orphan_{what}": _drop_orphans(database, what, limit) for what in _JOB_TABLES if f"orphan_{what}" in codes}
    if "orphan_flows" in codes:
        done["orphan_flows"] = _drop_flows(database, limit)
    if "damaged_records" in codes:
        done["damaged_records"] = _fail_damaged(database, limit, now)
    if "silent_workers" in codes:
        done["silent_workers"] = _remove_workers(database, now)
    return done


def _in_damaged_lanes(tx: Transaction) -> list[int]:
    """The first job of each lane that cannot be parsed: such jobs can never start."""
    lanes = _lanes.decode(tx.fetch("pending_lanes"))
    return [first for first, lane in lanes if is_damaged(bytes.fromhex(lane))]


def _fail_damaged(database: Database, limit: int, now: int) -> int:
    done, fresh = 0, -1
    while fresh and done < limit:
        fresh = 0
        for seq in database.read(_in_damaged_lanes)[: limit - done]:
            added, effects = database.write(partial(_fail_one, seq=seq, now=now))
            effects.ring(database.ring)
            fresh += added == "added"
        done += fresh
    return done


def _fail_one(tx: Transaction, seq: int, now: int) -> tuple[Added, Wakeups]:
    jobs = _rows.decode(tx.fetch("rows", seqs=as_json([seq]), most=at_most(light=True)))
    if tx.fetch("store_status") or not any(job.state is State.PENDING for job in jobs):
        return "missing", Wakeups()
    tx.run("move_lane", seqs=as_json([seq]), lane="")
    why = ErrorInfo("CorruptPayload", "its lane can no longer be read")
    mark = fingerprint(jobs[0].task, why, CORRUPT_RECORD)
    return add_dead_letter(tx, NewDeadLetter(jobs[0].id, CORRUPT_RECORD, why.type, why.message, mark), None, None, now)


def _drop_orphans(database: Database, what: str, limit: int) -> int:
    found = _owners.decode(database.read(lambda tx: tx.fetch(f"orphan_{what}", limit=limit)))
    if not found:
        return 0
    seqs = as_json(sorted(set(found), key=str))
    if what in ("tags", "dependencies"):  # a job has few of them
        return database.write(lambda tx: tx.run(f"drop_orphan_{what}", seqs=seqs))
    return database.write(lambda tx: tx.run(f"drop_orphan_{what}", seqs=seqs, limit=limit))


def _drop_flows(database: Database, limit: int) -> int:
    def find(tx: Transaction) -> list[str]:
        # During a transfer flows arrive before their jobs.
        return [] if tx.fetch("store_status") else _names.decode(tx.fetch("orphan_flows", limit=limit))

    names = database.read(find)
    return database.write(lambda tx: tx.run("drop_flows", ids=as_json(names))) if names else 0


def _remove_workers(database: Database, now: int) -> int:
    """Remove lost workers. One that comes back registers at its next heartbeat; its lease alone decides on its jobs."""

    def remove(tx: Transaction) -> int:
        gone = [worker.id for worker in _workers.decode(tx.fetch("workers")) if is_gone(worker, now)]
        return tx.run("unregister_workers", ids=as_json(gone)) if gone else 0

    # A read first: there is nearly never anything to write.
    known = _workers.decode(database.read(lambda tx: tx.fetch("workers")))
    return database.write(remove) if any(now - worker.seen_at > GONE for worker in known) else 0


def matching_tables(tables: Iterable[str], pattern: str, limit: int) -> list[tuple[str, str]]:
    """The first tables that match the pattern, each with its displayed name, without the prefix."""
    shown = ((name, name.removeprefix("headrace_")) for name in tables)
    return list(itertools.islice((pair for pair in shown if fnmatchcase(pair[1], pattern)), limit))


def trim_history(database: Database, what: RecordKind, most: int, after: int, limit: int) -> TrimResult:
    """Read the next history entries, and trim the histories that became too long."""

    def read(tx: Transaction) -> tuple[int, int, list[int]]:
        reached, seen, jobs = _newly.decode(tx.fetch(f"newly_filed_{what}", after=after, limit=limit))
        too_long = tx.fetch(f"too_long_{what}", seqs=as_json(jobs), most=most) if jobs else "[]"
        return reached, seen, _numbers.decode(too_long)

    reached, seen, too_long = database.read(read)
    removed = 0
    for job in too_long:
        fresh = _shorten(database, what, job, most)
        removed += fresh
        if fresh == _DROP_BATCH_SIZE:  # this history has more to trim: continue here
            return TrimResult(removed, after, True)
    return TrimResult(removed, reached, seen == limit)


def _shorten(database: Database, what: RecordKind, job: int, most: int) -> int:
    first = min(KEPT_AT_START, most // 2)
    newest = (most - first) // 2

    def find(tx: Transaction) -> list[int]:
        entries = tx.fetch(f"length_{what}", job=job)
        limit = min(entries - most, _DROP_BATCH_SIZE)
        if limit <= 0:
            return []
        found = tx.fetch(f"surplus_{what}", job=job, first=first, newest=newest, limit=limit)
        return _numbers.decode(found)

    if seqs := database.read(find):
        return database.write(lambda tx: tx.run(f"drop_{what}", seqs=as_json(seqs)))
    return 0
