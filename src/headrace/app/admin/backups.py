"""Backup of a store to one SQLite file, and restore from it.

SQLite itself copies a file. A server's store is transferred to the file and back, as by `headrace copy`. Uses only the
engine protocol; the file is a store of its own.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from headrace.app.transfer.dependencies import copy_flows, edge_pages, with_dependents
from headrace.app.transfer.pages import dead_letter_pages, dead_letter_size, export_size, pages, portable, portions
from headrace.app.transfer.preconditions import refuse_used
from headrace.app.transfer.settings import copy_settings
from headrace.app.transfer.verify import compare
from headrace.core.jobs.dependencies import HELD, Dependency
from headrace.core.jobs.details import StreamRange
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.records import DeadLetterRow, Filter, JobRow
from headrace.core.jobs.states import FINAL, NOT_STARTED, State
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.retention.archive import ArchiveRow, Interval
from headrace.core.text import counted
from headrace.engines import backup_file
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.maintenance import StoreView
from headrace.errors import ConfigError, EngineUnavailable

Progress = Callable[[int, int], None]
_BATCH = 500
_ABANDONED_AFTER = 86_400  # seconds
_ALL_LINES = 1_000_000
_BACKUP_PREFIX = "backup "  # prefix of `other` in the store status during a restore


class Backup(Struct, frozen=True):
    """The result of a backup."""

    path: str
    jobs: int
    bytes: int
    archived: int = 0


class Restored(Struct, frozen=True):
    """The result of a restore. `released` jobs were running at the backup and start again.

    `archived` jobs are in the archive. `left_out` ones are only in the backup, because this app has no archive.
    """

    jobs: int
    released: int
    archived: int = 0
    left_out: int = 0


# -- backup


def take(
    engine: Engine,
    path: Path,
    *,
    archive: Archive | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Backup:
    """Write the store, and the archive if there is one, to a file that is complete when it appears.

    The store may be in use. The file has every job that was accepted before and is not deleted meanwhile.
    """
    target = path.absolute()
    _refuse_target(engine, target, overwrite)
    with _explaining_errors(target), _temporary_file(target) as part:
        engine.maintenance.backup(part, lambda view: _fill(part, view, progress, in_use=view is engine), progress)
        backup_file.finish(part)
        # After the jobs: a job archived meanwhile is then in both, not in neither.
        backup_file.put_archive(part, _archive_pages(archive))
        jobs, archived = backup_file.count_jobs(part), backup_file.count_archived(part)
        _sync(part)
        _refuse_target(engine, target, overwrite)  # it may have been created meanwhile
        os.replace(part, target)
    return Backup(str(target), jobs, target.stat().st_size, archived)


def _archive_pages(archive: Archive | None) -> Iterator[list[ArchiveRow]]:
    cursor = None
    while archive is not None:
        page = archive.find(Filter(), _BATCH, cursor)
        yield page.rows
        if (cursor := page.cursor) is None:
            return


def _refuse_target(engine: Engine, target: Path, overwrite: bool) -> None:
    if _is_file_of(engine, target):
        raise ConfigError(f"{target} is the store itself; choose another file")
    if target.is_dir():
        raise ConfigError(f"{target} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {target.parent}")
    if target.exists() and not overwrite:
        raise ConfigError(f"{target} exists already; choose another name, or give overwrite (--overwrite)")
    for log in (Path(f"{target}-wal"), Path(f"{target}-journal")):
        if log.exists() and log.stat().st_size:  # SQLite would apply this log to the new file and damage it
            raise ConfigError(
                f"{target} is open, or a process that had it open was killed: {log.name} is beside it. Choose another "
                "name, or move both away if no process uses them"
            )


def _is_file_of(engine: Engine, path: Path) -> bool:
    """Whether the store is this file, also under another name."""
    scheme, _, own = engine.url.partition(":///")
    return scheme == "sqlite" and path.exists() and Path(own).exists() and path.samefile(own)


@contextlib.contextmanager
def _explaining_errors(target: Path) -> Iterator[None]:
    """Report errors of the backup's disk as such, not as errors of the store."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{target} can't be written: {error.strerror or error}; choose another place") from error
    except EngineUnavailable as error:
        if getattr(error.__cause__, "sqlite_errorname", None) != "SQLITE_FULL":
            raise
        raise EngineUnavailable(f"the disk of {target} is full: free some space, or choose another place") from error


@contextlib.contextmanager
def _temporary_file(target: Path) -> Iterator[Path]:
    """A temporary folder beside the target, on the same disk."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*/part.db"):
        if time.time() - left.stat().st_mtime > _ABANDONED_AFTER:  # left by a killed backup
            shutil.rmtree(left.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        yield Path(folder, "part.db")


def _sync(part: Path) -> None:
    """Sync the closed file to disk before the rename."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(part: Path, view: StoreView, progress: Progress | None, *, in_use: bool) -> None:
    with contextlib.closing(backup_file.open_backup(part)) as target:
        _copy(view, target, progress, in_use=in_use)


