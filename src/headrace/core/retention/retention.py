"""Which finished jobs leave the store, and how: decided from their terms alone. Pure; reads no clock."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.core.damaged_records import read_or
from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import StoredPolicy

Fate = Literal["keep", "archive", "delete"]
# Whoever waits for a job must find it when it is told that it is over.
GRACE = 10_000
# By its key a second job of the same kind is known: for as long as an idempotency key holds, that must be possible.
KEYS_HOLD = 86_400_000
_REMOVALS = {State.COMPLETED: "remove_on_complete", State.FAILED: "remove_on_fail"}
_KEEPS = {State.COMPLETED: "keep_completed", State.FAILED: "keep_failed", State.CANCELLED: "keep_cancelled"}


class FinishedJob(Struct, frozen=True, array_like=True):
    """A finished job, as far as it matters for how long it is kept. `held` tells that it has to stay, `keyed` that
    another job may be told to be the same."""

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
    """What the last sweep has done: when, and how long it took, in milliseconds. Before `until` none need begin.

    `error` is why the one before it, or this one, could not go on.
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


class _Asked(Struct, frozen=True):
    """What a single call asked for; see `core.model.JobOptions`."""

    remove_on_complete: bool | int | UnsetType = UNSET
    remove_on_fail: bool | int | UnsetType = UNSET


_asked = msgspec.json.Decoder(_Asked)


def removal_of(job: FinishedJob, terms: StoredPolicy) -> bool | int:
    """Whether the job is to go as soon as it is over, or, as a number, how many newer ones of its task may stay."""
    name = _REMOVALS.get(job.state)
    if name is None:
        return False
    said = getattr(terms, name)
    if job.options is not None and name in job.options:
        called = getattr(read_or(_asked.decode, job.options, _Asked()), name)
        said = said if called is UNSET else called
    return False if said is UNSET else said


def goes_at_once(job: FinishedJob, terms: StoredPolicy, newer: int) -> bool:
    """Whether the job is to go as soon as it is over. `newer` is how many of its task in its queue ended later."""
    removal = removal_of(job, terms)
    return removal is True or (removal is not False and newer >= removal)


def kept_until(job: FinishedJob, terms: StoredPolicy, newer: int = 0) -> int | None:
    """When the job may leave the store, None for never. `newer` is how many of its task in its queue ended later."""
    keep = getattr(terms, _KEEPS[job.state])
    until = None if keep is None or keep is UNSET else job.finished_at + keep
    if goes_at_once(job, terms, newer):
        at_once = job.finished_at + GRACE
        until = at_once if until is None else min(until, at_once)
    if until is not None and job.keyed:
        until = max(until, job.finished_at + KEYS_HOLD)
    return until


def fate(job: FinishedJob, terms: StoredPolicy, now: int, archived_since: int | None, newer: int = 0) -> Fate:
    """What is to happen to a finished job now.

    `archived_since` is when the oldest partition that the archive keeps begins: what ended before it would only be
    dropped again. None says that there is no archive.
    """
    until = kept_until(job, terms, newer)
    return "keep" if job.held or until is None or until > now else way_out(job, terms, archived_since)


def may_go_early(job: FinishedJob, now: int) -> bool:
    """Whether the job may leave ahead of its time, where there is no room for it."""
    return not job.held and job.finished_at + (KEYS_HOLD if job.keyed else GRACE) <= now


def way_out(job: FinishedJob, terms: StoredPolicy, archived_since: int | None) -> Fate:
    """Where a job goes that leaves the store; see `fate`."""
    archives = terms.archive is not False and archived_since is not None and job.finished_at >= archived_since
    return "archive" if archives else "delete"


def shortest(terms: list[StoredPolicy], state: State) -> int | None:
    """The shortest time that jobs of this state are kept by any of these terms; None if all keep them for ever."""
    spans = [span for one in terms if isinstance(span := getattr(one, _KEEPS[state]), int)]
    return min(spans, default=None)


def asks_for_removal(terms: list[StoredPolicy], state: State) -> bool:
    """Whether by any of these terms jobs of this state go as soon as they are over."""
    name = _REMOVALS.get(state)
    return name is not None and any(getattr(one, name) not in (UNSET, False) for one in terms)
