"""Runs all due jobs, one after the other, in the calling thread."""

from __future__ import annotations

from headrace import Headrace
from headrace.core.jobs.records import Claim
from headrace.errors import HeadraceError
from headrace.testing.clock import VirtualClock
from headrace.testing.runner import InlineWorker


def drain(app: Headrace, *, limit: int = 10_000) -> int:
    """Run all jobs due by the app's clock, and those that become due by them; returns the number of attempts.

    Schedules fire first, as after a pause of all workers; declared ones begin at the start of the VirtualClock. Queues
    run in order of name, jobs by priority and age. A failed attempt is retried only when it is due, so
    `clock.advance(60)` and drain again. It raises after `limit` attempts, because a job may enqueue itself forever. A
    job of an unknown task raises UnknownTask.
    """
    inline_worker = InlineWorker(app)
    ran = 0
    _store_declared(app)
    while (attempt := inline_worker.next()) is not None:
        if ran + len(attempt.claims) > limit:
            inline_worker.give_back(*attempt.claims)
            raise _endless(limit, attempt.claim)
        attempt.run()
        ran += len(attempt.claims)
    return ran


async def adrain(app: Headrace, *, limit: int = 10_000) -> int:
    """Like drain(), for async tests: coroutines run on the test's own event loop, others block it."""
    inline_worker = InlineWorker(app)
    ran = 0
    _store_declared(app)
    while (attempt := inline_worker.next()) is not None:
        if ran + len(attempt.claims) > limit:
            inline_worker.give_back(*attempt.claims)
            raise _endless(limit, attempt.claim)
        await attempt.arun()
        ran += len(attempt.claims)
    return ran


def _store_declared(app: Headrace) -> None:
    """Store declared schedules, as a worker does at its start, from the start of the clock on."""
    if app.schedules.declared:
        app.schedules.sync(since=app.clock.begun if isinstance(app.clock, VirtualClock) else None)


def _endless(limit: int, claim: Claim) -> HeadraceError:
    return HeadraceError(
        f"drain() ran {limit} attempts and jobs are still due, next one of task {claim.task!r}; "
        "does a job enqueue itself forever? If not, raise `limit`"
    )
