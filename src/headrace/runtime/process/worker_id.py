"""The id of a worker, and the row by which it describes itself."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable

import msgspec

from headrace.core.jobs.records import WorkerRow
from headrace.core.settings.settings import Settings


def new_worker_id() -> str:
    host = "".join(char if char.isalnum() or char in "-_" else "-" for char in socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def settings_text(settings: Settings) -> str:
    """The concurrency, queues and capabilities of a worker, for the log."""
    queues, has = settings.queues, settings.capabilities
    queue_text = "all queues" if queues is None else ", ".join(f"{name} ({weight})" for name, weight in queues.items())
    return f"concurrency {settings.concurrency}, {queue_text}" + (f", has {', '.join(has)}" if has else "")


def worker_row(
    worker_id: str,
    state: str,
    settings: Settings,
    tasks: Iterable[str],
    done: tuple[int, int, int],
    started_at: int,
    now: int,
) -> WorkerRow:
    """The row of a worker; `done` counts its running, completed and failed jobs."""
    running, completed, failed = done
    return WorkerRow(
        id=worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=started_at,
        seen_at=now,
        state=state,
        command="run",
        queues=_json(settings.queues or {}),
        concurrency=settings.concurrency,
        running=running,
        completed=completed,
        failed=failed,
        tasks=_json(sorted(tasks)),
        heartbeat=int(settings.beat * 1000),
        capabilities=_json(settings.capabilities),
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
