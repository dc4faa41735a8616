"""Backups and restores: a store as one SQLite file, and a store that becomes what such a file is.

A file is copied by SQLite itself. A server's store is carried into the file, and back, with all that `headrace copy`
carries. Knows stores by the engine seam alone, and the file as a store of its own.
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

from headrace.app.transfer.dependencies import bond_pages, carry_flows, with_kin
from headrace.app.transfer.pages import pages, pages_of_dead, portable, portions, weight, weight_of_dead
from headrace.app.transfer.settings import carry_settings
from headrace.app.transfer.verify import compare
from headrace.core.jobs.dependencies import HELD, Dependency
from headrace.core.jobs.records import DeadLetterRow, Filter, JobRow, QueueRow
from headrace.core.jobs.states import FINAL, NOT_STARTED, State
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.retention.archive import ArchiveRow, Interval
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.maintenance import StoreView
from headrace.engines.sqlite import archive_copy
from headrace.engines.sqlite.copy_files import check_copy, check_schema, make_single, reading
from headrace.engines.sqlite.database import scalar
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import ConfigError, EngineUnavailable

Progress = Callable[[int, int], None]
_AT_ONCE = 500
_LEFT_BEHIND = 86_400  # seconds
_ALL_LINES = 1_000_000
_NAMED = "backup "  # how the notice names where jobs arrive from


class Backup(Struct, frozen=True):
    """A backup that was taken."""

    path: str
    jobs: int
    bytes: int
    archived: int = 0


class Restored(Struct, frozen=True):
    """What a restore brought. `released` jobs ran when the backup was taken, and begin anew.

    `archived` jobs are in the archive. `left_out` ones are in the backup's, and nowhere else: this app has no archive.
    """

    jobs: int
    released: int
    archived: int = 0
    left_out: int = 0


# -- out


def take(
    engine: Engine,
    path: Path,
    *,
    archive: Archive | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Backup:
    """Write the store, and the archive if there is one, into a file that is whole when it appears.

    The store may be in use. Every job that was accepted before and is not deleted meanwhile is in it.
    """
    target = path.absolute()
    _refuse_target(engine, target, overwrite)
    with _told_of(target), _part_of(target) as part:
        engine.care.backup(part, lambda view: _fill(part, view, progress, mend=view is engine), progress)
        make_single(part)
        check_copy(part)
        # Behind the jobs: what is archived meanwhile is there twice, and not nowhere.
        archive_copy.put(part, _archive_pages(archive))
        jobs, archived = _jobs_in(part), archive_copy.count(part)
        _settle_down(part)
        _refuse_target(engine, target, overwrite)  # it may have come meanwhile
        os.replace(part, target)
    return Backup(str(target), jobs, target.stat().st_size, archived)


def _archive_pages(archive: Archive | None) -> Iterator[list[ArchiveRow]]:
    cursor = None
    while archive is not None:
        page = archive.find(Filter(), _AT_ONCE, cursor)
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
        raise ConfigError(f"{target} is there already; choose another name, or say overwrite (--overwrite)")
    for log in (Path(f"{target}-wal"), Path(f"{target}-journal")):
        if log.exists() and log.stat().st_size:  # SQLite would read it as part of the new file, and damage that
            raise ConfigError(
                f"{target} is open, or whoever had it open was killed: {log.name} is beside it. Choose another name, "
                "or move both away if nobody uses them"
            )


def _is_file_of(engine: Engine, path: Path) -> bool:
    """Whether the store is in this very file, by whatever name."""
    scheme, _, own = engine.url.partition(":///")
    return scheme == "sqlite" and path.exists() and Path(own).exists() and path.samefile(own)


@contextlib.contextmanager
def _told_of(target: Path) -> Iterator[None]:
    """Name the disk of the backup where that is in the way, and not the store."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{target} can't be written: {error.strerror or error}; choose another place") from error
    except EngineUnavailable as error:
        if getattr(error.__cause__, "sqlite_errorname", None) != "SQLITE_FULL":
            raise
        raise EngineUnavailable(f"the disk of {target} is full: free some space, or choose another place") from error


@contextlib.contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """A file beside the target, on the same disk, in a folder that goes with everything in it."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*/part.db"):
        if time.time() - left.stat().st_mtime > _LEFT_BEHIND:  # by a backup that was killed
            shutil.rmtree(left.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        yield Path(folder, "part.db")


def _settle_down(part: Path) -> None:
    """Make sure that the file is on the disk before it gets its name. Nobody has it open any more."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(part: Path, view: StoreView, progress: Progress | None, *, mend: bool) -> None:
    with contextlib.closing(SqliteEngine(part, durability="off")) as target:
        _carry(view, target, progress, mend=mend)


