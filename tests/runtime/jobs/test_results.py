"""result() returns what the task returned, for threads and coroutines, for waiters of every kind."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from headrace import Headrace, JobFailed, JobNotFound, ResultUnavailable, Worker
from tests.support.gates import Gate, through
from tests.support.waiting import PATIENCE

Register = Callable[..., Any]


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int


class Order(msgspec.Struct):
    number: int
    at: datetime


class Customer(pydantic.BaseModel):
    name: str
    points: list[Point] = []


POINT = Point(1, 2)
ORDER = Order(7, datetime(2026, 1, 2, tzinfo=UTC))
CUSTOMER = Customer(name="ann", points=[POINT])


def test_a_result_comes_back(task: Register, worker: Worker) -> None:
    @task
    def add(a: int, b: int) -> int:
        return a + b

    assert add.enqueue(1, b=2).result(PATIENCE) == 3


def test_a_task_without_a_result_gives_none_and_is_completed(task: Register, worker: Worker) -> None:
    @task
    def nothing() -> None: ...

    job = nothing.enqueue()
    assert job.result(PATIENCE) is None
    assert (job.state, job.attempt) == ("completed", 1)
    assert job.worker == worker.id
    moment = timedelta(seconds=5)  # a claim may be under way, its time read, when the job is enqueued
    assert job.created_at <= job.started_at + moment
    assert job.started_at <= job.finished_at


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        date(2026, 1, 2),
        timedelta(days=-1, microseconds=5),
        Decimal("1.10"),
        UUID(int=7),
        b"\x00\xff",
        (1, "two", [3.0]),
        {"a", "b"},
        {1: {"$set": [1]}},
        float("inf"),
        2**100,
        "\x00 and ümlaut",
        "",
        [],
    ],
)
def test_results_keep_their_types(app: Headrace, worker: Worker, value: Any) -> None:
    @app.task
    def echo(it):
        return it

    result = echo.enqueue(value).result(PATIENCE)
    assert (result, type(result)) == (value, type(value))


def test_models_are_rebuilt_as_arguments_and_as_results(task: Register, worker: Worker) -> None:
    @task
    def dataclass_task(it: Point) -> Point:
        assert type(it) is Point
        return it

    @task
    def struct_task(it: Order) -> Order:
        assert type(it) is Order
        return it

    @task
    def pydantic_task(it: Customer) -> Customer:
        assert type(it) is Customer
        assert type(it.points[0]) is Point
        return it

    @task
    def nested_task(them: list[Point], by_name: dict[str, Order], color: Color) -> dict[str, list[Point]]:
        assert type(them[0]) is Point
        assert type(by_name["a"]) is Order
        assert color is Color.RED
        return {"all": them}

    assert dataclass_task.enqueue(POINT).result(PATIENCE) == POINT
    assert struct_task.enqueue(ORDER).result(PATIENCE) == ORDER
    assert pydantic_task.enqueue(CUSTOMER).result(PATIENCE) == CUSTOMER
    assert nested_task.enqueue([POINT], by_name={"a": ORDER}, color=Color.RED).result(PATIENCE) == {"all": [POINT]}


def test_a_result_that_can_not_be_stored_leaves_the_job_completed_and_says_why(task: Register, worker: Worker) -> None:
    runs = []

    @task
    def leak() -> Any:
        runs.append(1)
        return socket

    job = leak.enqueue()
    with pytest.raises(ResultUnavailable, match=r"completed, but result: a module can't be stored"):
        job.result(PATIENCE)
    assert (job.state, len(runs)) == ("completed", 1)


def test_a_result_over_the_limit_leaves_the_job_completed_too(worker: Worker, task: Register) -> None:
    @task
    def flood() -> str:
        return "x" * 1_048_577

    job = flood.enqueue()
    with pytest.raises(ResultUnavailable, match=r"the result is .* bytes and the limit is 1,048,576 bytes"):
        job.result(PATIENCE)
    assert job.state == "completed"


def test_a_users_own_dict_is_never_taken_for_a_lost_result(app: Headrace, worker: Worker) -> None:
    @app.task
    def echo(it: Any) -> Any:
        return it

    assert echo.enqueue({"$lost": "not at all"}).result(PATIENCE) == {"$lost": "not at all"}


def test_a_result_with_keep_result_false_is_not_stored(task: Register, worker: Worker) -> None:
    @task(keep_result=False)
    def add(a: int, b: int) -> int:
        return a + b

    assert add.enqueue(1, 2).result(PATIENCE) is None
    assert add.using(keep_result=True).enqueue(1, 2).result(PATIENCE) == 3


def test_results_can_be_read_later_and_by_id(app: Headrace, worker: Worker) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.enqueue(1, 2)
    job.wait(PATIENCE)
    assert app.jobs.get(job.id).result(0) == 3
    assert app.jobs.get(job.id) == job


def test_awaiting_a_job_gives_its_result(task: Register, worker: Worker) -> None:
    @task
    def double(n: int) -> int:
        return 2 * n

    async def main() -> list[int]:
        one = await double.aenqueue(1)
        many = [await double.aenqueue(n) for n in range(10)]
        return [await one, await one.aresult(PATIENCE), *await asyncio.gather(*many)]

    assert asyncio.run(main()) == [2, 2, *range(0, 20, 2)]


def test_many_threads_may_wait_for_one_job(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()
    job = app.task(name="held")(through(kind, gate, lambda: 42)).enqueue()
    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(app.jobs.get(job.id).result, PATIENCE) for _ in range(8)]
        gate.wait_until_reached()
        gate.open()
        assert [result.result() for result in results] == [42] * 8


def test_waiting_in_vain_ends_with_a_timeout_that_says_why(app: Headrace) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.enqueue(1, 2)
    with pytest.raises(TimeoutError, match=r"is pending after 0\.01 s: No worker is alive"):
        job.result(0.01)
    with pytest.raises(TimeoutError, match="is pending after 0 s"):
        job.wait(0)
    with pytest.raises(TimeoutError, match="No worker is alive"):
        asyncio.run(job.aresult(0.01))


def test_a_job_deleted_under_its_waiter_is_not_found(app: Headrace) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.using(delay=3600).enqueue(1, 2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(app.jobs.get(job.id).result, PATIENCE)
        assert job.delete()
        with pytest.raises(JobNotFound, match=job.id):
            waiting.result(PATIENCE)


def test_a_failure_shows_the_error_with_its_whole_chain(task: Register, worker: Worker) -> None:
    @task(retry=0)
    def clumsy() -> None:
        try:
            raise OSError("the disk")
        except OSError as error:
            raise RuntimeError("could not save") from error

    job = clumsy.enqueue()
    with pytest.raises(JobFailed, match=r"failed \(attempts_used_up\): RuntimeError: could not save") as caught:
        job.result(PATIENCE)
    failed = caught.value
    assert (failed.job_id, failed.error_type, failed.error_message) == (job.id, "RuntimeError", "could not save")
    assert failed.error_traceback is not None
    assert "OSError: the disk" in failed.error_traceback
    assert "in clumsy" in failed.error_traceback
