"""Removes finished jobs: exports them in small pieces, archives them in large ones, removes them in small ones.

A claim may have to wait for the store during an export or a removal, so these are paced by the time they take. The
archive is its own file or table, where each write waits for the disk: the more at once the better.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Lease
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import ArchiveRow, Interval, key_of, row_of, was_archived_before
from headrace.core.retention.retention import FinishedJob, RetentionAction
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.retention.archived import last_ends

_SMALLEST, _LARGEST = 20, 500  # jobs of one piece
_SHORT, _LONG = 0.006, 0.02  # seconds of the store's time that a piece should take: a claim may wait for all of it
_MAX_WAITING, _MAX_WAITING_BYTES = 2000, 8_000_000
_MAX_LISTED = 10_000


class RetentionCounts(Struct):
    """The counts of a retention run."""

    archived: int = 0
    deleted: int = 0
    dead_letters: int = 0
    expired: int = 0  # dead letters
    history: int = 0
    steps: int = 0
    dropped: list[str] = []
    prepared: list[str] = []
    unprepared: int = 0  # partitions that could not be created, each counted once
    jobs: list[str] = []  # the ids of the first of them

    @property
    def anything(self) -> bool:
        return bool(self.archived or self.deleted or self.dead_letters or self.expired or self.dropped)

    def count(self, archived: Collection[str], deleted: Collection[str]) -> None:
        self.archived += len(archived)
        self.deleted += len(deleted)
        if len(self.jobs) < _MAX_LISTED:
            self.jobs += [*archived, *deleted][: _MAX_LISTED - len(self.jobs)]


class _Removal(Struct, frozen=True):
    """A job to remove, with its row if it is to be archived."""

    id: str
    version: int
    row: ArchiveRow | None = None
    again: bool = False
    history: int = 0
    steps: int = 0


class RemovalBatch:
    """The jobs to remove from one store."""

    def __init__(self, engine: Engine, archive: Archive | None, interval: Interval) -> None:
        self._engine = engine
        self._archive = archive
        self._interval = interval
        self._size = 50
        self._waiting: list[_Removal] = []
        self.errors: list[Exception] = []  # of the archive: after the first one, jobs to archive stay in the store

    def reset(self) -> None:
        """Start over: none of the waiting jobs was removed."""
        self._waiting, self.errors = [], []

    def collect(self, due: Sequence[tuple[FinishedJob, RetentionAction]], counts: RetentionCounts) -> Iterator[None]:
        """Remove these, now or with the next ones; yields after each piece."""
        while due:
            part, due = due[: self._size], due[self._size :]
            self._waiting += [_Removal(job.id, job.version) for job, action in part if action == "delete"]
            archiving = [job for job, action in part if action == "archive" and not self.errors]
            if archiving:
                with _Timed(self):
                    self._waiting += self._removals_of(archiving)
                yield
            weight = sum(one.row.bytes for one in self._waiting if one.row is not None)
            if len(self._waiting) >= _MAX_WAITING or weight >= _MAX_WAITING_BYTES:
                yield from self.flush(counts)

    def flush(self, counts: RetentionCounts) -> Iterator[None]:
        """Remove all that wait: archive them first and, once they are safe there, delete them from the store."""
        waiting, self._waiting = self._waiting, []
        if self._archive is not None and (rows := [one.row for one in waiting if one.row is not None]):
            try:
                self._archive.add(rows, self._interval, {one.id for one in waiting if one.again})
            except Exception as error:
                self.errors.append(error)
                waiting = [one for one in waiting if one.row is None]
            yield
        while waiting:
            part, waiting = waiting[: self._size], waiting[self._size :]
            with _Timed(self):
                gone = set(self._engine.retention_store.delete([Lease(one.id, one.version) for one in part]))
            _count(part, gone, counts)
            if left := [one for one in part if one.id not in gone and one.row is not None]:
                self._remove_obsolete(left)
            yield

    def adapt(self, took: float) -> None:
        """Use smaller pieces if one takes long, so that no claim waits for it."""
        if took > _LONG:
            self._size = max(self._size // 2, _SMALLEST)
        elif took < _SHORT:
            self._size = min(self._size * 2, _LARGEST)

    def _removals_of(self, jobs: list[FinishedJob]) -> list[_Removal]:
        """The exports of these jobs; those that ran again meanwhile are left out."""
        versions = {job.id: job.version for job in jobs}
        job_exports = [
            one
            for one in self._engine.transfer.export_jobs(ids=list(versions))
            if one.job.version == versions[one.job.id]
        ]
        edges = self._edges([one.job.id for one in job_exports if one.job.has_dependencies or one.job.flow])
        return [_removal_of(one, edges.get(one.job.id, [])) for one in job_exports]

    def _edges(self, ids: list[str]) -> dict[str, list[Dependency]]:
        found: dict[str, list[Dependency]] = defaultdict(list)
        for edge in self._engine.flow_store.edges(ids) if ids else ():
            found[edge.parent].append(edge)
            found[edge.child].append(edge)
        return found

    def _remove_obsolete(self, left: list[_Removal]) -> None:
        """Remove archived copies of jobs that ran again meanwhile, and so stayed in the store."""
        assert self._archive is not None
        ids = [one.id for one in left]
        live = {job.id: job for job in self._engine.queries.get(ids)}
        newest = {row.id: row for row in last_ends(self._archive, ids)}
        obsolete = []
        for one in left:
            assert one.row is not None
            job, last, row = live.get(one.id), newest.get(one.id), one.row
            # A job that is still as we found it may be about to be removed, in another worker's commit.
            ran_again = job is not None and job.version != one.version and job.created_at == row.created_at
            ended_again = last is not None and last.created_at == row.created_at and last.finished_at > row.finished_at
            if ran_again or ended_again:
                obsolete.append(key_of(row))
        if obsolete:
            self._archive.remove(obsolete)


class _Timed:
    """Measures a piece of the store's time."""

    def __init__(self, removal_batch: RemovalBatch) -> None:
        self._removal_batch = removal_batch

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._removal_batch.adapt(time.perf_counter() - self._began)


def _removal_of(job_export: JobExport, edges: list[Dependency]) -> _Removal:
    row, job = row_of(job_export, edges), job_export.job
    return _Removal(
        job.id, job.version, row, was_archived_before(job_export), len(job_export.history), len(job_export.steps)
    )


def _count(part: list[_Removal], gone: set[str], counts: RetentionCounts) -> None:
    done = [one for one in part if one.id in gone]
    archived = [one for one in done if one.row is not None]
    counts.count([one.id for one in archived], [one.id for one in done if one.row is None])
    counts.history += sum(one.history for one in archived)
    counts.steps += sum(one.steps for one in archived)
