"""What happens to claims before they run: parents' results are put in, and each gets its run spec.

A worker, the server of HTTP workers and the testing kit use it; what they do with a claim that can't run is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from headrace.core.codec.result_refs import MISSING
from headrace.core.jobs import outcomes
from headrace.core.jobs.budgets import REASON
from headrace.core.jobs.records import Claim, Outcome
from headrace.core.tasks.failure import outcome_requested
from headrace.engines.protocol.engine import Engine
from headrace.errors import BudgetExceeded
from headrace.runtime.budgets import over_budget
from headrace.runtime.worker.execution import RunSpec, RunSpecs, describe
from headrace.runtime.worker.results import ResultResolver, has_result_refs


class Refusal(Struct, frozen=True):
    """A claim that can't run, and why."""

    claim: Claim
    reason: str
    error: Exception

    def outcome(self, now: int) -> Outcome:
        """The failure of its job, or its next start after an outage of the payload store."""
        if (requested := outcome_requested(self.claim, self.error, str, now)) is not None:
            return requested
        return outcomes.fail(self.claim, self.reason, describe(self.error), self.claim.max_attempts, now)


class ClaimPlanner:
    """Plans the runs of claims."""

    def __init__(self, engine: Engine, run_specs: RunSpecs) -> None:
        self._engine = engine
        self._run_specs = run_specs
        self._resolver = ResultResolver(engine, run_specs.keeps_result, run_specs.payloads)

    def planned(self, claims: Sequence[Claim]) -> Iterator[tuple[Claim, RunSpec] | Refusal | None]:
        """For each claim what to run, or why it can't run; None for a task that this process does not know.

        EngineUnavailable if the parents' results can't be read. Results are read at once, before the first answer.
        """
        with_refs = [claim for claim in claims if has_result_refs(claim)]
        results = iter(self._resolver.resolve_results(with_refs) if with_refs else ())
        return self._with_run_specs(claims, results, over_budget(self._engine, claims), has_refs=bool(with_refs))

    def _with_run_specs(
        self,
        claims: Sequence[Claim],
        results: Iterator[Claim | Exception],
        over: Mapping[str, BudgetExceeded],
        *,
        has_refs: bool,
    ) -> Iterator[tuple[Claim, RunSpec] | Refusal | None]:
        for claim in claims:
            resolved = next(results) if has_refs and has_result_refs(claim) else claim
            if over and claim.id in over:
                yield Refusal(claim, REASON, over[claim.id])
                continue
            if not isinstance(resolved, Claim):
                yield Refusal(claim, MISSING, resolved)
                continue
            try:
                run_spec = self._run_specs.plan(resolved)
            except Exception as error:  # a damaged row must not block the claims beside it
                yield Refusal(claim, "corrupt_options", error)
                continue
            yield None if run_spec is None else (resolved, run_spec)
