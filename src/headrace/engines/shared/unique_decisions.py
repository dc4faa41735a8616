"""Pure decisions about unique inserts, made in order before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import NOT_STARTED, State
from headrace.core.jobs.unique_rules import UniqueCondition, UniqueInsert, UniqueResult, UniqueRule
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

    standing: ExistingJob
    job: NewJob
    whole: bool

    @property
    def moves(self) -> bool:
        return self.whole and self.job.queue != self.standing.queue

    def target(self, now: int) -> State:
        if self.whole and self.standing.state is not State.WAITING:
            return self.job.state
        return state_after(self.standing.state, self.job.run_at, now)


class UniqueDecision(Struct):
    """The results of the first candidates, and the writes that make them true.

    It ends before a candidate whose key belongs to a job that an earlier candidate changes, and before one that changes
    a job that an earlier candidate inserted: that must be written first, so that each change is recorded.
    """

    verdicts: list[UniqueResult]
    inserts: dict[int, NewJob]  # by position of the candidate
    changes: dict[int, JobReplacement]  # likewise


def meets(standing: ExistingJob, condition: UniqueCondition) -> bool:
    """Whether the condition holds for a job."""
    if standing.state not in condition.states:
        return False
    if condition.created_since is not None and standing.created_at < condition.created_since:
        return False
    since = condition.finished_since
    return since is None or (standing.finished_at is not None and standing.finished_at >= since)


def decide(candidates: Sequence[UniqueInsert], taken: set[str], found: Mapping[int, ExistingJob]) -> UniqueDecision:
    """Decide about the candidates; `found` holds the existing job of each before any was inserted."""
    decision = UniqueDecision([], {}, {})
    ids = set(taken)
    newest: dict[str, dict[State, NewJob]] = {}  # by key: the last inserted job of each state, the newest last
    changed: set[str | None] = set()
    for place, (job, rule) in enumerate((candidate.job, candidate.rule) for candidate in candidates):
        sibling = _sibling(newest.get(job.unique_key or "", {}), rule)
        standing = found.get(place)
        if rule is not None and job.unique_key in changed:
            break
        if job.id in ids:
            decision.verdicts.append(UniqueResult("taken", job.id))
        elif rule is not None and sibling is not None:
            if rule.amends:
                break
            decision.verdicts.append(UniqueResult("existing" if rule.act == "keep" else "refused", sibling.id))
        elif rule is not None and standing is not None:
            decision.verdicts.append(_against(decision, place, standing, job, rule))
            if place in decision.changes:
                changed.add(job.unique_key)
        else:
            decision.inserts[place] = job
            ids.add(job.id)
            decision.verdicts.append(UniqueResult("new", job.id))
            if job.unique_key is not None:
                of_key = newest.setdefault(job.unique_key, {})
                of_key.pop(job.state, None)
                of_key[job.state] = job
    return decision


def _sibling(newest: dict[State, NewJob], rule: UniqueRule | None) -> NewJob | None:
    """The newest of these that the rule applies to."""
    if rule is None:
        return None
    return next((job for job in reversed(newest.values()) if _holds(rule, _as_standing(job))), None)


def _holds(rule: UniqueRule, standing: ExistingJob) -> bool:
    return any(meets(standing, condition) for condition in rule.conditions)


def _as_standing(job: NewJob) -> ExistingJob:
    return ExistingJob(0, job.id, job.state, job.created_at, None, job.queue)


def _against(
    decision: UniqueDecision, place: int, standing: ExistingJob, job: NewJob, rule: UniqueRule
) -> UniqueResult:
    if rule.act == "refuse":
        return UniqueResult("refused", standing.id)
    # A waiting job whose own run is over has started, too.
    if rule.act == "keep" or standing.state not in NOT_STARTED or standing.finished_at is not None:
        return UniqueResult("existing", standing.id)
    decision.changes[place] = JobReplacement(standing, job, whole=rule.act == "replace")
    return UniqueResult("replaced" if rule.act == "replace" else "rescheduled", standing.id)
