"""A task with `interrupt` gets an exception at its timeout and may clean up; no other job ever sees it."""

from __future__ import annotations

import random
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    Call,
    Headrace,
    InvalidJob,
    Job,
    JobFailed,
    JobInterrupted,
    PermanentError,
    Retry,
    Snooze,
    Worker,
    current_job,
)
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.runners import interruption
from headrace.runtime.worker.runners.sandbox import Sandbox
from tests.runtime.jobs import shop
from tests.support.gates import SOON, Gate, history_rows, running
from tests.support.waiting import PATIENCE, eventually


def spin() -> None:
    """Work that looks at nothing, in Python."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pass


def events(app: Headrace, job: Job[Any]) -> list[str]:
    return [row.event for row in history_rows(app, job.id)]


def test_the_task_cleans_up_and_the_attempt_is_a_timeout(app: Headrace, worker: Worker) -> None:
    seen: list[object] = []

    @app.task(timeout=0.05, retry=0, interrupt=True)
    def stuck() -> None:
        try:
            spin()
        except JobInterrupted as error:
            seen.extend((str(error), current_job().cancel_requested, current_job().cancel_reason))
            raise
        finally:
            current_job().log("cleaned up")

    job = stuck.enqueue()
    with pytest.raises(JobFailed, match=r"JobTimeout: the attempt ran longer than its timeout of 0\.05 s"):
        job.result(PATIENCE)
    assert seen == ["the attempt has to end; current_job().cancel_reason says why", True, "timed out"]
    assert [line.message for line in job.logs()] == ["cleaned up"]
    assert "in spin" in job.errors[0].traceback
    assert "JobTimeout" in job.errors[0].traceback
    assert events(app, job) == ["fail"]
    eventually(lambda: running(worker) == 0, "the slot is free")


def test_an_interrupted_attempt_is_retried_like_any_that_timed_out(app: Headrace, worker: Worker) -> None:
    @app.task(timeout=0.02, retry=SOON, interrupt=True)
    def stuck() -> int:
        if current_job().attempt < 3:
            spin()
        return current_job().attempt

    job = stuck.enqueue()
    assert job.result(PATIENCE) == 3
    assert [error.type for error in job.errors] == ["JobTimeout"] * 2


def test_an_interrupted_attempt_is_not_retried_where_timeouts_are_final(app: Headrace, worker: Worker) -> None:
    stuck = app.task(name="stuck", timeout=0.02, retry=Retry(limit=3, on_timeout=False), interrupt=True)(spin)
    with pytest.raises(JobFailed, match="permanent_error"):
        stuck.enqueue().result(PATIENCE)


def test_a_task_that_returns_after_the_interrupt_completes(app: Headrace, worker: Worker) -> None:
    @app.task(timeout=0.02, interrupt=True)
    def partial() -> str:
        try:
            spin()
        except JobInterrupted:
            return "partial"
        return "all"

    job = partial.enqueue()
    assert job.result(PATIENCE) == "partial"
    assert job.errors == []


@pytest.mark.parametrize(
    ("error", "state"), [(Snooze(600), "scheduled"), (PermanentError("too large"), "failed"), (OSError(), "retrying")]
)
def test_what_the_task_raises_instead_counts(app: Headrace, worker: Worker, error: Exception, state: str) -> None:
    @app.task(timeout=0.02, interrupt=True, retry=Retry(base=600))
    def stuck() -> None:
        try:
            spin()
        except JobInterrupted:
            raise error from None

    job = stuck.enqueue()
    eventually(lambda: job.refresh().state == state, f"the state {state}")


def test_code_that_catches_all_errors_lets_it_pass(app: Headrace, worker: Worker) -> None:
    @app.task(timeout=0.02, retry=0, interrupt=True)
    def stuck() -> None:
        while True:
            try:
                spin()
            except Exception:
                continue

    assert stuck.enqueue().wait(PATIENCE) == "failed"


def test_a_task_that_ignores_it_is_timed_out_when_its_seconds_are_over(app: Headrace) -> None:
    gate, over = Gate(), threading.Event()

    @app.task(timeout=0.02, retry=0, interrupt=0.05)
    def stubborn() -> str:
        try:
            spin()
        except JobInterrupted:
            gate.pass_through()
        over.set()
        return "too late"

    quick = app.task(name="quick")(lambda: "in time")
    with app.worker(concurrency=1) as worker:
        job = stubborn.enqueue()
        with pytest.raises(JobFailed, match="JobTimeout: the attempt ran longer"):
            job.result(PATIENCE)
        assert quick.enqueue().result(PATIENCE) == "in time"
        gate.open()
        assert over.wait(PATIENCE)
        assert quick.enqueue().result(PATIENCE) == "in time"
        assert running(worker) == 0
    assert events(app, job) == ["fail"]
    assert job.refresh().state == "failed"


def test_a_cleanup_that_takes_long_but_not_too_long_ends_before_the_next_attempt(app: Headrace) -> None:
    steps: list[str] = []

    @app.task(timeout=0.02, retry=SOON, interrupt=60)
    def stuck() -> None:
        number = current_job().attempt
        steps.append(f"{number} begins")
        if number > 1:
            return
        try:
            try:
                spin()
            finally:
                time.sleep(0.05)
                steps.append(f"{number} cleans up")
        finally:
            time.sleep(0.05)
            steps.append(f"{number} ends")

    with app.worker(concurrency=2):
        assert stuck.enqueue().wait(PATIENCE) == "completed"
    assert steps == ["1 begins", "1 cleans up", "1 ends", "2 begins"]


def test_a_task_inside_a_call_that_does_not_return_gets_it_when_the_call_does(app: Headrace, worker: Worker) -> None:
    lock, cleaned = threading.Lock(), threading.Event()

    @app.task(timeout=0.02, retry=0, interrupt=0.02)
    def blocked() -> None:
        try:
            with lock:
                pass
        finally:
            cleaned.set()

    with lock:
        assert blocked.enqueue().wait(PATIENCE) == "failed"
        assert not cleaned.is_set()
    assert cleaned.wait(PATIENCE)


def test_a_cancelled_job_is_interrupted_too(app: Headrace) -> None:
    began, reasons = threading.Event(), []

    @app.task(interrupt=True)
    def stuck() -> None:
        try:
            began.set()
            spin()
        finally:
            reasons.append(current_job().cancel_reason)

    with app.worker(heartbeat=0.1):
        job = stuck.enqueue()
        assert began.wait(PATIENCE)
        job.cancel()
        eventually(lambda: reasons, "the end of the task")
    assert reasons == ["the job was cancelled or its lease is lost"]
    assert job.refresh().state == "cancelled"
    assert job.errors == []


def test_a_job_that_is_released_is_interrupted_and_spends_no_attempt(app: Headrace) -> None:
    began, over = threading.Event(), threading.Event()

    @app.task(interrupt=True)
    def stuck() -> None:
        try:
            began.set()
            spin()
        finally:
            over.set()

    with app.worker(shutdown_timeout=0.02):
        job = stuck.enqueue()
        assert began.wait(PATIENCE)
    assert over.wait(PATIENCE)
    assert (job.refresh().state, job.attempt, job.errors) == ("pending", 0, [])


def test_the_context_of_the_task_is_the_same_while_it_cleans_up(app: Headrace, worker: Worker) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen = []

    @app.task(timeout=0.02, retry=0, interrupt=True)
    def stuck() -> None:
        variable.set("mine")
        try:
            spin()
        finally:
            seen.append((variable.get(), current_job().task))

    assert stuck.enqueue().wait(PATIENCE) == "failed"
    assert seen == [("mine", stuck.name)]
    assert variable.get() == "none"


def test_a_task_that_streams_without_end_is_interrupted_between_two_chunks(app: Headrace, worker: Worker) -> None:
    @app.task(timeout=0.05, retry=0, interrupt=True)
    def endless() -> None:
        number = 0
        try:
            while True:
                current_job().stream(f"{number} ")
                number += 1
        finally:
            current_job().stream("end")

    job = endless.enqueue()
    assert job.wait(PATIENCE) == "failed"
    chunks = "".join(chunk.data for chunk in job.stream()).split()
    assert chunks[-1] == "end"
    assert chunks[:-1] == [str(number) for number in range(len(chunks) - 1)]


def test_hooks_are_not_interrupted_but_see_how_the_task_ended(app: Headrace) -> None:
    left: list[object] = []

    @app.around_attempt
    def around(job: Any) -> Any:
        time.sleep(0.05)
        try:
            yield
        except BaseException as error:
            left.append(type(error).__name__)
            raise

    @app.task(timeout=0.02, retry=0, interrupt=True)
    def never() -> None:
        left.append("began")

    with app.worker():
        job = never.enqueue()
        with pytest.raises(JobFailed, match="JobTimeout"):
            job.result(PATIENCE)
    assert left == ["JobInterrupted"]


def test_where_python_can_not_interrupt_a_task_times_out_like_any_other(
    app: Headrace, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "_raiser", lambda: None)
    gate = Gate()
    stuck = app.task(name="stuck", timeout=0.02, retry=0, interrupt=60)(gate.pass_through)
    with pytest.raises(JobFailed, match="JobTimeout"):
        stuck.enqueue().result(PATIENCE)
    gate.open()


def test_a_single_call_can_not_ask_for_it(app: Headrace) -> None:
    with pytest.raises(InvalidJob, match=r"interrupt: set it for the task, with @app.task\(interrupt=...\)"):
        app.task(shop.pid).using(interrupt=True).enqueue()  # type: ignore[call-arg]


@pytest.mark.parametrize("jobs", [200, pytest.param(4000, marks=pytest.mark.slow)])
def test_no_job_is_hit_by_the_interrupt_of_another(app: Headrace, jobs: int) -> None:
    """Half of the jobs end around their timeout, on few threads that all run the other half as well."""
    stray: list[BaseException] = []
    ends = {"completed": 0, "failed": 0}

    @app.task(timeout=0.005, retry=0, interrupt=True)
    def tight(seconds: float) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "in time"

    @app.task(retry=0)
    def innocent(number: int) -> int:
        try:
            return sum(range(number))
        except BaseException as error:
            stray.append(error)
            raise

    rng = random.Random(7)
    with app.worker(concurrency=3) as worker:
        calls: list[Call[Any]] = [
            call for number in range(jobs // 2) for call in (tight.bind(rng.uniform(0, 0.01)), innocent.bind(number))
        ]
        handles = app.enqueue_many(calls)
        for job in handles[::2]:
            ends[job.wait(PATIENCE)] += 1
            if job.refresh().state == "failed":
                assert [error.type for error in job.errors] == ["JobTimeout"]
        assert [job.result(PATIENCE) for job in handles[1::2]] == [sum(range(number)) for number in range(jobs // 2)]
        eventually(lambda: running(worker) == 0, "the slots are free")
        assert worker.describe().completed + worker.describe().failed == jobs
    assert not stray
    assert ends["completed"] > 0
    assert ends["failed"] > 0


# -- in a process of its own


@pytest.mark.parametrize(
    "function", [shop.sleep_and_clean_up, pytest.param(shop.asleep_and_clean_up, marks=pytest.mark.slow)]
)
def test_a_process_gets_the_exception_first(app: Headrace, folder: Path, function: Any) -> None:
    task = app.task(isolation="process", timeout=0.3, retry=0, interrupt=PATIENCE)(function)
    probe = app.task(isolation="process")(shop.pid)
    with app.worker(concurrency=1):
        pid = probe.enqueue().result(PATIENCE)  # starts the process
        job = task.enqueue(str(folder / "started"), str(folder / "cleaned"))
        with pytest.raises(JobFailed, match=r"JobTimeout: the attempt ran longer than its timeout of 0\.3 s"):
            job.result(PATIENCE)
        assert probe.enqueue().result(PATIENCE) == pid  # it was not killed
    assert (folder / "cleaned").read_text() == "timed out"
    assert "clean_up" in job.errors[0].traceback
    assert events(app, job) == ["fail"]


@pytest.mark.slow
def test_a_process_that_does_not_end_is_killed_after_its_seconds(app: Headrace, folder: Path) -> None:
    started = folder / "started"
    task = app.task(isolation="process", timeout=0.3, retry=0, interrupt=0.1)(shop.ignore_everything_for_ever)
    probe = app.task(isolation="process")(shop.pid)
    with app.worker(concurrency=1):
        pid = probe.enqueue().result(PATIENCE)
        with pytest.raises(JobFailed, match="JobTimeout"):
            task.enqueue(str(started)).result(PATIENCE)
        assert started.read_text() == str(pid)
        assert probe.enqueue().result(PATIENCE) != pid


@pytest.mark.slow
def test_a_process_may_return_what_it_has(app: Headrace) -> None:
    task = app.task(isolation="process", timeout=0.2, retry=0, interrupt=PATIENCE)(shop.return_what_there_is)
    with app.worker(concurrency=1):
        app.task(isolation="process")(shop.pid).enqueue().result(PATIENCE)
        assert task.enqueue().result(PATIENCE) == "partial"


@pytest.mark.slow
def test_a_job_that_reports_in_a_process_leaves_its_pipe_usable(app: Headrace) -> None:
    task = app.task(isolation="process", timeout=0.5, retry=0, interrupt=PATIENCE)(shop.report_until_interrupted)
    probe = app.task(isolation="process")(shop.pid)
    with app.worker(concurrency=1):
        pid = probe.enqueue().result(PATIENCE)
        for _ in range(3):
            with pytest.raises(JobFailed, match="JobTimeout"):
                task.enqueue().result(PATIENCE)
        assert probe.enqueue().result(PATIENCE) == pid


def test_an_interrupt_that_comes_while_a_message_is_sent_follows_it(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = app.task(isolation="process", timeout=0.1, retry=0, interrupt=PATIENCE)(shop.report_until_interrupted)
    probe = app.task(isolation="process")(shop.pid)
    interrupt = Sandbox._interrupt_during

    def during_a_message(self: Sandbox, run: Attempt) -> bool:
        with self._sending:
            return interrupt(self, run)

    monkeypatch.setattr(Sandbox, "_interrupt_during", during_a_message)
    with app.worker(concurrency=1):
        pid = probe.enqueue().result(PATIENCE)
        with pytest.raises(JobFailed, match="JobTimeout"):
            task.enqueue().result(PATIENCE)
        assert probe.enqueue().result(PATIENCE) == pid  # it was not killed


@pytest.mark.parametrize("jobs", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_no_job_of_a_process_is_hit_by_the_interrupt_of_another(
    app: Headrace, jobs: int, caplog: pytest.LogCaptureFixture
) -> None:
    tight = app.task(isolation="process", timeout=0.02, retry=0, interrupt=PATIENCE)(shop.return_after)
    probe = app.task(isolation="process", retry=0)(shop.pid)
    rng = random.Random(7)
    with app.worker(concurrency=1):
        pid = probe.enqueue().result(PATIENCE)
        calls = [call for _ in range(jobs // 2) for call in (tight.bind(rng.uniform(0.01, 0.03)), probe.bind())]
        handles = app.enqueue_many(calls)
        pids = {pid, *(job.result(PATIENCE) for job in handles[1::2])}
        ends = [job.wait(PATIENCE) for job in handles[::2]]
    assert set(ends) <= {"completed", "failed"}
    assert {error.type for job in handles[::2] for error in job.errors} <= {"JobTimeout"}
    # On a busy machine a run may be over before its process has it; the next job then starts another process.
    timeouts = [text for record in caplog.records if "the attempt ran longer" in (text := record.getMessage())]
    early = sum("it is interrupted" not in text and "failed for good" not in text for text in timeouts)
    assert len(pids) <= 1 + early
