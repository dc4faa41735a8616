"""The rules of `headrace workers alive`: by the heartbeats in the store, or by a health file. They print nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from headrace.app.workers import WorkerInfo
from headrace.runtime.process.health_endpoints import read_report


class Aliveness(Struct, frozen=True):
    """Whether a worker is alive, why, and the ids of those that are."""

    alive: bool
    reason: str
    workers: list[str] = []


def alive_in_store(found: Iterable[WorkerInfo], text: str | None, host: str, *, ready: bool) -> Aliveness:
    """Whether the worker with this id or prefix, or any worker of this host, is alive by its heartbeats."""
    candidates = [worker for worker in found if (worker.host == host if text is None else worker.id.startswith(text))]
    where = f"of host {host}" if text is None else f"with the id {text!r}"
    if not candidates:
        return Aliveness(False, f"no worker {where} is registered")
    wanted = {"running"} if ready else {"running", "paused", "stopping", "starting"}
    alive = [worker.id for worker in candidates if worker.condition in wanted]
    if alive:
        verb = "is ready" if ready else "is alive"
        more = f", and {len(alive) - 1} more" if len(alive) > 1 else ""
        return Aliveness(True, f"worker {alive[0]} {verb}{more}", alive)
    conditions = ", ".join(f"{worker.id} is {worker.condition}" for worker in candidates[:5])
    return Aliveness(False, f"no worker {where} is {'ready' if ready else 'alive'}: {conditions}")


def alive_by_file(path: Path, now: datetime, *, ready: bool) -> Aliveness:
    """Whether the process that writes this health file is alive."""
    report = read_report(path)
    if report is None:
        return Aliveness(False, f"there is no health file {path}: no worker writes it")
    if not report.is_fresh(now):
        age = (now - report.at).total_seconds()
        return Aliveness(False, f"process {report.pid} has not written {path} for {age:.0f} s")
    if ready and not report.ready:
        return Aliveness(False, f"process {report.pid} is not ready: {report.reason}")
    return Aliveness(True, f"process {report.pid} is {'ready' if ready else 'alive'}")
