"""A timeout is always recorded, as what it is; a run that is over time can't change its job, nor take its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, Retry, Worker, current_job
from tests.runtime.jobs import shop
from tests.support.gates import SOON, Gate, history_rows, running, through
from tests.support.waiting import PATIENCE, eventually

Register = Callable[..., Any]


def overrun(app: Headrace, kind: str, folder: Path, gate: Gate, **options: Any) -> Any:
    """A job that would run for ever, as a thread, a coroutine or a process."""
    if kind == "process":
        task = app.task(isolation="process", **options)(shop.sleep_for_ever)
        return task.enqueue(str(folder / "started"))
    return app.task(name="overrun", **options)(through(kind, gate)).enqueue()


@pytest.fixture(params=["thread", "async", "process"])
def any_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_timeout_is_recorded_as_the_failure_of_the_attempt(
    app: Headrace, worker: Worker, any_kind: str, folder: Path
) -> None:
    gate = Gate()
    job = overrun(app, any_kind, folder, gate, timeout=0.1, retry=0)
    with pytest.raises(JobFailed, match=r"JobTimeout: the attempt ran longer than its timeout of 0\.1 s") as caught:
        job.result(PATIENCE)
    gate.open()
    assert caught.value.reason == "attempts_used_up"
    assert [error.type for error in job.errors] == ["JobTimeout"]


def test_a_timeout_is_retried_like_any_failure(app: Headrace, worker: Worker, any_kind: str, folder: Path) -> None:
    gate = Gate()
    retry = Retry(limit=1, base=0.001, floor=0)
    job = overrun(app, any_kind, folder, gate, timeout=0.1, retry=retry)
    assert job.wait(PATIENCE) == "failed"
    gate.open()
    assert [(error.attempt, error.type) for error in job.errors] == [(1, "JobTimeout"), (2, "JobTimeout")]


def test_a_timeout_is_final_where_it_is_not_to_be_retried(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()
    job = app.task(name="held", timeout=0.05, retry=Retry(limit=3, on_timeout=False))(through(kind, gate)).enqueue()
    with pytest.raises(JobFailed, match="permanent_error"):
        job.result(PATIENCE)
    gate.open()


@pytest.mark.parametrize("kind", ["thread", "async", "process"])
def test_a_timeout_error_of_the_task_itself_is_distinguished(app: Headrace, worker: Worker, kind: Any) -> None:
    def theirs(how: str = "timeout") -> None:
        raise TimeoutError("the server did not answer")

    async def atheirs(how: str = "timeout") -> None:
        raise TimeoutError("the server did not answer")

    function: Any = {"thread": theirs, "async": atheirs, "process": shop.steer}[kind]
    job = app.task(name="theirs", isolation=kind, retry=0, timeout=60)(function).enqueue("timeout")
    with pytest.raises(JobFailed, match="TimeoutError: the server did not answer"):
        job.result(PATIENCE)
    assert [error.type for error in job.errors] == ["TimeoutError"]


def test_a_thread_over_time_says_where_it_was(app: Headrace, worker: Worker) -> None:
    gate = Gate()

    @app.task(timeout=0.05, retry=0)
    def stuck() -> None:
        gate.pass_through()

    job = stuck.enqueue()
    assert job.wait(PATIENCE) == "failed"
    gate.open()
    assert "in stuck" in job.errors[0].traceback
    assert "pass_through" in job.errors[0].traceback


def test_a_thread_over_time_gives_its_place_to_the_next_job_and_its_late_result_counts_for_nothing(
    app: Headrace,
) -> None:
    gate, over = Gate(), threading.Event()

    @app.task(timeout=0.05, retry=0)
    def stuck() -> str:
        gate.pass_through()
        over.set()
        return "too late"

    @app.task
    def quick() -> str:
        return "in time"

    with app.worker(concurrency=1) as worker:
        job = stuck.enqueue()
        assert quick.enqueue().result(PATIENCE) == "in time"
        assert job.wait(PATIENCE) == "failed"
        gate.open()
        assert over.wait(PATIENCE)
        assert quick.enqueue().result(PATIENCE) == "in time"
        assert running(worker) == 0
    assert job.refresh().state == "failed"
    assert [history_row.event for history_row in history_rows(app, job.id)] == ["fail"]


def test_a_thread_past_its_timeout_gets_a_stop_request_with_the_reason(app: Headrace, worker: Worker) -> None:
    reasons = []

    @app.task(timeout=0.05, retry=0)
    def considerate() -> None:
        ctx = current_job()
        eventually(lambda: ctx.cancel_requested, "the request to stop")
        reasons.append(ctx.cancel_reason)

    assert considerate.enqueue().wait(PATIENCE) == "failed"
    eventually(lambda: reasons, "the task's end")
    assert reasons == ["timed out"]


def test_a_coroutine_over_time_is_cancelled_and_may_clean_up(app: Headrace, worker: Worker) -> None:
    gate, cleaned = Gate(), threading.Event()

    @app.task(timeout=0.05, retry=0)
    async def stuck() -> None:
        try:
            await gate.apass_through()
        finally:
            cleaned.set()

    assert stuck.enqueue().wait(PATIENCE) == "failed"
    assert cleaned.wait(PATIENCE)


def test_without_a_timeout_a_job_may_take_its_time(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()
    deadlines = []
    task = app.task(name="held", timeout=0.05)(through(kind, gate, lambda: deadlines.append(current_job().deadline)))
    job = task.using(timeout=None).enqueue()
    other = app.task(name="other", timeout=0.05, retry=0)(through(kind, Gate())).enqueue()
    assert other.wait(PATIENCE) == "failed"  # its timeout has passed, so the other one's would have as well
    gate.open()
    assert job.wait(PATIENCE) == "completed"
    assert deadlines == [None]


def test_the_timeout_of_a_call_replaces_that_of_its_task(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()
    job = app.task(name="held", timeout=3600, retry=0)(through(kind, gate)).using(timeout=0.05).enqueue()
    with pytest.raises(JobFailed, match=r"timeout of 0\.05 s"):
        job.result(PATIENCE)
    gate.open()


def test_a_setting_of_none_means_no_timeout_at_all(kind: str) -> None:
    with Headrace("memory://", timeout=None) as app:

        @app.task
        def deadline() -> Any:
            return current_job().deadline

        with app.worker():
            assert deadline.enqueue().result(PATIENCE) is None


def test_no_timeout_is_missed_among_many(app: Headrace, kind: str) -> None:
    gate = Gate()
    with app.worker(concurrency=20, heartbeat=25) as worker:
        held = app.task(name="held", timeout=0.02, retry=0)(through(kind, gate))
        jobs = [held.enqueue() for _ in range(100)]
        assert {job.wait(PATIENCE) for job in jobs} == {"failed"}
        assert {job.errors[0].type for job in jobs} == {"JobTimeout"}
        gate.open()
        eventually(lambda: worker.describe().failed == 100, "the count of failures")


def test_an_async_backoff_function_is_asked_about_a_timeout_too(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()
    calls = []

    async def backoff(attempt: int, error: BaseException) -> float:
        calls.append((attempt, type(error).__name__))
        gate.open()
        return 0.001

    job = app.task(name="held", timeout=0.05, retry=Retry(backoff=backoff))(through(kind, gate, lambda: "done"))
    assert job.enqueue().result(PATIENCE) == "done"
    assert calls == [(1, "JobTimeout")]


@pytest.mark.timed
@pytest.mark.slow
def test_a_process_over_time_is_killed_however_stubborn(app: Headrace, worker: Worker, folder: Path) -> None:
    started = folder / "started"
    app.task(isolation="process")(shop.pid).enqueue().result(
        PATIENCE
    )  # starts the process, which takes long under load
    task = app.task(isolation="process", timeout=3, retry=0)(shop.ignore_everything_for_ever)
    job = task.enqueue(str(started))
    eventually(lambda: started.exists() and started.read_text(), "the start")
    assert job.wait(PATIENCE) == "failed"
    eventually(lambda: not Path(f"/proc/{started.read_text()}").exists(), "the process's end")


def test_a_process_that_was_still_starting_at_its_timeout_never_begins(
    app: Headrace, worker: Worker, folder: Path
) -> None:
    started = folder / "started"
    task = app.task(isolation="process", timeout=0.001, retry=0)(shop.sleep_for_ever)
    assert task.enqueue(str(started)).wait(PATIENCE) == "failed"
    probe = app.task(isolation="process")(shop.pid)
    assert isinstance(probe.enqueue().result(PATIENCE), int)  # takes the process over, so it is idle
    assert not started.exists()


@pytest.mark.slow
def test_the_jobs_after_a_timeout_find_a_sound_process(app: Headrace, folder: Path) -> None:
    stuck = app.task(isolation="process", timeout=0.3, retry=SOON)(shop.sleep_for_ever)
    probe = app.task(isolation="process", retry=0)(shop.pid)
    with app.worker(concurrency=1):
        jobs: list[Job[Any]] = [stuck.enqueue(str(folder / "started")), *(probe.enqueue() for _ in range(5))]
        assert [job.wait(PATIENCE) for job in jobs] == ["failed", *["completed"] * 5]
