"""Runs everything that is due, one job after the other, in the caller's thread."""

from __future__ import annotations

from headrace import Headrace
from headrace.core.jobs.records import Claim
from headrace.errors import HeadraceError
from headrace.testing.clock import VirtualClock
from headrace.testing.runner import InlineAttempt, InlineWorker


def drain(app: Headrace, *, limit: int = 10_000) -> int:
    """Run what is due by the app's clock, and what becomes due by it; how many attempts that were.

    Schedules fire first, as with a worker that comes back after a while; those that code declares began when the
    VirtualClock did. Queues take their turns by name, jobs by priority and age. A failed attempt is retried here only
    once its time has come, so `clock.advance(60)` and drain again. After `limit` attempts it raises: some job enqueues
    itself for ever. A job of an unknown task raises UnknownTask.
    """
    shift = InlineWorker(app)
    ran = 0
    _store_declared(app)
    while (claim := shift.next()) is not None:
        if ran == limit:
            shift.give_back(claim)
            raise _endless(limit, claim)
        InlineAttempt(shift, claim).run()
        ran += 1
    return ran


async def adrain(app: Headrace, *, limit: int = 10_000) -> int:
    """Like drain(), for async tests: coroutines run on the test's own event loop, others block it."""
    shift = InlineWorker(app)
    ran = 0
    _store_declared(app)
    while (claim := shift.next()) is not None:
        if ran == limit:
            shift.give_back(claim)
            raise _endless(limit, claim)
        await InlineAttempt(shift, claim).arun()
        ran += 1
    return ran


def _store_declared(app: Headrace) -> None:
    """As a worker does when it starts. A clock that was moved since the test began has let that much time pass."""
    if app.schedules.declared:
        app.schedules.sync(since=app.clock.begun if isinstance(app.clock, VirtualClock) else None)


def _endless(limit: int, claim: Claim) -> HeadraceError:
    return HeadraceError(
        f"drain() ran {limit} attempts and jobs are still due, next one of task {claim.task!r}; "
        "does a job enqueue itself for ever? If so many are right, raise `limit`"
    )
