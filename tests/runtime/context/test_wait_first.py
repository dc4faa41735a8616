"""A job waits for the first of several events, with a limit of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, current_job
from headrace.testing import VirtualClock, drain


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock) as app:
        yield app


def decide(*names: str, timeout: float | None = 3600) -> list[Any]:
    job = current_job()
    return [job.wait_first(*names, timeout=timeout), job.step("done", lambda: "done")]


@pytest.mark.every_engine
@pytest.mark.parametrize("event", ["paid", "it's off", 'a "quoted" or one'])
def test_the_first_event_to_come_is_returned_with_its_name(app: Headrace, event: str) -> None:
    job = app.enqueue(app.task(decide), "paid", "it's off", 'a "quoted" or one')
    drain(app)
    assert job.refresh().reason == "waits for event 'paid' or \"it's off\" or 'a \"quoted\" or one'"
    assert f"`headrace signal {job.id} 'paid'`" in job.why()
    app.signal(job, "other")
    assert drain(app) == 0
    assert app.signal(job, event, {"receipt": 7})
    assert drain(app) == 1
    assert job.result() == [(event, {"receipt": 7}), "done"]


def test_of_several_that_came_before_the_earliest_counts_in_every_run(app: Headrace, clock: VirtualClock) -> None:
    @app.task
    def shop() -> list[Any]:
        job = current_job()
        first = job.wait_first("paid", "off")
        job.sleep(60)
        return [first, job.wait_first("paid", "off"), job.wait_event("paid")]

    job = shop.enqueue()
    app.signal(job, "off", 1)
    clock.advance(1)
    app.signal(job, "paid", 2)
    drain(app)
    app.signal(job, "off", 3)
    clock.advance(60)
    drain(app)
    assert job.refresh().reason == "waits for event 'paid'"
    app.signal(job, "paid", 4)
    drain(app)
    assert job.result() == [("off", 1), ("paid", 2), 4]


def test_an_event_of_another_name_remains_for_later(app: Headrace) -> None:
    @app.task
    def shop() -> list[Any]:
        job = current_job()
        return [job.wait_first("paid", "off"), job.wait_event("off"), job.wait_first("paid", "off")]

    job = shop.enqueue()
    drain(app)
    for number, name in enumerate(("paid", "off", "paid")):
        app.signal(job, name, number)
        drain(app)
    assert job.result() == [("paid", 0), 1, ("paid", 2)]


def test_it_gives_up_when_its_time_is_over_and_a_late_event_changes_nothing(app: Headrace, clock: VirtualClock) -> None:
    @app.task(retry=0)
    def shop() -> Any:
        try:
            return current_job().wait_first("paid", "off", timeout=60)
        except TimeoutError as error:
            current_job().sleep(10)
            return str(error)

    job = shop.enqueue()
    drain(app)
    clock.advance(60)
    drain(app)
    app.signal(job, "paid")
    clock.advance(10)
    drain(app)
    assert job.result() == "event 'paid or off' did not come within 60 s"


def test_an_event_that_came_during_the_last_run_is_in_time(app: Headrace) -> None:
    @app.task
    def shop() -> Any:
        job = current_job()
        job.step("before", lambda: None)
        app.signal(job.id, "off", "just now")
        return job.wait_first("paid", "off", timeout=0)

    job = shop.enqueue()
    drain(app)
    assert job.result() == ("off", "just now")


def test_coroutines_wait_too(app: Headrace) -> None:
    @app.task
    async def shop() -> Any:
        return await current_job().await_first("paid", "off")

    job = shop.enqueue()
    drain(app)
    app.signal(job, "paid")
    drain(app)
    assert job.result() == ("paid", None)


def test_of_two_that_came_in_one_millisecond_the_first_counts(app: Headrace) -> None:
    job = app.enqueue(app.task(decide), "paid", "off")
    app.signal(job, "off", 1)
    app.signal(job, "paid", 2)
    drain(app)
    assert job.result()[0] == ("off", 1)


def test_coroutines_that_wait_at_once_for_one_name_get_an_event_each(app: Headrace, clock: VirtualClock) -> None:
    @app.task
    async def shop() -> Any:
        job = current_job()
        waits = [job.await_first("x", "y"), job.await_first("x", "z")]
        found = await asyncio.gather(*waits)
        await job.asleep(60)
        return found

    job = shop.enqueue()
    drain(app)
    for number in range(2):
        app.signal(job, "x", number)
        drain(app)
    clock.advance(60)
    drain(app)
    assert sorted(job.result()) == [("x", 0), ("x", 1)]


def test_an_event_that_a_wait_has_chosen_is_for_no_other(app: Headrace, clock: VirtualClock) -> None:
    runs = []

    @app.task
    def shop() -> Any:
        job = current_job()
        runs.append(job.attempt)
        if len(runs) == 1:  # as a coroutine that came to its wait before another one
            job.wait_first("x", "y")
            job.sleep(60)
        return [job.wait_event("x"), job.wait_first("x", "y")]

    job = shop.enqueue()
    app.signal(job, "x", 0)
    drain(app)
    clock.advance(60)
    drain(app)
    app.signal(job, "x", 1)
    drain(app)
    assert job.result(0) == [1, ("x", 0)]


@pytest.mark.parametrize(
    "names", [(), ("a",), ("a", "a"), [str(n) * 60 for n in range(9)], ("a", ""), (3, "a"), (["a", "b"],)]
)
def test_names_that_are_none_are_refused(app: Headrace, names: Any) -> None:
    @app.task(retry=0)
    def shop() -> None:
        with pytest.raises(InvalidJob, match="event"):
            current_job().wait_first(*names)

    job = shop.enqueue()
    drain(app)
    assert job.result() is None
