"""The keeper: every chore gets its turn, none ends the others, and beside jobs it rests for most of the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from headrace.errors import EngineUnavailable
from headrace.runtime.keeper import Chore, Keeper

WITHIN = 20.0


class Counting:
    """Counts how often it was done; fails the first time if it is told to."""

    def __init__(self, enough: int, pause: float = 0.0, takes: float = 0.0, first: Exception | None = None) -> None:
        self.done = 0
        self.is_enough = threading.Event()
        self._enough, self._pause, self._takes, self._first = enough, pause, takes, first

    def do(self) -> float:
        self.done += 1
        if self.done >= self._enough:
            self.is_enough.set()
        if self._takes:
            time.sleep(self._takes)
        if self._first is not None:
            error, self._first = self._first, None
            raise error
        return self._pause


@pytest.fixture
def keepers() -> Iterator[list[Keeper]]:
    started: list[Keeper] = []
    yield started
    for keeper in started:
        keeper.stop()


def start(keepers: list[Keeper], *chores: Chore, has_jobs: bool = False) -> Keeper:
    keeper = Keeper(chores, lambda: has_jobs)
    keeper.start()
    keepers.append(keeper)
    return keeper


def test_each_chore_gets_its_turn_though_one_always_wants_more(keepers: list[Keeper]) -> None:
    greedy, modest = Counting(5), Counting(3, pause=0.01)
    start(keepers, greedy, modest)
    assert greedy.is_enough.wait(WITHIN)
    assert modest.is_enough.wait(WITHIN)


@pytest.mark.parametrize("error", [EngineUnavailable("away"), ValueError("a defect")])
def test_a_chore_that_fails_is_tried_again_and_keeps_nobody_from_his_own(
    keepers: list[Keeper], error: Exception
) -> None:
    failing, other = Counting(2, first=error), Counting(3, pause=0.01)
    start(keepers, failing, other)
    assert other.is_enough.wait(WITHIN)
    assert failing.is_enough.wait(WITHIN)


def test_a_chore_that_goes_on_failing_is_tried_less_and_less_often_though_others_do_well() -> None:
    class Failing:
        def do(self) -> float:
            raise ValueError("a defect")

    failing, well = Failing(), Counting(1)
    keeper, pauses = Keeper([failing, well]), list[float]()
    for _ in range(7):
        pauses.append(keeper._guarded(failing))
        keeper._guarded(well)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_it_rests_longer_beside_jobs(keepers: list[Keeper]) -> None:
    took = {}
    for has_jobs in (False, True):
        chore = Counting(4, takes=0.04)
        began = time.monotonic()
        start(keepers, chore, has_jobs=has_jobs)
        assert chore.is_enough.wait(WITHIN)
        took[has_jobs] = time.monotonic() - began
    assert took[True] > 3 * 0.04 * 19
    assert took[False] < took[True]


def test_a_chore_that_is_behind_is_given_more_time(keepers: list[Keeper], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.keeper._BEHIND_AFTER", 0.0)
    monkeypatch.setattr("headrace.runtime.keeper._REST_IF_BEHIND", 0.0)
    monkeypatch.setattr("headrace.runtime.keeper._REST_BESIDE_JOBS", 1000.0)
    behind = Counting(20, takes=0.01)
    start(keepers, behind, has_jobs=True)
    assert behind.is_enough.wait(WITHIN)  # with the longest rest after each it would take twice as long


def test_a_chore_that_is_done_is_no_longer_behind(keepers: list[Keeper], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.keeper._BEHIND_AFTER", 0.0)
    monkeypatch.setattr("headrace.runtime.keeper._REST_IF_BEHIND", 1000.0)
    monkeypatch.setattr("headrace.runtime.keeper._REST_BESIDE_JOBS", 0.0)
    done = Counting(20, takes=0.01, pause=0.001)
    start(keepers, done, has_jobs=True)
    assert done.is_enough.wait(WITHIN)


def test_it_stops_in_the_middle_of_its_rest() -> None:
    chore = Counting(1, pause=3600.0)
    keeper = Keeper([chore])
    keeper.start()
    assert chore.is_enough.wait(WITHIN)
    began = time.monotonic()
    keeper.stop()
    assert time.monotonic() - began < 4.0


def test_without_chores_there_is_nothing_to_stop() -> None:
    keeper = Keeper([])
    keeper.start()
    keeper.stop()
