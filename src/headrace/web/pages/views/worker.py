"""A worker: running jobs, charts, and commands to pause or stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.workers import WorkerInfo
from headrace.core.jobs.states import State
from headrace.errors import WorkerNotFound
from headrace.web.pages import chart_data
from headrace.web.pages.job_view import cards
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.jobs import REACH

_SHOWN = 20


def show(visit: PageRequest) -> Mapping[str, Any]:
    name = visit.name("worker")
    jobs = visit.app.jobs
    return {
        "id": name,
        "worker": _known(visit, name),
        "running": cards(jobs.find(worker=name, state=State.RUNNING, limit=200), visit.app),
        "failed": cards(jobs.find(worker=name, state=State.FAILED, limit=_SHOWN, reach=REACH), visit.app),
        "done": cards(jobs.find(worker=name, state=State.COMPLETED, limit=_SHOWN, reach=REACH), visit.app),
        "figures": chart_data.of_worker(visit, "1h", name),
        "topics": ("worker", f"worker:{name}"),
    }


def _known(visit: PageRequest, name: str) -> WorkerInfo | None:
    """The worker; None if it has unregistered."""
    return next((worker for worker in visit.page_cache.workers() if worker.id == name), None)


def _pause(visit: PageRequest) -> ActionResult:
    return _asked(visit, visit.app.pause_worker(visit.name("worker")), "starts no more jobs")


def _resume(visit: PageRequest) -> ActionResult:
    return _asked(visit, visit.app.resume_worker(visit.name("worker")), "starts jobs again")


def _stop(visit: PageRequest) -> ActionResult:
    return _asked(visit, visit.app.stop_worker(visit.name("worker")), "finishes its running jobs and stops")


def _asked(visit: PageRequest, known: bool, does: str) -> ActionResult:
    name = visit.name("worker")
    if not known:
        raise WorkerNotFound(name)
    return ActionResult(f"Worker {name} {does} from its next heartbeat on.", target=name)


def _ask_stop(visit: PageRequest) -> Confirmation:
    return Confirmation(
        f"Stop worker {visit.name('worker')}?",
        "Stop the worker",
        "It finishes its running jobs and stops. It can’t be restarted from here.",
    )


VIEWS = [View(path="/workers/{worker:path}", template="worker.html", show=show)]
ACTIONS = [
    Action(path="/workers/{worker:path}/pause", what="worker.pause", do=_pause),
    Action(path="/workers/{worker:path}/resume", what="worker.resume", do=_resume),
    Action(path="/workers/{worker:path}/stop", what="worker.stop", do=_stop, ask=_ask_stop),
]
