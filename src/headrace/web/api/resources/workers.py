"""Workers: who is alive, on what, and what an operator asks of them."""

from __future__ import annotations

from collections.abc import Callable

from headrace.app.workers import WorkerInfo
from headrace.errors import WorkerNotFound
from headrace.web.api.routes import Table
from headrace.web.security.middleware import RequestContext

table = Table("workers", "Workers: who is alive, on what, and what is asked of them.")


@table.get("/workers")
def find(visit: RequestContext) -> list[WorkerInfo]:
    """The workers that are alive."""
    return visit.app.workers()


@table.get("/workers/{worker_id}")
def get(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """One worker as it last reported itself."""
    return _worker(visit, worker_id)


@table.post("/workers/{worker_id}/pause")
def pause(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Have a worker start no more jobs; it does so at its next sign of life."""
    return _ask(visit, worker_id, visit.app.pause_worker)


@table.post("/workers/{worker_id}/resume")
def resume(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Have a paused worker start jobs again."""
    return _ask(visit, worker_id, visit.app.resume_worker)


@table.post("/workers/{worker_id}/stop")
def stop(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Have a worker finish what it runs, and end."""
    return _ask(visit, worker_id, visit.app.stop_worker)


def _ask(visit: RequestContext, worker_id: str, wish: Callable[[str], bool]) -> WorkerInfo:
    if not wish(worker_id):
        raise WorkerNotFound(worker_id)
    return _worker(visit, worker_id)


def _worker(visit: RequestContext, worker_id: str) -> WorkerInfo:
    for worker in visit.app.workers():
        if worker.id == worker_id:
            return worker
    raise WorkerNotFound(worker_id)
