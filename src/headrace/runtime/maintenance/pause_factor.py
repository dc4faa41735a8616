"""How often a worker runs its maintenance tasks: the oldest worker of the store at the usual rate, others seldom.

There is no election: each worker checks regularly which workers are alive, and the one that started first recognizes
itself. While none of its jobs run, it also does less: an idle store has little to maintain.
"""

from __future__ import annotations

import time
from typing import Protocol

from headrace.engines.protocol.engine import Engine
from headrace.errors import HeadraceError
from headrace.runtime.maintenance.housekeeping import Housekeeping
from headrace.runtime.maintenance.loop import MaintenanceTask
from headrace.runtime.maintenance.process_stats import ProcessStatsReport
from headrace.runtime.metrics.collector import MetricsCollector

_IDLE_AFTER = 60.0  # seconds
_IDLE, _OTHERS, _OWN = 12.0, 10.0, 12.0
_IDLE_OF: dict[type[MaintenanceTask], float] = {
    MetricsCollector: 33.0,
    Housekeeping: 30.0,
}
_CHECK_EVERY, _CHECK_EVERY_IF_IDLE = 60.0, 600.0


class Activity(Protocol):
    """Whether a worker has jobs: how many it has begun so far, and whether it holds any now."""

    began: int

    def has_jobs(self) -> bool: ...


class PauseFactor:
    """The factor by which the pauses between the maintenance tasks of one worker are longer than usual."""

    def __init__(self, engine: Engine, worker: str, worker_state: Activity) -> None:
        self._engine = engine
        self._worker = worker
        self._worker_state = worker_state
        self._seen = worker_state.began
        self._active_at = self._checked_at = time.monotonic()
        self._is_first = True

    def __call__(self, maintenance_task: MaintenanceTask) -> float:
        is_idle = self._is_idle()
        if isinstance(maintenance_task, ProcessStatsReport):  # each process has to report its own
            return _OWN if is_idle else 1.0
        idle = _IDLE_OF.get(type(maintenance_task), _IDLE) if is_idle else 1.0
        return idle * (1.0 if self._is_oldest(is_idle) else _OTHERS)

    def _is_idle(self) -> bool:
        if self._worker_state.began != self._seen or self._worker_state.has_jobs():
            self._seen, self._active_at = self._worker_state.began, time.monotonic()
        return time.monotonic() - self._active_at >= _IDLE_AFTER

    def _is_oldest(self, is_idle: bool) -> bool:
        if time.monotonic() - self._checked_at >= (_CHECK_EVERY_IF_IDLE if is_idle else _CHECK_EVERY):
            self._checked_at = time.monotonic()
            try:
                now = self._engine.clock.now()
                alive = [row for row in self._engine.queries.workers() if not row.is_silent(now)]
                self._is_first = not alive or min((row.started_at, row.id) for row in alive)[1] == self._worker
            except HeadraceError:  # the store is unavailable: the tasks will fail as well
                self._is_first = True
        return self._is_first