def _carry(source: StoreView, target: Engine, progress: Progress | None, *, mend: bool = False) -> None:
    """Everything that the source has. `mend` tells that it is in use, so that each page is of a moment of its own."""
    total = sum(depth.jobs for depth in source.desk.depths())
    carry_settings(source, target, merged=False)
    carry_flows(source, target)
    kin: list[str] = []
    done = 0
    for page in _up_to_now(source) if mend else pages(source.porter):
        _unpack(target, page)
        kin += _concerned(page) if mend else with_kin(page)
        done += len(page)
        if progress is not None:
            progress(done, max(total, done))
    for records in pages_of_dead(source.porter):
        for some in portions(_of_failed(target, records) if mend else records, weight_of_dead):
            target.porter.unpack_dead(some)
    if mend:
        _carry_kin(source, target, kin)
    else:
        for bonds in bond_pages(source.desk, kin):
            target.porter.unpack_bonds(bonds)


def _unpack(target: Engine, page: list[JobExport]) -> None:
    for portion in portions([portable(parcel) for parcel in page], weight):
        target.porter.unpack(portion)


# A store that is read while it is in use: each job is of a moment of its own.


def _up_to_now(source: StoreView) -> Iterator[list[JobExport]]:
    """The jobs that are there now. Those that come meanwhile may come faster than they are read."""
    newest = source.desk.find(Filter(), 1, light=True).jobs
    for page in pages(source.porter) if newest else ():
        yield [parcel for parcel in page if parcel.job.seq <= newest[0].seq]
        if page[-1].job.seq >= newest[0].seq:
            return


def _concerned(page: list[JobExport]) -> list[str]:
    return [parcel.job.id for parcel in page if parcel.job.kin or parcel.job.state is State.WAITING]


def _carry_kin(source: StoreView, target: Engine, names: list[str]) -> None:
    """Tie these jobs to those that they wait for, which are brought along if they came meanwhile."""
    known = set(names)
    for start in itertools.count(0, _AT_ONCE):
        if not (some := names[start : start + _AT_ONCE]):
            return
        bonds = source.desk.bonds(some)
        parents = sorted({bond.parent for bond in bonds})
        there = {row.id for row in target.desk.get(parents, light=True)}
        late = [_parcel(source, row) for row in source.desk.get([name for name in parents if name not in there])]
        if late:
            _unpack(target, late)
            names += [parcel.job.id for parcel in late if parcel.job.id not in known]
            known |= {parcel.job.id for parcel in late}
        _tie_anew(target, bonds)


def _parcel(source: StoreView, row: JobRow) -> JobExport:
    desk = source.desk
    return JobExport(row, desk.history(row.id), desk.logs(row.id, _ALL_LINES), desk.steps(row.id))


def _of_failed(target: Engine, records: list[DeadLetterRow]) -> list[DeadLetterRow]:
    """Without open letters of jobs that had not failed yet when they were copied: if they fail, they get their own."""
    states = {row.id: row.state for row in target.desk.get([record.job_id for record in records], light=True)}
    return [
        record
        for record in records
        if record.status != "pending" or states.get(record.job_id, State.FAILED) is State.FAILED
    ]


def _tie_anew(target: Engine, bonds: Sequence[Dependency]) -> None:
    """Tie jobs by what they are in the copy, where a parent and its child may be of different moments.

    A child that had not started waits for those of its parents that have not ended there, and for no others: else it
    would wait for ever, or run without their results.
    """
    names = sorted({name for bond in bonds for name in (bond.parent, bond.child)})
    rows = {row.id: row for row in target.desk.get(names, light=True)}
    whole = [bond for bond in bonds if bond.parent in rows and bond.child in rows]
    of_child: dict[str, list[Dependency]] = {}
    for bond in whole:
        of_child.setdefault(bond.child, []).append(bond)
    anew = {name for name, own in of_child.items() if _is_torn(rows[name], own, rows)}
    target.porter.unpack_bonds([bond for bond in whole if bond.child not in anew])
    if decided := [replace(bond, blocks=True) for bond in whole if bond.child in anew]:
        target.plant([], decided)


def _is_torn(child: JobRow, bonds: Sequence[Dependency], rows: Mapping[str, JobRow]) -> bool:
    if child.state not in NOT_STARTED or child.reason == HELD:
        return False
    still_open = [rows[bond.parent].state not in FINAL for bond in bonds]
    if child.state is not State.WAITING:
        return any(still_open)
    return not any(still_open) or still_open != [bond.blocks for bond in bonds]


# -- back


def examine(path: Path) -> int:
    """Make sure that the file is whole and brings nothing but jobs; how many are in it."""
    check_copy(path)
    check_schema(path)
    return _jobs_in(path)


