"""The maintenance loop: every task gets its turn, none ends the others, and beside jobs it mostly rests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from headrace.errors import EngineUnavailable
from headrace.runtime.maintenance.loop import MaintenanceLoop, MaintenanceTask
from tests.support.waiting import PATIENCE


class Counting:
    """Counts how often it was done; fails the first time if the test says so."""

    def __init__(self, enough: int, pause: float = 0.0, first: Exception | None = None) -> None:
        self.done = 0
        self.is_enough = threading.Event()
        self._enough, self._pause, self._first = enough, pause, first

    def do(self) -> float:
        self.done += 1
        if self.done >= self._enough:
            self.is_enough.set()
        if self._first is not None:
            error, self._first = self._first, None
            raise error
        return self._pause


@pytest.fixture
def loops() -> Iterator[list[MaintenanceLoop]]:
    started: list[MaintenanceLoop] = []
    yield started
    for step_store in started:
        step_store.stop()


def start(loops: list[MaintenanceLoop], *maintenance_tasks: MaintenanceTask, has_jobs: bool = False) -> MaintenanceLoop:
    step_store = MaintenanceLoop(maintenance_tasks, lambda: has_jobs)
    step_store.start()
    loops.append(step_store)
    return step_store


def test_each_task_gets_its_turn_though_one_always_has_more_to_do(loops: list[MaintenanceLoop]) -> None:
    greedy, modest = Counting(5), Counting(3, pause=0.01)
    start(loops, greedy, modest)
    assert greedy.is_enough.wait(PATIENCE)
    assert modest.is_enough.wait(PATIENCE)


@pytest.mark.parametrize("error", [EngineUnavailable("away"), ValueError("a defect")])
def test_a_failing_task_is_retried_and_blocks_no_other_task(
    loops: list[MaintenanceLoop], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.runtime.maintenance.loop._OUTAGE_FIRST", 0.01)
    failing, other = Counting(2, first=error), Counting(3, pause=0.01)
    start(loops, failing, other)
    assert other.is_enough.wait(PATIENCE)
    assert failing.is_enough.wait(PATIENCE)


def test_a_task_that_keeps_failing_is_retried_less_often_though_others_succeed() -> None:
    class Failing:
        def do(self) -> float:
            raise ValueError("a defect")

    failing, well = Failing(), Counting(1)
    step_store, pauses = MaintenanceLoop([failing, well]), list[float]()
    for _ in range(7):
        pauses.append(step_store._guarded(failing))
        step_store._guarded(well)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def rests(monkeypatch: pytest.MonkeyPatch, pieces: int, *, takes: float, pause: float = 0.0, jobs: bool) -> list[float]:
    """How long the loop rests after each of so many pieces, by a clock that moves with its work and waits."""
    now, rested = 0.0, list[float]()

    class Piece:
        def do(self) -> float:
            nonlocal now
            now += takes
            return pause

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal now
            assert timeout is not None
            now += timeout
            rested.append(timeout)
            if len(rested) == 2 * pieces:
                self.set()
            return self.is_set()

    monkeypatch.setattr("headrace.runtime.maintenance.loop.time", SimpleNamespace(monotonic=lambda: now))
    step_store = MaintenanceLoop([Piece()], lambda: jobs)
    step_store._stopping = Stopping()
    step_store._run()
    return rested[1::2]  # before each piece it waits until the piece is wanted


def test_it_rests_longer_beside_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rests(monkeypatch, 3, takes=0.04, jobs=False) == pytest.approx([0.04] * 3)
    assert rests(monkeypatch, 3, takes=0.04, jobs=True) == pytest.approx([0.04 * 19] * 3)


def test_a_task_that_is_behind_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 0.1 s and rests of 1.9 s are a minute after 30 of them."""
    rested = rests(monkeypatch, 35, takes=0.1, jobs=True)
    assert rested[:30] == pytest.approx([1.9] * 30)
    assert rested[32:] == pytest.approx([0.9] * 3)


def test_a_task_that_is_done_is_no_longer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rests(monkeypatch, 40, takes=0.1, pause=0.001, jobs=True) == pytest.approx([1.9] * 40)


def test_it_stops_in_the_middle_of_its_rest() -> None:
    maintenance_task = Counting(1, pause=3600.0)
    step_store = MaintenanceLoop([maintenance_task])
    step_store.start()
    assert maintenance_task.is_enough.wait(PATIENCE)
    step_store.stop()
    assert not step_store._thread.is_alive()


def test_without_tasks_there_is_nothing_to_stop() -> None:
    step_store = MaintenanceLoop([])
    step_store.start()
    step_store.stop()
