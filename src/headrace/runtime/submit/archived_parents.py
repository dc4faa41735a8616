"""Jobs with a parent that has moved to the archive: a completed parent counts as completed.

Checked only after the store has refused a parent that it does not have, so that other inserts pay nothing. A parent
that did not complete, or whose result is an argument, is still refused.
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


def insert_graph(engine: Engine, services: JobServices, graph: GraphInsert) -> GraphInsert:
    """Insert the jobs with their dependencies, except those on archived, completed jobs; returns what was inserted."""
    try:
        engine.insert(graph.new_jobs, edges=graph.edges, flow=graph.flow, all_or_nothing=True)
    except InvalidJob:
        rest = _without_archived(engine, services, graph)
        if rest is None:
            raise
        engine.insert(rest.new_jobs, edges=rest.edges, flow=rest.flow, all_or_nothing=True)
        return rest
    return graph


def _without_archived(engine: Engine, services: JobServices, graph: GraphInsert) -> GraphInsert | None:
    """The graph without dependencies on archived, completed parents; None if these did not cause the refusal."""
    parents = {edge.parent for edge in graph.edges} - {new.id for new in graph.new_jobs}
    gone = parents - rows_of(engine.queries, sorted(parents)).keys()
    needed = {parent for new in graph.new_jobs for parent in ids_in(new.payload)}
    if not gone or gone & needed or not all(_is_completed(services, parent) for parent in gone):
        return None
    edges = [edge for edge in graph.edges if edge.parent not in gone]
    children = {edge.child for edge in edges}
    return structs.replace(graph, new_jobs=[_in_its_state(new, children) for new in graph.new_jobs], edges=edges)


def _is_completed(services: JobServices, job_id: str) -> bool:
    try:
        return services.row(job_id).state is State.COMPLETED
    except JobNotFound:
        return False


def _in_its_state(new: NewJob, children: set[str]) -> NewJob:
    if new.state is not State.WAITING or new.id in children:
        return new
    return structs.replace(new, state=State.SCHEDULED if new.run_at > new.created_at else State.PENDING)