def _copy(source: StoreView, target: Engine, progress: Progress | None, *, in_use: bool = False) -> None:
    """Copy everything. `in_use`: the source is in use, so each page is of a different moment."""
    total = sum(depth.jobs for depth in source.queries.queue_counts())
    copy_settings(source, target, merged=False)
    copy_flows(source, target)
    linked: list[str] = []
    done = 0
    for page in _existing_pages(source) if in_use else pages(source.transfer):
        _import_jobs(target, page)
        linked += _maybe_linked(page) if in_use else with_dependents(page)
        done += len(page)
        if progress is not None:
            progress(done, max(total, done))
    for records in dead_letter_pages(source.dead_letters):
        for some in portions(_without_outdated(target, records) if in_use else records, dead_letter_size):
            target.transfer.import_records(some)
    if in_use:
        _copy_dependencies(source, target, linked)
    else:
        for edges in edge_pages(source.flow_store, linked):
            target.transfer.import_records(edges)


def _import_jobs(target: Engine, page: list[JobExport]) -> None:
    for portion in portions([portable(job_export) for job_export in page], export_size):
        target.transfer.import_records(portion)


# -- repairs after reading a store in use: each job is of a different moment


def _existing_pages(source: StoreView) -> Iterator[list[JobExport]]:
    """The jobs that exist now. New ones may arrive faster than they are read."""
    newest = source.queries.find(Filter(), 1, light=True).jobs
    for page in pages(source.transfer) if newest else ():
        yield [job_export for job_export in page if job_export.job.seq <= newest[0].seq]
        if page[-1].job.seq >= newest[0].seq:
            return


def _maybe_linked(page: list[JobExport]) -> list[str]:
    return [
        job_export.job.id
        for job_export in page
        if job_export.job.has_dependencies or job_export.job.state is State.WAITING
    ]


def _copy_dependencies(source: StoreView, target: Engine, names: list[str]) -> None:
    """Copy the dependencies of these jobs, with parents that arrived meanwhile."""
    known = set(names)
    for start in itertools.count(0, _BATCH):
        if not (some := names[start : start + _BATCH]):
            return
        edges = source.flow_store.edges(some)
        parents = sorted({edge.parent for edge in edges})
        known_parents = {row.id for row in target.queries.get(parents, light=True)}
        late = [
            _job_export(source, row)
            for row in source.queries.get([name for name in parents if name not in known_parents])
        ]
        if late:
            _import_jobs(target, late)
            names += [job_export.job.id for job_export in late if job_export.job.id not in known]
            known |= {job_export.job.id for job_export in late}
        _copy_edges(target, edges)


def _job_export(source: StoreView, row: JobRow) -> JobExport:
    details = source.queries.details(row.id, logs=_ALL_LINES, stream=StreamRange(0, _ALL_LINES))
    return JobExport(row, details.history, [*details.logs, *details.stream], details.steps)


def _without_outdated(target: Engine, records: list[DeadLetterRow]) -> list[DeadLetterRow]:
    """Drop pending dead letters of jobs that had not failed when they were copied: they get new ones if they fail."""
    states = {row.id: row.state for row in target.queries.get([record.job_id for record in records], light=True)}
    return [
        record
        for record in records
        if record.status != "pending" or states.get(record.job_id, State.FAILED) is State.FAILED
    ]


def _copy_edges(target: Engine, edges: Sequence[Dependency]) -> None:
    """Set dependencies by the states in the copy, where a parent and its child may be of different moments.

    A child that had not started waits only for its unfinished parents: otherwise it would wait forever, or run without
    their results.
    """
    names = sorted({name for edge in edges for name in (edge.parent, edge.child)})
    rows = {row.id: row for row in target.queries.get(names, light=True)}
    complete = [edge for edge in edges if edge.parent in rows and edge.child in rows]
    of_child: dict[str, list[Dependency]] = {}
    for edge in complete:
        of_child.setdefault(edge.child, []).append(edge)
    changed = {name for name, own in of_child.items() if _is_inconsistent(rows[name], own, rows)}
    target.transfer.import_records([edge for edge in complete if edge.child not in changed])
    if undecided := [replace(edge, blocks=True) for edge in complete if edge.child in changed]:
        target.insert([], edges=undecided)


def _is_inconsistent(child: JobRow, edges: Sequence[Dependency], rows: Mapping[str, JobRow]) -> bool:
    if child.state not in NOT_STARTED or child.reason == HELD:
        return False
    still_open = [rows[edge.parent].state not in FINAL for edge in edges]
    if child.state is not State.WAITING:
        return any(still_open)
    return not any(still_open) or still_open != [edge.blocks for edge in edges]


