"""The workers as an operator sees them."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.model import WorkerRow
from headrace.core.words import short
from headrace.engines.protocol import Engine
from headrace.errors import InvalidJob


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """One worker as it last reported itself."""

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

    @classmethod
    def of(cls, row: WorkerRow, now: int) -> WorkerInfo:
        known = msgspec.structs.asdict(row)
        known.pop("wish")
        known["silent"] = row.is_silent(now)
        return cls(
            **{
                **known,
                "queues": msgspec.json.decode(row.queues),
                "tasks": msgspec.json.decode(row.tasks),
                "capabilities": msgspec.json.decode(row.capabilities),
                "started_at": to_datetime(row.started_at),
                "seen_at": to_datetime(row.seen_at),
                "heartbeat": row.heartbeat / 1000,
            }
        )


def wish(engine: Engine, worker_id: str, what: str) -> bool:
    """Ask a worker to pause, run or stop; False if it is not known."""
    if not isinstance(worker_id, str):
        raise InvalidJob(f"worker: expected its id, got {short(worker_id)}")
    return engine.desk.wish(worker_id, what)
