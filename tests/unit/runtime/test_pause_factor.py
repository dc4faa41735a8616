"""How often maintenance tasks run: in the oldest worker as usual, in others seldom, in all less often while idle."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.jobs.records import WorkerRow
from headrace.errors import EngineUnavailable
from headrace.runtime.maintenance.loop import MaintenanceLoop
from headrace.runtime.maintenance.pause_factor import PauseFactor
from headrace.runtime.maintenance.process_stats import ProcessStatsReport
from tests.support.builders import worker_row

NOW = 1_700_000_000_000


class Store:
    """A store with workers, and a clock."""

    def __init__(self) -> None:
        self.workers: list[WorkerRow] = []
        self.reads = 0
        self.is_away = False
        self.clock = SimpleNamespace(now=lambda: NOW)
        self.queries = SimpleNamespace(workers=self._workers)

    def _workers(self) -> list[WorkerRow]:
        self.reads += 1
        if self.is_away:
            raise EngineUnavailable("away")
        return self.workers


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    now = Now()
    monkeypatch.setattr("headrace.runtime.maintenance.pause_factor.time", now)
    return now


class Jobs:
    """As many as a test says; each look finds another one, if they are to be many."""

    def __init__(self, *, many: bool = False) -> None:
        self.many = many
        self.running = False
        self.count = 0

    @property
    def began(self) -> int:
        self.count += self.many
        return self.count

    @began.setter
    def began(self, value: int) -> None:
        self.count = value

    def has_jobs(self) -> bool:
        return self.running


CHORE: Any = SimpleNamespace(do=lambda: 1.0)


def test_the_worker_that_started_first_does_them_as_usual_and_others_seldom(now: Now) -> None:
    store: Any = Store()
    store.workers = [
        worker_row("gone", started_at=NOW - 9000, seen_at=NOW - 3_600_000),
        worker_row("first", started_at=NOW - 5000, seen_at=NOW),
        worker_row("second", started_at=NOW - 4000, seen_at=NOW),
    ]
    first, second = (PauseFactor(store, name, Jobs(many=True)) for name in ("first", "second"))
    now.seconds = 61.0
    assert (first(CHORE), second(CHORE)) == (1.0, 10.0)
    store.workers = store.workers[2:]
    assert second(CHORE) == 10.0, "it asks only now and then"
    now.seconds = 122.0
    assert second(CHORE) == 1.0
    assert store.reads == 3


def test_an_idle_worker_does_them_less_often_until_it_has_a_job(now: Now) -> None:
    store: Any = Store()
    jobs = Jobs()
    pause_factor = PauseFactor(store, "w1", jobs)
    assert pause_factor(CHORE) == 1.0
    now.seconds = 61.0
    assert pause_factor(CHORE) == 12.0
    jobs.count += 1
    assert pause_factor(CHORE) == 1.0
    now.seconds = 120.0
    assert pause_factor(CHORE) == 1.0
    jobs.running = True
    assert pause_factor(CHORE) == 1.0
    now.seconds = 300.0
    assert pause_factor(CHORE) == 1.0, "a job that runs for long is activity as well"


def test_process_stats_are_reported_by_every_worker(now: Now) -> None:
    store: Any = Store()
    store.workers = [worker_row("first", started_at=1, seen_at=NOW)]
    pause_factor, own = PauseFactor(store, "second", Jobs()), ProcessStatsReport(store)
    assert pause_factor(own) == 1.0
    now.seconds = 61.0
    assert pause_factor(own) == 12.0, "and so often that it is not taken for silent"


def test_while_the_store_is_unavailable_tasks_are_tried_as_usual(now: Now) -> None:
    store: Any = Store()
    store.is_away = True
    pause_factor = PauseFactor(store, "w1", Jobs(many=True))
    now.seconds = 61.0
    assert pause_factor(CHORE) == 1.0


def test_the_loop_follows_a_pause_factor_that_changes_while_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, factor, done = Now(), 6.0, list[float]()

    class Stopping:
        def is_set(self) -> bool:
            return len(done) == 2

        def wait(self, timeout: float) -> bool:
            nonlocal factor
            clock.seconds += timeout
            if clock.seconds > 20:
                factor = 1.0
            return self.is_set()

    class Noting:
        def do(self) -> float:
            done.append(clock.seconds)
            return 10.0

    monkeypatch.setattr("headrace.runtime.maintenance.loop.time", clock)
    step_store = MaintenanceLoop([Noting()], pause_factor=lambda maintenance_task: factor)
    step_store._stopping = Stopping()  # type: ignore[assignment]
    step_store._run()
    assert done[1] < 30.0, "not after sixty seconds, as it was when it fell asleep"


def test_a_failed_task_is_retried_in_time_whatever_the_pause_factor() -> None:
    class Failing:
        def do(self) -> float:
            raise ValueError("a defect")

    failing = Failing()
    step_store = MaintenanceLoop([failing], pause_factor=lambda maintenance_task: 100.0)
    assert step_store._due_at((0.0, step_store._guarded(failing), failing)) == 1.0


def test_a_pause_grows_to_ten_hours_and_one_that_is_longer_stays() -> None:
    class Task:
        def do(self) -> float:
            return 0.0

    task = Task()
    step_store = MaintenanceLoop([task], pause_factor=lambda maintenance_task: 60.0)
    due_at = [step_store._due_at((0.0, pause, task)) for pause in (1.0, 60.0, 3600.0, 86_400.0)]
    assert due_at == [60.0, 3600.0, 36_000.0, 86_400.0]
