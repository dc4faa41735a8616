"""A cancelled job ends at once: an unstarted one never starts, a running one is stopped and can't write."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from headrace import Headrace, JobCancelled, LeaseLost, Retry, Worker, current_job
from tests.runtime.jobs import shop
from tests.support.gates import SOON, Gate, history_rows, through
from tests.support.waiting import PATIENCE, eventually


def test_a_job_that_waits_is_cancelled_and_never_runs(app: Headrace, kind: str) -> None:
    gate = Gate()
    task = app.task(name="held")(through(kind, gate))
    jobs = [task.enqueue(), task.using(delay=3600).enqueue()]
    assert [job.cancel() for job in jobs] == [True, True]
    assert [job.state for job in jobs] == ["cancelled", "cancelled"]
    assert all(job.finished_at is not None for job in jobs)
    with app.worker():
        probe = app.task(name="probe")(lambda: None).enqueue()
        probe.wait(PATIENCE)
    assert not gate.reached.is_set()
    for job in jobs:
        with pytest.raises(JobCancelled, match="cancelled"):
            job.result(0)


def test_cancelling_what_is_over_changes_nothing(app: Headrace, worker: Worker) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.enqueue(1, 2)
    job.wait(PATIENCE)
    assert job.cancel() is False
    assert job.result(0) == 3

    again = add.using(delay=60).enqueue(1, 2)
    assert (again.cancel(), again.cancel()) == (True, False)


def test_a_failed_job_stays_failed_when_it_is_cancelled(app: Headrace, worker: Worker) -> None:
    @app.task(retry=0)
    def wrong() -> None:
        raise ValueError("no")

    job = wrong.enqueue()
    job.wait(PATIENCE)
    assert job.cancel() is False
    assert job.state == "failed"


def test_a_retry_that_is_due_later_can_be_cancelled(app: Headrace, worker: Worker) -> None:
    @app.task(retry=Retry(limit=1, base=3600))
    def flaky() -> None:
        raise OSError("away")

    job = flaky.enqueue()
    eventually(lambda: job.refresh().state == "retrying", "the retry")
    assert job.cancel()
    assert job.state == "cancelled"
    assert len(job.errors) == 1


def test_a_running_thread_gets_a_stop_request_and_its_result_is_refused(app: Headrace, worker: Worker) -> None:
    gate, stopped, reasons = Gate(), threading.Event(), []

    @app.task
    def long() -> str:
        ctx = current_job()
        gate.pass_through()
        eventually(lambda: ctx.cancel_requested, "the request to stop")
        reasons.append(ctx.cancel_reason)
        with pytest.raises(LeaseLost, match="stop working on it"):
            ctx.heartbeat()
        stopped.set()
        return "finished all the same"

    job = long.enqueue()
    gate.wait_until_reached()
    assert job.cancel()
    assert job.state == "cancelled"  # at once, not when the thread has noticed
    gate.open()
    assert stopped.wait(PATIENCE)
    with pytest.raises(JobCancelled):
        job.result(PATIENCE)
    assert reasons == ["the job was cancelled or its lease is lost"]
    eventually(lambda: len(history_rows(app, job.id)) == 2, "the refusal of what it returned")
    assert [str(history_row.event) for history_row in history_rows(app, job.id)] == ["cancel", "lease_lost"]
    assert job.refresh().state == "cancelled"


def test_a_thread_that_notices_nothing_frees_its_place(app: Headrace) -> None:
    gate = Gate()
    with app.worker(concurrency=1):
        job = app.task(name="held")(through("thread", gate)).enqueue()
        gate.wait_until_reached()
        assert job.cancel()
        assert app.task(name="next")(lambda: "ran").enqueue().result(PATIENCE) == "ran"
        gate.open()


def test_a_running_coroutine_is_cancelled_and_may_clean_up(app: Headrace) -> None:
    gate, cleaned = Gate(), threading.Event()

    @app.task(retry=SOON)
    async def long() -> None:
        try:
            await gate.apass_through()
        except asyncio.CancelledError:
            cleaned.set()
            raise

    with app.worker(concurrency=1):
        job = long.enqueue()
        gate.wait_until_reached()
        assert job.cancel()
        assert cleaned.wait(PATIENCE)
        assert app.task(name="next")(lambda: "ran").enqueue().result(PATIENCE) == "ran"
    assert job.refresh().state == "cancelled"


def test_a_running_process_is_killed(app: Headrace, worker: Worker, folder: Path) -> None:
    started = folder / "started"
    job = app.task(isolation="process")(shop.ignore_everything_for_ever).enqueue(str(started))
    eventually(lambda: started.exists() and started.read_text(), "the start")
    assert job.cancel()
    eventually(lambda: not Path(f"/proc/{started.read_text()}").exists(), "the process's end")
    assert job.refresh().state == "cancelled"


def test_a_task_may_cancel_the_job_it_is(app: Headrace, worker: Worker) -> None:
    done = threading.Event()

    @app.task
    def rash() -> str:
        assert app.jobs.get(current_job().id).cancel()
        done.set()
        return "too late"

    job = rash.enqueue()
    assert done.wait(PATIENCE)
    with pytest.raises(JobCancelled):
        job.result(PATIENCE)


def test_what_was_fetched_ahead_and_cancelled_does_not_begin(app: Headrace) -> None:
    gate, ran = Gate(), []

    @app.task
    def short() -> None: ...

    @app.task
    def victim(number: int) -> None:
        ran.append(number)

    held = app.task(name="held")(through("thread", gate))
    with app.worker(concurrency=1) as worker:
        # Short jobs first, so that the worker dares to fetch ahead; what comes behind the gate waits in its hands.
        app.enqueue_many([short.bind() for _ in range(2000)])
        app.enqueue_many([held.bind(), *(victim.bind(n) for n in range(20))])
        gate.wait_until_reached()
        assert app.jobs.cancel(task="victim") == 20
        eventually(lambda: all(claim.task != "victim" for claim in worker.held()), "the worker's knowledge of it")
        gate.open()
        assert app.task(name="last")(lambda: "ran").enqueue().result(PATIENCE) == "ran"
    assert ran == []
    assert app.jobs.count(task="victim", state="cancelled") == 20


def test_many_jobs_are_cancelled_at_once_running_or_not(app: Headrace, kind: str) -> None:
    gate = Gate()
    held = app.task(name="held")(through(kind, gate))
    with app.worker(concurrency=2) as worker:
        jobs = [held.enqueue() for _ in range(10)]
        eventually(lambda: worker.describe().running == 2, "two runs")
        assert app.jobs.cancel(task="held") == 10
        assert {job.refresh().state for job in jobs} == {"cancelled"}
        assert app.task(name="next")(lambda: "ran").enqueue().result(PATIENCE) == "ran"
        gate.open()
