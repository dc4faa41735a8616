"""Staleness: since when a job is in its state, and whether that is too long by its policy. Pure.

A job's row gives its clock: when a scheduled, pending or retrying one was due, when a running one started, when a
waiting one was submitted or its own run ended. A later event that led to its state, such as the death of a worker or
the end of a parent, is in the history and restarts that clock: a recovered job has not been pending for long.
Every engine computes it as `job_age_of` does, or with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Literal, Protocol

from msgspec import UNSET, Struct

from headrace.core.jobs.fingerprint import fingerprint
from headrace.core.jobs.records import HistoryRow
from headrace.core.jobs.states import OPEN, State, Trigger
from headrace.core.retention.lifecycle import (
    DefaultPolicy,
    Policies,
    PolicyRow,
    StaleLimit,
    StoredPolicy,
    default_policy,
)
from headrace.core.retention.policy_fields import OnStale

REASON = "staleness_timeout"
WARNING_AT = 0.75
_SEVERITY: dict[OnStale, int] = {"review": 0, "fail": 1, "dead": 2}
LIMITED: dict[State, str] = {state: f"max_{state}" for state in OPEN}


class JobAge(Struct, frozen=True, array_like=True, gc=False):
    """An open job, and since when it is in its state. `due` is when it was first to run, for its age.

    `reviewed` says that this version was already found stale and recorded as that.
    """

    id: str
    task: str
    queue: str
    state: State
    version: int
    since: int
    due: int
    reviewed: bool = False


class AgeQuery(Struct, frozen=True):
    """Which open jobs to read: those in a state since before its time here, or due since before `due`.

    A state that is not here, and a `due` of None, are not read.
    """

    since: dict[State, int]
    due: int | None = None


class JobAgePage(Struct, frozen=True):
    """Jobs in no order, and the cursor behind the last one read; None at the end.

    It may include jobs that have not stayed too long, but the time since when a job is in its state is always exact.
    """

    jobs: list[JobAge]
    cursor: str | None


class StaleFinding(Struct, frozen=True, gc=False):
    """A job that is stale or, with `is_stale` False, nearly so: by its state, or by its `age`. Milliseconds."""

    job: JobAge
    what: Literal["state", "age"]
    lasted: int
    threshold: int
    action: OnStale
    is_stale: bool

    def describe(self) -> str:
        what = f"{self.job.state} for" if self.what == "state" else "not finished after"
        return f"{what} {format_duration(self.lasted)}, at most {format_duration(self.threshold)}"


class StaleAction(Struct, frozen=True, array_like=True):
    """What to do with a job, if it is still at this version. `detail` is for its history.

    dead, fail: STALE is applied, with the reason `staleness_timeout`; a running attempt loses its lease at once. "dead"
    also opens a dead letter, in place of a pending one. review: only a history entry is added, once for each version.
    """

    id: str
    version: int
    action: OnStale
    detail: str
    fingerprint: str = ""


def age_query(rows: Iterable[PolicyRow], settings: DefaultPolicy, now: int, share: float = WARNING_AT) -> AgeQuery:
    """The query that misses no stale job, whatever the policies of its task and queue are."""
    policies = [default_policy(settings), *(policy for row in rows for policy in (row.declared, row.override))]
    since = {state: now - round(share * most) for state, name in LIMITED.items() if (most := _least(policies, name))}
    oldest = _least(policies, "max_age")
    return AgeQuery(since, None if oldest is None else now - round(share * oldest))


def _least(policies: Sequence[StoredPolicy], name: str) -> int | None:
    return min(
        (value for policy in policies if (value := getattr(policy, name)) is not UNSET and value is not None),
        default=None,
    )


def check_staleness(job: JobAge, policies: Policies, now: int) -> StaleFinding | None:
    """Whether the job is stale or, from 75 % of a threshold on, nearly stale; None if it is neither."""
    in_state, by_total = policies.limits(job.task, job.queue, LIMITED[job.state])
    by_state = in_state and _exceeded(job, "state", now - job.since, in_state)
    by_age = by_total and _exceeded(job, "age", now - job.due, by_total)
    if by_state is None or by_age is None:
        return by_state or by_age
    return max(by_state, by_age, key=_severity)


def _exceeded(job: JobAge, what: Literal["state", "age"], lasted: int, limit: StaleLimit) -> StaleFinding | None:
    most, action = limit
    return None if lasted < WARNING_AT * most else StaleFinding(job, what, lasted, most, action, lasted > most)


def _severity(found: StaleFinding) -> tuple[bool, int, float]:
    return found.is_stale, _SEVERITY[found.action], found.lasted / found.threshold


def stale_action(found: StaleFinding) -> StaleAction:
    """The action of the store for a stale job."""
    manner = "left as it is" if found.action == "review" else "automatic"
    print_ = fingerprint(found.job.task, None, f"{REASON} {found.job.state if found.what == 'state' else 'age'}")
    return StaleAction(found.job.id, found.job.version, found.action, f"{found.describe()} ({manner})", print_)


class AgeFields(Protocol):
    """The fields of a job's row, full or not, that determine its age."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def version(self) -> int: ...
    @property
    def created_at(self) -> int: ...
    @property
    def run_at(self) -> int: ...
    @property
    def started_at(self) -> int | None: ...
    @property
    def finished_at(self) -> int | None: ...


