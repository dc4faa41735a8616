"""The defaults, and how they are changed for a whole app."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import AppClosed, Headrace, Lifecycle, Retry, Worker
from headrace.core.jobs.records import ClaimRequest
from headrace.runtime.retention.policies import policies
from headrace.runtime.worker.supervisor import run_in_process
from headrace.testing import VirtualClock, drain
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.engines("sqlite")


def test_a_short_lease_needs_no_heartbeat() -> None:
    with Headrace("memory://", lease=5) as app:
        assert app.worker()._settings.beat == pytest.approx(5 / 3)
        assert app.worker(lease=0.3)._settings.beat == pytest.approx(0.1)


def test_a_job_that_kills_its_workers_is_found_at_the_third_with_the_default_retry() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        job = app.task(name="deadly")(lambda: None).enqueue()
        for number in range(3):
            assert app.engine.exchange([], ClaimRequest(f"w{number}", 1, 1000)).claims
            clock.advance(60)
            app.engine.reap(10, app.settings.max_crashes)
        job.refresh()
        assert (job.state, job.row.reason, job.row.crashes) == ("failed", "crash_loop", 3)


def test_the_app_says_how_often_its_tasks_are_retried_and_a_task_or_a_call_may_say_otherwise() -> None:
    with Headrace("memory://", retry_limit=5, retry_base=7) as app:
        plain = app.task(name="plain")(lambda: None)
        number = app.task(name="number", retry=2)(lambda: None)
        own = app.task(name="own", retry=Retry(limit=1))(lambda: None)
        assert [task.retry for task in (plain, number, own)] == [
            Retry(limit=5, base=7),
            Retry(limit=2, base=7),
            Retry(limit=1),
        ]
        assert [task.enqueue().max_attempts for task in (plain, number, own)] == [6, 3, 2]
        call = plain.using(retry=1).enqueue()
        assert call.max_attempts == 2
        assert json.loads(call.refresh().row.options or "")["retry"]["base"] == 7
        assert app.task_by_name("elsewhere").enqueue().max_attempts == 6


def test_a_job_waits_as_the_app_says() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock, retry_limit=1, retry_backoff="fixed", retry_base=50, retry_jitter=0) as app:
        runs = []

        @app.task(name="fails")
        def fails() -> None:
            runs.append(clock.now())
            raise OSError

        job = fails.enqueue()
        drain(app)
        clock.advance(49)
        drain(app)
        clock.advance(2)
        drain(app)
        assert len(runs) == 2
        assert job.refresh().state == "failed"


def test_tags_of_a_dict_keep_their_values(app: Headrace) -> None:
    task = app.task(name="t")(lambda: None)
    job = task.using(tags={"env": "prod", "shard": 3}).enqueue()
    assert job.refresh().tags == ("env:prod", "shard:3")
    assert [found.id for found in app.jobs.find(tag="env:prod")] == [job.id]


def test_a_closed_app_takes_no_jobs_until_it_is_entered_again(app: Headrace) -> None:
    task = app.task(name="t")(lambda: None)
    app.close()
    for act in (task.enqueue, lambda: app.enqueue_many([task.bind()]), lambda: _flow(app, task).enqueue()):
        with pytest.raises(AppClosed):
            act()
    with app:
        assert task.enqueue().state == "pending"
    with pytest.raises(RuntimeError):
        task.enqueue()


def _flow(app: Headrace, task: Any) -> Any:
    flow = app.flow("f")
    flow.add(task.bind())
    return flow


def test_a_lifecycle_in_code_counts_at_once() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        strict = app.task(name="strict", lifecycle=Lifecycle(max_pending=60))(lambda: None)
        job = strict.enqueue()
        clock.advance(61)
        assert [one.id for one in app.lifecycle.detect_stale()] == [job.id]
        assert app.lifecycle.policy(task="strict").max_pending == 60
        assert "stale" in job.why()
        assert [one.name for one in app.lifecycle.policies()] == ["strict"]
        brief = app.task(name="brief", lifecycle=Lifecycle(keep_completed=1))(lambda: None)
        brief.enqueue()
        drain(app)
        clock.advance(10)
        assert app.lifecycle.archive().archived == 1
        assert policies(app.engine.document_store) == [], "to look changes nothing"


def test_an_operators_policy_has_precedence_over_the_code(app: Headrace) -> None:
    app.task(name="strict", lifecycle=Lifecycle(max_pending=60))(lambda: None)
    assert app.lifecycle.configure(task="strict", max_pending=5).max_pending == 5
    assert app.lifecycle.reset(task="strict").max_pending == 60


def test_a_supervised_worker_that_stands_still_ends_its_process() -> None:
    class Stuck:
        id = "stuck"
        recycle = False
        is_stalled = False

        def start(self) -> None: ...

        def request_stop(self, patience: float | None = None) -> None: ...

        def join(self, timeout: float) -> bool:
            was_stalled, self.is_stalled = self.is_stalled, True
            return was_stalled and not supervised

    supervised = True
    stuck: Any = Stuck()
    assert run_in_process(stuck, supervised=True) == 1
    supervised, stuck = False, Stuck()
    assert run_in_process(stuck) == 0, "a foreign process is not ended"


def test_a_loop_counts_as_stalled_one_lease_after_that_was_logged(app: Headrace) -> None:
    with app.worker(lease=5) as worker:
        sign = worker._worker_state.loop_liveness
        assert not worker.is_stalled
        sign.expect_within = lambda seconds: None  # type: ignore[method-assign]  # its loop stands still from now on
        sign._due -= 8
        worker._heartbeat._stall_detector.check()  # type: ignore[union-attr]
        assert not worker.is_stalled
        sign._due -= 6
        assert worker.is_stalled


_EXIT = """
import logging, sys, threading
from headrace import Headrace

logging.basicConfig(level=logging.WARNING)
app = Headrace(sys.argv[1], retry_limit=0)
begun = threading.Event()

@app.task(name="long")
def long():
    begun.set()
    threading.Event().wait(60)

worker = app.worker(concurrency=1).start()
job = long.enqueue()
assert begun.wait(60)
print(job.id)
"""


def test_a_program_that_ends_without_stop_gives_its_jobs_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    ran = subprocess.run(
        [sys.executable, "-c", _EXIT, url],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert "the program exits while worker" in ran.stderr
    with Headrace(url) as app:
        job = app.jobs.get(ran.stdout.strip())
        assert (job.state, job.attempt) == ("pending", 0)


def test_a_worker_that_was_stopped_is_not_remembered_until_the_exit(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks: list[Any] = []
    monkeypatch.setattr("headrace.runtime.worker.shutdown.atexit.register", hooks.append)
    monkeypatch.setattr("headrace.runtime.worker.shutdown.atexit.unregister", hooks.remove)
    worker: Worker = app.worker().start()
    assert len(hooks) == 2, "its own, and that of its sandboxes"
    worker.stop()
    assert hooks == []
