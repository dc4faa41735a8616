"""The archive behind `app.lifecycle`: retention by hand, partitions, export, restore."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.app.retention.archive_records import (
    ArchiveMonth,
    ArchivePartition,
    ArchiveRun,
    ArchiveStats,
    TaskDurations,
)
from headrace.app.retention.export import write_json_lines, write_parquet
from headrace.app.services import archived_jobs
from headrace.app.services.filters import as_filter
from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.jobs.records import Filter
from headrace.core.retention.archive import (
    ArchiveRow,
    PartitionRow,
    archived_job,
    key_of,
    partition_of,
    revived,
    span_of,
)
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_text
from headrace.core.text import short
from headrace.engines.protocol.archive import Archive
from headrace.engines.shared.decisions import closed_error
from headrace.errors import ConfigError, InvalidJob, JobNotFound
from headrace.runtime.jobs.job import Job
from headrace.runtime.retention.archived import last_ends
from headrace.runtime.retention.last_run import last_run
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.sweep import RetentionSweep
from headrace.runtime.retention.sweep_event import emit_run, error_text, record_run

_BATCH = 500
_WRITERS = {".parquet": write_parquet, ".jsonl": write_json_lines, ".ndjson": write_json_lines}


class JobArchive:
    """The archive operations of `app.lifecycle`."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings

    def run(self, dry_run: bool) -> ArchiveRun:
        began, counts = time.monotonic(), RetentionCounts()
        if dry_run:
            self._run_retention(counts, dry_run=True)
        else:
            self._run_recorded(counts)
        return ArchiveRun(
            dry_run=dry_run,
            archived=counts.archived,
            deleted=counts.deleted,
            history=counts.history,
            steps=counts.steps,
            dead_letters=counts.dead_letters,
            dead_letters_expired=counts.expired,
            dropped=counts.dropped,
            jobs=sorted(counts.jobs),
            seconds=time.monotonic() - began,
        )

    def _run_retention(self, counts: RetentionCounts, *, dry_run: bool) -> None:
        for _ in RetentionSweep(
            self._services.engine, self._settings, self._services.archive, self._services.policies()
        ).walk(counts, dry_run=dry_run):
            pass

    def _run_recorded(self, counts: RetentionCounts) -> None:
        """As workers do: record the run and emit its event, also if a part failed."""
        engine, began, error = self._services.engine, time.monotonic(), None
        begun_at = engine.clock.now()
        try:
            self._run_retention(counts, dry_run=False)
        except Exception as failure:
            error = error_text(failure)
            raise
        finally:
            record_run(engine, self._settings, counts, begun_at, error=error)
            emit_run(engine, self._settings, counts, round(1000 * (time.monotonic() - began)), error)

    def partitions(self) -> list[ArchivePartition]:
        found = [] if self._services.archive is None else self._services.archive.partitions()
        return [
            ArchivePartition(one.name, to_datetime(one.since), to_datetime(one.until), one.jobs, one.bytes)
            for one in found
        ]

    def stats(self) -> ArchiveStats:
        partitions, last = self.partitions(), last_run(self._services.engine.document_store)
        return ArchiveStats(
            jobs=sum(one.jobs for one in partitions),
            bytes=sum(one.bytes for one in partitions),
            partitions=len(partitions),
            swept_at=None if last is None else to_datetime(last.at),
            seconds=None if last is None else last.duration / 1000,
            archived=0 if last is None else last.archived,
            deleted=0 if last is None else last.deleted,
            dead_letters=0 if last is None else last.dead_letters,
            partition=None if last is None else last.partition,
            dropped=[] if last is None else last.dropped,
        )

    def months(self) -> list[ArchiveMonth]:
        archive = self._services.archive
        jobs, size = Counter[str | None](), Counter[str | None]()
        if archive is None:
            return []
        for one in archive.partitions():
            for month, count in _by_month(archive, one).items():
                jobs[month] += count
                size[month] += one.bytes * count // one.jobs
        return [ArchiveMonth(month, jobs[month], size[month]) for month in sorted(jobs, key=lambda month: month or "")]

    def durations(self, filters: dict[str, Any]) -> list[TaskDurations]:
        which = as_filter(filters)
        archived_jobs.refuse_unsupported(which)
        found = [] if self._services.archive is None else self._services.archive.durations(which)
        return [
            TaskDurations(one.task, one.jobs, one.average / 1000, one.p95 / 1000, one.longest / 1000) for one in found
        ]

    def export(self, path: str | os.PathLike[str], filters: dict[str, Any]) -> int:
        """Write to a temporary file beside the target and rename it when complete."""
        target = Path(check_text("path", os.fspath(path)))
        write = _WRITERS.get(target.suffix)
        if write is None:  # before touching an existing file
            raise InvalidJob(f"path: {short(str(path))} must end in .jsonl or .parquet", value=path)
        unfinished = target.with_name(f"{target.name}.part")
        try:
            count = write(unfinished, self._rows(filters))
            unfinished.replace(target)
        except OSError as error:
            raise InvalidJob(f"path: {error}") from error
        finally:
            unfinished.unlink(missing_ok=True)
        return count

    def _rows(self, filters: dict[str, Any]) -> Iterator[ArchiveRow]:
        which = as_filter(filters)
        archived_jobs.refuse_unsupported(which)
        cursor = None
        while True:
            page = self._required_archive().find(which, _BATCH, cursor)
            yield from archived_jobs.only_archived(self._services.engine, page.rows)
            cursor = page.cursor
            if cursor is None:
                return

    def restore(self, job_id: str) -> Job[Any]:
        """Insert into the store first, then delete from the archive: after an interruption the job is live."""
        rows = last_ends(self._required_archive(), [check_text("job id", job_id)])
        engine = self._services.engine
        if not rows and not engine.queries.get([job_id], light=True):
            raise JobNotFound(job_id)
        if (store_status := engine.transfer.store_status()) is not None:
            raise closed_error(store_status)
        if not rows or not engine.transfer.import_records([revived(archived_job(rows[0]), engine.clock.now())]):
            raise InvalidJob(f"job {job_id} is in the store; there is nothing to restore")
        self._required_archive().remove([key_of(rows[0])])
        engine.ring("work")
        return Job(self._services, self._services.row(job_id))

    def _required_archive(self) -> Archive:
        if self._services.archive is None:
            raise ConfigError("archive_url: Redis has no archive; set it to an SQL store, such as sqlite:///archive.db")
        return self._services.archive


def _by_month(archive: Archive, partition: PartitionRow) -> dict[str | None, int]:
    """The number of jobs of a partition by the month they finished in. A partition spans at most two months."""
    if not partition.jobs:
        return {}
    if partition.since is None or partition.until is None:
        return {None: partition.jobs}
    first, last = (partition_of(moment, "monthly") for moment in (partition.since, partition.until - 1))
    last_span = span_of(last)
    if first == last or last_span is None:
        return {first: partition.jobs}
    # A partition of another length may overlap it; its jobs are counted with that one.
    early = min(archive.count(Filter(since=partition.since, until=last_span[0])), partition.jobs)
    counts = {first: early, last: partition.jobs - early}
    return {month: count for month, count in counts.items() if count}
