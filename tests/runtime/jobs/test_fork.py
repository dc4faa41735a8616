"""A fork is a new job that begins at a step of a finished one, and keeps what was done before that step."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, JobNotFound, PermanentError, State, current_job
from headrace.core.jobs.states import Trigger
from headrace.testing import drain

KEY = f"k:{base64.b64encode(b'k' * 32).decode()}"


class Report:
    """A job of three steps, and a sleep and an event between them."""

    def __init__(self, app: Headrace) -> None:
        self.done: list[str] = []
        self.is_broken = False
        self.task: Any = app.task(name="report", retry=0)(self._report)

    def do(self, what: str) -> str:
        self.done.append(what)
        return f"{what} {len(self.done)}"

    def _report(self, customer: str) -> list[Any]:
        job = current_job()
        read = job.step("read", self.do, "read")
        by = job.wait_event("approved")
        drawn = job.step("draw", self.do, "draw")
        if self.is_broken:
            raise PermanentError("the printer is on fire")
        return [customer, read, by, drawn, job.step("print", self.do, "print")]


@pytest.fixture
def report(app: Headrace) -> Report:
    return Report(app)


def finished(app: Headrace, report: Report) -> Any:
    job = report.task.using(priority=7, tags=["monthly"], unique=True).enqueue("ann")
    app.signal(job, "approved", "bob")
    drain(app)
    assert job.refresh().is_finished
    report.done.clear()
    return job


def test_a_completed_job_is_run_anew_from_a_step(app: Headrace, report: Report) -> None:
    job = finished(app, report)
    fork = app.jobs.fork(job, from_step="draw")
    assert (fork.id != job.id, fork.state, fork.attempt) == (True, State.PENDING, 0)
    drain(app)
    assert fork.result() == ["ann", "read 1", "bob", "draw 1", "print 2"]
    assert report.done == ["draw", "print"]
    assert job.refresh().result() == ["ann", "read 1", "bob", "draw 2", "print 3"]
    assert (fork.task, fork.queue, fork.priority, fork.tags) == (job.task, job.queue, 7, ("monthly",))
    assert fork.correlation_id == job.correlation_id
    entries = [(entry.event, entry.message) for entry in fork.history()]
    assert (Trigger.UPDATE, f"forked from job {job.id} at step 'draw'") in entries


def test_a_failed_job_is_run_anew_from_its_last_step(app: Headrace, report: Report) -> None:
    report.is_broken = True
    job = finished(app, report)
    report.is_broken = False
    fork = app.jobs.fork(job.id, from_step="draw")
    drain(app)
    assert fork.result()[:3] == ["ann", "read 1", "bob"]
    assert job.refresh().state is State.FAILED


def test_without_a_step_nothing_is_kept(app: Headrace, report: Report) -> None:
    fork = app.jobs.fork(finished(app, report))
    drain(app)
    assert app.signal(fork, "approved", "eve")
    drain(app)
    assert fork.result() == ["ann", "read 1", "eve", "draw 2", "print 3"]


def test_an_unknown_step_is_refused_and_the_others_are_named(app: Headrace, report: Report) -> None:
    job = finished(app, report)
    with pytest.raises(InvalidJob, match="has no finished step 'mail'; it has 'read', 'draw', 'print'"):
        app.jobs.fork(job, from_step="mail")
    assert app.jobs.count(task="report") == 1


def test_a_job_that_is_not_finished_is_refused(app: Headrace, report: Report) -> None:
    job = report.task.enqueue("ann")
    with pytest.raises(InvalidJob, match="is pending; only a finished job can be forked"):
        app.jobs.fork(job)
    with pytest.raises(JobNotFound):
        app.jobs.fork("none")


def test_a_step_that_was_undone_runs_again(app: Headrace) -> None:
    done: list[str] = []
    undo = app.task(name="undo")(done.append)

    @app.task(name="pay", retry=0)
    def pay() -> None:
        job = current_job()
        job.step("check", done.append, "check")
        for what in ("debit", "credit"):
            job.step(what, done.append, what)
            job.compensate(what, undo.bind(f"no {what}"))
        raise PermanentError("no")

    job = pay.enqueue()
    drain(app)
    assert done == ["check", "debit", "credit", "no credit", "no debit"]
    with pytest.raises(InvalidJob, match="has no finished step 'credit'; it has 'check'"):
        app.jobs.fork(job, from_step="credit")


def test_what_died_between_the_copy_and_its_start_is_run_by_a_retry(
    app: Headrace, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = finished(app, report)
    with monkeypatch.context() as patched:
        patched.setattr(app.services, "move", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            app.jobs.fork(job, from_step="print")
    [copy] = [one for one in app.jobs.find(task="report") if one.id != job.id]
    assert (copy.state, copy.reason) == (State.CANCELLED, "forked")
    assert copy.retry()
    drain(app)
    assert copy.result() == ["ann", "read 1", "bob", "draw 2", "print 1"]


def test_encrypted_steps_are_kept(url: str) -> None:
    with Headrace(url, encryption_keys=(KEY,)) as app:
        report = Report(app)
        fork = app.jobs.fork(finished(app, report), from_step="print")
        drain(app)
        assert fork.result() == ["ann", "read 1", "bob", "draw 2", "print 1"]


def test_a_coroutine_forks(app: Headrace, report: Report) -> None:
    async def fork_it(job: Any) -> Any:
        return await app.jobs.afork(job, from_step="print")

    fork = asyncio.run(fork_it(finished(app, report)))
    drain(app)
    assert fork.result()[0] == "ann"


def test_a_fork_undoes_its_own_steps_only(app: Headrace) -> None:
    done: list[str] = []
    undo = app.task(name="undo")(done.append)
    is_broken = False

    @app.task(name="pay", retry=0)
    def pay() -> None:
        job = current_job()
        for what in ("debit", "credit"):
            job.step(what, done.append, what)
            job.compensate(what, undo.bind(f"no {what}"))
        if is_broken:
            raise PermanentError("no")

    job = pay.enqueue()
    drain(app)
    is_broken = True
    fork = app.jobs.fork(job, from_step="credit")
    drain(app)
    assert fork.refresh().state is State.FAILED
    assert done == ["debit", "credit", "credit", "no credit"]
