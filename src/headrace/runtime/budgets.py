"""Reads and charges budgets in a store: what a job has reported, and what the jobs of a flow have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headrace.core.damaged_records import read_or
from headrace.core.documents import Document
from headrace.core.jobs.budgets import (
    KIND,
    Budgets,
    FlowSpending,
    Spending,
    budgets_of,
    costs_of,
    decode_flow,
)
from headrace.core.jobs.ids import time_of
from headrace.core.jobs.records import Claim
from headrace.core.jobs.states import FINAL, Trigger
from headrace.core.jobs.steps import Step
from headrace.engines.protocol.core import Queries
from headrace.engines.protocol.documents import DocumentStore
from headrace.engines.protocol.engine import Engine
from headrace.errors import BudgetExceeded, EngineUnavailable
from headrace.runtime.documents import documents_of

_KIND = "budget"
_MOST_RUNS = 100  # listed in a document before ended jobs are summed up
_TRIES = 1000
_DAY = 86_400_000


def open_budget(store: DocumentStore, flow: str, ceiling: int) -> None:
    """Store the budget of a flow before its jobs; nothing happens if an earlier try did."""
    store.put([Document(_KIND, flow, 0, FlowSpending(ceiling).encoded())])


def set_ceiling(store: DocumentStore, flow: str, ceiling: int) -> Spending:
    """Change the budget of a flow, or give it one that no job of it counts in yet."""

    def change(found: FlowSpending | None) -> FlowSpending:
        given = found or FlowSpending(ceiling)
        return FlowSpending(ceiling, given.earlier, given.runs)

    return _changed(store, flow, change).spending


def spendings_of(store: DocumentStore, flows: Sequence[str]) -> dict[str, Spending]:
    """The spending of those of these flows that have a budget."""
    return {document.key: decode_flow(document.value).spending for document in store.get(_KIND, flows)}


def charge(engine: Engine, job_id: str, flow: str, runs: Mapping[int, int]) -> Spending | None:
    """Count what the runs of a job have reported, each once; None if the flow has no budget any more."""
    store = engine.document_store
    if not store.get(_KIND, [flow]):
        return None

    def report(found: FlowSpending | None) -> FlowSpending:
        reported = (found or FlowSpending(0)).reported(job_id, runs)
        if len(reported.runs) <= _MOST_RUNS:
            return reported
        known = {row.id: row.state for row in engine.queries.get(sorted(reported.jobs), light=True)}
        return reported.without({job for job in reported.jobs if job not in known or known[job] in FINAL})

    return _changed(store, flow, report).spending


def _changed(store: DocumentStore, flow: str, change: Callable[[FlowSpending | None], FlowSpending]) -> FlowSpending:
    for _ in range(_TRIES):
        found = store.get(_KIND, [flow])
        before = decode_flow(found[0].value) if found else None
        after = change(before)
        version = found[0].version if found else 0
        if after == before or store.put([Document(_KIND, flow, version, after.encoded())]):
            return after
    raise EngineUnavailable(f"the budget of flow {flow} kept changing; try again")


def present_costs(queries: Queries, job_id: str, steps: Iterable[Step]) -> dict[int, int]:
    """What each run has reported since the job was last retried by hand, which gives it its whole budget again."""
    reports = [step for step in steps if step.kind == KIND]
    if not reports:
        return {}
    history = queries.details(job_id, logs=0, steps=False).history
    return costs_of(reports, max((row.version for row in history if row.event == Trigger.REVIVE), default=0))


def without_past_costs(queries: Queries, job_id: str, steps: list[Step]) -> list[Step]:
    """The steps without reports from before the job was last retried by hand."""
    if not any(step.kind == KIND for step in steps):
        return steps
    present = present_costs(queries, job_id, steps)
    return [step for step in steps if step.kind != KIND or step.number in present]


def exceeded(budgets: Budgets, own: int, of_flow: Spending | None) -> BudgetExceeded | None:
    """The error of a job that has used so much, if that is more than it or its flow may."""
    ceiling = budgets.budget if isinstance(budgets.budget, int) else None
    if (spending := Spending(own, ceiling)).is_exceeded:
        return BudgetExceeded(spending.describe("the job"))
    if of_flow is not None and of_flow.is_exceeded:
        return BudgetExceeded(of_flow.describe(f"flow {budgets.flow_budget}"))
    return None


def over_budget(engine: Engine, claims: Sequence[Claim]) -> dict[str, BudgetExceeded]:
    """The claims that must not start, by job: nothing of the budget of their job or their flow is left."""
    found = {claim.id: (claim, budgets) for claim in claims if (budgets := budgets_of(claim.options)) is not None}
    if not found:
        return {}
    flows = {str(budgets.flow_budget) for _, budgets in found.values() if budgets.flow_budget}
    try:
        spendings = spendings_of(engine.document_store, sorted(flows)) if flows else {}
        own = {claim.id: _own_cost(engine.queries, claim) for claim, _ in found.values()}
    except EngineUnavailable:
        return {}  # they end when they report
    errors = {
        job_id: exceeded(budgets, own[job_id], spendings.get(str(budgets.flow_budget)))
        for job_id, (_, budgets) in found.items()
    }
    return {job_id: error for job_id, error in errors.items() if error is not None}


def _own_cost(queries: Queries, claim: Claim) -> int:
    if claim.attempt == 1 and not (claim.crashes or claim.releases):
        return 0  # its first run
    steps = queries.details(claim.id, history=False, logs=0).steps
    return sum(present_costs(queries, claim.id, steps).values())


def forget_jobs(store: DocumentStore, jobs: Collection[str]) -> None:
    """Keep the sums of what these jobs have reported, without their ids."""

    def forget(found: FlowSpending | None) -> FlowSpending:
        return (found or FlowSpending(0)).without(jobs)

    for document in list(documents_of(store, _KIND)):
        if not read_or(decode_flow, document.value, FlowSpending(0)).jobs.isdisjoint(jobs):
            _changed(store, document.key, forget)


def drop_budgets(engine: Engine, now: int) -> None:
    """Delete the budgets of flows that are gone, but not of those that may be stored just now."""
    store = engine.document_store
    for document in list(documents_of(store, _KIND)):
        if not engine.flow_store.flows(1, ids=[document.key]) and (time_of(document.key) or 0) < now - _DAY:
            store.put((), [document])
