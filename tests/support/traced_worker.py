"""A worker that traces its memory, as others see it."""

from __future__ import annotations

from headrace.core.health.process_stats import MemoryTrace, ProcessStats, document_of, key_of
from headrace.engines.protocol.engine import Engine
from tests.support.builders import LEASE, worker_row


def sign_on_tracing(engine: Engine, worker: str, *growth: str) -> None:
    """Its process has told what it allocates: 5 MB, 7 MB at the most."""
    now = engine.clock.now()
    row = worker_row(worker, seen_at=now)
    engine.renew(row, [], LEASE)
    trace = MemoryTrace(allocated=5 * 2**20, peak=7 * 2**20, growth=growth)
    engine.document_store.put([document_of(key_of(row.host, row.pid), 0, ProcessStats(now, 0.5, 2**20, trace))])
