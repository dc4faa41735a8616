"""Whether the threads of a worker make progress. A live process is not enough: one of its loops may hang.

Each loop declares before it sleeps when it will be back. The heartbeat thread checks, logs the stack of a thread that
is long overdue, and records the stall in the store, where operators see it. No thread is killed, as it may hold a lock.
A supervised process exits as a whole and is replaced.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Sequence

from headrace.core.documents import Document
from headrace.core.health import stalls
from headrace.core.health.stalls import KIND, Stall
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.process.stacks import frame_of

log = logging.getLogger("headrace.worker")

_NEVER = float("inf")


class ThreadLiveness:
    """One loop's sign of life."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.thread: int | None = None
        self._due = _NEVER

    def expect_within(self, seconds: float) -> None:
        """From the loop itself: it is alive, and will be back after so many seconds plus one piece of work."""
        self.thread = threading.get_ident()
        self._due = time.monotonic() + seconds

    def stop_watching(self) -> None:
        """The loop has ended and is no longer watched."""
        self._due = _NEVER

    @property
    def overdue(self) -> float:
        """Seconds since the loop should have been back."""
        return max(time.monotonic() - self._due, 0.0)


class StallDetector:
    """Detects stalls of one worker's loops: a loop is overdue by more than `timeout` seconds."""

    def __init__(self, engine: Engine, worker: str, liveness: Sequence[ThreadLiveness], timeout: float) -> None:
        self._engine = engine
        self._worker = worker
        self._threads_watched = liveness
        self._timeout = timeout
        self._checked_at = time.monotonic()
        self._stalled: set[str] = set()
        self._recorded: set[str] = set()

    def check(self) -> None:
        now, checked_at = time.monotonic(), self._checked_at
        self._checked_at = now
        if now - checked_at > self._timeout:  # the whole process was suspended: give overdue loops time to come back
            return
        for thread in self._threads_watched:
            late = thread.overdue
            if late > self._timeout and thread.part not in self._stalled:
                self._stalled.add(thread.part)
                message = "worker %s: its %s has hung for %.0f s although the process lives. Its stack:\n%s"
                log.error(message, self._worker, thread.part, late, _stack_of(thread.thread))
            elif late <= self._timeout and thread.part in self._stalled:
                self._stalled.discard(thread.part)
                log.warning("worker %s: its %s runs again", self._worker, thread.part)
        self._record()

    def has_logged(self, thread: ThreadLiveness) -> bool:
        """Whether the stack of this loop was logged."""
        return thread.part in self._stalled

    def close(self) -> None:
        self._stalled.clear()
        self._record()

    def _record(self) -> None:
        if self._stalled == self._recorded:
            return
        since = self._engine.clock.now() - int(self._timeout * 1000)
        try:
            known = {stall.part: document for document, stall in self._documents() if stall.worker == self._worker}
            fresh = [stalls.document_of(Stall(self._worker, part, since)) for part in self._stalled - known.keys()]
            over = [document for part, document in known.items() if part not in self._stalled]
            if self._engine.document_store.put(fresh, over):
                self._recorded = set(self._stalled)
        except EngineUnavailable:
            return  # the next check() tries again

    def _documents(self) -> list[tuple[Document, Stall]]:
        documents = self._engine.document_store.get(KIND)
        return list(zip(documents, stalls.decode_stalls(documents), strict=True))


def _stack_of(thread: int | None) -> str:
    frame = frame_of(thread)
    return "".join(traceback.format_stack(frame)) if frame else "(its thread has ended)"
