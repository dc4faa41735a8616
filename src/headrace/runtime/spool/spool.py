"""The spool: while the server is unavailable, jobs go to a local file, and to the server when it is back.

Used in place of the engine's `insert`; also answers for jobs that are not forwarded yet. With the server up and an
empty file it costs one check of the marker. Must not know tasks, handles or settings.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import structs

from headrace.core.jobs.records import JobRow, NewJob
from headrace.core.jobs.states import State
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.engine import Engine
from headrace.engines.shared.shield import shielded
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


class Spool:
    """The jobs of one app that its server has not received yet."""

    def __init__(self, path: Path, engine: Engine, limit: int, archive: Engine | None = None) -> None:
        self._engine = engine
        self._file = SpoolFile(path, address_of(engine.url), limit)
        self._queries = SpoolQueries(self._file)
        self._forwarder = Forwarder(self._file, engine, archive)
        self._waiter: Waiter | None = None
        self._making = threading.Lock()
        self._is_open = False

    def start(self) -> None:
        """Begin to forward what this or another process has left. A missing file is not created."""
        if self._file.exists:
            self._forwarder.start()

    def keep_forwarding(self) -> None:
        """The same from now on, for a long-lived process: it forwards whatever others leave."""
        self._forwarder.start(persistent=True)

    @shielded
    def insert(
        self, jobs: Sequence[NewJob], *, unique: Sequence[UniqueRule | None] = (), all_or_nothing: bool = False
    ) -> list[InsertResult]:
        """Insert the jobs; while the server is unavailable or others wait in the spool, append them there.

        Unique jobs are only inserted at the server, which alone knows the existing jobs.
        """
        if unique:
            return self._insert_unique(jobs, unique, all_or_nothing)
        away: EngineUnavailable | None = None
        if self._is_idle() or self._is_done_in_a_moment():
            try:
                return self._engine.insert(jobs, all_or_nothing=all_or_nothing)
            except EngineUnavailable as error:
                away = error
        return self._spool(jobs, all_or_nothing, away)

    def _insert_unique(
        self, jobs: Sequence[NewJob], unique: Sequence[UniqueRule | None], all_or_nothing: bool
    ) -> list[InsertResult]:
        try:
            return self._engine.insert(jobs, unique=unique, all_or_nothing=all_or_nothing)
        except EngineUnavailable as error:
            raise EngineUnavailable(
                f"{error}; it can't be spooled, as only the server knows whether such a job exists "
                "(unique, idempotency_key, debounce, throttle, cache): try again later"
            ) from error

    def _is_idle(self) -> bool:
        # A file beside the spool, not a variable: another process may have spooled a job that must stay in front.
        if not self._is_open:
            self._open_file()
        return not self._file.marks.waiting

    def _is_done_in_a_moment(self) -> bool:
        self._file.marks.wait_if_closing()
        return not self._file.marks.waiting

    def _open_file(self) -> None:
        """Open an existing file once, in case its marker was lost with the power."""
        try:
            if self._file.exists:
                self._file.prepare()
        except EngineUnavailable as error:  # no reason to refuse jobs while the server may take them
            log.error("can't use the spool: %s", error)
        self._is_open = True

    def _spool(
        self, jobs: Sequence[NewJob], all_or_nothing: bool, away: EngineUnavailable | None
    ) -> list[InsertResult]:
        try:
            fresh = self._file.add(jobs, all_or_nothing, self._engine.clock.now(), str(away) if away else None)
        except EngineUnavailable as error:
            text = (
                f"{away}; it can't be spooled either" if away else "jobs wait in the spool, and this one can't be added"
            )
            raise EngineUnavailable(f"{text}: {error}") from error
        self._forwarder.start()
        return [InsertResult("spooled" if is_new else "taken", job.id) for job, is_new in zip(jobs, fresh, strict=True)]

    # -- for handles

    def row(self, job_id: str) -> JobRow | None:
        """The job as enqueued if it waits here, as failed if the server refused it, None if it is not here."""
        found = self._queries.find(job_id)
        if isinstance(found, RefusedJob):
            reason = f"refused when it was forwarded: {found.reason}"
            row = as_row(found.job, SPOOLED)
            return structs.replace(row, state=State.FAILED, reason=reason, finished_at=found.at)
        return None if found is None else as_row(found, SPOOLED)

    def holds(self, job_id: str) -> bool:
        """Whether the job still waits here."""
        return self._file.marks.waiting and bool(self._file.holding([job_id]))

    def waiting(self) -> Waiter:
        """A waiter for jobs to leave the spool."""
        # Deferred, with asyncio: many programs never wait for a job.
        from headrace.runtime.jobs.waiter import Waiter

        self._forwarder.start()
        with self._making:  # a second one would not be closed with the app
            if self._waiter is None:
                # It needs only the finished jobs and a bell: here, "finished" means forwarded.
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

    def erase(self, wanted: Callable[[NewJob], bool], *, dry_run: bool = False) -> int:
        """Remove the jobs here that are wanted, also refused ones; how many."""
        return self._file.erase(wanted, dry_run=dry_run)

    def check(self) -> str | None:
        """What would prevent the creation of a missing file."""
        folder = self._file.path.parent
        while not folder.exists():
            folder = folder.parent
        if self._file.exists or os.access(folder, os.W_OK | os.X_OK):
            return None
        return f"can't create the spool {self._file.path}: this user may not write to {folder}"

    # -- the end

    def reset_after_fork(self) -> None:
        """In a forked child. It forwards from its own first use on: many children end in an exec."""
        self._forwarder.reset_after_fork()
        self._waiter = None
        self._making = threading.Lock()

    def pause(self) -> None:
        """Stop forwarding in this process, before it forks children that will."""
        self._forwarder.stop(timeout=0.0)
        self._file.close()

    def close(self) -> None:
        """Forward what can be forwarded at once, and release the file; the rest waits in it."""
        if self._waiter is not None:
            self._waiter.close()
        self._forwarder.stop()
        self._file.close()
        self._is_open = False


class _SpoolAsStore:
    """The spool as a store in which a job is finished when it was forwarded."""

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
        except EngineUnavailable:  # another process reached it first
            self._unanswered = True
        return set() if self._unanswered else gone

    def listen(self, topic: str, queues: Collection[str] = ()) -> Bell:
        seen = self._file.store.change_count()

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, self._file.store.change_count()
            return before != seen or self._unanswered

        return PollBell(changed)
