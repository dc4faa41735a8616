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
    bonds: list[Dependency]
    flow: FlowRow | None = None
    connection: Any = UNSET


def bonds_of(
    job_id: str, payload: str, recipe: JobTemplate, after: Sequence[str], policy: Policy | None
) -> list[Dependency]:
    """The bonds of a call that is to be this job: to those whose results it is given, those it is to come after,
    and the one that is to wait for it. One policy goes for all of them."""
    chosen = policy or recipe.policy
    parents = dict.fromkeys((*ids_in(payload), *recipe.after, *after))
    bonds = [Dependency(parent, job_id, chosen) for parent in parents]
    if recipe.parent is not None:
        bonds.append(Dependency(job_id, recipe.parent, chosen))
    if any(bond.parent == bond.child for bond in bonds):
        raise InvalidJob(f"job {job_id} would wait for itself: {job_id} -> {job_id}")
    return bonds


def planting(
    news: Iterable[NewJob], bonds: Iterable[Dependency], flow: FlowRow | None = None, connection: Any = UNSET
) -> GraphInsert:
    """These jobs, each as waiting if it is to wait, and of the flow if there is one."""
    bonds = list(bonds)
    children, parents = {bond.child for bond in bonds}, {bond.parent for bond in bonds}

    def in_place(new: NewJob) -> NewJob:
        return structs.replace(
            new,
            state=State.WAITING if new.id in children else new.state,
            flow=new.flow if flow is None else flow.id,
            kin=1 if new.id in parents else new.kin,
        )

    return GraphInsert([in_place(new) for new in news], bonds, flow, connection)


def undecided(plants: GraphInsert) -> list[str]:
    """The new jobs whose state only the store can tell: those that wait, if any is to wait for a job that was there."""
    own = {new.id for new in plants.news}
    if all(bond.parent in own for bond in plants.bonds):
        return []
    return [new.id for new in plants.news if new.state is State.WAITING]


def rows_of(desk: Queries, ids: Sequence[str], *, light: bool = True) -> dict[str, JobRow]:
    """The jobs that exist of these, by id."""
    pages = (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
    return {row.id: row for page in pages for row in desk.get(page, light=light)}


def in_their_flows(desk: Queries, outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes with what they spawned put into the flows of those who did. Only the store knows these."""
    parents = [outcome.id for outcome in outcomes if outcome.spawned]
    if not parents:
        return outcomes
    flows = {job_id: row.flow for job_id, row in rows_of(desk, parents).items()}
    return [
        structs.replace(
            outcome, spawned=tuple(structs.replace(new, flow=flows.get(outcome.id)) for new in outcome.spawned)
        )
        if flows.get(outcome.id)
        else outcome
        for outcome in outcomes
    ]