def _jobs_in(path: Path) -> int:
    with reading(path) as db:
        return int(scalar(db, "SELECT count(*) FROM headrace_jobs"))


def archived_in(path: str | os.PathLike[str]) -> int:
    """How many archived jobs are in the file."""
    return archive_copy.count(Path(path))


def restore(
    engine: Engine,
    path: Path,
    *,
    archive: Archive | None = None,
    interval: Interval = "weekly",
    over: bool = False,
    progress: Progress | None = None,
) -> Restored:
    """Make the store what the backup is; it must be empty unless it is to be replaced, and nobody may work on it.

    What ran when the backup was taken is given back to be run anew, without the loss of an attempt. Archived jobs are
    added to the archive: what is there stays.
    """
    if _is_file_of(engine, path):
        raise ConfigError(f"{path} is the store itself; there is nothing to restore")
    check_copy(path)
    check_schema(path)
    _refuse_in_use(engine, path, over)
    # First: if all this is cut off, it can be done once more.
    archived = 0 if archive is None else _bring_archive(archive, path, interval)
    queues = {queue.name for queue in engine.desk.queues()}
    engine.care.restore(path, lambda: _bring_back(engine, path, over, progress))
    _keep_queues(engine, queues)
    if engine.porter.notice() is not None:  # a backup of a store that was closed: now it is to be used
        engine.porter.post(None)
    left_out = archive_copy.count(path) if archive is None else 0
    return Restored(engine.desk.count(Filter()), _release(engine), archived, left_out)


def _bring_archive(archive: Archive, path: Path, interval: Interval) -> int:
    done = 0
    for rows in archive_copy.pages(path):
        archive.add(rows, interval)
        done += len(rows)
    return done


def _keep_queues(engine: Engine, names: Collection[str]) -> None:
    """Queues that were there stay, empty: a process that has enqueued there does not make them known once more."""
    known = {queue.name for queue in engine.desk.queues()}
    now = engine.clock.now()
    engine.porter.unpack_queues([QueueRow(name, False, now) for name in sorted(names) if name not in known])


def _refuse_in_use(engine: Engine, path: Path, over: bool) -> None:
    engine.schema()
    now = engine.clock.now()
    if alive := [worker.id for worker in engine.desk.workers() if not worker.is_silent(now)]:
        raise ConfigError(f"{len(alive)} workers are alive, such as {alive[0]}; stop them before you restore")
    notice = engine.porter.notice()
    if notice is not None and notice.kind == "arriving" and not notice.other.startswith(_NAMED):
        raise ConfigError(
            f"{engine.url} is being filled from {notice.other}; run that copy to its end first, or take the notice "
            f"down with `headrace copy --reopen {engine.url}`"
        )
    if over or _is_begun(engine, path):
        return
    if engine.desk.find(Filter(), 1, light=True).jobs or engine.porter.pack_dead("", 1):
        raise ConfigError(
            f"{engine.url} is in use: it has {engine.desk.count(Filter())} jobs. Restore into an empty store, or say "
            "replace (--replace): then all that is there now is lost"
        )


def _is_begun(engine: Engine, path: Path) -> bool:
    notice = engine.porter.notice()
    return notice is not None and notice.other == _name_of(path)


def _name_of(path: Path) -> str:
    return f"{_NAMED}{path.absolute()}"


def _bring_back(engine: Engine, path: Path, over: bool, progress: Progress | None) -> None:
    """Carry everything from a copy of the backup, which stays as it is. If it is cut off, the next run goes on."""
    is_begun = _is_begun(engine, path)
    engine.porter.post(StoreStatus("arriving", _name_of(path), max(engine.clock.now(), 1)))
    if over and not is_begun:
        engine.care.clear()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-restore-") as folder,
        contextlib.closing(SqliteEngine(Path(folder, "copy.db"), durability="off")) as source,
    ):
        source.care.restore(path, lambda: None)
        source.porter.post(None)
        _carry(source, engine, progress)
        verdict = compare(source, engine, merged=False, progress=lambda done: None)
    if verdict.different:
        first = "; ".join(map(str, verdict.differences[:3]))
        raise ConfigError(
            f"{engine.url} is not as the backup: {verdict.different} differences, such as {first}. It stays closed: "
            "restore again, or accept what is there with `headrace copy --reopen`"
        )
    engine.porter.post(None)


def _release(engine: Engine) -> int:
    """Give back what ran. Its workers are those of another time: none of them will hand in anything."""
    workers = set()
    cursor = None
    while True:
        page = engine.desk.find(Filter(states=(State.RUNNING,)), 1000, cursor, light=True)
        workers |= {row.worker for row in page.jobs if row.worker is not None}
        cursor = page.cursor
        if cursor is None:
            break
    return sum(len(engine.disown(worker, [])) for worker in sorted(workers))
