"""Which finished jobs are removed from the store, and how: decided by their policies alone. Pure; reads no clock."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.core.damaged_records import read_or
from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import StoredPolicy

RetentionAction = Literal["keep", "archive", "delete"]
# A waiter must still find a job that was reported as finished.
GRACE = 10_000
# A unique key must stay known for as long as an idempotency key holds.
KEY_TTL = 86_400_000
_REMOVALS = {State.COMPLETED: "remove_on_complete", State.FAILED: "remove_on_fail"}
_KEEPS = {State.COMPLETED: "keep_completed", State.FAILED: "keep_failed", State.CANCELLED: "keep_cancelled"}


class FinishedJob(Struct, frozen=True, array_like=True):
    """The fields of a finished job that retention needs.

    `keyed` says that a unique insert may match it, `held` that it has to stay: because it has a pending dead letter, an
    open child or an open job in its flow, or because it would run again with a dead-lettered job. These are the parents
    of such a job, the jobs cancelled with it, and its flow.
    """

    seq: int
    id: str
    task: str
    queue: str
    state: State
    finished_at: int
    version: int
    options: str | None
    keyed: bool
    held: bool
    flow: str | None = None


class RetentionRun(Struct, frozen=True, kw_only=True):
    """What the last retention run has done: when, and how long it took, in milliseconds. None begins before `until`.

    `error` is why this run, or the one before it, failed.
    """

    at: int
    duration: int
    archived: int = 0
    deleted: int = 0
    dead_letters: int = 0
    partition: str | None = None
    dropped: list[str] = []
    until: int = 0
    error: str | None = None


class _CallOptions(Struct, frozen=True):
    """The options of a single call; see `core.jobs.records.JobOptions`."""

    remove_on_complete: bool | int | UnsetType = UNSET
    remove_on_fail: bool | int | UnsetType = UNSET


_call_options = msgspec.json.Decoder(_CallOptions)


def removal_of(job: FinishedJob, policy: StoredPolicy) -> bool | int:
    """Whether the job is removed on finish, or, as a number, how many newer ones of its task may stay."""
    name = _REMOVALS.get(job.state)
    if name is None:
        return False
    removal = getattr(policy, name)
    if job.options is not None and name in job.options:
        own = getattr(read_or(_call_options.decode, job.options, _CallOptions()), name)
        removal = removal if own is UNSET else own
    return False if removal is UNSET else removal


def is_removed_on_finish(job: FinishedJob, policy: StoredPolicy, newer: int) -> bool:
    """Whether the job is removed on finish. `newer` is how many of its task in its queue finished later."""
    removal = removal_of(job, policy)
    return removal is True or (removal is not False and newer >= removal)


def kept_until(job: FinishedJob, policy: StoredPolicy, newer: int = 0) -> int | None:
    """When the job may be removed, None for never. `newer` is how many of its task in its queue finished later."""
    keep = getattr(policy, _KEEPS[job.state])
    until = None if keep is None or keep is UNSET else job.finished_at + keep
    if is_removed_on_finish(job, policy, newer):
        at_once = job.finished_at + GRACE
        until = at_once if until is None else min(until, at_once)
    if until is not None and job.keyed:
        until = max(until, job.finished_at + KEY_TTL)
    return until


def retention_action(
    job: FinishedJob, policy: StoredPolicy, now: int, archived_since: int | None, newer: int = 0
) -> RetentionAction:
    """What to do with a finished job now.

    `archived_since` is when the oldest partition that the archive keeps begins: an older job would only be dropped
    again. None means that there is no archive.
    """
    until = kept_until(job, policy, newer)
    return "keep" if job.held or until is None or until > now else removal_kind(job, policy, archived_since)


def is_removable_early(job: FinishedJob, now: int) -> bool:
    """Whether the job may be removed early, from a full store."""
    return not job.held and job.finished_at + (KEY_TTL if job.keyed else GRACE) <= now


def removal_kind(job: FinishedJob, policy: StoredPolicy, archived_since: int | None) -> RetentionAction:
    """Whether a removed job is archived or deleted; see `retention_action`."""
    archives = policy.archive is not False and archived_since is not None and job.finished_at >= archived_since
    return "archive" if archives else "delete"


def shortest(policies: list[StoredPolicy], state: State) -> int | None:
    """The shortest time that any of these policies keeps jobs of this state; None if all keep them forever."""
    spans = [span for policy in policies if isinstance(span := getattr(policy, _KEEPS[state]), int)]
    return min(spans, default=None)


def has_removal(policies: list[StoredPolicy], state: State) -> bool:
    """Whether any of these policies removes jobs of this state on finish."""
    name = _REMOVALS.get(state)
    return name is not None and any(getattr(policy, name) not in (UNSET, False) for policy in policies)
