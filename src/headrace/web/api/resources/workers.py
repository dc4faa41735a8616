"""Workers, and commands to them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from msgspec import Struct

from headrace.app.workers import WorkerInfo
from headrace.errors import WorkerNotFound
from headrace.web.api.route_table import Table
from headrace.web.security.middleware import RequestContext

table = Table("workers", "Workers, and commands to them.")


@table.get("/workers")
def find(context: RequestContext) -> list[WorkerInfo]:
    """List the live workers."""
    return context.app.workers()


@table.get("/workers/{worker_id}")
def get(context: RequestContext, worker_id: str) -> WorkerInfo:
    """Return one worker as of its last heartbeat."""
    return _worker(context, worker_id)


@table.post("/workers/{worker_id}/pause")
def pause(context: RequestContext, worker_id: str) -> WorkerInfo:
    """Pause a worker from its next heartbeat on."""
    return _send_command(context, worker_id, context.app.pause_worker)


@table.post("/workers/{worker_id}/resume")
def resume(context: RequestContext, worker_id: str) -> WorkerInfo:
    """Resume a paused worker."""
    return _send_command(context, worker_id, context.app.resume_worker)


@table.post("/workers/{worker_id}/stop")
def stop(context: RequestContext, worker_id: str) -> WorkerInfo:
    """Stop a worker after its running jobs."""
    return _send_command(context, worker_id, context.app.stop_worker)


class LogLevelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A level, or one for each logger: `INFO,headrace.store=DEBUG`."""

    level: str


@table.post("/workers/{worker_id}/log-level")
def set_log_level(context: RequestContext, worker_id: str, body: LogLevelBody) -> WorkerInfo:
    """Change the log level of a worker's process, until the next change or its end."""
    return _send_command(context, worker_id, lambda worker: context.app.set_worker_log_level(worker, body.level))


def _send_command(context: RequestContext, worker_id: str, command: Callable[[str], bool]) -> WorkerInfo:
    before = _worker(context, worker_id)
    if not command(worker_id):
        raise WorkerNotFound(worker_id)
    with contextlib.suppress(WorkerNotFound):  # an idle one may have obeyed and ended
        return _worker(context, worker_id)
    return before


def _worker(context: RequestContext, worker_id: str) -> WorkerInfo:
    for worker in context.app.workers():
        if worker.id == worker_id:
            return worker
    raise WorkerNotFound(worker_id)
