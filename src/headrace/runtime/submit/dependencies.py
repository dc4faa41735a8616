"""Jobs that wait for jobs, on their way to the store: which bonds a call makes, and what is stored together.

Knows no engine and no handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET, Struct, structs

from headrace.core.codec.result_refs import ids_in
from headrace.core.jobs.dependencies import Dependency, FlowRow, Policy
from headrace.core.jobs.records import JobRow, NewJob, Outcome
from headrace.core.jobs.states import State
from headrace.engines.protocol.queries import Queries
from headrace.errors import InvalidJob
from headrace.runtime.submit.template import JobTemplate

_AT_ONCE = 500  # rows may be large: a whole one has the arguments and the result of its job


class GraphInsert(Struct, frozen=True):
    """Jobs, the bonds they come with and the flow they are of: stored all together or not at all."""

    news: list[NewJob]
    edges: list[Dependency]
    flow: FlowRow | None = None
    connection: Any = UNSET


def edges_of(
    job_id: str, payload: str, job_template: JobTemplate, after: Sequence[str], policy: Policy | None
) -> list[Dependency]:
    """The bonds of a call that is to be this job: to those whose results it is given, those it is to come after,
    and the one that is to wait for it. One policy goes for all of them."""
    chosen = policy or job_template.policy
    parents = dict.fromkeys((*ids_in(payload), *job_template.after, *after))
    edges = [Dependency(parent, job_id, chosen) for parent in parents]
    if job_template.parent is not None:
        edges.append(Dependency(job_id, job_template.parent, chosen))
    if any(edge.parent == edge.child for edge in edges):
        raise InvalidJob(f"job {job_id} would wait for itself: {job_id} -> {job_id}")
    return edges


def graph_insert(
    news: Iterable[NewJob], edges: Iterable[Dependency], flow: FlowRow | None = None, connection: Any = UNSET
) -> GraphInsert:
    """These jobs, each as waiting if it is to wait, and of the flow if there is one."""
    edges = list(edges)
    children, parents = {edge.child for edge in edges}, {edge.parent for edge in edges}

    def in_place(new: NewJob) -> NewJob:
        return structs.replace(
            new,
            state=State.WAITING if new.id in children else new.state,
            flow=new.flow if flow is None else flow.id,
            kin=1 if new.id in parents else new.kin,
        )

    return GraphInsert([in_place(new) for new in news], edges, flow, connection)


def undecided(plants: GraphInsert) -> list[str]:
    """The new jobs whose state only the store can tell: those that wait, if any is to wait for a job that was there."""
    own = {new.id for new in plants.news}
    if all(edge.parent in own for edge in plants.edges):
        return []
    return [new.id for new in plants.news if new.state is State.WAITING]


def rows_of(queries: Queries, ids: Sequence[str], *, light: bool = True) -> dict[str, JobRow]:
    """The jobs that exist of these, by id."""
    pages = (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
    return {row.id: row for page in pages for row in queries.get(page, light=light)}


def in_their_flows(queries: Queries, outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes with what they spawned put into the flows of those who did. Only the store knows these."""
    parents = [outcome.id for outcome in outcomes if outcome.spawned]
    if not parents:
        return outcomes
    flows = {job_id: row.flow for job_id, row in rows_of(queries, parents).items()}
    return [
        structs.replace(
            outcome, spawned=tuple(structs.replace(new, flow=flows.get(outcome.id)) for new in outcome.spawned)
        )
        if flows.get(outcome.id)
        else outcome
        for outcome in outcomes
    ]