_CLOCKS: dict[State, Callable[[AgeFields], int]] = {
    State.RUNNING: lambda job: job.started_at or 0,
    State.WAITING: lambda job: job.finished_at or job.created_at,
}
_when_due = attrgetter("run_at")


def own_clock(state: State) -> Callable[[AgeFields], int]:
    """When a job entered this state, by its row alone: the history may give a later time, but none before."""
    return _CLOCKS.get(state, _when_due)


def job_age_of(job: AgeFields, history_rows: Sequence[HistoryRow]) -> JobAge:
    """Since when the job is in its state, from its row and its history."""
    since, created_at = own_clock(job.state)(job), job.created_at
    if not history_rows:  # the usual case
        due = max(created_at, job.run_at)
        return JobAge(job.id, job.task, job.queue, job.state, job.version, since, due)
    moves = [history_row for history_row in history_rows if history_row.source != history_row.target]
    since = max(since, *(history_row.at for history_row in moves if history_row.target == job.state), 0)
    last_life = max((place for place, history_row in enumerate(moves) if history_row.event == "revive"), default=-1)
    begun = moves[last_life].at if last_life >= 0 else 0
    runs = (f.started_at for f in moves[last_life + 1 :] if f.source == State.RUNNING and f.started_at is not None)
    due = max(created_at, begun, min(runs, default=job.run_at))
    is_reviewed = any(
        history_row.event == Trigger.REVIEW and history_row.version == job.version for history_row in history_rows
    )
    return JobAge(job.id, job.task, job.queue, job.state, job.version, since, due, is_reviewed)


def format_duration(ms: int) -> str:
    """A duration in its two largest units: 2 h 5 min."""
    if ms < 1000:
        return f"{ms} ms"
    seconds, parts = ms // 1000, []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if count := seconds // size:
            parts.append(f"{count} {unit}")
            seconds -= count * size
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


# -- statistics

_HOUR, _DAY = 3_600_000, 86_400_000
_STALEST = 10


class AgeStats(Struct):
    """How long the jobs of one queue have been in one state; a job that is not due yet counts as 0."""

    state: State
    queue: str
    jobs: int = 0
    total: int = 0
    longest: int = 0
    over_an_hour: int = 0
    over_a_day: int = 0
    stalest: list[tuple[int, str]] = []

    def add(self, job: JobAge, now: int) -> None:
        lasted = max(now - job.since, 0)
        self.jobs, self.total, self.longest = self.jobs + 1, self.total + lasted, max(self.longest, lasted)
        self.over_an_hour += lasted > _HOUR
        self.over_a_day += lasted > _DAY
        if len(self.stalest) < _STALEST or lasted > -self.stalest[-1][0]:
            self.stalest = sorted([*self.stalest, (-lasted, job.id)])[:_STALEST]


def everything(now: int) -> AgeQuery:
    """Every open job, also those that are due later."""
    far = now + 1000 * 366 * _DAY
    return AgeQuery(dict.fromkeys(OPEN, far), far)
