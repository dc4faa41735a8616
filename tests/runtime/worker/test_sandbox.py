"""A task in a sandbox reports like any other, and a crash of the sandbox harms no other job."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace, JobFailed, ResultUnavailable, Retry, Worker
from headrace.runtime.worker.runners.sandbox import Sandbox
from tests.runtime.jobs import shop
from tests.support.gates import Gate
from tests.support.processes import is_gone
from tests.support.waiting import PATIENCE, eventually


def process(app: Headrace, function: Any, **options: Any) -> Any:
    return app.task(isolation="process", **options)(function)


def test_it_runs_elsewhere_and_the_process_is_used_again(app: Headrace) -> None:
    with app.worker(concurrency=1):
        pid = process(app, shop.pid)
        found = [pid.enqueue().result(PATIENCE) for _ in range(3)]
    assert os.getpid() not in found
    assert len(set(found)) == 1


def test_a_coroutine_may_run_there_too(app: Headrace, worker: Worker) -> None:
    assert process(app, shop.async_pid).enqueue().result(PATIENCE) != os.getpid()


def test_one_call_may_use_a_sandbox(app: Headrace, worker: Worker) -> None:
    pid = app.task(shop.pid)
    assert pid.enqueue().result(PATIENCE) == os.getpid()
    assert pid.using(isolation="process").enqueue().result(PATIENCE) != os.getpid()


def test_the_job_reports_through_the_wall(app: Headrace, worker: Worker) -> None:
    report = process(app, shop.report, timeout=60).using(metadata={"who": "ann"})
    job = report.enqueue()
    found = job.result(PATIENCE)
    assert (found["id"], found["attempt"], found["metadata"]) == (job.id, 1, {"who": "ann"})
    assert found["deadline"] > datetime.now(UTC)
    assert job.progress == {"step": 1}
    (line,) = job.logs()
    assert (line.level, line.message) == ("warning", "hello from the sandbox")
    assert line.fields["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ("snooze", "scheduled", "not now"),
        ("later", "retrying", "attempt 1 of 4 failed"),
        ("cancel", "cancelled", "no longer wanted ?"),
        ("permanent", "failed", "permanent_error"),
    ],
)
def test_the_task_steers_its_job_from_there(app: Headrace, worker: Worker, how: str, state: str, reason: str) -> None:
    job = process(app, shop.steer).enqueue(how)
    eventually(lambda: job.refresh().state == state, f"the state {state}")
    assert job.reason == reason


def test_its_retries_are_those_of_the_task(app: Headrace, worker: Worker) -> None:
    job = process(app, shop.steer, retry=Retry(limit=2, backoff=[0.001], floor=0)).enqueue("error")
    with pytest.raises(JobFailed, match="OSError: away"):
        job.result(PATIENCE)
    assert len(job.errors) == 3
    assert "in steer" in job.errors[0].traceback


def test_its_error_quotes_no_secret_of_the_task_or_the_call(app: Headrace, worker: Worker) -> None:
    refuse = process(app, shop.refuse, redact=("card",))
    job = refuse.using(redact=("pin",)).enqueue("4111-1111", "471123")
    job.wait(PATIENCE)
    (error,) = job.errors
    assert error.message == "no money on *** with ***"
    assert "4111" not in error.traceback


def test_a_crash_fails_the_attempt_and_the_next_job_gets_a_new_process(app: Headrace) -> None:
    with app.worker(concurrency=1):
        job = process(app, shop.crash, retry=0).enqueue()
        with pytest.raises(JobFailed, match="SandboxCrashed: its process ended with signal 9"):
            job.result(PATIENCE)
        assert process(app, shop.pid, retry=0).enqueue().result(PATIENCE) != os.getpid()


def test_a_task_that_exits_ends_its_own_process_only(app: Headrace, worker: Worker) -> None:
    job = process(app, shop.leave, retry=0).enqueue(3)
    with pytest.raises(JobFailed, match="exit"):
        job.result(PATIENCE)
    assert process(app, shop.pid).enqueue().result(PATIENCE) != os.getpid()


def test_a_process_that_died_between_two_jobs_is_not_the_second_ones_fault(app: Headrace, folder: Path) -> None:
    with app.worker(concurrency=1):
        victim = process(app, shop.die_later).enqueue(str(folder / "now")).result(PATIENCE)
        (folder / "now").touch()
        eventually(lambda: _is_dead(victim), "the process's end")
        assert process(app, shop.pid, retry=0).enqueue().result(PATIENCE) != victim


def _is_dead(pid: int) -> bool:
    """Whether this child of ours has ended with all its threads, reaped or not."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


