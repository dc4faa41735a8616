"""Maintenance task: reports regularly how much CPU and memory this process uses."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from headrace.core.health import process_stats, stalls
from headrace.core.health.process_stats import KIND, MemoryTrace, ProcessStats
from headrace.engines.protocol.engine import Engine
from headrace.runtime.process.memory import resident_megabytes

_EVERY = 10.0
_TIDY = 60  # reports between two removals of stale documents


class ProcessStatsReport:
    """Puts one document, again and again. Two workers of one process report the same."""

    def __init__(self, engine: Engine, trace: Callable[[], MemoryTrace | None] = lambda: None) -> None:
        self._engine = engine
        self._trace = trace
        self._key = process_stats.key_of(socket.gethostname(), os.getpid())
        self._version = 0
        self._count = 0
        self._before = _used()

    def do(self) -> float:
        now, used = self._engine.clock.now(), _used()
        (cpu, at), self._before = self._before, used
        share = (used[0] - cpu) / max(used[1] - at, 0.001)
        self._put(ProcessStats(now, round(share, 4), round(resident_megabytes() * 1e6), self._trace()))
        if self._count % _TIDY == 0:
            self._tidy(now)
        self._count += 1
        return _EVERY

    def _put(self, stats: ProcessStats) -> None:
        if self._engine.document_store.put([process_stats.document_of(self._key, self._version, stats)]):
            self._version += 1
            return
        # Another worker of this process has reported, or an earlier process with the same id.
        known = self._engine.document_store.get(KIND, [self._key])
        self._version = known[0].version if known else 0

    def _tidy(self, now: int) -> None:
        if old := process_stats.outdated(self._engine.document_store.get(KIND), now):
            self._engine.document_store.put((), old)
        if stalled := self._engine.document_store.get(stalls.KIND):
            alive = {row.id for row in self._engine.queries.workers()}
            self._engine.document_store.put((), stalls.left_behind(stalled, alive))


def _used() -> tuple[float, float]:
    spent = os.times()
    return spent.user + spent.system, time.monotonic()
