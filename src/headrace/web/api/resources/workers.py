"""Workers, and commands to them."""

from __future__ import annotations

from collections.abc import Callable

from headrace.app.workers import WorkerInfo
from headrace.errors import WorkerNotFound
from headrace.web.api.routes import Table
from headrace.web.security.middleware import RequestContext

table = Table("workers", "Workers, and commands to them.")


@table.get("/workers")
def find(visit: RequestContext) -> list[WorkerInfo]:
    """List the live workers."""
    return visit.app.workers()


@table.get("/workers/{worker_id}")
def get(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Return one worker as of its last heartbeat."""
    return _worker(visit, worker_id)


@table.post("/workers/{worker_id}/pause")
def pause(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Pause a worker from its next heartbeat on."""
    return _ask(visit, worker_id, visit.app.pause_worker)


@table.post("/workers/{worker_id}/resume")
def resume(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Resume a paused worker."""
    return _ask(visit, worker_id, visit.app.resume_worker)


@table.post("/workers/{worker_id}/stop")
def stop(visit: RequestContext, worker_id: str) -> WorkerInfo:
    """Stop a worker after its running jobs."""
    return _ask(visit, worker_id, visit.app.stop_worker)


def _ask(visit: RequestContext, worker_id: str, command: Callable[[str], bool]) -> WorkerInfo:
    if not command(worker_id):
        raise WorkerNotFound(worker_id)
    return _worker(visit, worker_id)


def _worker(visit: RequestContext, worker_id: str) -> WorkerInfo:
    for worker in visit.app.workers():
        if worker.id == worker_id:
            return worker
    raise WorkerNotFound(worker_id)
