"""Forwards jobs from the spool to the store, in order, and each of them once by its id.

One thread, which exists while jobs wait, and always in workers. Among several processes with one spool, one forwards at
a time. A job leaves the spool after the store has accepted it: if the process dies in between, the job is sent again
and the store recognizes its id. Must not know the producers, nor the tables of the spool.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

from headrace.core.jobs.records import JobRow, NewJob
from headrace.core.retention.archive import ArchiveRow
from headrace.core.text import counted, why
from headrace.engines.protocol.engine import Engine
from headrace.engines.sqlite_file.errors import explained
from headrace.engines.sqlite_file.writer_lock import WriterLock
from headrace.errors import ConfigError, CorruptPayload, EngineUnavailable, QueueFull, StoreMoved
from headrace.runtime.retention.archived import last_ends
from headrace.runtime.spool.file import Spooled, SpoolFile, address_of

log = logging.getLogger("headrace.spool")

BATCH = 500
_PAUSE_FIRST, _PAUSE_LONGEST = 0.2, 5.0
_CHECK_EVERY = 0.2  # how often to check whether another process has done it
_IDLE_CHECK = 1.0  # how often a worker checks whether jobs wait
_MAX_REFUSALS = 3  # for a job that the store refuses
_CLOSE_TIMEOUT = 2.0  # seconds that a closing app waits for the last jobs

# The store takes no job at all now: it is unavailable, full, has moved, or has another version. The jobs wait.
_TEMPORARY = (EngineUnavailable, QueueFull, ConfigError)


class _Stop:
    """Stops a thread: at once if the store is unavailable, else when all is forwarded or the time is over."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.deadline = float("inf")

    def request(self, timeout: float) -> None:
        self.deadline = time.monotonic() + timeout
        self.requested.set()

    @property
    def is_due(self) -> bool:
        return self.requested.is_set() and time.monotonic() >= self.deadline


