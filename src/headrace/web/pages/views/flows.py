"""Flows; one flow with its graph and jobs; cancel, retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.jobs.arguments import arguments_line
from headrace.core.flows.drawing import GraphNode, JobGraph
from headrace.core.jobs.states import State
from headrace.errors import InvalidJob
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.web.pages import flow_graph, formatting
from headrace.web.pages.job_view import summaries
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_PAGE = 50
_MAX_DRAWN = 2000  # jobs; a larger flow is not drawn
_MAX_LISTED = 100
_MAX_TOPICS = 150


def show(request: PageRequest) -> Mapping[str, Any]:
    found = request.app.flows.list(_PAGE + 1, request.query("before"))
    page = found[:_PAGE]
    return {
        "flows": page,
        "count": {run.id: count_of(run) for run in page},
        "before": request.query("before"),
        "cursor": page[-1].id if len(found) > _PAGE else None,
        "topics": ("job",),
    }


def show_one(request: PageRequest) -> Mapping[str, Any]:
    run = request.app.flows.get(request.path_param("flow"))
    is_drawn = run.progress.total <= _MAX_DRAWN
    jobs = run.jobs[:_MAX_LISTED] if is_drawn else list(request.app.jobs.find(flow=run.id, limit=_MAX_LISTED))
    has_job_topics = run.progress.total <= _MAX_TOPICS
    return {
        "run": run,
        "count": count_of(run),
        "spending": run.spending,
        "graph": draw_graph(request, run) if is_drawn else None,
        "jobs": summaries(jobs, request.app),
        "topics": tuple(f"job:{job.id}" for job in run.jobs) if has_job_topics else ("job",),
    }


def count_of(run: FlowRun) -> dict[str, int]:
    return {state.value: run.counts.get(state, 0) for state in State}


def draw_graph(request: PageRequest, run: FlowRun) -> Any:
    graph = run.graph()
    lines = {job.id: arguments_line(job) for job in run.jobs} if run.progress.total <= flow_graph.MAX_NODES else {}
    job_graph = JobGraph(
        [
            GraphNode(node["id"], node["name"], node["state"], node["task"], lines.get(node["id"], ""))
            for node in graph["nodes"]
        ],
        [(edge["from"], edge["to"]) for edge in graph["edges"]],
    )
    drawn_graph = flow_graph.graph(
        job_graph,
        lambda job_id: request.url(f"/jobs/{job_id}"),
        lambda task: request.url("/jobs", flow=run.id, task=task),
    )
    return flow_graph.svg(drawn_graph, f"Dependencies in flow {run.name}")


# -- actions


def _cancel(request: PageRequest) -> ActionResult:
    run = request.app.flows.get(request.path_param("flow"))
    count = run.cancel()
    if not count:
        raise InvalidJob(f"All jobs of flow {run.name} are finished.")
    return ActionResult(f"{formatting.exact(count)} of the jobs of flow {run.name} were cancelled.", target=run.id)


def _confirm_cancel(request: PageRequest) -> Confirmation:
    run = request.app.flows.get(request.path_param("flow"))
    unfinished = run.progress.total - run.progress.done
    return Confirmation(
        f"Cancel the unfinished jobs of flow {run.name}?",
        "Cancel the flow",
        f"{formatting.exact(unfinished)} of its {formatting.exact(run.progress.total)} jobs are unfinished; "
        "running ones are asked to stop.",
    )


def _retry(request: PageRequest) -> ActionResult:
    run = request.app.flows.get(request.path_param("flow"))
    count = run.retry()
    if not count:
        raise InvalidJob(f"No job of flow {run.name} has failed or was cancelled.")
    return ActionResult(
        f"{formatting.exact(count)} of the jobs of flow {run.name} were queued again, with all that waited for them.",
        target=run.id,
    )


VIEWS = [
    View(path="/flows", template="flows/flows.html", show=show, label="Flows", icon="flows", key="f"),
    View(path="/flows/{flow:path}", template="flows/flow.html", show=show_one),
]
ACTIONS = [
    Action(path="/flows/{flow:path}/cancel", name="flow.cancel", run=_cancel, confirmation=_confirm_cancel),
    Action(path="/flows/{flow:path}/retry", name="flow.retry", run=_retry),
]
