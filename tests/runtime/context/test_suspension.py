"""A job that sleeps or waits for an event holds no worker, spends no attempt, and goes on where it was."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, Job, JobFailed, Worker, current_job
from headrace.testing import VirtualClock, drain
from tests.support.gates import SOON, Gate
from tests.support.waiting import PATIENCE, eventually


def suspended(job: Job[Any]) -> None:
    eventually(lambda: job.refresh().state == "scheduled", "the suspension")


def test_a_sleeping_job_leaves_its_worker_to_others(app: Headrace) -> None:
    runs: list[str] = []

    @app.task
    def sleeper() -> str:
        runs.append("sleeper")
        current_job().sleep(timedelta(hours=1), "cool down")
        return "rested"

    @app.task
    def other() -> None:
        runs.append("other")

    with app.worker(concurrency=1):
        job = sleeper.enqueue()
        suspended(job)
        other.enqueue().result(PATIENCE)
        assert timedelta(minutes=59) < job.run_at - datetime.now(UTC) <= timedelta(hours=1)
        assert (job.attempt, job.worker, job.reason) == (0, None, "sleeps: cool down")
        assert job.why().startswith(
            f"It sleeps (cool down) until {job.run_at:%Y-%m-%d %H:%M:%S} UTC, for another 59 min"
        )
        until = job.run_at
        job.promote()  # it has not slept enough, and lies down again until the same time
        eventually(lambda: len(runs) == 3, "the run that was promoted")
        suspended(job)
    assert runs == ["sleeper", "other", "sleeper"]
    assert job.run_at == until


def test_it_goes_on_when_the_time_has_come(app: Headrace, worker: Worker, kind: str) -> None:
    runs: list[int] = []

    @app.task(name="thread")
    def threaded() -> str:
        runs.append(current_job().attempt)
        for _ in range(3):
            current_job().sleep(0.2)
        current_job().sleep(0)
        return "rested"

    @app.task(name="async")
    async def coroutine() -> str:
        runs.append(current_job().attempt)
        for _ in range(3):
            await current_job().asleep(0.2)
        return "rested"

    job = (coroutine if kind == "async" else threaded).enqueue()
    assert job.result(PATIENCE) == "rested"
    assert set(runs) == {1}, "each run is the same attempt"
    assert len(runs) <= 4, "a sleep that was over before it was noted needs no run of its own"
    assert job.attempt == 1


def test_a_sleep_counts_from_the_run_that_first_came_to_it(app: Headrace, worker: Worker) -> None:
    ends: list[Any] = []

    @app.task(retry=SOON)
    def order() -> None:
        current_job().sleep(0.01)
        ends.append(app.engine.queries.details(current_job().id).steps[0])
        if current_job().attempt == 1:
            raise OSError("away")

    order.enqueue().result(PATIENCE)
    assert len(ends) == 2
    assert ends[0] == ends[1]


@pytest.mark.parametrize("seconds", [-1, "1", True, float("nan"), float("inf"), None])
def test_a_time_is_one(app: Headrace, worker: Worker, seconds: Any) -> None:
    @app.task
    def order() -> None:
        with pytest.raises(InvalidJob, match="sleep: expected seconds"):
            current_job().sleep(seconds)

    order.enqueue().result(PATIENCE)


def test_a_task_that_catches_all_errors_is_suspended_all_the_same(app: Headrace, worker: Worker) -> None:
    caught: list[Exception] = []

    @app.task
    def careless() -> str:
        try:
            current_job().sleep(0.5)
        except Exception as error:
            caught.append(error)
        return "rested"

    job = careless.enqueue()
    assert job.result(PATIENCE) == "rested"
    assert caught == []
    assert [entry.event.value for entry in job.history()].count("snooze") == 1


def test_a_group_of_coroutines_is_suspended_as_one(app: Headrace, worker: Worker) -> None:
    @app.task
    async def order() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(current_job().await_event(name)) for name in ("paid", "packed")]
        return [wait.result() for wait in waits]

    job = order.enqueue()
    suspended(job)
    assert app.signal(job, "packed", 2)
    assert app.signal(job, "paid", 1)
    assert job.result(PATIENCE) == [1, 2]


def test_an_event_brings_its_data_and_wakes_the_waiting_job(app: Headrace, worker: Worker, kind: str) -> None:
    @app.task(name="thread")
    def threaded() -> Any:
        return current_job().wait_event("approved")

    @app.task(name="async")
    async def coroutine() -> Any:
        return await current_job().await_event("approved")

    job = (coroutine if kind == "async" else threaded).enqueue()
    suspended(job)
    assert job.reason == "waits for event 'approved'"
    assert job.why() == f"It waits for event 'approved'; send it with `headrace signal {job.id} 'approved'`."
    assert app.queue("default").stats().scheduled == 1
    assert app.signal(job, "denied", "not what it waits for")
    assert job.refresh().state == "scheduled"

    async def approve() -> bool:
        return await app.asignal(job.id, "approved", {"by": ("ann", 7)})

    assert asyncio.run(approve())
    assert job.result(PATIENCE) == {"by": ("ann", 7)}
    assert job.attempt == 1
    events = [(str(entry.event), entry.message) for entry in job.history()]
    assert ("event", "approved") in events
    assert ("promote_now", "event 'approved' came") in events


def test_events_are_had_in_the_order_they_came_also_those_that_came_before(app: Headrace) -> None:
    @app.task
    def order() -> list[Any]:
        job = current_job()
        return [job.wait_event("item"), job.wait_event("item"), job.wait_event("paid"), job.wait_event("item")]

    job = order.enqueue()
    for name, data in [("item", 1), ("item", None), ("item", 3), ("paid", "yes")]:
        assert app.signal(job, name, data)
    with app.worker():
        assert job.result(PATIENCE) == [1, None, "yes", 3]
    assert job.row.releases == 0


def test_coroutines_that_wait_at_once_get_the_same_events_in_each_run(app: Headrace) -> None:
    @app.task
    async def order() -> list[Any]:
        job = current_job()
        found = await asyncio.gather(*(job.await_event("item") for _ in range(5)))
        return [found, await job.astep("first run", lambda: found)]

    for _ in range(10):
        job = order.enqueue()
        for number in range(5):
            app.signal(job, "item", number)
        drain(app)
        assert job.result(0) == [[*range(5)], [*range(5)]]


def test_an_event_that_comes_just_before_the_suspension_is_not_missed(app: Headrace, worker: Worker) -> None:
    gate = Gate()

    @app.task
    def order() -> Any:
        current_job().step("look", lambda: None)  # from here on the run knows of no more events
        gate.pass_through()
        return current_job().wait_event("paid", timeout=3600)

    job = order.enqueue()
    gate.wait_until_reached()
    assert app.signal(job, "paid", 7)
    gate.open()
    assert job.result(PATIENCE) == 7


def test_an_event_that_does_not_come_in_time_never_came(app: Headrace, worker: Worker) -> None:
    gate, expected = Gate(), []

    @app.task(retry=SOON)
    def order() -> str:
        try:
            current_job().wait_event("paid", timeout=timedelta(milliseconds=20))
        except TimeoutError as error:
            expected.append(str(error))
            gate.pass_through()
            if current_job().attempt == 1:
                raise OSError("away") from None
            return "cancelled"
        return "paid"

    job = order.enqueue()
    gate.wait_until_reached()
    assert app.signal(job, "paid")  # too late, and that must not change by a retry
    gate.open()
    assert job.result(PATIENCE) == "cancelled"
    assert expected == ["event 'paid' did not come within 0.02 s"] * 2


def test_an_event_that_comes_after_a_timeout_is_for_the_next_wait(url: str) -> None:
    clock = VirtualClock()
    with Headrace(url, clock=clock) as app:

        @app.task
        def listen() -> list[Any]:
            job, heard = current_job(), list[Any]()
            for _ in range(4):
                try:
                    heard.append(job.wait_event("tick", timeout=60))
                except TimeoutError:
                    heard.append(None)
            return heard

        job = listen.enqueue()
        drain(app)
        for data in (None, 1, None, 2):
            clock.advance(61 if data is None else 1)
            if data is not None:
                app.signal(job, "tick", data)
            assert drain(app) == 1
        assert job.result() == [None, 1, None, 2]


def test_the_deadline_of_a_wait_does_not_move(app: Headrace, worker: Worker) -> None:
    @app.task
    def order() -> None:
        current_job().wait_event("paid", timeout=3600)

    job = order.enqueue()
    suspended(job)
    until = job.run_at
    assert "for at most another 59 min" in job.why()
    job.promote()
    eventually(lambda: job.refresh().row.releases == 2, "the next suspension")
    assert job.run_at == until


def test_a_task_that_does_not_catch_the_timeout_fails_with_it(app: Headrace, worker: Worker) -> None:
    @app.task(retry=0)
    def order() -> None:
        current_job().wait_event("paid", timeout=0)

    with pytest.raises(JobFailed, match="TimeoutError: event 'paid' did not come within 0 s"):
        order.enqueue().result(PATIENCE)


def test_a_suspended_job_can_be_cancelled(app: Headrace, worker: Worker) -> None:
    @app.task
    def order() -> None:
        current_job().wait_event("paid")

    job = order.enqueue()
    suspended(job)
    assert job.cancel()
    assert not app.signal(job, "paid")


def test_a_finished_or_unknown_job_gets_no_events(app: Headrace, worker: Worker) -> None:
    job = app.task(name="nothing")(lambda: None).enqueue()
    job.result(PATIENCE)
    assert not app.signal(job, "paid")
    assert not app.signal("nobody", "paid")


@pytest.mark.parametrize(
    ("job", "name", "data", "expected"),
    [
        (7, "paid", None, "job: expected text, got 7"),
        ("id", "", None, "event: expected a name"),
        ("id", "paid", object(), "data: .* can't be stored"),
        ("id", "paid", "x" * 2_000_000, "the data is more than"),
    ],
)
def test_a_wrong_event_is_refused(app: Headrace, job: Any, name: str, data: Any, expected: str) -> None:
    with pytest.raises(InvalidJob, match=expected):
        app.signal(job, name, data)


@pytest.mark.parametrize("timeout", [0, 0.5])
def test_an_event_that_came_while_the_run_went_on_is_found_before_it_gives_up(
    app: Headrace, worker: Worker, timeout: float
) -> None:
    waits = threading.Event()

    @app.task(retry=0)
    def order() -> Any:
        job = current_job()
        job.step("read", lambda: None)  # from here on the run knows what had come before
        if timeout == 0 or waits.is_set():
            app.signal(job.id, "paid", 7)
        waits.set()
        return job.wait_event("paid", timeout=timeout)

    job = order.enqueue()
    assert job.result(PATIENCE) == 7
    assert [step.kind for step in app.engine.queries.details(job.id).steps].count("event") == 1
