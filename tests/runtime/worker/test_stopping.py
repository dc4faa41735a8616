"""A worker that stops finishes what it can, gives the rest back unspent, and leaves nothing running or held."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from headrace import EngineUnavailable, Headrace, HeadraceError, current_job
from headrace.runtime.worker.heartbeat import Heartbeat
from tests.runtime.jobs import shop
from tests.support.gates import Gate, history_rows, running, through
from tests.support.waiting import PATIENCE, eventually


def test_a_graceful_stop_lets_jobs_finish_and_records_them(app: Headrace, kind: str) -> None:
    gate = Gate()
    worker = app.worker(concurrency=2).start()
    task = app.task(name="held")(through(kind, gate, lambda: "done"))
    jobs = [task.enqueue(), task.enqueue()]
    waiting = [task.enqueue() for _ in range(3)]
    eventually(lambda: running(worker) == 2, "two runs")
    worker.request_stop(PATIENCE)
    assert not worker.join(0.05)
    gate.open()
    assert worker.join(PATIENCE)
    assert [job.result(0) for job in jobs] == ["done", "done"]
    assert [(job.refresh().state, job.attempt) for job in waiting] == [("pending", 0)] * 3


def test_what_does_not_finish_in_time_is_released_and_spends_no_attempt(app: Headrace, kind: str) -> None:
    gate = Gate()
    worker = app.worker(concurrency=1, shutdown_timeout=10 * PATIENCE).start()
    job = app.task(name="held")(through(kind, gate, lambda: "done")).enqueue()
    gate.wait_until_reached()
    worker.stop(patience=0.05)  # not the 15 minutes of its settings
    assert (job.refresh().state, job.attempt, job.errors) == ("pending", 0, [])
    assert [(str(history_row.event), history_row.detail) for history_row in history_rows(app, job.id)] == [
        ("release", "its worker was stopped")
    ]
    gate.open()
    with app.worker():
        assert job.result(PATIENCE) == "done"
        assert job.attempt == 1


def test_a_released_thread_gets_a_stop_request_and_its_late_result_is_dropped(app: Headrace) -> None:
    gate, over = Gate(), threading.Event()
    reasons = []

    @app.task
    def stubborn() -> str:
        gate.pass_through()
        reasons.append(current_job().cancel_reason)
        over.set()
        return "too late"

    worker = app.worker().start()
    job = stubborn.enqueue()
    gate.wait_until_reached()
    worker.stop(patience=0)
    gate.open()
    assert over.wait(PATIENCE)
    assert reasons == ["the worker stops"]
    assert job.refresh().state == "pending"


def test_a_released_coroutine_is_cancelled_and_may_clean_up(app: Headrace) -> None:
    gate, cleaned = Gate(), threading.Event()

    @app.task
    async def long() -> None:
        try:
            await gate.apass_through()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned.set()
            raise

    worker = app.worker().start()
    job = long.enqueue()
    gate.wait_until_reached()
    worker.stop(patience=0)
    assert cleaned.is_set()
    assert job.refresh().state == "pending"


def test_a_released_process_is_killed(app: Headrace, folder: Path) -> None:
    started = folder / "started"
    worker = app.worker().start()
    job = app.task(isolation="process")(shop.sleep_for_ever).enqueue(str(started))
    eventually(lambda: started.exists() and started.read_text(), "the start")
    worker.stop(patience=0)
    eventually(lambda: not Path(f"/proc/{started.read_text()}").exists(), "the process's end")
    assert (job.refresh().state, job.attempt) == ("pending", 0)


def test_what_was_fetched_ahead_is_given_back(app: Headrace) -> None:
    gate = Gate()
    short = app.task(name="short")(lambda: None)
    held = app.task(name="held")(through("thread", gate))
    worker = app.worker(concurrency=1).start()
    app.enqueue_many([short.bind() for _ in range(2000)])
    jobs = app.enqueue_many([held.bind(), *(short.bind() for _ in range(100))])
    gate.wait_until_reached()
    worker.request_stop(PATIENCE)
    eventually(lambda: {job.refresh().state for job in jobs[1:]} == {"pending"}, "the giving back")
    assert {job.attempt for job in jobs[1:]} == {0}
    gate.open()
    assert worker.join(PATIENCE)
    assert app.jobs.count(state="running") == 0
    with app.worker():
        assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 101


def test_a_long_job_does_not_hold_those_that_were_fetched_behind_it(app: Headrace) -> None:
    gate = Gate()
    short = app.task(name="short")(lambda: None)
    held = app.task(name="held")(through("thread", gate))
    with app.worker(concurrency=1):
        app.enqueue_many([short.bind() for _ in range(2000)])
        jobs = app.enqueue_many([held.bind(), *(short.bind() for _ in range(50))])
        gate.wait_until_reached()
        with app.worker(concurrency=1):
            assert [job.wait(PATIENCE) for job in jobs[1:]] == ["completed"] * 50
        gate.open()
        assert jobs[0].wait(PATIENCE) == "completed"


def test_after_its_share_of_jobs_a_worker_asks_to_be_replaced(app: Headrace) -> None:
    task = app.task(name="noop")(lambda: "ran")
    jobs = [task.enqueue() for _ in range(10)]
    worker = app.worker(max_jobs=3).start()
    assert worker.join(PATIENCE)
    assert worker.recycle
    done = [job for job in jobs if job.refresh().state == "completed"]
    assert len(done) == 3, "exactly as many, although it fetches ahead"
    assert {(job.state, job.attempt) for job in jobs if job not in done} == {("pending", 0)}


def test_a_worker_that_is_stopped_does_not_ask_to_be_replaced(app: Headrace) -> None:
    worker = app.worker(max_jobs=1000).start()
    worker.stop()
    assert not worker.recycle


def test_a_worker_that_uses_too_much_memory_asks_to_be_replaced(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.process.memory.resident_megabytes", lambda: 500.0)
    worker = app.worker(max_memory=400).start()
    assert worker.join(PATIENCE)
    assert worker.recycle
    assert worker.stopped.is_set()


def test_a_worker_that_could_not_start_leaves_nothing_at_work(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Heartbeat) -> None:
        raise RuntimeError("can't start new thread")

    before = set(threading.enumerate())
    worker = app.worker()
    with monkeypatch.context() as short:
        short.setattr(Heartbeat, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            worker.start()
    assert worker.join(PATIENCE)
    worker.stop()
    assert app.engine.queries.workers() == []
    eventually(
        lambda: (
            not {
                t
                for t in set(threading.enumerate()) - before
                if t.name in ("headrace-scheduler", "headrace-maintenance")
            }
        ),
        "the end of all",
    )
    with app.worker():
        assert len(app.engine.queries.workers()) == 1


def test_stopping_twice_or_before_the_start_is_no_harm(app: Headrace) -> None:
    worker = app.worker().start()
    worker.stop()
    worker.stop()
    with pytest.raises(HeadraceError, match="has stopped"):
        worker.start()
    app.worker().stop()


def test_a_second_stop_hurries_the_first(app: Headrace, kind: str) -> None:
    gate = Gate()
    worker = app.worker().start()
    job = app.task(name="held")(through(kind, gate)).enqueue()
    gate.wait_until_reached()
    worker.request_stop(3600)
    worker.request_stop(0)
    assert worker.join(PATIENCE)
    assert job.refresh().state == "pending"
    gate.open()


def test_a_stopped_worker_is_forgotten_and_holds_no_lease(app: Headrace, kind: str) -> None:
    with app.worker() as worker:
        app.task(name="noop")(lambda: None).enqueue().wait(PATIENCE)
        assert [info.id for info in app.workers()] == [worker.id]
    assert app.workers() == []
    assert app.jobs.count(state="running") == 0
    assert repr(worker) == f"<Worker {worker.id} stopped>"


def test_an_error_inside_the_with_still_stops_the_worker(app: Headrace) -> None:
    with pytest.raises(RuntimeError, match="the test's own"), app.worker() as worker:
        raise RuntimeError("the test's own")
    assert worker.stopped.is_set()


def test_draining_ends_by_itself_when_nothing_is_due(app: Headrace) -> None:
    task = app.task(name="noop")(lambda: None)
    jobs = [task.enqueue() for _ in range(50)]
    later = task.using(delay=3600).enqueue()
    assert app.run_worker(drain=True, concurrency=2) == 0
    assert {job.refresh().state for job in jobs} == {"completed"}
    assert later.refresh().state == "scheduled"


def test_at_most_one_means_one(app: Headrace) -> None:
    task = app.task(name="noop")(lambda: None)
    jobs = [task.enqueue() for _ in range(5)]
    assert app.run_worker(drain=True, at_most=1) == 0
    assert sum(job.refresh().state == "completed" for job in jobs) == 1
    assert app.jobs.count(state="running") == 0


def test_join_returns_even_if_the_stop_fails(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(worker_id: str) -> None:
        raise OSError("no more")

    raised = threading.Event()
    monkeypatch.setattr("threading.excepthook", lambda args: raised.set())
    worker = app.worker().start()
    monkeypatch.setattr(app.engine, "unregister_worker", broken)
    worker.request_stop()
    assert worker.join(PATIENCE)
    assert raised.wait(PATIENCE), "the hook of pytest must not get it"


@pytest.mark.engines("sqlite")
def test_a_worker_that_starts_while_the_store_is_away_begins_when_it_is_back(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.runtime.worker.wait_for_store.OUTAGE_FIRST", 0.01)
    refusals = [EngineUnavailable("it is away"), EngineUnavailable("it is away")]
    unregister_worker = app.engine.unregister_worker

    def refuse_first(worker_id: str) -> None:
        if refusals:
            raise refusals.pop()
        unregister_worker(worker_id)

    monkeypatch.setattr(app.engine, "unregister_worker", refuse_first)

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    with caplog.at_level("WARNING", "headrace.store"), app.worker():
        assert add.enqueue(1, 2).result(PATIENCE) == 3
    begin, end = [record.getMessage() for record in caplog.records]
    assert begin == "the store is not available: it is away; trying again"
    assert end.startswith("the store is available again after ")


@pytest.mark.engines("sqlite")
def test_a_worker_that_waits_for_its_store_can_be_stopped(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    called = threading.Event()

    def refuse(worker_id: str) -> None:
        called.set()
        raise EngineUnavailable("it is away")

    monkeypatch.setattr(app.engine, "unregister_worker", refuse)
    worker = app.worker()
    starting = threading.Thread(target=worker.start)
    starting.start()
    assert called.wait(PATIENCE)
    worker.stop()
    starting.join(PATIENCE)
    assert not starting.is_alive()


@pytest.mark.engines("sqlite")
def test_a_permanent_error_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("no database " * 1000)
    with (
        Headrace(f"sqlite:///{tmp_path}/jobs.db") as app,
        pytest.raises(EngineUnavailable, match="choose another file"),
    ):
        app.worker().start()


@pytest.mark.engines("sqlite")
def test_a_worker_that_has_not_started_has_done_nothing_and_takes_no_commands(app: Headrace) -> None:
    worker = app.worker()
    assert (worker.completed, worker.failed, worker.is_stalled) == (0, 0, False)
    for command in (worker.pause, worker.resume):
        with pytest.raises(HeadraceError, match="has not started"):
            command()
    worker.stop()
