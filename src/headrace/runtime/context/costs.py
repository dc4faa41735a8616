"""The costs that a run reports of a job with a budget: stored at once, and refused when the budget is exceeded."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from headrace.core.jobs.budgets import Budgets, Spending, cost_step, costs_of
from headrace.core.jobs.records import Claim
from headrace.core.jobs.steps import Step
from headrace.errors import LeaseLost
from headrace.runtime.budgets import exceeded


class CostStore(Protocol):
    """The part of a step store that costs need."""

    def steps(self, claim: Claim) -> list[Step]: ...
    def save_step(self, claim: Claim, step: Step) -> bool: ...
    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None: ...


class CostReports:
    """The reports of one run. The sum is that of all runs of the job."""

    def __init__(self, claim: Claim, step_store: CostStore, budgets: Budgets) -> None:
        self._claim = claim
        self._step_store = step_store
        self._budgets = budgets
        self._lock = threading.Lock()
        self._runs: dict[int, int] | None = None
        self._of_flow: Spending | None = None

    def report(self, units: int, now: int) -> None:
        """The run has used so many units in all. Less than before takes nothing back."""
        with self._lock:  # several threads of a job may report
            if self._runs is None:
                self._runs = costs_of(self._step_store.steps(self._claim))
            if units > self._runs.get(self._claim.version, 0):
                self._store(units, self._runs, now)
            if error := exceeded(self._budgets, sum(self._runs.values()), self._of_flow):
                raise error

    def _store(self, units: int, runs: dict[int, int], now: int) -> None:
        claim = self._claim
        if not self._step_store.save_step(claim, cost_step(units, claim.version, now)):
            text = f"job {claim.id}: its lease is lost, so its cost was not stored; stop working on it"
            raise LeaseLost(text, job_id=claim.id)
        runs[claim.version] = units
        if isinstance(flow := self._budgets.flow_budget, str):
            # Those of earlier runs as well: one may have been killed after it stored its cost.
            self._of_flow = self._step_store.charge(claim, flow, runs)
