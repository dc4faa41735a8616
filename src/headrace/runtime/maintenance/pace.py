"""How often a worker does its chores. Anybody may do them, so the first worker of the store does, and others seldom.

Nobody is elected: each worker looks now and then who is alive, and the one that started first knows itself. While none
of its jobs run, even that one does them less often: where nothing happens there is little to count.
"""

from __future__ import annotations

import time
from typing import Protocol

from headrace.engines.protocol.engine import Engine
from headrace.errors import HeadraceError
from headrace.runtime.maintenance.loop import MaintenanceTask
from headrace.runtime.maintenance.process_stats import ProcessStatsReport

_IDLE_AFTER = 60.0  # seconds
_IDLE, _OTHERS, _OWN = 8.0, 10.0, 5.0
_LOOK_EVERY = 60.0


class Activity(Protocol):
    """What tells whether a worker has jobs: those it has begun so far, and whether any are there now."""

    began: int

    def has_jobs(self) -> bool: ...


class MaintenancePace:
    """By how much the pauses between the chores of one worker are longer than usual."""

    def __init__(self, engine: Engine, worker: str, worker_state: Activity) -> None:
        self._engine = engine
        self._worker = worker
        self._worker_state = worker_state
        self._seen = worker_state.began
        self._active_at = self._looked_at = time.monotonic()
        self._is_first = True

    def __call__(self, maintenance_task: MaintenanceTask) -> float:
        is_idle = self._is_idle()
        if isinstance(maintenance_task, ProcessStatsReport):  # nobody else does this one
            return _OWN if is_idle else 1.0
        return (_IDLE if is_idle else 1.0) * (1.0 if self._comes_first() else _OTHERS)

    def _is_idle(self) -> bool:
        if self._worker_state.began != self._seen or self._worker_state.has_jobs():
            self._seen, self._active_at = self._worker_state.began, time.monotonic()
        return time.monotonic() - self._active_at >= _IDLE_AFTER

    def _comes_first(self) -> bool:
        if time.monotonic() - self._looked_at >= _LOOK_EVERY:
            self._looked_at = time.monotonic()
            try:
                now = self._engine.clock.now()
                alive = [row for row in self._engine.queries.workers() if not row.is_silent(now)]
                self._is_first = not alive or min((row.started_at, row.id) for row in alive)[1] == self._worker
            except HeadraceError:  # the store is away: then the chores fail as well
                self._is_first = True
        return self._is_first
