"""A worker fires schedules by itself: on time, once, through outages and whatever is wrong with one of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from statistics import median
from typing import Any

import pytest
from msgspec import structs

from headrace import EngineUnavailable, Headrace, Job, QueueFull
from headrace.core.schedules.records import DueSchedules, ScheduleFire
from headrace.runtime.schedules.fire import fire_due
from headrace.runtime.schedules.scheduler import Scheduler
from tests.support.schedules import stored_schedule
from tests.support.waiting import PATIENCE, eventually

LATEST = 2.0  # seconds; a few milliseconds where nothing else runs


@pytest.fixture
def noted(app: Headrace) -> list[str]:
    """The arguments of the task `note`."""
    seen: list[str] = []
    app.task(name="note")(seen.append)
    return seen


@pytest.fixture
def other(app: Headrace, url: str) -> Iterator[Headrace]:
    """Another app on the same store, as in another process; memory:// has none, so there it is the same one."""
    if url == "memory://":
        yield app
        return
    with Headrace(url) as other:
        yield other


def jobs_of(app: Headrace, schedule_id: str) -> list[Job[Any]]:
    return [job for job in app.jobs.find(limit=1000) if job.metadata.get("schedule_id") == schedule_id]


def lateness(job: Job[Any], app: Headrace) -> float:
    """Seconds from the time the job stands for until it was enqueued; the store keeps both by one clock."""
    [run] = [run for run in app.schedules.history(job.metadata["schedule_id"]) if run.job_id == job.id]
    return (job.created_at - run.at).total_seconds()


def test_a_worker_fires_on_time_never_early_and_runs_what_it_fired(app: Headrace, noted: list[str]) -> None:
    with app.worker(concurrency=2):
        app.schedules.create("s", "note", args=("x",), every=0.2, limit=5)  # made while the worker sleeps
        eventually(lambda: len(noted) == 5, "five runs")
    made = jobs_of(app, "s")
    assert len({job.metadata["scheduled_for"] for job in made}) == len(made) == 5
    late = [lateness(job, app) for job in made]
    assert min(late) >= 0
    assert median(late) < LATEST


def test_a_schedule_made_by_another_process_is_seen_at_once(app: Headrace, other: Headrace, noted: list[str]) -> None:
    with app.worker():
        other.schedules.create("s", "note", args=("x",), every=0.1, limit=1)
        eventually(lambda: noted == ["x"], "the run")


def test_a_worker_stores_what_its_code_declares_when_it_starts(app: Headrace) -> None:
    ran = threading.Event()

    @app.every(0.1)
    @app.task
    def beat() -> None:
        ran.set()

    with app.worker():
        assert app.schedules.get("beat").origin == "code", "it is there when start() returns"
        assert ran.wait(PATIENCE)


def test_a_worker_that_only_works_off_what_is_there_fires_nothing(app: Headrace, noted: list[str]) -> None:
    app.schedules.create("s", "note", args=("x",), every=0.1, limit=1)
    app.enqueue("note", "waiting")
    eventually(lambda: (app.engine.schedule_store.due(0).next_at or 0) <= app.clock.now(), "it is due")
    app.run_worker(drain=True)
    assert noted == ["waiting"]
    assert app.schedules.get("s").fired == 0


