"""Stores the steps of a worker's jobs, with retries while the store is unavailable.

A finished step that is not stored would run again, so the worker retries for as long as its lease may hold. Storing a
step twice is harmless.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from headrace.core.codec.encryption import Cipher
from headrace.core.jobs.budgets import Spending
from headrace.core.jobs.compensations import jobs_of, with_undone
from headrace.core.jobs.records import Claim
from headrace.core.jobs.steps import Step
from headrace.engines.protocol.core import Queries
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.budgets import charge, without_past_costs
from headrace.runtime.context.joined_steps import JoinedSteps
from headrace.runtime.jobs.encryption import decrypted_steps, encrypted_step
from headrace.runtime.jobs.questions import announce

log = logging.getLogger("headrace.worker")
T = TypeVar("T")
_PAUSE_FIRST, _PAUSE_LONGEST = 0.1, 2.0


class RetryingStepStore:
    """The step store of running jobs. `timeout` is in seconds."""

    def __init__(self, engine: Engine, timeout: float, cipher: Cipher | None = None) -> None:
        self._cipher = cipher
        self._engine = engine
        self._timeout = timeout

    def steps(self, claim: Claim) -> list[Step]:
        stored = self._with_retries(claim, lambda: self._engine.queries.details(claim.id, history=False, logs=0).steps)
        steps = decrypted_steps(self._cipher, claim.id, stored)
        return self._with_retries(claim, lambda: steps_of_job(self._engine.queries, claim.id, steps))

    def save_step(self, claim: Claim, step: Step) -> bool:
        lease, stored = claim.lease, encrypted_step(self._cipher, claim.id, step)
        if stored.kind == "question":
            self._with_retries(claim, lambda: announce(self._engine.document_store, claim.id, stored))
        return self._with_retries(claim, lambda: self._engine.save_step(lease, stored))

    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None:
        return self._with_retries(claim, lambda: charge(self._engine, claim.id, flow, runs))

    @property
    def joined(self) -> JoinedSteps:
        return JoinedSteps(lambda: self._engine.joined, self._cipher)

    def _with_retries(self, claim: Claim, act: Callable[[], T]) -> T:
        deadline, pause = time.monotonic() + self._timeout, _PAUSE_FIRST
        while True:
            try:
                return act()
            except EngineUnavailable as error:
                if time.monotonic() + pause > deadline:
                    raise
                log.warning("job %s: can't store or read its steps: %s; trying again", claim.id, error)
            time.sleep(pause)
            pause = min(pause * 2, _PAUSE_LONGEST)


def steps_of_job(queries: Queries, job_id: str, steps: list[Step]) -> list[Step]:
    """The steps without costs that no longer count, and with compensations that have begun marked as such."""
    steps = without_past_costs(queries, job_id, steps)
    if not (jobs := jobs_of(steps)):
        return steps
    return with_undone(steps, {row.id: row.state for row in queries.get(jobs, light=True)})
