"""The list of workers; one worker: running jobs, charts, and commands to pause or stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.workers import WorkerInfo
from headrace.core.jobs.states import State
from headrace.errors import WorkerNotFound
from headrace.web.pages import chart_data
from headrace.web.pages.job_view import summaries
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.jobs import SCAN_LIMIT

_MAX_SHOWN = 20


def show(request: PageRequest) -> Mapping[str, Any]:
    workers = request.page_cache.workers()
    alive = [worker for worker in workers if not worker.silent]
    return {
        "workers": workers,
        "slots": sum(worker.concurrency for worker in alive),
        "busy": sum(worker.running for worker in alive),
        "hosts": len({worker.host for worker in alive}),
        "topics": ("worker", "job"),
    }


def show_one(request: PageRequest) -> Mapping[str, Any]:
    name = request.path_param("worker")
    jobs = request.app.jobs
    return {
        "id": name,
        "worker": _find_worker(request, name),
        "running": summaries(jobs.find(worker=name, state=State.RUNNING, limit=200), request.app),
        "failed": summaries(
            jobs.find(worker=name, state=State.FAILED, limit=_MAX_SHOWN, reach=SCAN_LIMIT), request.app
        ),
        "done": summaries(
            jobs.find(worker=name, state=State.COMPLETED, limit=_MAX_SHOWN, reach=SCAN_LIMIT), request.app
        ),
        "time_charts": chart_data.worker_charts(request, "1h", name),
        "topics": ("worker", f"worker:{name}"),
    }


def _find_worker(request: PageRequest, name: str) -> WorkerInfo | None:
    """The worker; None if it has unregistered."""
    return next((worker for worker in request.page_cache.workers() if worker.id == name), None)


def _pause(request: PageRequest) -> ActionResult:
    return _command_result(request, request.app.pause_worker(request.path_param("worker")), "starts no more jobs")


def _resume(request: PageRequest) -> ActionResult:
    return _command_result(request, request.app.resume_worker(request.path_param("worker")), "starts jobs again")


def _stop(request: PageRequest) -> ActionResult:
    return _command_result(
        request, request.app.stop_worker(request.path_param("worker")), "finishes its running jobs and stops"
    )


def _command_result(request: PageRequest, was_sent: bool, effect: str) -> ActionResult:
    name = request.path_param("worker")
    if not was_sent:
        raise WorkerNotFound(name)
    return ActionResult(f"Worker {name} {effect} from its next heartbeat on.", target=name)


def _confirm_stop(request: PageRequest) -> Confirmation:
    return Confirmation(
        f"Stop worker {request.path_param('worker')}?",
        "Stop the worker",
        "It finishes its running jobs and stops. It can’t be restarted from here.",
    )


VIEWS = [
    View(path="/workers", template="workers/workers.html", show=show, label="Workers", icon="workers", key="w"),
    View(path="/workers/{worker:path}", template="workers/worker.html", show=show_one),
]
ACTIONS = [
    Action(path="/workers/{worker:path}/pause", name="worker.pause", run=_pause),
    Action(path="/workers/{worker:path}/resume", name="worker.resume", run=_resume),
    Action(path="/workers/{worker:path}/stop", name="worker.stop", run=_stop, confirmation=_confirm_stop),
]
