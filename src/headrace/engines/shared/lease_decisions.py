"""Pure decisions about jobs whose lease ran out or whose worker died."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from headrace.core.jobs.fingerprint import CRASH_LOOP, WORKER_LOST, fingerprint_of_lost
from headrace.core.jobs.history_texts import is_cancel_request
from headrace.core.jobs.states import State, Trigger

ERROR_TYPE = "WorkerLost"
_LOST = "the worker died or let its lease run out"


class ExpiredLease(NamedTuple):
    """A job whose worker is gone. `crashes` does not count this one."""

    seq: int
    worker: str
    has_attempts: bool
    crashes: int
    reason: str | None = None


class Recovery(NamedTuple):
    """What becomes of such a job. A release gives it its attempt back."""

    event: Trigger
    target: State
    detail: str
    reason: str | None = None


NOT_BEGUN = Recovery(Trigger.RELEASE, State.PENDING, "its worker died before it began")
NOT_SETTLED = Recovery(Trigger.RELEASE, State.PENDING, "its worker died before its end was stored")
UNKNOWN = Recovery(Trigger.RELEASE, State.PENDING, "its claim never reached the worker")
AGAIN = Recovery(Trigger.LEASE_EXPIRED, State.PENDING, "recovered")
LOST = Recovery(Trigger.LEASE_EXPIRED, State.FAILED, "attempts used up", WORKER_LOST)
CRASHES = Recovery(Trigger.LEASE_EXPIRED, State.FAILED, "its workers die again and again", CRASH_LOOP)


def recover(lease: ExpiredLease, begun: Collection[int] | None, max_crashes: int | None) -> Recovery:
    """The decision. `begun` are the numbers that a dead worker had begun, negative if they had ended.

    A job that a dead worker had only prefetched gets its attempt back. A begun attempt is spent: the job retries at
    once, or fails as `worker_lost` if none is left. With the `max_crashes`th lost worker it fails as `crash_loop`,
    whatever is left, and its dead letter names these workers. A job that was asked to stop is cancelled.
    """
    if lease.reason is not None and is_cancel_request(lease.reason):
        return Recovery(Trigger.CANCEL, State.CANCELLED, lease.reason, lease.reason)
    if begun is not None and lease.seq not in begun and -lease.seq not in begun:
        return NOT_BEGUN
    if begun is not None and -lease.seq in begun and lease.has_attempts:
        return NOT_SETTLED  # it did not crash its worker
    if max_crashes is not None and lease.crashes + 1 >= max_crashes:
        return CRASHES
    return AGAIN if lease.has_attempts else LOST


class LostError(NamedTuple):
    """The error in the dead letter of a job that lost its worker."""

    message: str
    fingerprint: str


def lost_error(task: str, reason: str, workers: Sequence[str]) -> LostError:
    """`workers` are those that it lost, one after the other, if they were too many."""
    digest = fingerprint_of_lost(task, reason)
    if reason != CRASH_LOOP:
        return LostError(_LOST, digest)
    return LostError(f"{len(workers)} times its worker died or let its lease run out: {', '.join(workers)}", digest)


def lost_text(worker: str | None) -> str:
    """The error in the history of such a job."""
    return f"worker {worker or 'unknown'} died or let its lease run out"
