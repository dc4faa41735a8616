"""kill -9 and SIGSTOP at any moment: nothing is lost, nothing counts twice, and history tells what happened."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace, Job, State, Unique
from tests.faults import worker_app as crew_app
from tests.faults.conftest import stop_while_it_does_not_write
from tests.support.processes import is_gone
from tests.support.waiting import PATIENCE, eventually


def _app(url: str) -> Headrace:
    """The workers' own app, here as the producer; read anew, so that it opens this test's store."""
    app: Headrace = importlib.reload(crew_app).app
    assert app.settings.url == url
    return app


@pytest.mark.parametrize("jobs", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_storm_of_kills_loses_nothing_and_doubles_nothing(
    fleet: SimpleNamespace, url: str, chance: random.Random, jobs: int
) -> None:
    with _app(url) as app:
        touch = app.task_by_name("touch")
        stored = app.enqueue_many([touch.bind(n) for n in range(jobs)])
        workers = [fleet.start(concurrency=4) for _ in range(4)]
        kills, before = 0, 0
        deadline = time.monotonic() + 4 * PATIENCE
        while (done := app.jobs.count(state="completed")) < jobs:
            assert time.monotonic() < deadline, app.queues()
            time.sleep(jobs / 70_000)
            if done < before + min(300, jobs // 7):  # whoever kills them while they start sees none of them at work
                continue
            before = done
            victim = chance.randrange(4)
            workers[victim].kill()
            workers[victim].wait()
            workers[victim] = fleet.start(concurrency=4)
            kills += 1
        assert kills >= 3, "the storm was over before it began"

        [queue] = app.queues()
        assert (queue.completed, queue.running, queue.pending, queue.failed) == (jobs, 0, 0, 0)
        for job, n in zip(stored[:: jobs // 500], range(0, jobs, jobs // 500), strict=True):
            assert job.result(1) == n * 2
        lost = 0
        for job in _all(app):
            crashes = job.row.crashes
            assert job.row.lease_until is None
            assert job.attempt == crashes + 1, "every attempt but the last one is explained by a kill"
            if crashes:
                lost += crashes
                history = job.history()
                assert sum(entry.event == "succeed" for entry in history) == 1
                assert sum(entry.event == "lease_expired" for entry in history) == crashes
        assert lost <= kills * 4, "a kill costs at most the attempts that were really under way"


def _all(app: Headrace) -> Iterator[Job[Any]]:
    cursor = None
    while True:
        page = app.jobs.find(limit=5_000, cursor=cursor)
        yield from page
        if (cursor := page.cursor) is None:
            return


def test_a_killed_workers_job_is_finished_by_another_within_moments(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        first = fleet.start()
        eventually((tmp_path / "began-1").exists)
        first.kill()
        (tmp_path / "go-2").touch()
        before = time.monotonic()
        fleet.start()
        assert job.result(PATIENCE) == "attempt 2"
        assert time.monotonic() - before < 25, "the lease of 30 s was waited for, though the worker is known dead"
        assert [entry.event for entry in job.history()] == ["submit", "claim", "lease_expired", "claim", "succeed"]
        assert job.errors[0].type == "WorkerLost"


def test_a_job_that_may_run_once_runs_once_though_its_worker_dies_before_its_end_is_stored(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        calls = [{"task": "once", "args": [str(tmp_path), number, 60]} for number in range(200)]
        jobs: list[Job[None]] = app.enqueue_many(calls)
        assert fleet.start(concurrency=2).wait(PATIENCE) == -signal.SIGKILL
        fleet.start(concurrency=2)
        for job in jobs:
            job.wait(PATIENCE)
        ran = (tmp_path / "traces").read_text().split()
        assert len(ran) == len(set(ran)), "none of them ran twice"
        failed = [job for job in jobs if job.state is State.FAILED]
        assert {job.row.reason for job in failed} == {"worker_lost"}
        unheard = {str(number) for number, job in enumerate(jobs) if job.state is State.COMPLETED} - set(ran)
        assert not unheard, "none completed that did not run"


@pytest.mark.slow
def test_a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        stopped = fleet.start(lease=3, heartbeat=0.5)
        eventually((tmp_path / "began-1").exists)
        stop_while_it_does_not_write(stopped, url)
        (tmp_path / "go-1").touch()
        fleet.start(lease=900, heartbeat=0.5)
        eventually((tmp_path / "began-2").exists, what="the second attempt")
        stopped.send_signal(signal.SIGCONT)
        eventually(
            lambda: any(entry.event == "lease_lost" for entry in job.history()), what="'lease_lost' in the history"
        )
        assert job.refresh().state == "running"
        (tmp_path / "go-2").touch()
        assert job.result(PATIENCE) == "attempt 2"
        assert job.refresh().attempt == 2


def test_a_job_that_kills_its_workers_is_quarantined_with_the_evidence(fleet: SimpleNamespace, url: str) -> None:
    with _app(url) as app:
        job = app.enqueue("poison")
        dead = [fleet.start(max_crashes=3) for _ in range(1)]
        for _ in range(2):
            dead[-1].wait(PATIENCE)
            dead.append(fleet.start(max_crashes=3))
        dead[-1].wait(PATIENCE)
        fleet.start(max_crashes=3)
        assert job.wait(PATIENCE) is State.FAILED
        assert job.row.reason == "crash_loop"
        assert (job.attempt, job.row.crashes, job.max_attempts) == (3, 3, 21)
        assert len(job.errors) == 3
        dead_letter = app.dead.get(job.id)
        assert dead_letter.reason == "crash_loop"
        told = [f"-{process.pid}-" in worker for process, (_, worker) in zip(dead, dead_letter.crashes, strict=True)]
        assert told == [True, True, True], dead_letter.crashes
        assert app.enqueue("touch", 4).result(PATIENCE) == 8, "the next worker lives"


@pytest.mark.slow
def test_a_sandboxed_job_does_not_outlive_its_killed_worker(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        app.enqueue("boxed", str(tmp_path))
        worker = fleet.start()
        eventually((tmp_path / "child").exists)
        eventually((tmp_path / "child").read_text, what="the child's pid")
        child = int((tmp_path / "child").read_text())
        worker.kill()
        eventually(partial(is_gone, child), what="the end of the sandbox process")


def test_sigterm_lets_jobs_finish_and_burns_no_attempt(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        worker = fleet.start()
        eventually((tmp_path / "began-1").exists)
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert worker.poll() is None, "it waits for the running job"
        (tmp_path / "go-1").touch()
        assert worker.wait(PATIENCE) == 0
        assert job.result(PATIENCE) == "attempt 1"
        assert app.workers() == []


@pytest.mark.slow
def test_a_second_signal_hurries_and_gives_the_job_back(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        worker = fleet.start()
        eventually((tmp_path / "began-1").exists)
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert worker.poll() is None, "it waits for the running job"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
        job.refresh()
        assert (job.state, job.attempt, job.row.releases) == ("pending", 0, 1)
        (tmp_path / "go-1").touch()
        fleet.start()
        assert job.result(PATIENCE) == "attempt 1"


def test_the_supervisor_restarts_a_killed_worker(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        supervisor = fleet.start(processes=2)
        eventually(lambda: len(app.workers()) == 2, what="two workers")
        victim = app.workers()[0].pid
        assert victim != supervisor.pid
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len({w.pid for w in app.workers()} - {victim}) == 2, what="a replacement")
        assert app.enqueue("touch", 21).result(PATIENCE) == 42
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(PATIENCE) == 0
        assert {worker.pid for worker in app.workers()} <= {victim}, (
            "a killed one is listed until its heartbeats are missed"
        )


def test_workers_stop_when_their_supervisor_is_killed(fleet: SimpleNamespace, url: str) -> None:
    with _app(url) as app:
        supervisor = fleet.start(processes=2)
        eventually(lambda: len(app.workers()) == 2, what="two workers")
        supervisor.kill()
        eventually(lambda: app.workers() == [], what="the workers' own end")


@pytest.mark.slow
def test_a_signal_to_the_whole_group_drains_supervised_workers_and_does_not_hurry_them(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    """Ctrl-C and service managers address every process, and the supervisor passes its own signal on as well."""
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        supervisor = fleet.start(processes=2)
        eventually((tmp_path / "began-1").exists)
        for pid in (supervisor.pid, *(worker.pid for worker in app.workers())):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.5)
        assert supervisor.poll() is None, "it waits for the running job"
        (tmp_path / "go-1").touch()
        assert supervisor.wait(PATIENCE) == 0
        assert job.result(PATIENCE) == "attempt 1"


@pytest.mark.slow
def test_a_second_signal_to_the_supervisor_hurries_its_workers(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        supervisor = fleet.start(processes=2)
        eventually((tmp_path / "began-1").exists)
        supervisor.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(PATIENCE) == 0
        assert (job.refresh().state, job.attempt) == ("pending", 0)


def test_sigusr1_prints_every_stack_and_the_work_goes_on(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        told = tmp_path / "told"
        with told.open("wb") as stderr:
            worker = fleet.start(stderr=stderr)
        eventually((tmp_path / "began-1").exists)
        worker.send_signal(signal.SIGUSR1)
        eventually(lambda: b"in hold" in told.read_bytes(), what="where the job is")
        eventually(lambda: b"heartbeat.py" in told.read_bytes(), what="where the worker's own threads are")
        (tmp_path / "go-1").touch()
        assert job.result(PATIENCE) == "attempt 1"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_busy_worker_may_be_asked_where_it_is_any_number_of_times(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        jobs: list[Job[int]] = app.enqueue_many({"task": "touch", "args": [n]} for n in range(3000))
        with (tmp_path / "told").open("wb") as stderr:
            worker = fleet.start(stderr=stderr, concurrency=4)
        jobs[0].result(PATIENCE)
        asked = 0
        while jobs[-1].refresh().state != "completed" or asked < 100:
            worker.send_signal(signal.SIGUSR1)
            asked += 1
            assert worker.poll() is None, f"died of the {asked}th question"
        worker.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(5)
        worker.send_signal(signal.SIGTERM)  # on ARM, CPython may overlook the second of two that come all but at once
        assert worker.wait(PATIENCE) == 0
        assert {job.refresh().attempt for job in jobs} == {1}


@pytest.mark.slow
def test_a_worker_that_has_run_its_number_of_jobs_is_replaced(fleet: SimpleNamespace, url: str) -> None:
    with _app(url) as app:
        supervisor = fleet.start(max_jobs=5, concurrency=1, prefetch=0)
        workers = Counter[str | None]()
        for n in range(12):
            job = app.enqueue("touch", n)
            assert job.result(PATIENCE) == 2 * n
            workers[job.refresh().worker] += 1
            if n % 5 == 4:
                eventually(partial(_is_gone, app, job.worker), what="the end of a worn-out worker")
        assert list(workers.values()) == [5, 5, 2]
        assert supervisor.poll() is None
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(PATIENCE) == 0


def _is_gone(app: Headrace, worker: str | None) -> bool:
    return worker not in {known.id for known in app.workers()}


def test_a_worker_killed_while_it_stops_a_job_for_the_newest_call_frees_that_call(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with _app(url) as app:
        hold = app.task_by_name("hold").using(unique=Unique(by=("task",), on_conflict="cancel_running"))
        for folder in (old, new):
            folder.mkdir()
        first = hold.enqueue(str(old))
        worker = fleet.start()
        eventually((old / "began-1").exists)
        second = hold.enqueue(str(new))
        assert (first.refresh().state, second.id == first.id) == (State.RUNNING, False)
        worker.kill()
        fleet.start()
        (new / "go-1").touch()
        assert second.result(PATIENCE) == "attempt 1"
        assert first.refresh().state is State.CANCELLED
        assert not (old / "began-2").exists()
        assert [entry.event for entry in first.history()] == ["submit", "claim", "cancel_request", "cancel"]
