"""Jobs that are to come after a job that has left the store for the archive: what is completed is completed.

Asked only when the store has refused to let them wait, as it does for a parent that it does not have: nobody else pays
for it. A parent that ended otherwise, and one whose result is an argument, is refused as before.
"""

from __future__ import annotations

from msgspec import structs

from headrace.core.codec.result_refs import ids_in
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.engines.protocol.engine import Engine
from headrace.errors import InvalidJob, JobNotFound
from headrace.runtime.jobs.services import JobServices
from headrace.runtime.submit.dependencies import GraphInsert, rows_of


def insert_graph(engine: Engine, services: JobServices, plants: GraphInsert) -> GraphInsert:
    """Store the jobs with their bonds; what was stored, which has no bonds to archived jobs that were completed."""
    try:
        engine.insert_graph(plants.news, plants.edges, plants.flow)
    except InvalidJob:
        rest = _without_past(engine, services, plants)
        if rest is None:
            raise
        engine.insert_graph(rest.news, rest.edges, rest.flow)
        return rest
    return plants


def _without_past(engine: Engine, services: JobServices, plants: GraphInsert) -> GraphInsert | None:
    """Without bonds to parents that are archived as completed; None if that is not what is wrong."""
    asked = {edge.parent for edge in plants.edges} - {new.id for new in plants.news}
    gone = asked - rows_of(engine.queries, sorted(asked)).keys()
    needed = {parent for new in plants.news for parent in ids_in(new.payload)}
    if not gone or gone & needed or not all(_is_completed(services, parent) for parent in gone):
        return None
    edges = [edge for edge in plants.edges if edge.parent not in gone]
    children = {edge.child for edge in edges}
    return structs.replace(plants, news=[_in_its_state(new, children) for new in plants.news], edges=edges)


def _is_completed(services: JobServices, job_id: str) -> bool:
    try:
        return services.row(job_id).state is State.COMPLETED
    except JobNotFound:
        return False


def _in_its_state(new: NewJob, children: set[str]) -> NewJob:
    if new.state is not State.WAITING or new.id in children:
        return new
    return structs.replace(new, state=State.SCHEDULED if new.run_at > new.created_at else State.PENDING)
