"""Waits for jobs to finish: first until the spool of this host has forwarded a job, then for its end in the store."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from headrace.engines.protocol.engine import Engine

if TYPE_CHECKING:
    from headrace.runtime.jobs.waiter import Waiter
    from headrace.runtime.spool.spool import Spool


class JobWaits:
    """All waits for jobs of one store; `timeout` is in seconds."""

    def __init__(self, engine: Engine, spool: Spool | None) -> None:
        self._engine = engine
        self._spool = spool
        self._waiter: Waiter | None = None
        self._lock = threading.Lock()

    def wait(self, job_id: str, timeout: float | None, spooled: bool) -> bool:
        """Whether the job has finished in time."""
        if spooled and self._spool is not None:
            started = time.monotonic()
            if not self._spool.waiting().wait(job_id, timeout):
                return False
            timeout = _left(timeout, started)
        return self.waiter().wait(job_id, timeout)

    async def await_finish(self, job_id: str, timeout: float | None, spooled: bool) -> bool:
        """Like wait(), without blocking the event loop."""
        if spooled and self._spool is not None:
            started = time.monotonic()
            if not await self._spool.waiting().await_finish(job_id, timeout):
                return False
            timeout = _left(timeout, started)
        return await self.waiter().await_finish(job_id, timeout)

    def waiter(self) -> Waiter:
        # Deferred, with its thread: many programs never wait for a job.
        from headrace.runtime.jobs.waiter import Waiter

        with self._lock:  # a second waiter would not be closed with the app
            if self._waiter is None:
                self._waiter = Waiter(self._engine)
            return self._waiter

    def close(self) -> None:
        if self._waiter is not None:
            self._waiter.close()


def _left(timeout: float | None, started: float) -> float | None:
    return None if timeout is None else max(timeout - (time.monotonic() - started), 0.0)
