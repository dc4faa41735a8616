"""Copies flows and dependencies, after all jobs.

Uses only the engine protocol. An edge is copied with its parent, which is marked as having dependencies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import JobRow
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.flows import FlowStore
from headrace.engines.protocol.maintenance import StoreView

_BATCH = 500
_CHANGING_FIELDS = ("state", "version", "attempt", "started_at", "finished_at", "worker", "has_dependencies")


def flow_pages(flow_store: FlowStore) -> Iterator[list[FlowRow]]:
    """Every flow of a store."""
    last = None
    while page := flow_store.flows(_BATCH, last):
        yield [summary.flow for summary in page]
        reached = page[-1].flow.id
        if last is not None and reached >= last:  # a damaged id leads back
            return
        last = reached


def with_dependents(page: Sequence[JobExport]) -> list[str]:
    """The jobs of a page that others wait for."""
    return [job_export.job.id for job_export in page if job_export.job.has_dependencies]


def edge_pages(flow_store: FlowStore, parents: Sequence[str]) -> Iterator[list[Dependency]]:
    """All edges with these jobs as parents."""
    for start in range(0, len(parents), _BATCH):
        some = parents[start : start + _BATCH]
        known = set(some)
        if page := [edge for edge in flow_store.edges(some) if edge.parent in known]:
            yield page


def copy_flows(source: StoreView, target: Engine) -> None:
    for page in flow_pages(source.flow_store):
        target.transfer.import_records(page)


def copy_edges(source: StoreView, target: Engine, parents: Sequence[str], *, merged: bool) -> None:
    """Copy the dependencies of these parents, except those of a job whose id another job has at the target."""
    for page in edge_pages(source.flow_store, parents):
        names = sorted({name for edge in page for name in (edge.parent, edge.child)})
        there = {row.id: row for row in target.queries.get(names)}
        copied = {
            row.id
            for row in source.queries.get(names)
            if row.id in there
            and row.created_at == there[row.id].created_at
            and not (merged and changed_at_one_store(row, there[row.id]))
        }
        target.transfer.import_records([edge for edge in page if edge.parent in copied and edge.child in copied])


def link_to_existing(target: Engine, edges: Sequence[Dependency]) -> None:
    """Link children of a job whose id another job has at the target to that job; they run if it has finished."""
    for start in range(0, len(edges), _BATCH):
        target.insert([], edges=edges[start : start + _BATCH])


def changed_at_one_store(original: JobRow, copy: JobRow) -> bool:
    """Whether a job that is at both stores was run, moved or linked at only one of them."""
    return any(getattr(original, name) != getattr(copy, name) for name in _CHANGING_FIELDS)


def missing_flows(source: Engine, target: Engine) -> Iterator[str]:
    """The flows that are at the source only."""
    for page in flow_pages(source.flow_store):
        there = {summary.flow for summary in target.flow_store.flows(len(page), ids=[flow.id for flow in page])}
        yield from (flow.id for flow in page if flow not in there)


def missing_edges(source: Engine, target: Engine, parents: Sequence[str], ignored: Collection[str]) -> Iterator[str]:
    """The edges that are missing or different at the target, as text."""
    for page in edge_pages(source.flow_store, parents):
        there = set(target.flow_store.edges(list({edge.parent for edge in page})))
        for edge in page:
            if edge not in there and not {edge.parent, edge.child} & set(ignored):
                yield f"{edge.parent} -> {edge.child}"
