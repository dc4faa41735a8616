"""Maintenance task: deletes payloads whose jobs are gone, a folder of one hour at a time.

Jobs are deleted in many ways and at many places, and a process may die after it has written a payload and before it has
inserted the job. So nothing else deletes payloads: this asks which jobs exist. A payload younger than `payload_grace`
is left alone, as its insert may be under way: in a transaction of the caller, or in a spool.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from headrace.core.clock import to_ms
from headrace.core.codec.payload_refs import folder_before, job_of
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.text import counted
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.payloads.payloads import Payloads, away
from headrace.runtime.retention.archived import last_ends

log = logging.getLogger("headrace.maintenance")
_PAUSE = 3600.0
_BATCH = 500


class PayloadSweep:
    """Deletes payloads of jobs that exist neither in the store nor in its archive, nor have a dead letter."""

    def __init__(self, engine: Engine, payloads: Payloads, grace: float, archive: Callable[[], Archive | None]) -> None:
        self._engine = engine
        self._payloads = payloads
        self._grace = to_ms(grace)
        self._archive = archive
        self._folders: deque[str] | None = None  # still to sweep
        self._names: deque[str] = deque()  # in the first of them
        self._deleted = 0

    def do(self) -> float:
        files = self._payloads.files
        if files is None or self._engine.transfer.store_status() is not None:  # what moves belongs to another store
            return _PAUSE
        try:
            return self._piece()
        except OSError as error:
            self._folders = None
            raise away(error) from error

    def _piece(self) -> float:
        files = self._payloads.files
        assert files is not None
        if self._folders is None:
            self._folders, self._names, self._deleted = deque(self._old_folders()), deque(), 0
        if not self._folders:
            self._folders = None
            if self._deleted:
                log.info("deleted %s of jobs that are gone", counted(self._deleted, "payload"))
            return _PAUSE
        folder = self._folders[0]
        if not self._names:
            self._names.extend(files.list(folder))
            if not self._names:
                files.remove_folder(folder)
                self._folders.popleft()
                return 0.0
        names = [self._names.popleft() for _ in range(min(_BATCH, len(self._names)))]
        self._delete([f"{folder}/{name}" for name in names])
        if not self._names:
            self._folders.popleft()
        return 0.0

    def _old_folders(self) -> list[str]:
        """The folders of hours that are over for long enough."""
        files = self._payloads.files
        assert files is not None
        self._payloads.space()  # so that no call in a transaction is the first to need it
        last = folder_before(self._engine.clock.now(), self._grace)
        found = []
        for space in self._payloads.spaces():
            self._payloads.ensure_reachable(space)
            hours = [name for name in files.list(space) if name.isdigit() and name <= last]
            found += [f"{space}/{hour}" for hour in hours]
        return found

    def _delete(self, paths: Sequence[str]) -> None:
        files = self._payloads.files
        assert files is not None
        jobs = {path: job_id for path in paths if (job_id := job_of(path)) is not None}
        kept = self._existing(sorted({*jobs.values()}))
        gone = [path for path, job_id in jobs.items() if job_id not in kept]
        files.delete(gone)
        self._deleted += len(gone)

    def _existing(self, ids: Sequence[str]) -> set[str]:
        """Which of these jobs may still need their payloads."""
        found = existing(self._engine, self._archive(), ids)
        if rest := tuple(one for one in ids if one not in found):
            dead_letters = self._engine.dead_letters.find(DeadLetterFilter(latest_of=rest), len(rest))
            found |= {dead_letter.job_id for dead_letter in dead_letters}
        if rest := tuple(one for one in ids if one not in found):
            # Restored from the archive meanwhile.
            found |= {row.id for row in self._engine.queries.get(rest, light=True)}
        return found


def existing(engine: Engine, archive: Archive | None, ids: Sequence[str]) -> set[str]:
    """Which of these jobs are in the store or its archive."""
    found = {row.id for row in engine.queries.get(ids, light=True)}
    if archive is not None and (rest := tuple(one for one in ids if one not in found)):
        found |= {row.id for row in last_ends(archive, rest)}
    return found
