"""Flows: jobs created together, and their dependencies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from headrace.app.jobs.records import JobRecord, record_of
from headrace.core.jobs.budgets import Spending
from headrace.core.queues.rates import MOST_UNITS
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Changed, Cursor, Limit
from headrace.web.security.middleware import RequestContext

table = Table("flows", "Flows: jobs created together, and their dependencies.")


class FlowRecord(Struct, frozen=True, kw_only=True):
    """A flow: its state, its finished jobs, and the number of jobs in each state."""

    id: str
    name: str
    state: str
    done: int
    jobs: int
    counts: dict[str, int]
    created_at: datetime


class FlowList(Struct, frozen=True):
    """Flows, newest first. `cursor` continues after them."""

    flows: list[FlowRecord]
    cursor: str | None


class FlowDetail(Struct, frozen=True):
    """A flow with its jobs and the graph of their dependencies.

    `budget` are the units that its jobs have reported, and how many they may; null without a budget.
    """

    flow: FlowRecord
    budget: Spending | None
    jobs: list[JobRecord]
    graph: dict[str, Any]


class FlowBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many units the jobs of a flow may report in all."""

    units: Annotated[int, Meta(ge=1, le=MOST_UNITS)]


class FlowQuery(Struct, frozen=True):
    """The page of flows to return."""

    limit: Limit = 50
    cursor: Cursor | None = None


@table.get("/flows")
def find(context: RequestContext, query: FlowQuery) -> FlowList:
    """List flows, newest first."""
    found = context.app.flows.list(query.limit + 1, query.cursor)
    shown = [_record(run) for run in found[: query.limit]]
    return FlowList(shown, shown[-1].id if len(found) > query.limit else None)


@table.get("/flows/{flow_id}")
def get(context: RequestContext, flow_id: str) -> FlowDetail:
    """Return one flow with its jobs and its graph."""
    run = context.app.flows.get(flow_id)
    return FlowDetail(_record(run), run.spending, [record_of(job) for job in run.jobs], run.graph())


@table.post("/flows/{flow_id}/cancel")
def cancel(context: RequestContext, flow_id: str) -> Changed:
    """Cancel all unfinished jobs of a flow."""
    return Changed(context.app.flows.get(flow_id).cancel())


@table.post("/flows/{flow_id}/retry")
def retry(context: RequestContext, flow_id: str) -> Changed:
    """Retry the failed and cancelled jobs of a flow, with the jobs cancelled because of them."""
    return Changed(context.app.flows.get(flow_id).retry())


@table.post("/flows/{flow_id}/budget", example={"units": 80000})
def set_budget(context: RequestContext, flow_id: str, body: FlowBudget) -> Spending:
    """Change the budget of a flow that was enqueued with one."""
    return context.app.flows.get(flow_id).set_budget(body.units)


def _record(run: FlowRun) -> FlowRecord:
    return FlowRecord(
        id=run.id,
        name=run.name,
        state=run.state,
        done=run.progress.done,
        jobs=run.progress.total,
        counts=run.counts,
        created_at=run.created_at,
    )
