"""Flows; one flow with its graph and jobs; cancel, retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.flows.drawing import GraphNode, JobGraph
from headrace.core.jobs.states import State
from headrace.errors import InvalidJob
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.web.pages import flow_graph, formatting
from headrace.web.pages.job_view import cards
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_PAGE = 50
_DRAWN = 2000  # jobs; a larger flow is not drawn
_LISTED = 100
_TOPICS = 150


def show(visit: PageRequest) -> Mapping[str, Any]:
    found = visit.app.flows.list(_PAGE + 1, visit.asked("before"))
    shown = found[:_PAGE]
    return {
        "flows": shown,
        "count": {run.id: count_of(run) for run in shown},
        "before": visit.asked("before"),
        "cursor": shown[-1].id if len(found) > _PAGE else None,
        "topics": ("job",),
    }


def show_one(visit: PageRequest) -> Mapping[str, Any]:
    run = visit.app.flows.get(visit.name("flow"))
    is_drawn = run.progress.total <= _DRAWN
    jobs = run.jobs[:_LISTED] if is_drawn else list(visit.app.jobs.find(flow=run.id, limit=_LISTED))
    told = run.progress.total <= _TOPICS
    return {
        "run": run,
        "count": count_of(run),
        "drawn": draw(visit, run) if is_drawn else None,
        "jobs": cards(jobs, visit.app),
        "topics": tuple(f"job:{job.id}" for job in run.jobs) if told else ("job",),
    }


def count_of(run: FlowRun) -> dict[str, int]:
    return {state.value: run.counts.get(state, 0) for state in State}


def draw(visit: PageRequest, run: FlowRun) -> Any:
    known = run.graph()
    picture = JobGraph(
        [GraphNode(node["id"], node["task"], node["state"]) for node in known["nodes"]],
        [(edge["from"], edge["to"]) for edge in known["edges"]],
    )
    drawn = flow_graph.graph(
        picture,
        lambda job_id: visit.at(f"/jobs/{job_id}"),
        lambda task: visit.at("/jobs", flow=run.id, task=task),
    )
    return flow_graph.svg(drawn, f"Dependencies in flow {run.name}")


# -- actions


def _cancel(visit: PageRequest) -> ActionResult:
    run = visit.app.flows.get(visit.name("flow"))
    many = run.cancel()
    if not many:
        raise InvalidJob(f"All jobs of flow {run.name} are finished.")
    return ActionResult(f"{formatting.exact(many)} of the jobs of flow {run.name} were cancelled.", target=run.id)


def _ask_cancel(visit: PageRequest) -> Confirmation:
    run = visit.app.flows.get(visit.name("flow"))
    left = run.progress.total - run.progress.done
    return Confirmation(
        f"Cancel the unfinished jobs of flow {run.name}?",
        "Cancel the flow",
        f"{formatting.exact(left)} of its {formatting.exact(run.progress.total)} jobs are unfinished; running ones "
        "are asked to stop.",
    )


def _retry(visit: PageRequest) -> ActionResult:
    run = visit.app.flows.get(visit.name("flow"))
    many = run.retry()
    if not many:
        raise InvalidJob(f"No job of flow {run.name} has failed or was cancelled.")
    return ActionResult(
        f"{formatting.exact(many)} of the jobs of flow {run.name} were queued again, with all that waited for them.",
        target=run.id,
    )


VIEWS = [
    View(path="/flows", template="flows.html", show=show, label="Flows", icon="flows", key="f"),
    View(path="/flows/{flow:path}", template="flow.html", show=show_one),
]
ACTIONS = [
    Action(path="/flows/{flow:path}/cancel", what="flow.cancel", do=_cancel, ask=_ask_cancel),
    Action(path="/flows/{flow:path}/retry", what="flow.retry", do=_retry),
]