class Forwarder:
    """Forwards one spool to one store. `archive_engine` is the store with its archive, if that is another one."""

    def __init__(self, file: SpoolFile, engine: Engine, archive_engine: Engine | None = None) -> None:
        self._file = file
        self._engine = engine
        self._archive_engine = archive_engine
        self._locks: set[WriterLock] = set()
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a forked child: the thread is gone, and a lock file that we hold open would outlive our parent."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_persistent = False
        self._stop = _Stop()
        self._outage = 0.0
        self._is_available = False  # whether the store took the last batch
        self._forwarded = 0
        self._refusals: Counter[int] = Counter()
        while self._locks:
            self._locks.pop().close()

    def start(self, *, persistent: bool = False) -> None:
        """Start forwarding what waits; with `persistent`, also jobs that others spool later."""
        with self._lock:
            self._is_persistent = self._is_persistent or persistent
            if self._thread is None:
                stop = _Stop()
                thread = threading.Thread(target=self._work, args=(stop,), name="headrace-spool", daemon=True)
                self._thread, self._stop = thread, stop
                try:
                    thread.start()
                except RuntimeError:  # a program that exits can start no thread: the jobs wait for the next one
                    self._thread = None

    def stop(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """Forward for at most `timeout` seconds, then end. The rest stays in the spool."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._is_persistent = False
            self._stop.request(timeout)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout + _CLOSE_TIMEOUT)

    # -- the thread

    def _work(self, stop: _Stop) -> None:
        self._open_file()
        while self._is_needed():
            if not self._file.marks.waiting:
                stop.requested.wait(_IDLE_CHECK)
                continue
            pause = self._run_guarded(stop)
            if stop.requested.is_set():
                return
            self._rest(pause, stop)

    def _open_file(self) -> None:
        """Open the file, which restores its marker: after a power loss either may exist without the other."""
        try:
            if self._file.exists:
                self._file.prepare()
        except Exception as error:  # retried if jobs are known to wait; a dead thread would not
            log.error("can't use the spool %s: %s", self._file.path, why(error))

    def _is_needed(self) -> bool:
        """Whether jobs wait. A producer sets the marker first and then calls start(), so one of us sees it."""
        with self._lock:
            if self._file.marks.waiting or self._is_persistent:
                return True
            if self._thread is threading.current_thread():
                self._thread = None
            return False

    def _rest(self, pause: float, stop: _Stop) -> None:
        """Wait for the pause. New jobs do not end it: during an outage each would cause a call to the store."""
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0 and self._file.marks.waiting:
            if stop.requested.wait(min(left, _CHECK_EVERY)):
                return

    def _run_guarded(self, stop: _Stop) -> float:
        """Forward what waits; returns the seconds until the next try. Survives any error."""
        try:
            with self._forwarding_lock() as is_held:
                if not is_held:
                    return _CHECK_EVERY * random.uniform(0.5, 1.0)
                self._forward_all(stop)
        except _TEMPORARY as error:
            self._note_outage(error)
        except Exception:
            self._outage = _PAUSE_LONGEST
            log.exception("can't forward the spool %s; trying again", self._file.path)
        return self._outage * random.uniform(0.5, 1.0)

    @contextlib.contextmanager
    def _forwarding_lock(self) -> Iterator[bool]:
        """No queueing: a process that is not the first comes back later."""
        lock = WriterLock(self._file.store.folder / f"forwarding-{self._file.name}", timeout=0.0)
        with explained(self._file.path):
            self._file.store.make_folder()
            lock.open()
        self._locks.add(lock)
        try:
            lock.enter()
        except EngineUnavailable:  # another process forwards
            yield False
        else:
            yield True
        finally:
            lock.close()
            self._locks.discard(lock)

    def _forward_all(self, stop: _Stop) -> None:
        try:
            while not stop.is_due and (batch := self._file.first(BATCH)):
                if self._is_available and len(batch) < BATCH:
                    self._file.marks.set_closing()
                self._forward(batch)
                self._outage, self._is_available = 0.0, True
            is_empty = self._file.retire()
        finally:
            self._file.marks.clear_closing()
        if is_empty and self._forwarded:
            log.info("forwarded %s from the spool %s", counted(self._forwarded, "job"), self._file.path)
            self._forwarded = 0

    def _note_outage(self, error: Exception) -> None:
        if not self._outage:
            log.warning("the store is not available: %s; jobs wait in the spool %s", error, self._file.path)
        self._outage, self._is_available = min(max(self._outage * 2, _PAUSE_FIRST), _PAUSE_LONGEST), False
        moved_to = address_of(error.other) if isinstance(error, StoreMoved) else None
        with contextlib.suppress(EngineUnavailable):  # the spool itself may be the one that can't be written
            self._file.note_error(str(error), self._engine.clock.now(), moved_to)

    # -- one batch

    def _forward(self, batch: list[Spooled]) -> None:
        """Send the batch; if the store refuses it, its halves, down to the one job at fault."""
        jobs = [spooled.job for spooled in batch if spooled.job is not None]
        try:
            if len(jobs) < len(batch):
                raise CorruptPayload("its text in the spool is damaged")
            over = self._archived(jobs)
            jobs = [job for job in jobs if job.id not in over]
            results = self._engine.insert(jobs) if jobs else []
        except QueueFull:
            if len(batch) == 1:
                raise
            self._forward_what_fits(batch)
            return
        except _TEMPORARY:
            raise
        except Exception as error:
            if len(batch) == 1:
                self._refuse(batch[0], error)
                return
            self._forward_halves(batch)
            return
        taken = [job for job, result in zip(jobs, results, strict=True) if result.kind == "taken"]
        self._file.remove(batch, duplicates=len(self._of_others(taken)) if taken else 0)
        self._forwarded += len(batch)

    def _forward_halves(self, batch: list[Spooled]) -> None:
        middle = len(batch) // 2
        self._forward(batch[:middle])
        self._forward(batch[middle:])

    def _forward_what_fits(self, batch: list[Spooled]) -> None:
        """Send the jobs of each queue separately, and of a full one the first that fit. QueueFull if any are left."""
        queues: dict[str | None, list[Spooled]] = {}
        for spooled in batch:
            queues.setdefault(spooled.job.queue if spooled.job else None, []).append(spooled)
        if len(queues) == 1:
            self._forward_halves(batch)
            return
        full: QueueFull | None = None
        for part in queues.values():
            try:
                self._forward(part)
            except QueueFull as error:
                full = error
        if full is not None:
            raise full

    def _archived(self, jobs: list[NewJob]) -> set[str]:
        """Jobs that a process sent before it died, and that have finished and left the store.

        Jobs that are removed on finish are gone in seconds, and what waits here may wait for days. Without an archive,
        or while it is unavailable, such a job runs once more rather than perhaps never.
        """
        made = {job.id: job.created_at for job in jobs}
        return {row.id for row in self._rows_in_archive(list(made)) if row.created_at == made[row.id]}

    def _rows_in_archive(self, ids: list[str]) -> list[ArchiveRow]:
        if self._archive_engine is None:
            return last_ends(self._engine.archive, ids) if self._engine.archive is not None else []
        try:
            return last_ends(self._archive_engine.archive, ids) if self._archive_engine.archive is not None else []
        except EngineUnavailable as error:
            log.warning("forwarding the spool %s without a check of the archive: %s", self._file.path, error)
            return []

    def _refuse(self, spooled: Spooled, error: Exception) -> None:
        """Set the job aside, unless the store may have failed by accident: then try it again."""
        self._refusals[spooled.seq] += 1
        if self._refusals[spooled.seq] < _MAX_REFUSALS:
            raise EngineUnavailable(f"the store refused job {spooled.id}: {why(error)}") from error
        log.error("the store refused job %s; it is set aside in the spool: %s", spooled.id, why(error))
        self._file.set_aside(spooled, why(error), self._engine.clock.now())
        del self._refusals[spooled.seq]

    def _of_others(self, taken: list[NewJob]) -> list[NewJob]:
        """Jobs whose id belongs to another job. The rest are ours, sent before by a process that died."""
        rows = {row.id: row for row in self._engine.queries.get([job.id for job in taken], light=True)}
        dropped = [job for job in taken if not _is_same(job, rows.get(job.id))]
        for job in dropped:
            log.warning("job %s (%s) is dropped from the spool: another job has its id", job.id, job.task)
        return dropped


def _is_same(job: NewJob, row: JobRow | None) -> bool:
    if job.version == 1:  # an id that headrace generated: no other job has it
        return True
    return row is not None and row.version >= job.version and _traits(row) == _traits(job)


def _traits(job: NewJob | JobRow) -> tuple[str, int, int]:
    return job.task, job.created_at, job.checksum
