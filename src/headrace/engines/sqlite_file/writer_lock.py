"""Admits the writers of several processes one at a time, and fairly.

SQLite's own busy handler sleeps longer and longer, so that under load some processes never get the write lock. Here
writers wait for a lock on a file beside the database, with short even pauses. The wait ends with an error after a
limit: a process that was stopped inside a transaction must not block the others silently.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path
from types import ModuleType

from headrace.errors import EngineUnavailable

try:
    import fcntl

    locks: ModuleType | None = fcntl
except ImportError:  # on Windows SQLite's busy handler waits
    locks = None

_PAUSE = 0.0002
_LATE = 0.02  # a longer wait counts as late
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class WriterLock:
    """A lock across processes. Threads of one process need a lock of their own.

    It counts its turns and those that were late: many late ones mean that the store has outgrown a file.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._fd = -1
        self.turns = 0
        self.late = 0

    def open(self) -> None:
        if locks is not None and self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)

    def enter(self) -> None:
        self.turns += 1
        if locks is None:
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue_up()

    def _queue_up(self) -> None:
        began = time.monotonic()
        while True:
            time.sleep(_PAUSE * (0.5 + random.random()))
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.late += time.monotonic() - began > _LATE
                return
            if time.monotonic() - began > self._timeout:
                self.late += 1
                raise EngineUnavailable(
                    f"the database stayed locked for {self._timeout:g} s; is a process stopped while it writes? "
                    f"`headrace workers` shows which workers are alive"
                )

    def leave(self) -> None:
        if locks is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
