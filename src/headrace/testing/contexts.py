"""Context managers for tests: run jobs on enqueue, or isolate an app on a fresh store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

from headrace import Headrace, Job
from headrace.app.config import open_engine
from headrace.core.clock import Clock
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import suspension_in
from headrace.core.settings.settings import Settings
from headrace.errors import CancelJob, JobNotFound, RetryLater, Snooze
from headrace.testing.clock import VirtualClock
from headrace.testing.runner import InlineAttempt, InlineWorker

C = TypeVar("C", bound=Clock)

_CONTROL_EXCEPTIONS = (CancelJob, RetryLater, Snooze)


@contextlib.contextmanager
def inline(app: Headrace, *, raise_errors: bool = True) -> Iterator[None]:
    """Inside a `with`, enqueue() runs the job at once, in the calling thread, before it returns.

    Delayed jobs stay scheduled, and failed ones stay retrying: drain() runs them when they are due. The outcome is
    recorded as by a worker. With `raise_errors` the task's exception is raised out of enqueue() as well;
    RetryLater, Snooze and CancelJob are no errors, and neither is a sleep or a wait for an event.
    """

    def run(job: Job[Any]) -> None:
        error = _run_with_dependencies(app, job)
        if error is None or isinstance(error, _CONTROL_EXCEPTIONS) or suspension_in(error) is not None:
            return
        if raise_errors:
            raise error

    with app.intercepting(run):
        yield


def _run_with_dependencies(app: Headrace, job: Job[Any]) -> BaseException | None:
    """Run the job, the jobs that become due by it, and those it waits for; returns the first error."""
    first: BaseException | None = None
    left = [job]
    seen = {job.id}
    while left:
        one = left.pop()
        ran, error = _run_now(app, one)
        first = first or error
        if ran and one.row.has_dependencies:
            related = sorted([*one.parents(), *one.children()], key=lambda other: other.row.seq)
            due = [other for other in related if other.state is State.PENDING and other.id not in seen]
            left += reversed(due)
            seen.update(other.id for other in due)
    if job.state is State.WAITING:  # for jobs it spawned, which have run meanwhile
        with contextlib.suppress(JobNotFound):
            job.refresh()
    return first


def _run_now(app: Headrace, job: Job[Any]) -> tuple[bool, BaseException | None]:
    """Whether it could run, and its error."""
    if job.state is State.WAITING:  # its dependencies may have finished before it was stored
        job.refresh()
    if job.state is not State.PENDING:
        return False, None
    attempt = InlineWorker(app).claim_this(job)
    if attempt is None:  # its queue is paused, or another worker claimed it
        return False, None
    if isinstance(attempt, InlineAttempt):
        attempt.run()
    with contextlib.suppress(JobNotFound):
        job.refresh()
    return True, attempt.error


@overload
def isolated(app: Headrace) -> AbstractContextManager[VirtualClock]: ...
@overload
def isolated(app: Headrace, clock: C) -> AbstractContextManager[C]: ...
def isolated(app: Headrace, clock: Clock | None = None) -> AbstractContextManager[Any]:
    """Inside a `with`, the app and its tasks use a fresh memory:// store: for an app defined in a module.

        with isolated(shop.app) as clock:
            shop.place_order(7)
            drain(shop.app)
            clock.advance(3600)

    The default clock is a new VirtualClock. Afterwards the app uses its own store again.
    """
    return _isolated(app, clock or VirtualClock())


@contextlib.contextmanager
def _isolated(app: Headrace, clock: C) -> Iterator[C]:
    with app.on_another_store(open_engine(Settings(url="memory://"), clock), clock):
        yield clock
