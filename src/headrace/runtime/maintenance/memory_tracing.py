"""Maintenance task: logs regularly which lines of code hold more memory than at the first look."""

from __future__ import annotations

import logging
import tracemalloc

from headrace.core.health.process_stats import MemoryTrace

log = logging.getLogger("headrace.memory")
_SHOWN = 10  # lines of code


class TracingMemory:
    """Traces every allocation of this process. That costs time and memory, so it is off by default."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._first: tracemalloc.Snapshot | None = None
        self.last: MemoryTrace | None = None

    def do(self) -> float:
        if self._first is None:
            tracemalloc.start()
            self._first = _snapshot()
            return self._every
        grown = _snapshot().compare_to(self._first, "lineno")
        lines = [_format_growth(one) for one in grown[:_SHOWN] if one.size_diff > 0]
        traced, peak = tracemalloc.get_traced_memory()
        self.last = MemoryTrace(allocated=traced, peak=peak, growth=tuple(lines))
        log.info(
            "%d kB are allocated, %d kB at the most; grown since the first look: %s",
            *(traced // 1000, peak // 1000, "; ".join(lines) or "nothing"),
            extra={"event": "worker.memory", "allocated": traced, "peak": peak, "growth": lines},
        )
        return self._every


def _snapshot() -> tracemalloc.Snapshot:
    own = [tracemalloc.Filter(False, each) for each in (tracemalloc.__file__, __file__)]
    return tracemalloc.take_snapshot().filter_traces(own)


def _format_growth(grown: tracemalloc.StatisticDiff) -> str:
    frame = grown.traceback[0]
    return f"{frame.filename}:{frame.lineno} {grown.size_diff / 1000:+,.1f} kB in {grown.count_diff:+d} blocks"
