"""An insert that has to be decided: under unique rules, or with dependencies. Both SQL engines run the same steps."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule, candidates_of
from headrace.engines.shared.decisions import refuse_unique_graph
from headrace.engines.sql import dependencies, unique_cancel, unique_insert
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.rules_cache import RulesCache
from headrace.engines.sql.unique_insert import Steps


class DecidedInsert(Struct, frozen=True):
    """Jobs to insert after reads: of existing jobs with their keys, or of their parents and children."""

    jobs: Sequence[NewJob]
    unique: Sequence[UniqueRule | None] = ()
    edges: Sequence[Dependency] = ()
    flow: FlowRow | None = None
    all_or_nothing: bool = True

    def __post_init__(self) -> None:
        if self.is_graph:
            refuse_unique_graph(self.unique)

    @property
    def is_graph(self) -> bool:
        return bool(self.edges) or self.flow is not None

    def steps(self, rules: RulesCache, now: int) -> Steps[tuple[list[InsertResult], Wakeups]]:
        """The statements of the insert."""
        jobs, lengths = self.jobs, rules.lengths_of({job.queue for job in self.jobs})
        if self.is_graph:
            with_lanes = rules.with_lanes(jobs)
            effects = yield from dependencies.insert_graph(with_lanes, self.edges, self.flow, lengths, now)
            return [InsertResult("new", job.id) for job in jobs], effects
        candidates = rules.candidates_with_lanes(candidates_of(jobs, self.unique or [None] * len(jobs)))
        open_jobs = yield from unique_cancel.lock_open(candidates)
        results = yield from unique_insert.insert_unique(candidates, self.all_or_nothing, lengths, now)
        return results, (yield from unique_cancel.cancel_started(open_jobs, candidates, results, now))