def test_of_many_workers_exactly_one_fires_an_occurrence(app: Headrace, url: str) -> None:
    apps = [Headrace(url) for _ in range(4)] if url != "memory://" else []
    engines = [each.engine for each in apps] or [app.engine] * 4
    schedule_store = app.engine.schedule_store
    for n in range(20):  # hourly: no second time comes while the first one is fired, however long that takes
        app.schedules.create(f"s{n}", "nobody", every=3600, limit=1)
        row = stored_schedule(schedule_store, f"s{n}")
        assert row is not None
        assert schedule_store.put(structs.replace(row, occurrence=row.created_at, due_at=row.created_at))
    assert len(schedule_store.due(100).rows) == 20
    start, won = threading.Barrier(4), []

    def fire(engine: Any) -> None:
        start.wait(PATIENCE)
        won.append(fire_due(engine).won)

    threads = [threading.Thread(target=fire, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for each in apps:
        each.close()
    assert sum(won) == 20
    assert app.jobs.count() == 20
    assert [len(app.schedules.history(f"s{n}")) for n in range(20)] == [1] * 20


def test_more_than_a_batch_is_fired_without_a_pause(app: Headrace) -> None:
    for n in range(250):
        app.schedules.create(f"s{n}", "nobody", every=0.5, limit=1)
    eventually(lambda: len(app.engine.schedule_store.due(1000).rows) == 250, "all are due")
    with app.worker():
        eventually(lambda: app.jobs.count() == 250, "all are fired")


def test_an_error_of_one_is_recorded_and_the_others_go_on(
    app: Headrace, noted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    app.schedules.create("broken", "note", args=("broken",), every=0.1)
    row = stored_schedule(app.engine.schedule_store, "broken")
    assert row is not None
    app.engine.schedule_store.put(structs.replace(row, timing='{"cron":"nonsense"}'))
    app.schedules.create("sound", "note", args=("sound",), every=0.1, limit=2)
    with app.worker():
        eventually(lambda: noted.count("sound") == 2, "the other one ran")
        eventually(lambda: app.schedules.get("broken").error, "the error is recorded")
    broken = app.schedules.get("broken")
    assert "InvalidSchedule" in str(broken.error)
    assert [run.status for run in app.schedules.history("broken")] == ["error"], "it is pushed on, not tried at once"
    assert "schedule broken can't fire" in caplog.text
    assert app.schedules.update("broken", cron="@daily").error is None, "and it can be mended"


def test_what_can_not_be_read_at_all_can_still_be_looked_at(app: Headrace) -> None:
    app.schedules.create("broken", "note", every=0.1)
    row = stored_schedule(app.engine.schedule_store, "broken")
    assert row is not None
    app.engine.schedule_store.put(structs.replace(row, timing="{", call="["))
    eventually(lambda: fire_due(app.engine).seen == 1, "it is due")
    [shown] = app.schedules.list()
    assert shown.error is not None
    assert [run.status for run in app.schedules.history("broken")] == ["error"]


def test_a_firing_that_the_store_refuses_does_not_take_the_others_along(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "full", "z"):
        app.schedules.create(name, "nobody", every=0.1, limit=1)
    eventually(lambda: len(app.engine.schedule_store.due(10).rows) == 3, "all are due")
    fire = app.engine.schedule_store.fire

    def refusing(firings: list[ScheduleFire], now: int | None = None) -> list[bool]:
        if any(firing.row.id == "full" and firing.jobs for firing in firings):
            raise QueueFull("queue 'default' is full")
        return fire(firings, now)

    monkeypatch.setattr(app.engine.schedule_store, "fire", refusing)
    assert fire_due(app.engine).won == 3
    assert (len(jobs_of(app, "a")), len(jobs_of(app, "full")), len(jobs_of(app, "z"))) == (1, 0, 1)
    held = app.schedules.get("full")
    assert "is full" in str(held.error)
    assert held.next_run is not None, "it stays to be caught up with"


@pytest.mark.engines("sqlite")
def test_an_outage_is_survived_and_declarations_are_made_up_for(
    app: Headrace, noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app.every(0.1, args=("x",), limit=1)(app.tasks["note"])
    away, waits = threading.Event(), threading.Event()
    away.set()
    real = app.engine.schedule_store

    class Away:
        def __getattr__(self, name: str) -> Any:
            if away.is_set():
                if name == "due":
                    waits.set()
                raise EngineUnavailable("the store is away")
            return getattr(real, name)

    monkeypatch.setattr(app.engine, "schedule_store", Away())
    with app.worker():
        assert waits.wait(PATIENCE), "it goes on asking"
        away.clear()
        eventually(lambda: noted == ["x"], "it fires when the store is back")


@pytest.mark.engines("sqlite")
def test_an_outage_is_one_line_of_the_log_and_its_end_another(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(*_: int) -> None:
        raise EngineUnavailable("the store is away")

    scheduler = Scheduler(app.engine, declare)
    with monkeypatch.context() as outage:
        outage.setattr(app.engine.schedule_store, "due", declare)
        pauses = [scheduler._run_guarded() for _ in range(3)]
    scheduler._declare = lambda: None
    scheduler._run_guarded()
    assert pauses == [0.1, 0.2, 0.4]
    assert [record.getMessage().partition(":")[0].partition(" after")[0] for record in caplog.records] == [
        "the store is not available",
        "the store is available again",
    ]
    scheduler._bell.close()


@pytest.mark.engines("sqlite")
def test_an_error_of_the_heartbeat_does_not_end_it(
    app: Headrace, noted: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app.schedules.create("s", "note", args=("x",), every=0.1, limit=1)
    due, stumbled = app.engine.schedule_store.due, threading.Event()

    def stumbling(limit: int, now: int | None = None) -> DueSchedules:
        if not stumbled.is_set():
            stumbled.set()
            raise RuntimeError("a bug")
        return due(limit, now)

    monkeypatch.setattr(app.engine.schedule_store, "due", stumbling)
    with app.worker():
        eventually(lambda: noted == ["x"], "the run")
    assert "scheduler iteration failed" in caplog.text


@pytest.mark.engines("sqlite")
def test_a_declaration_that_can_not_be_stored_does_not_stop_the_worker(
    app: Headrace, noted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def declare() -> None:
        raise ValueError("wrong")

    app.schedules.create("s", "note", args=("x",), every=0.1, limit=1)
    step_store = Scheduler(app.engine, declare)
    step_store.start()
    try:
        eventually(lambda: app.jobs.count() == 1, "it fires")
    finally:
        step_store.stop()
    assert "can't store a schedule declared in code" in caplog.text


@pytest.mark.engines("sqlite")
def test_an_idle_scheduler_hardly_looks(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, asleep = [], threading.Event()
    due, listen = app.engine.schedule_store.due, app.engine.listen

    def counting(limit: int, now: int | None = None) -> DueSchedules:
        looks.append(1)
        return due(limit, now)

    class Pillow:
        """Tells how long its listener wants to sleep, and lets it until it is rung."""

        def __init__(self) -> None:
            self.waits: list[float | None] = []
            self._rung = threading.Event()

        def wait(self, timeout: float | None) -> bool:
            self.waits.append(timeout)
            asleep.set()
            return self._rung.wait(PATIENCE)

        def ring(self) -> None:
            self._rung.set()

        def close(self) -> None: ...

    pillow = Pillow()
    monkeypatch.setattr(app.engine.schedule_store, "due", counting)
    monkeypatch.setattr(
        app.engine, "listen", lambda topic, queues=(): pillow if topic == "schedules" else listen(topic)
    )
    app.schedules.create("far", "nobody", at=app.schedules.preview(cron="@daily", n=1)[0] + timedelta(days=400))
    step_store = Scheduler(app.engine, lambda: None)
    step_store.start()
    assert asleep.wait(PATIENCE)
    step_store.stop()
    assert (len(looks), pillow.waits) == (1, [60.0])


def test_a_scheduler_that_came_too_late_waits_and_one_that_fired_does_not(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.schedules.create("s", "nobody", every=0.1, limit=1)
    eventually(lambda: app.engine.schedule_store.due(1).rows, "it is due")
    step_store = Scheduler(app.engine, lambda: None)
    try:
        with monkeypatch.context() as others:
            others.setattr(app.engine.schedule_store, "fire", lambda firings, now=None: [False] * len(firings))
            assert step_store._run_once() == 0.0
        assert 0 < step_store._delay <= 0.05
        eventually(lambda: step_store._run_once() == 0.0, "its moment comes all the same")
        assert step_store._delay == 0.0
        assert app.jobs.count() == 1
    finally:
        step_store._bell.close()


def test_no_thread_is_left_behind(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with app.worker():
        assert any(thread.name == "headrace-scheduler" for thread in threading.enumerate())
    assert not any(thread.name == "headrace-scheduler" for thread in threading.enumerate())
    assert caplog.records == []
