"""What a run over HTTP keeps for later runs and adds to the store: steps, events that came, spawned jobs.

The same as `current_job()` of a Python worker. The store compares the version of the run, as for every outcome.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from headrace.app.app import Headrace
from headrace.core.codec import codec
from headrace.core.jobs.budgets import budgets_of
from headrace.core.jobs.records import Claim, Lease, Outcome
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.tasks.options import check_name
from headrace.core.tasks.trace_context import correlation_of
from headrace.errors import BudgetExceeded, LeaseLost
from headrace.runtime.context.costs import CostReports
from headrace.runtime.context.spawn import Spawning
from headrace.runtime.context.step_store import RetryingStepStore
from headrace.runtime.context.trace import correlated
from headrace.runtime.jobs.encryption import decrypted_steps, encrypted_step
from headrace.runtime.jobs.task import Call


class StoredSteps(Struct, frozen=True):
    """The results of the steps by name, and the data of the events that came, by name in their order."""

    steps: dict[str, Any]
    events: dict[str, list[Any]]


def stored_steps(app: Headrace, worker: str, lease: Lease) -> StoredSteps:
    """The steps and events of a job that this worker runs; LeaseLost if it does not."""
    if not _holds(app, worker, lease):
        raise _lost(lease, "its steps can't be read")
    stored = app.engine.queries.details(lease.id, history=False, logs=0).steps
    kept = decrypted_steps(app.cipher, lease.id, stored)
    events: dict[str, list[Any]] = {}
    for event in sorted((step for step in kept if step.kind == "event"), key=lambda step: step.number):
        events.setdefault(event.name, []).append(_value_of(event))
    return StoredSteps({step.name: _value_of(step) for step in kept if step.kind == "step"}, events)


def store_step(app: Headrace, worker: str, lease: Lease, name: str, value: Any) -> None:
    """Store the result of a step for good; LeaseLost if the job is another worker's."""
    limit = app.settings.max_payload
    text = None if value is None else codec.encode(value, limit=limit, where=f"result of step {name!r}")
    checksum = None if text is None else codec.checksum(text)
    step = Step("step", check_name("name", name), 1, app.clock.now(), text, checksum)
    # The version decides in the write; who holds it does not change.
    if not (_holds(app, worker, lease) and app.engine.save_step(lease, encrypted_step(app.cipher, lease.id, step))):
        raise _lost(lease, f"step {name!r} was not stored")


def store_cost(app: Headrace, claim: Claim, units: int | None) -> None:
    """Store what a run of a job with a budget has used. Its outcome stands; what exceeds the budget ends later runs."""
    if units is None or (budgets := budgets_of(claim.options)) is None:
        return
    with contextlib.suppress(BudgetExceeded, LeaseLost):
        CostReports(claim, RetryingStepStore(app.engine, 0, app.cipher), budgets).report(units, app.clock.now())


def with_spawned(claim: Claim, outcome: Outcome, calls: Sequence[Call[Any]], now: int) -> Outcome:
    """The success with the jobs that its run spawned, to be inserted in the same commit."""
    if not calls:
        return outcome
    spawning = Spawning(claim)
    with correlated(correlation_of(claim.metadata, claim.id)):
        for call in calls:
            spawning.spawn(call, now, at_once=False)
    return spawning.enclosed(outcome)


def _holds(app: Headrace, worker: str, lease: Lease) -> bool:
    rows = app.engine.queries.get([lease.id], light=True)
    return any((row.version, row.worker, row.state) == (lease.version, worker, State.RUNNING) for row in rows)


def _value_of(step: Step) -> Any:
    if step.value is None:
        return None
    codec.verify(step.value, step.checksum or 0)
    return codec.decode(step.value)


def _lost(lease: Lease, consequence: str) -> LeaseLost:
    text = f"job {lease.id}: its lease is lost, so {consequence}; stop working on it"
    return LeaseLost(text, job_id=lease.id)