# -- restore


def examine(path: Path) -> int:
    """Check that the file is a complete backup; returns the number of its jobs."""
    backup_file.check(path)
    return backup_file.count_jobs(path)


def archived_in(path: str | os.PathLike[str]) -> int:
    """The number of archived jobs in the file."""
    return backup_file.count_archived(Path(path))


def restore(
    engine: Engine,
    path: Path,
    *,
    archive: Archive | None = None,
    interval: Interval = "weekly",
    replace_all: bool = False,
    progress: Progress | None = None,
) -> Restored:
    """Restore the backup. The store must be empty unless `replace_all`, and no worker may be alive.

    Jobs that were running at the backup are released, which does not count as an attempt. Archived jobs are added to
    the archive, where nothing is deleted.
    """
    if _is_file_of(engine, path):
        raise ConfigError(f"{path} is the store itself; there is nothing to restore")
    backup_file.check(path)
    _refuse_in_use(engine, path, replace_all)
    # First, so that an interrupted restore can be repeated.
    archived = 0 if archive is None else _add_to_archive(archive, path, interval)
    queues = {queue.name for queue in engine.queries.rules().queues}
    replace = replace_all and not _has_begun(engine, path)
    engine.maintenance.restore(path, lambda: _transfer_back(engine, path, progress), replace=replace)
    _keep_queues(engine, queues)
    if engine.transfer.store_status() is not None:  # the backup of a closed store: reopen it
        engine.transfer.set_status(None)
    left_out = backup_file.count_archived(path) if archive is None else 0
    return Restored(engine.queries.count(Filter()).jobs, _release(engine), archived, left_out)


def _add_to_archive(archive: Archive, path: Path, interval: Interval) -> int:
    done = 0
    for rows in backup_file.archive_pages(path):
        archive.add(rows, interval)
        done += len(rows)
    return done


def _keep_queues(engine: Engine, names: Collection[str]) -> None:
    """Keep existing queues, empty: processes that have used them do not register them again."""
    known = {queue.name for queue in engine.queries.rules().queues}
    now = engine.clock.now()
    engine.transfer.import_records([QueueRow(name, False, now) for name in sorted(names) if name not in known])


def _refuse_in_use(engine: Engine, path: Path, replace_all: bool) -> None:
    engine.migrate(dry_run=True)
    now = engine.clock.now()
    if alive := [worker.id for worker in engine.queries.workers() if not worker.is_silent(now)]:
        running = counted(len(alive), "worker is", "workers are")
        raise ConfigError(f"{running} alive, such as {alive[0]}; stop all workers before you restore")
    store_status = engine.transfer.store_status()
    if (
        store_status is not None
        and store_status.kind == "arriving"
        and not store_status.other.startswith(_BACKUP_PREFIX)
    ):
        raise ConfigError(
            f"{engine.url} is being filled from {store_status.other}; finish that copy first, or "
            f"reopen the store with `headrace copy --reopen {engine.url}`"
        )
    if replace_all or _has_begun(engine, path):
        return
    refuse_used(engine, "Restore into an empty store, or give replace (--replace), which deletes everything in it")


def _has_begun(engine: Engine, path: Path) -> bool:
    store_status = engine.transfer.store_status()
    return store_status is not None and store_status.other == _name_of(path)


def _name_of(path: Path) -> str:
    return f"{_BACKUP_PREFIX}{path.absolute()}"


def _transfer_back(engine: Engine, path: Path, progress: Progress | None) -> None:
    """Transfer everything from a copy of the backup. After an interruption, the next run continues."""
    engine.transfer.set_status(StoreStatus("arriving", _name_of(path), max(engine.clock.now(), 1)))
    with (
        tempfile.TemporaryDirectory(prefix="headrace-restore-") as folder,
        contextlib.closing(backup_file.open_backup(Path(folder, "copy.db"))) as source,
    ):
        source.maintenance.restore(path, lambda: None)
        source.transfer.set_status(None)
        _copy(source, engine, progress)
        verification = compare(source, engine, merged=False, progress=lambda done: None)
    if verification.different:
        first = "; ".join(map(str, verification.differences[:3]))
        raise ConfigError(
            f"{engine.url} differs from the backup in {verification.different} places, such as {first}. It stays "
            "closed: restore again, or accept it as it is with `headrace copy --reopen`"
        )
    engine.transfer.set_status(None)


def _release(engine: Engine) -> int:
    """Release running jobs. Their workers no longer exist."""
    workers = set()
    cursor = None
    while True:
        page = engine.queries.find(Filter(states=(State.RUNNING,)), 1000, cursor, light=True)
        workers |= {row.worker for row in page.jobs if row.worker is not None}
        cursor = page.cursor
        if cursor is None:
            break
    return sum(len(engine.release_unknown_claims(worker, [])) for worker in sorted(workers))
