"""Records of `app.lifecycle`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, structs

from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import Kind, Policies, PolicyRow, StoredPolicy
from headrace.core.retention.policy_fields import SPANS, OnStale, PolicyFields
from headrace.core.retention.staleness import AgeStats, StaleFinding


class LifecyclePolicy(PolicyFields, frozen=True, kw_only=True):
    """The lifecycle policy of a task, a queue, or any job: seconds, None for no limit.

    `origin` shows where each field is set: "task, by an operator", "task, by its code", "queue, by an operator", or
    "setting".
    """

    origin: dict[str, str]


class PolicyLayers(Struct, frozen=True):
    """The policy of a task or a queue: `declared` in code, `override` by an operator. Seconds."""

    kind: Kind
    name: str
    declared: dict[str, Any]
    override: dict[str, Any]


def policy_layers(row: PolicyRow) -> PolicyLayers:
    return PolicyLayers(row.kind, row.name, _set_fields(row.declared), _set_fields(row.override))


def _set_fields(policy: StoredPolicy) -> dict[str, Any]:
    """The fields that are set, in user units."""
    return {name: in_seconds(name, value) for name, value in structs.asdict(policy).items() if value is not UNSET}


def policy_of(policies: Policies, task: str | None, queue: str | None) -> LifecyclePolicy:
    """The effective policy of this task in this queue, and the origin of its fields."""
    # An empty name matches no task and no queue.
    effective = structs.asdict(policies.of(task or "", queue or ""))
    origin = dict.fromkeys(effective, "setting")
    for layer, policy in reversed(list(policies.layers(task, queue))):
        origin |= {name: layer for name, value in structs.asdict(policy).items() if value is not UNSET}
    if origin["on_stale"] == "setting" and any(layer != "setting" for name, layer in origin.items() if _is_limit(name)):
        origin["on_stale"] = "follows from its thresholds"
    values = {name: in_seconds(name, value) for name, value in effective.items()}
    return LifecyclePolicy(task=task, queue=queue, origin=origin, **values)


def _is_limit(name: str) -> bool:
    return name.startswith("max_")


def in_seconds(name: str, value: Any) -> Any:
    """The value of a field in user units."""
    return value / 1000 if name in SPANS and isinstance(value, int) else value


class StaleJob(Struct, frozen=True, kw_only=True, gc=False):
    """A stale job or, if not `is_stale`, one past 75 % of its limit. Times in seconds.

    `by` is "state" or "age". `action` is its on_stale action: "dead", "fail" or "review". `applied` is False in a dry
    run, and for a job that changed meanwhile.
    """

    id: str
    task: str
    queue: str
    state: State
    by: Literal["state", "age"]
    lasted: float
    threshold: float
    action: OnStale
    is_stale: bool
    applied: bool


def stale_job(finding: StaleFinding, applied: bool) -> StaleJob:
    job = finding.job
    return StaleJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        by=finding.what,
        lasted=finding.lasted / 1000,
        threshold=finding.threshold / 1000,
        action=finding.action,
        is_stale=finding.is_stale,
        applied=applied,
    )


class StateAges(Struct, frozen=True, kw_only=True):
    """How long the jobs of a queue have been in a state, in seconds; jobs not due yet count as 0.

    `stalest` are the ids of the ten oldest, oldest first.
    """

    state: State
    queue: str
    jobs: int
    average: float
    longest: float
    over_an_hour: int
    over_a_day: int
    stalest: tuple[str, ...]


def state_ages(ages: AgeStats) -> StateAges:
    return StateAges(
        state=ages.state,
        queue=ages.queue,
        jobs=ages.jobs,
        average=ages.total / ages.jobs / 1000,
        longest=ages.longest / 1000,
        over_an_hour=ages.over_an_hour,
        over_a_day=ages.over_a_day,
        stalest=tuple(job_id for _, job_id in ages.stalest),
    )
