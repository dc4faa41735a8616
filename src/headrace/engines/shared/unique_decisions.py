"""Pure decisions about unique inserts, made in order before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import NOT_STARTED, State
from headrace.core.jobs.unique_rules import InsertResult, UniqueCondition, UniqueInsert, UniqueRule
from headrace.engines.shared.decisions import state_after


class ExistingJob(Struct, frozen=True, array_like=True):
    """An existing job with the same key, and the state that it counts as."""

    seq: int
    id: str
    state: State
    created_at: int
    finished_at: int | None
    queue: str


class JobReplacement(Struct, frozen=True):
    """A change of an existing job: to all of the new one, or of its time only."""

    existing: ExistingJob
    job: NewJob
    replaces_all: bool

    @property
    def moves(self) -> bool:
        return self.replaces_all and self.job.queue != self.existing.queue

    def target(self, now: int) -> State:
        if self.replaces_all and self.existing.state is not State.WAITING:
            return self.job.state
        return state_after(self.existing.state, self.job.run_at, now)


class UniqueDecision(Struct):
    """The results of the first candidates, and the writes that make them true.

    It ends before a candidate whose key belongs to a job that an earlier candidate changes, and before one that changes
    a job that an earlier candidate inserted: that must be written first, so that each change is recorded.
    """

    results: list[InsertResult]
    inserts: dict[int, NewJob]  # by position of the candidate
    changes: dict[int, JobReplacement]  # likewise


def meets(existing: ExistingJob, condition: UniqueCondition) -> bool:
    """Whether the condition holds for a job."""
    if existing.state not in condition.states:
        return False
    if condition.created_since is not None and existing.created_at < condition.created_since:
        return False
    since = condition.finished_since
    return since is None or (existing.finished_at is not None and existing.finished_at >= since)


def decide(candidates: Sequence[UniqueInsert], taken: set[str], found: Mapping[int, ExistingJob]) -> UniqueDecision:
    """Decide about the candidates; `found` holds the existing job of each before any was inserted."""
    decision = UniqueDecision([], {}, {})
    ids = set(taken)
    newest: dict[str, dict[State, NewJob]] = {}  # by key: the last inserted job of each state, the newest last
    changed: set[str | None] = set()
    for place, (job, rule) in enumerate((candidate.job, candidate.rule) for candidate in candidates):
        sibling = _sibling(newest.get(job.unique_key or "", {}), rule)
        existing = _counted(found.get(place), rule)
        if rule is not None and job.unique_key in changed:
            break
        if job.id in ids:
            decision.results.append(InsertResult("taken", job.id))
        elif rule is not None and sibling is not None:
            if rule.updates:
                break
            decision.results.append(InsertResult("existing" if rule.act == "keep" else "refused", sibling.id))
        elif rule is not None and existing is not None:
            decision.results.append(_resolve(decision, place, existing, job, rule))
            if place in decision.changes:
                changed.add(job.unique_key)
        else:
            decision.inserts[place] = job
            ids.add(job.id)
            decision.results.append(InsertResult("new", job.id))
            if job.unique_key is not None:
                by_state = newest.setdefault(job.unique_key, {})
                by_state.pop(job.state, None)
                by_state[job.state] = job
    return decision


def _counted(existing: ExistingJob | None, rule: UniqueRule | None) -> ExistingJob | None:
    """The existing job, unless the rule cancels it: a waiting job whose own run is over has started."""
    is_over = existing is not None and existing.finished_at is not None
    return None if is_over and rule is not None and rule.cancels else existing


def _sibling(newest: dict[State, NewJob], rule: UniqueRule | None) -> NewJob | None:
    """The newest of these that the rule applies to."""
    if rule is None:
        return None
    return next((job for job in reversed(newest.values()) if _applies(rule, _as_existing(job))), None)


def _applies(rule: UniqueRule, existing: ExistingJob) -> bool:
    return any(meets(existing, condition) for condition in rule.conditions)


def _as_existing(job: NewJob) -> ExistingJob:
    return ExistingJob(0, job.id, job.state, job.created_at, None, job.queue)


def _resolve(
    decision: UniqueDecision, place: int, existing: ExistingJob, job: NewJob, rule: UniqueRule
) -> InsertResult:
    if rule.act == "refuse":
        return InsertResult("refused", existing.id)
    # A waiting job whose own run is over has started, too.
    if rule.act == "keep" or existing.state not in NOT_STARTED or existing.finished_at is not None:
        return InsertResult("existing", existing.id)
    replaces_all = rule.act != "reschedule"
    decision.changes[place] = JobReplacement(existing, job, replaces_all=replaces_all)
    return InsertResult("replaced" if replaces_all else "rescheduled", existing.id)
