"""task.map(), and groups of which only so many jobs run at once: order, failures, and that it is never more."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headrace import FlowRun, Headrace, InvalidJob, JobFailed, Task, chain, group
from headrace.testing import drain
from tests.support.waiting import PATIENCE, eventually

AnyTask = Task[..., Any, Any]
BAD_NUMBERS: list[Any] = [0, -1, 1.5, True, "3"]
BAD_ITEMS: list[Any] = ["abc", b"abc", {"a": 1}, 7, None]


@pytest.fixture
def double(app: Headrace) -> AnyTask:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    return double


@pytest.fixture
def add(app: Headrace) -> AnyTask:
    @app.task
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    return add


class Crowd:
    """Jobs that stay inside until they are let out one by one."""

    def __init__(self, app: Headrace) -> None:
        self._lock = threading.Lock()
        self._may_leave = threading.Semaphore(0)
        self.inside: list[int] = []
        self.most = 0

        @app.task
        def stay(number: int) -> int:
            with self._lock:
                self.inside.append(number)
                self.most = max(self.most, len(self.inside))
            assert self._may_leave.acquire(timeout=PATIENCE), "the test let no job out"
            with self._lock:
                self.inside.remove(number)
            return number

        self.task: AnyTask = stay

    def gathers(self, count: int) -> None:
        eventually(lambda: len(self.inside) == count, f"{count} jobs run")

    def let_out(self, count: int) -> None:
        self._may_leave.release(count)


def states(run: FlowRun) -> list[str]:
    return [job.state.value for job in run.refresh().jobs]


# -- one job for each item


@pytest.mark.parametrize("at_most", [None, 1, 2, 100])
def test_each_item_is_a_job_and_the_results_are_in_their_order(
    app: Headrace, double: AnyTask, at_most: int | None
) -> None:
    run = double.map((number for number in (3, 1, 2)), at_most=at_most)
    assert (run.name, run.progress) == ("double", (0, 3))
    assert [job.args for job in run.jobs] == [(3,), (1,), (2,)]
    drain(app)
    assert (run.result(0), run.state) == ([6, 2, 4], "completed")
    assert app.flows.get(run.id).result(0) == [6, 2, 4]
    assert run.graph()["edges"] == []


def test_one_item_gives_a_list_of_one(app: Headrace, double: AnyTask) -> None:
    run = double.map([7])
    drain(app)
    assert run.result(0) == [14]


def test_no_items_store_nothing_and_give_an_empty_result_at_once(app: Headrace, double: AnyTask) -> None:
    for run in (double.map([]), double.map(iter(()), at_most=3), asyncio.run(double.amap([]))):
        assert (run.result(0), run.state, run.jobs, run.name) == ([], "completed", [], "double")
    assert app.jobs.count() == 0
    assert app.flows.list() == []


def test_a_coroutine_maps_too(app: Headrace, double: AnyTask) -> None:
    run = asyncio.run(double.amap([1, 2], at_most=1))
    drain(app)
    assert run.result(0) == [2, 4]


def test_options_of_the_call_hold_for_every_item(app: Headrace, double: AnyTask) -> None:
    run = double.using(queue="slow", priority=5, concurrency_key="acme", needs=["gpu"]).map([1, 2], at_most=1)
    assert {(job.queue, job.priority) for job in run.jobs} == {("slow", 5)}
    assert len({job.row.lane for job in run.jobs}) == 1
    with app.worker(concurrency=2, capabilities=["gpu"]):
        assert run.result(PATIENCE) == [2, 4]


@pytest.mark.parametrize("items", BAD_ITEMS, ids=repr)
def test_what_is_no_list_is_refused(app: Headrace, double: AnyTask, items: Any) -> None:
    with pytest.raises(InvalidJob, match="map: expected a list"):
        double.map(items)
    assert app.jobs.count() == 0


def test_an_item_that_does_not_fit_stores_nothing(app: Headrace, double: AnyTask) -> None:
    with pytest.raises(InvalidJob, match="double"):
        double.map([1, {2}, lambda: None])
    assert app.jobs.count() == 0


@pytest.mark.parametrize("at_most", BAD_NUMBERS, ids=repr)
def test_a_wrong_number_is_refused(app: Headrace, double: AnyTask, at_most: Any) -> None:
    with pytest.raises(InvalidJob, match="at_most: expected a whole number"):
        double.map([1], at_most=at_most)
    with pytest.raises(InvalidJob, match="at_most: expected a whole number"):
        group(double.bind(1), at_most=at_most)


def test_a_failed_item_is_raised_and_the_others_run(app: Headrace) -> None:
    @app.task(retry=0)
    def invert(number: int) -> float:
        return 1 / number

    run = invert.map([1, 0, 2, 4], at_most=1)
    drain(app)
    assert states(run) == ["completed", "failed", "completed", "completed"]
    assert list(run.results.values()) == [1.0, 0.5, 0.25]
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        run.result(0)


# -- at most so many at once


@pytest.mark.every_engine
def test_never_more_run_at_once_and_the_next_starts_when_any_ends(app: Headrace) -> None:
    crowd = Crowd(app)
    run = crowd.task.map(range(8), at_most=3)
    other = crowd.task.map([100], at_most=3)
    with app.worker(concurrency=4), app.worker(concurrency=4):
        crowd.gathers(4)  # three and the other one: groups do not wait for each other
        crowd.let_out(2)
        eventually(lambda: app.jobs.count(state="completed") == 2)
        crowd.gathers(3 if other.refresh().is_finished else 4)
        crowd.let_out(7)
        assert run.result(PATIENCE) == list(range(8))
        assert other.result(PATIENCE) == [100]
    assert crowd.most == 4


@pytest.mark.every_engine
def test_a_slow_item_holds_up_one_place_only(app: Headrace) -> None:
    gate = threading.Event()

    @app.task
    def work(number: int) -> int:
        if number == 0:
            assert gate.wait(PATIENCE)
        return number

    run = work.map(range(10), at_most=2)
    with app.worker(concurrency=4):
        eventually(lambda: app.jobs.count(state="completed") == 9, "all but the slow one")
        gate.set()
        assert run.result(PATIENCE) == list(range(10))


def test_why_names_the_group(app: Headrace) -> None:
    crowd = Crowd(app)
    run = crowd.task.map([1, 2, 3], at_most=2)
    with app.worker(concurrency=4):
        crowd.gathers(2)
        waiting = next(job for job in run.refresh().jobs if job.state == "pending")
        assert waiting.why() == "Its group may run 2 jobs at the same time, and 2 run now."
        crowd.let_out(3)
        assert run.result(PATIENCE) == [1, 2, 3]


def test_what_follows_a_group_is_not_limited_by_it(app: Headrace, double: AnyTask, add: AnyTask) -> None:
    run = group((double.bind(number) for number in range(4)), at_most=2).then(add.bind()).enqueue()
    lanes = [job.row.lane for job in run.jobs]
    assert len(set(lanes[:4])) == 1
    assert lanes[4] == ""
    drain(app)
    assert run.result(0) == 12


def test_groups_in_groups_are_limited_by_both(app: Headrace, double: AnyTask) -> None:
    inner = group(double.bind(1), chain(double.bind(2), double.bind()), at_most=1)
    run = group(inner, double.bind(3), inner, at_most=2).enqueue()
    lanes = [job.row.lane for job in run.jobs]
    assert len(set(lanes)) == 3, "the outer limit alone, and with that of each inner group"
    drain(app)
    assert run.result(0) == [[2, 8], 6, [2, 8]]


def test_a_retried_group_keeps_its_number(app: Headrace) -> None:
    mended = threading.Event()

    @app.task(retry=0)
    def work(number: int) -> int:
        if not mended.is_set():
            raise ValueError("not yet")
        return number

    run = work.map([1, 2], at_most=1)
    drain(app)
    lanes = [job.row.lane for job in run.refresh().jobs]
    mended.set()
    assert run.retry() == 2
    assert [job.row.lane for job in run.refresh().jobs] == lanes
    drain(app)
    assert run.result(0) == [1, 2]
