"""Dependencies of new jobs: which edges a call makes, and what is inserted together.

Knows no engine and no handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET, Struct, structs

from headrace.core.codec.result_refs import ids_in
from headrace.core.jobs.budgets import budgets_of, with_flow_budget
from headrace.core.jobs.dependencies import Dependency, FlowRow, Policy
from headrace.core.jobs.records import JobRow, NewJob, Outcome
from headrace.core.jobs.states import State
from headrace.core.tasks.job_template import JobTemplate
from headrace.engines.protocol.core import Queries
from headrace.errors import InvalidJob

_PAGE_SIZE = 500  # rows may be large: a full row has the arguments and the result of its job


class GraphInsert(Struct, frozen=True):
    """Jobs, their dependencies and their flow: inserted together or not at all."""

    new_jobs: list[NewJob]
    edges: list[Dependency]
    flow: FlowRow | None = None
    connection: Any = UNSET


def edges_of(
    job_id: str, payload: str, job_template: JobTemplate, after: Sequence[str], policy: Policy | None
) -> list[Dependency]:
    """The edges of a call: to the jobs whose results it gets, those it runs after, and the one that waits for it.

    One policy applies to all of them.
    """
    chosen = policy or job_template.policy
    parents = dict.fromkeys((*ids_in(payload), *job_template.after, *after))
    edges = [Dependency(parent, job_id, chosen) for parent in parents]
    if job_template.parent is not None:
        edges.append(Dependency(job_id, job_template.parent, chosen))
    if any(edge.parent == edge.child for edge in edges):
        raise InvalidJob(f"job {job_id} would wait for itself: {job_id} -> {job_id}")
    return edges


def graph_insert(
    new_jobs: Iterable[NewJob], edges: Iterable[Dependency], flow: FlowRow | None = None, connection: Any = UNSET
) -> GraphInsert:
    """These jobs, as waiting where they have parents, and in the flow if there is one."""
    edges = list(edges)
    children, parents = {edge.child for edge in edges}, {edge.parent for edge in edges}

    def in_place(new: NewJob) -> NewJob:
        return structs.replace(
            new,
            state=State.WAITING if new.id in children else new.state,
            flow=new.flow if flow is None else flow.id,
            has_dependencies=1 if new.id in parents else new.has_dependencies,
        )

    return GraphInsert([in_place(new) for new in new_jobs], edges, flow, connection)


def undecided(graph: GraphInsert) -> list[str]:
    """The new jobs whose state only the store knows: the waiting ones, if any waits for an existing job."""
    own = {new.id for new in graph.new_jobs}
    if all(edge.parent in own for edge in graph.edges):
        return []
    return [new.id for new in graph.new_jobs if new.state is State.WAITING]


def rows_of(queries: Queries, ids: Sequence[str], *, light: bool = True) -> dict[str, JobRow]:
    """The existing jobs of these, by id."""
    pages = (ids[start : start + _PAGE_SIZE] for start in range(0, len(ids), _PAGE_SIZE))
    return {row.id: row for page in pages for row in queries.get(page, light=light)}


def in_their_flows(queries: Queries, outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes with spawned jobs put into the flows of their parents. Only the store knows these."""
    parents = [outcome.id for outcome in outcomes if outcome.spawned]
    if not parents:
        return outcomes
    rows = rows_of(queries, parents)
    return [
        structs.replace(outcome, spawned=tuple(in_flow_of(rows[outcome.id], new) for new in outcome.spawned))
        if outcome.id in rows and rows[outcome.id].flow
        else outcome
        for outcome in outcomes
    ]


def in_flow_of(parent: JobRow, new: NewJob) -> NewJob:
    """The job in the flow of this parent, with the budget of that flow, if it has one."""
    new = structs.replace(new, flow=parent.flow)
    budgets = budgets_of(parent.options) if parent.flow else None
    if budgets is None or not isinstance(budgets.flow_budget, str):
        return new
    return structs.replace(new, options=with_flow_budget(new.options, budgets.flow_budget))
