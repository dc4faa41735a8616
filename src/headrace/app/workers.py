"""Workers as users see them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.damaged_records import items_of
from headrace.core.health import stalls
from headrace.core.health.process_stats import KIND, MemoryTrace, ProcessStats, key_of, recent_stats
from headrace.core.jobs.known_tasks import knows
from headrace.core.jobs.records import WorkerRow
from headrace.engines.protocol.engine import Engine


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker as of its last heartbeat.

    `heartbeat` is in seconds, 0 until reported. `cpu` is the share of a core that its process uses, `memory` its size
    in bytes; None until reported. `memory_trace` is its last memory trace, if it traces memory. `stalled` are its parts
    that make no progress although it is alive.
    """

    id: str
    host: str
    pid: int
    state: str
    queues: dict[str, int]
    concurrency: int
    running: int
    completed: int
    failed: int
    heartbeat: float
    started_at: datetime | None
    seen_at: datetime | None
    tasks: list[str]
    silent: bool
    capabilities: list[str] = []
    cpu: float | None = None
    memory: int | None = None
    memory_trace: MemoryTrace | None = None
    stalled: list[str] = []

    @property
    def condition(self) -> str:
        """Its state in one word, or its problem."""
        return "silent" if self.silent else "stalled" if self.stalled else self.state

    def knows(self, task: str) -> bool:
        """Whether it could run a job of this task."""
        return knows(self.tasks, task)

    @classmethod
    def of(cls, row: WorkerRow, now: int, stats: ProcessStats | None = None, stalled: Iterable[str] = ()) -> WorkerInfo:
        known = msgspec.structs.asdict(row)
        known.pop("command")
        known["silent"] = row.is_silent(now)
        return cls(
            **{
                **known,
                "queues": items_of(row.queues, dict),
                "tasks": items_of(row.tasks, list),
                "capabilities": items_of(row.capabilities, list),
                "started_at": to_datetime(row.started_at),
                "seen_at": to_datetime(row.seen_at),
                "heartbeat": row.heartbeat / 1000,
                "cpu": None if stats is None else stats.cpu,
                "memory": None if stats is None else stats.memory,
                "memory_trace": None if stats is None else stats.trace,
                "stalled": sorted(stalled),
            }
        )


def all_workers(engine: Engine, now: int) -> list[WorkerInfo]:
    """The live workers, oldest first."""
    rows = engine.queries.workers()
    keys = {row.id: key_of(row.host, row.pid) for row in rows}
    known = recent_stats(engine.document_store.get(KIND, sorted(set(keys.values()))), now) if rows else {}
    stalled: dict[str, list[str]] = {}
    for stall in stalls.decode_stalls(engine.document_store.get(stalls.KIND)) if rows else ():
        stalled.setdefault(stall.worker, []).append(stall.part)
    return [WorkerInfo.of(row, now, known.get(keys[row.id]), stalled.get(row.id, ())) for row in rows]
