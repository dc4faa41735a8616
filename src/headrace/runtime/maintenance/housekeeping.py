"""Regular housekeeping of the store: its log and free space, dead workers, long histories.

Each piece takes a few milliseconds. Several workers may do the same: the second one finds nothing to do.
"""

from __future__ import annotations

import logging

from headrace.core.health.findings import RecordKind
from headrace.core.settings.settings import Settings
from headrace.core.text import counted
from headrace.engines.protocol.engine import Engine

log = logging.getLogger("headrace.maintenance")

_PAUSE = 60.0
_WORKERS_PAUSE = 300.0
_BATCH_SIZE = 1000


class Housekeeping:
    """Maintenance task: truncates the log, frees space, updates statistics and removes dead workers."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._kinds = settings.maintenance
        self._workers_due_in = 0.0

    def do(self) -> float:
        if self._engine.maintenance.maintain(self._kinds).more:
            return 0.0
        self._workers_due_in -= _PAUSE
        if "workers" in self._kinds and self._workers_due_in <= 0:
            self._workers_due_in = _WORKERS_PAUSE
            if gone := self._engine.maintenance.repair(("silent_workers",), _BATCH_SIZE)["silent_workers"]:
                log.info("removed %s silent for long", counted(gone, "worker"))
        return _PAUSE


class HistoryTrim:
    """Maintenance task: limits the entries per job; looks only at those added since its last run."""

    def __init__(self, engine: Engine, what: RecordKind, most: int) -> None:
        self._engine = engine
        self._what: RecordKind = what
        self._most = most
        self._reached = 0

    def do(self) -> float:
        if self._engine.transfer.store_status() is not None:  # a copy compares both stores, so nothing may change
            return _PAUSE
        done = self._engine.maintenance.trim_history(self._what, self._most, self._reached, _BATCH_SIZE)
        self._reached = done.reached
        if done.removed:
            log.info("removed %d entries of the %s of jobs with more than %d", done.removed, self._what, self._most)
        return 0.0 if done.more else _PAUSE
