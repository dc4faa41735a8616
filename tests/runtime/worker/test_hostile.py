"""Hostile tasks and bad timing: the worker, its slots and the other jobs survive."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace, JobFailed, Retry, Snooze, Worker, current_job
from headrace.runtime.worker.runners import event_loop as looping
from tests.support.gates import Gate
from tests.support.waiting import PATIENCE, eventually


def still_works(app: Headrace) -> bool:
    """Whether jobs of both kinds get through, as many at a time as there are slots."""
    plain = app.task(name="plain-probe")(lambda: "plain")

    async def probe() -> str:
        return "async"

    coroutine = app.task(name="async-probe")(probe)
    jobs = [task.enqueue() for task in (plain, coroutine) for _ in range(8)]
    return {job.result(PATIENCE) for job in jobs} == {"plain", "async"}


def test_a_job_that_comes_back_while_a_beat_is_under_way_stays_held(app: Headrace) -> None:
    """The beat took down the lease before; what it finds lost must not be taken for the lease of now."""
    runs: dict[int, int] = {}

    @app.task
    def again(n: int) -> int:
        runs[n] = runs.get(n, 0) + 1
        if runs[n] < 60:
            raise Snooze(0)
        return n

    with app.worker(concurrency=4) as worker:
        jobs = [again.enqueue(n) for n in range(4)]
        later = [again.using(delay=3600).enqueue(100 + n) for n in range(200)]
        for job in later:  # each cancel makes every worker beat
            job.cancel()
        assert [job.result(PATIENCE) for job in jobs] == [0, 1, 2, 3]
        assert {job.refresh().row.crashes for job in jobs} == {0}
        eventually(lambda: not worker._worker_state.held(), "nothing held")


def test_a_cancelled_and_revived_job_is_not_lost_with_its_old_run(app: Headrace) -> None:
    gate = Gate()

    @app.task
    def hold() -> str:
        gate.pass_through()
        return "done"

    with app.worker(concurrency=2) as worker:
        job = hold.enqueue()
        gate.wait_until_reached()
        assert job.cancel()
        assert job.retry()
        eventually(lambda: app.jobs.get(job.id).state == "running", "the new run")
        gate.open()
        assert job.result(PATIENCE) == "done"
        assert (job.refresh().attempt, job.row.crashes) == (1, 0)
        eventually(lambda: not worker._worker_state.held(), "nothing held")


def test_a_subtask_that_exits_does_not_end_the_event_loop(app: Headrace) -> None:
    @app.task(retry=0)
    async def bad() -> None:
        async def leave() -> None:
            sys.exit("goodbye")

        await asyncio.create_task(leave())

    @app.task
    async def good() -> str:
        await asyncio.sleep(0)
        return "fine"

    with app.worker():
        with pytest.raises(JobFailed, match="SystemExit"):
            bad.enqueue().result(PATIENCE)
        assert good.enqueue().result(PATIENCE) == "fine"


def test_coroutines_cancelled_by_another_job_have_failed_and_keep_no_slot(app: Headrace) -> None:
    started = threading.Semaphore(0)

    @app.task(retry=0, timeout=None)
    async def sleeper() -> None:
        started.release()
        await asyncio.sleep(3600)

    @app.task
    async def assassin() -> int:
        victims = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in victims:
            task.cancel()
        return len(victims)

    with app.worker(concurrency=4):
        jobs = [sleeper.enqueue() for _ in range(3)]
        for _ in jobs:
            assert started.acquire(timeout=PATIENCE)
        assert assassin.enqueue().result(PATIENCE) >= 3
        for job in jobs:
            with pytest.raises(JobFailed, match="CancelledError"):
                job.result(PATIENCE)
        assert still_works(app)


def test_a_success_that_the_store_refuses_is_not_counted(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    job = app.task(name="late")(gate.pass_through).enqueue()
    with app.worker() as worker:
        gate.wait_until_reached()
        assert job.cancel()
        gate.open()
        eventually(lambda: "late succeed was refused" in caplog.text, "the refusal")
        assert worker.completed == 0


def test_a_coroutine_that_ignores_its_cancellation_loses_its_slot(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looping, "_GRACE", 0.05)
    over = threading.Event()

    @app.task(retry=0, timeout=0.05)
    async def stubborn() -> None:
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    with app.worker(concurrency=2):
        for job in [stubborn.enqueue(), stubborn.enqueue()]:
            assert job.wait(PATIENCE) == "failed"
        assert still_works(app)
        over.set()


class Evil(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_whatever_escapes_a_task_or_its_backoff_costs_no_thread(app: Headrace) -> None:
    def leave(attempt: int, error: BaseException) -> float:
        sys.exit("no")

    @app.task(retry=Retry(backoff=leave))
    def bad() -> None:
        raise OSError("first")

    @app.task(retry=0)
    def odd() -> None:
        raise Evil

    with app.worker(concurrency=1):
        for job in [bad.enqueue(), odd.enqueue(), bad.enqueue(), odd.enqueue()]:
            assert job.wait(PATIENCE) == "failed"
        assert still_works(app)


def test_a_crashed_sandbox_is_noticed_although_its_child_holds_the_pipe(app: Headrace, folder: Path) -> None:
    from tests.runtime.jobs import shop

    task = app.task(name="forks_and_dies", isolation="process", timeout=None, retry=0)(shop.fork_and_die)
    with app.worker():
        job = task.enqueue(str(folder / "grandchild"))
        try:
            with pytest.raises(JobFailed, match="signal 9"):
                job.result(PATIENCE)
        finally:
            os.kill(int((folder / "grandchild").read_text()), signal.SIGKILL)


def test_bulk_retry_revives_each_job_once_even_if_it_is_over_again(app: Headrace, worker: Worker) -> None:
    task = app.task(name="quick")(lambda: None)
    jobs = app.enqueue_many([task.bind() for _ in range(2500)])
    for job in jobs:
        job.wait(PATIENCE)
    assert app.jobs.retry(task="quick", state="completed") == 2500


def test_a_paused_worker_gives_back_what_it_had_only_fetched(app: Headrace) -> None:
    gate = Gate()
    task = app.task(name="held")(gate.pass_through)
    quick = app.task(name="quick")(lambda: None)
    with app.worker(concurrency=1, prefetch=1000) as worker:
        for job in app.enqueue_many([quick.bind() for _ in range(3000)]):  # now it knows that jobs are short
            job.wait(PATIENCE)
        held = task.enqueue()
        gate.wait_until_reached()
        later = app.enqueue_many([quick.bind() for _ in range(50)])
        worker.pause()
        eventually(lambda: app.queue("default").length() == 50, "all of them pending")
        gate.open()
        held.wait(PATIENCE)
        time.sleep(0.1)
        assert {job.refresh().state for job in later} == {"pending"}
        worker.resume()
        for job in later:
            assert job.wait(PATIENCE) == "completed"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "allowed_pkg"
    root.mkdir()
    (root / "__init__.py").touch()
    (root / "__main__.py").write_text("import sys; sys.exit('executed')")
    (root / "leaves.py").write_text("import sys; sys.exit('imported')")
    (root / "tools.py").write_text("from os import system, getcwd\nclass Thing: ...\ndef own(): return 'own'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return root


@pytest.mark.parametrize(
    "name", ["__main__.x", "leaves.x", "tools.system", "tools.getcwd", "tools.Thing", "tools.__doc__", "tools.missing"]
)
def test_only_functions_of_listed_modules_are_importable(package: Path, name: str) -> None:
    with Headrace("memory://", importable=("allowed_pkg",)) as app:
        assert app.find_task(f"allowed_pkg.{name}") is None
        with app.worker():
            job = app.enqueue(f"allowed_pkg.{name}")
            assert app.enqueue("allowed_pkg.tools.own").result(PATIENCE) == "own"
            assert (job.refresh().state, job.attempt) == ("pending", 0)
            assert "knows task" in job.why()


def test_an_argument_may_be_called_self(app: Headrace, worker: Worker) -> None:
    def about(**facts: Any) -> Any:
        return facts

    assert app.task(about).enqueue(self=1, task=2).result(PATIENCE) == {"self": 1, "task": 2}


def test_a_lease_not_renewed_in_time_stops_the_job_and_the_version_decides_about_its_result(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, reasons = Gate(), []

    @app.task
    def long() -> str:
        ctx = current_job()
        gate.pass_through()
        eventually(lambda: ctx.cancel_requested, "the request to stop")
        reasons.append(ctx.cancel_reason)
        return "finished all the same"

    monkeypatch.setattr(app.engine, "reap", lambda *_, **__: [])  # no worker takes the job when its lease has expired
    with app.worker(lease=1, heartbeat=0.05) as worker:
        job = long.enqueue()
        gate.wait_until_reached()

        def away(*_: Any, **__: Any) -> Any:
            raise EngineUnavailable("away")

        with monkeypatch.context() as outage:
            outage.setattr(app.engine, "renew", away)
            gate.open()
            eventually(lambda: reasons, "the job stopped")
        assert re.fullmatch(r"no lease renewal for \d+ s", reasons[0] or "")
        assert job.result(PATIENCE) == "finished all the same", "no other worker had taken it meanwhile"
        assert not worker._worker_state.held()


def test_a_ring_during_an_outage_is_not_lost(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store goes away after the claim of a turn: the next turn is put off, and a ring comes meanwhile."""
    task = app.task(name="task")(lambda: "done")
    reap, outage = app.engine.reap, threading.Event()

    def away_once(*args: Any, **named: Any) -> Any:
        if outage.is_set():
            return reap(*args, **named)
        outage.set()
        raise EngineUnavailable("away")

    monkeypatch.setattr(app.engine, "reap", away_once)
    with app.worker():
        assert outage.wait(PATIENCE)
        assert task.enqueue().result(30) == "done", "long before an idle worker looks by itself"
