"""The spool: while the server is away, jobs go to a file of this host, and to the server when it is back.

Stands where otherwise the engine's `insert` would, and answers for jobs that have not arrived yet. With the server
up and nothing in the file it adds one look at the file's mark. Must not know tasks, handles or settings.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from msgspec import structs

from headrace.core.jobs.records import JobRow, NewJob
from headrace.core.jobs.states import State
from headrace.core.jobs.unique_rules import UniqueInsert, UniqueResult
from headrace.engines.protocol.engine import Bell, Engine
from headrace.engines.wakeup.local import PollBell
from headrace.errors import EngineUnavailable
from headrace.runtime.jobs.job import SPOOLED
from headrace.runtime.jobs.rows import as_row
from headrace.runtime.spool.file import SpoolFile, address_of
from headrace.runtime.spool.forwarder import Forwarder
from headrace.runtime.spool.queries import RefusedJob, SpoolQueries, SpoolStats

if TYPE_CHECKING:
    from headrace.runtime.jobs.waiter import Waiter

log = logging.getLogger("headrace.spool")

Fate = bool | Literal["spooled"]
"""What became of a job: it is stored, its id was taken, or it waits in the spool."""


class Spool:
    """The jobs of one app that its server has not got yet."""

    def __init__(self, path: Path, engine: Engine, limit: int, archive: Engine | None = None) -> None:
        self._engine = engine
        self._file = SpoolFile(path, address_of(engine.url), limit)
        self._queries = SpoolQueries(self._file)
        self._forwarder = Forwarder(self._file, engine, archive)
        self._waiter: Waiter | None = None
        self._making = threading.Lock()
        self._looked = False

    def start(self) -> None:
        """Begin to forward what an earlier process, or another one, has left. A file that is not there is not made."""
        if self._file.exists:
            self._forwarder.start()

    def watch(self) -> None:
        """The same from now on, for a process that lives long: whatever others leave, it forwards."""
        self._forwarder.start(stay=True)

    def insert(self, jobs: Sequence[NewJob], *, whole: bool = False) -> list[Fate]:
        """Store the jobs; while the server is away, or while others wait in the spool, behind those."""
        away: EngineUnavailable | None = None
        if self._is_idle() or self._is_done_in_a_moment():
            try:
                return cast("list[Fate]", self._engine.insert(jobs, whole=whole))
            except EngineUnavailable as error:
                away = error
        return self._spool(jobs, whole, away)

    def insert_unique(self, candidates: Sequence[UniqueInsert], *, whole: bool = False) -> list[UniqueResult]:
        """Store the jobs as their rules allow: at the server, since nobody else knows which jobs there are."""
        try:
            return self._engine.insert_unique(candidates, whole=whole)
        except EngineUnavailable as error:
            raise EngineUnavailable(
                f"{error}; nor can it be spooled, for only the server knows whether such a job is there already "
                "(unique, idempotency_key, debounce, throttle, cache): let the caller try again later"
            ) from error

    def _is_idle(self) -> bool:
        # A file beside the spool, not a variable: another process may have spooled a job that must stay in front.
        if not self._looked:
            self._look()
        return not self._file.marks.waiting

    def _is_done_in_a_moment(self) -> bool:
        self._file.marks.wait_if_closing()
        return not self._file.marks.waiting

    def _look(self) -> None:
        """Open a file that is there, once, lest its mark was lost with the power."""
        try:
            if self._file.exists:
                self._file.prepare()
        except EngineUnavailable as error:  # no reason to turn jobs away while the server may take them
            log.error("the spool can't be used: %s", error)
        self._looked = True

    def _spool(self, jobs: Sequence[NewJob], whole: bool, away: EngineUnavailable | None) -> list[Fate]:
        try:
            fresh = self._file.add(jobs, whole, self._engine.clock.now(), str(away) if away else None)
        except EngineUnavailable as error:
            told = f"{away}; nor can it be spooled" if away else "jobs wait in the spool, and this one can't be added"
            raise EngineUnavailable(f"{told}: {error}") from error
        self._forwarder.start()
        return ["spooled" if is_new else False for is_new in fresh]

    # -- for handles

    def row(self, job_id: str) -> JobRow | None:
        """The job as it was enqueued if it waits here, as failed if the server refused it, None if it is not here."""
        found = self._queries.find(job_id)
        if isinstance(found, RefusedJob):
            told = f"refused when it was forwarded: {found.reason}"
            row = as_row(found.job, SPOOLED)
            return structs.replace(row, state=State.FAILED, reason=told, finished_at=found.at)
        return None if found is None else as_row(found, SPOOLED)

    def holds(self, job_id: str) -> bool:
        """Whether the job still waits here."""
        return self._file.marks.waiting and bool(self._file.holding([job_id]))

    def waiting(self) -> Waiter:
        """For whoever waits until a job has left the spool."""
        # Deferred, with asyncio: many programs never wait for a job.
        from headrace.runtime.jobs.waiter import Waiter

        self._forwarder.start()
        with self._making:  # one that nobody knows of would not be told when the app is closed
            if self._waiter is None:
                # It asks for nothing but who is finished, and for a bell: here, who has left.
                self._waiter = Waiter(cast("Engine", _SpoolAsStore(self._file, self._engine)))
            return self._waiter

    def place(self, job_id: str) -> tuple[str, int, str | None]:
        """Where the job waits, how many are in front of it, and why; None if they are being forwarded."""
        return f"{socket.gethostname()}:{self._file.path}", *self._queries.place(job_id)

    # -- for operators

    def count(self) -> int:
        """How many jobs wait."""
        return self._queries.count()

    def stats(self) -> SpoolStats:
        """Everything an operator should know."""
        return self._queries.stats()

    def check(self) -> str | None:
        """What would keep a file that is not there yet from being made."""
        folder = self._file.path.parent
        while not folder.exists():
            folder = folder.parent
        if self._file.exists or os.access(folder, os.W_OK | os.X_OK):
            return None
        return f"the spool {self._file.path} can't be made: this user may not write to {folder}"

    # -- the end

    def start_afresh(self) -> None:
        """In a forked child. It forwards from its first own use on: many children end in an exec."""
        self._forwarder.start_afresh()
        self._waiter = None
        self._making = threading.Lock()

    def pause(self) -> None:
        """Forward no more in this process, before it forks others who will."""
        self._forwarder.stop(patience=0.0)
        self._file.close()

    def close(self) -> None:
        """Forward what can be forwarded at once, and release the file; what is left waits in it."""
        if self._waiter is not None:
            self._waiter.close()
        self._forwarder.stop()
        self._file.close()
        self._looked = False


class _SpoolAsStore:
    """The spool as a store in which a job is finished when it is gone, and the server can be asked for it."""

    def __init__(self, file: SpoolFile, engine: Engine) -> None:
        self._file = file
        self._engine = engine
        self._unanswered = False
        self.queries = self

    def finished(self, ids: Collection[str]) -> set[str]:
        gone = set(ids) - self._file.holding(ids)
        try:
            if gone:
                self._engine.queries.finished(gone)
            self._unanswered = False
        except EngineUnavailable:  # another process was the first to reach it
            self._unanswered = True
        return set() if self._unanswered else gone

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        seen = self._file.store.change_count()

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, self._file.store.change_count()
            return before != seen or self._unanswered

        return PollBell(changed)