@pytest.mark.parametrize("isolation", ["process", "thread"])
def test_the_forked_copy_of_a_job_settles_nothing(app: Headrace, isolation: Any) -> None:
    forks = app.task(isolation=isolation, retry=0)(shop.fork_and_return)
    pid = app.task(isolation=isolation, retry=0)(shop.pid)
    with app.worker(concurrency=1):
        jobs = app.enqueue_many([call for number in range(1, 4) for call in (forks.bind(number), pid.bind())])
        results = [job.result(PATIENCE) for job in jobs]
    assert results[::2] == [1, 2, 3]
    assert len(set(results[1::2])) == 1
    assert [job.attempt for job in jobs] == [1] * 6


def test_what_a_job_started_ends_with_its_process(app: Headrace, folder: Path) -> None:
    with app.worker(shutdown_timeout=0.1):
        process(app, shop.leave_a_child_behind, retry=0).enqueue(str(folder / "child"))
        eventually(lambda: (folder / "child").exists() and (folder / "child").read_text(), "the child is there")
    eventually(lambda: is_gone(int((folder / "child").read_text())), "its end")


def test_a_function_that_can_not_be_imported_there_fails_with_the_reason(app: Headrace, worker: Worker) -> None:
    @app.task(isolation="process", retry=0)
    def local() -> None: ...

    with pytest.raises(JobFailed, match="needs a module-level one"):
        local.enqueue().result(PATIENCE)


def test_an_object_that_has_no_name_to_import_fails_and_the_worker_goes_on(app: Headrace, worker: Worker) -> None:
    class Callable_:  # noqa: N801
        def __call__(self) -> None: ...

    job = app.task(name="nameless", isolation="process", retry=0)(Callable_()).enqueue()
    assert job.wait(PATIENCE) == "failed"
    assert process(app, shop.pid).enqueue().result(PATIENCE) != os.getpid()


def test_a_result_that_can_not_leave_the_process_leaves_the_job_completed(app: Headrace, worker: Worker) -> None:
    job = process(app, shop.unstorable).enqueue()
    with pytest.raises(ResultUnavailable):
        job.result(PATIENCE)
    assert job.state == "completed"


def test_stopping_the_worker_ends_its_processes(app: Headrace) -> None:
    with app.worker(concurrency=1):
        pid = process(app, shop.pid).enqueue().result(PATIENCE)
        assert not _is_dead(pid)
    eventually(lambda: _is_dead(pid), "the process's end")


def test_a_process_that_was_still_starting_when_its_worker_stopped_is_ended_too(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, start = Gate(), Sandbox.__init__
    starting: list[tuple[Sandbox, threading.Thread]] = []

    def start_late(self: Sandbox) -> None:
        starting.append((self, threading.current_thread()))
        gate.pass_through()
        start(self)

    monkeypatch.setattr(Sandbox, "__init__", start_late)
    with app.worker(concurrency=1) as worker:
        job = process(app, shop.pid).enqueue()
        gate.wait_until_reached()
        worker.stop(0)
    gate.open()
    ((sandbox, thread),) = starting
    thread.join(PATIENCE)
    was_left = sandbox.is_fit
    sandbox.reap()  # or this process, too, would wait for it at its end
    assert not was_left
    assert (job.refresh().state, job.attempt, job.errors) == ("pending", 0, [])


def test_its_steps_sleeps_and_events_are_kept_for_it(app: Headrace, worker: Worker, tmp_path: Path) -> None:
    job = process(app, shop.in_steps, retry=Retry(limit=2, backoff=[0.001], floor=0)).enqueue(str(tmp_path))
    eventually(lambda: job.refresh().reason == "waits for event 'go'", "the wait")
    assert app.signal(job, "go", {1, 2})
    assert job.result(PATIENCE) == ["first", "second", {1, 2}]
    assert (tmp_path / "done").read_text().split() == ["first", "second"]
    assert job.attempt == 2
    assert process(app, shop.async_in_steps).enqueue().result(PATIENCE) != os.getpid()


def test_a_step_of_a_job_that_ended_there_is_not_taken_for_the_next_ones(app: Headrace, tmp_path: Path) -> None:
    with app.worker(concurrency=1):
        first = process(app, shop.lingering_step).enqueue(str(tmp_path))
        assert first.result(PATIENCE) == "ended"
        second = process(app, shop.let_go).enqueue(str(tmp_path))
        second.result(PATIENCE)
    assert [app.engine.queries.details(job.id).steps for job in (first, second)] == [[], []]


def test_a_store_that_stays_unavailable_raises_in_the_job(
    app: Headrace, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> bool:
        raise EngineUnavailable("the store is away")

    monkeypatch.setattr(worker, "save_step", away)
    with pytest.raises(JobFailed, match="EngineUnavailable: the store is away"):
        process(app, shop.in_steps, retry=0).enqueue(str(tmp_path)).result(PATIENCE)
