"""Events about a worker itself: it has drained its queues, or an error hit it that belongs to no job.

An error of the store can't be reported while it lasts, so it is reported once the store is back, with its duration.
"""

from __future__ import annotations

import time
from typing import Any

from headrace.core.events.log import EventGroup
from headrace.engines.protocol.engine import Engine
from headrace.runtime.worker.exchange import WorkerExchange

_MAX_MESSAGE_CHARS = 500  # characters of a message: the log has the full text


class StatusEvents:
    """Only the thread that makes the exchanges uses it."""

    def __init__(self, engine: Engine, worker_id: str, *, enabled: bool) -> None:
        self._engine = engine
        self._worker_id = worker_id
        self._enabled = enabled
        self._drained_after = 0
        self._error: tuple[float, str, str] | None = None

    def failed(self, error: Exception) -> None:
        """An exchange failed; of several in a row, the first error is reported."""
        if self._error is None:
            self._error = (time.monotonic(), type(error).__name__, str(error)[:_MAX_MESSAGE_CHARS])

    def worked(self) -> None:
        """An exchange succeeded."""
        if self._error is not None:
            since, kind, message = self._error
            seconds = round(time.monotonic() - since, 3)
            self._emit("worker.error", {"error": kind, "message": message, "seconds": seconds})
            self._error = None

    def drained(self, worker_exchange: WorkerExchange) -> None:
        """Emit worker.drained if nothing is left to run, once per period of work."""
        jobs = worker_exchange.claimed - self._drained_after
        if self._enabled and jobs and worker_exchange.is_drained:
            self._emit("worker.drained", {"jobs": jobs})
            self._drained_after += jobs

    def _emit(self, kind: str, data: dict[str, Any]) -> None:
        self._engine.events.append([EventGroup(kind, self._engine.clock.now(), worker=self._worker_id, data=[data])])
