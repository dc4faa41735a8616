"""Admits the writers of several processes one at a time, and fairly.

SQLite's own busy handler sleeps longer and longer, so that under load some processes never get the write lock. Here
writers wait for a lock on a file beside the database, with even pauses: short ones where waits are short, longer ones
where dozens of writers would keep the one who writes off the processor. The wait ends with an error after a limit: a
process that was stopped inside a transaction must not block the others silently.
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

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.01
_LOOKS = 8  # at the lock, in the time a wait usually takes
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
        self._usual_wait = 0.0
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
        else:
            self._expect(0.0)

    def _queue_up(self) -> None:
        # Earlier waits set the pauses, not this one: so all look equally often, also one who has just come.
        pause, began = min(max(_SHORTEST_PAUSE, self._usual_wait / _LOOKS), _LONGEST_PAUSE), time.monotonic()
        while True:
            time.sleep(pause * (0.5 + random.random()))
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                waited = time.monotonic() - began
                self._expect(waited)
                self.late += waited > _LATE
                return
            if time.monotonic() - began > self._timeout:
                self.late += 1
                raise EngineUnavailable(
                    f"the database stayed locked for {self._timeout:g} s; is a process stopped while it writes? "
                    f"`headrace workers` shows which workers are alive"
                )

    def _expect(self, waited: float) -> None:
        self._usual_wait += (waited - self._usual_wait) / 4

    def leave(self) -> None:
        if locks is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
