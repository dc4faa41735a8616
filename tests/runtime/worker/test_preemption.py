"""A run of a task that agreed to it makes way for a more urgent job, and is given back with nothing spent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, Job, current_job
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def app(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    monkeypatch.setattr("headrace.runtime.worker.worker._MAINTAIN_EVERY", 0.1)
    with Headrace(url, shutdown_timeout=5.0) as app:
        yield app


def times_it_made_way(job: Job[Any]) -> int:
    """Fetched ahead behind the urgent job, it may be given back once more, not begun: that's another matter."""
    return sum("more urgent" in (entry.message or "") for entry in job.history() if entry.event == "release")


def test_the_urgent_job_runs_at_once_and_the_other_one_again(app: Headrace) -> None:
    began, may_end = threading.Event(), threading.Event()

    @app.task(preemptible=True)
    async def long() -> int:
        began.set()
        while not may_end.is_set():
            await asyncio.sleep(0.01)
        return current_job().attempt

    urgent = app.task(name="urgent", priority=5)(may_end.set)
    with app.worker(concurrency=1):
        job = long.enqueue()
        assert began.wait(PATIENCE)
        assert urgent.enqueue().wait(PATIENCE) == "completed"
        assert job.result(PATIENCE) == 1  # no attempt was spent
    assert times_it_made_way(job) == 1


@pytest.mark.parametrize(
    ("preemptible", "priority", "held_up"),
    [(False, 5, "no"), (True, 0, "no"), (True, 5, "paused"), (True, 5, "rate")],
)
def test_no_run_is_preempted(app: Headrace, preemptible: bool, priority: int, held_up: str) -> None:
    """Runs that are not preempted: not preemptible, the job is no more urgent, or it could not start anyway."""
    began, may_end = threading.Event(), threading.Event()

    @app.task(preemptible=preemptible, queue="slow")
    def long() -> None:
        began.set()
        may_end.wait(PATIENCE)

    urgent = app.task(name="urgent", priority=priority, queue="fast")(lambda: None)
    if held_up == "paused":
        app.queue("fast").pause()
    elif held_up == "rate":
        app.queue("fast").configure(rate="1/h", burst=1)
        with app.worker():
            urgent.enqueue().wait(PATIENCE)
    with app.worker(concurrency=1) as worker:
        job = long.enqueue()
        assert began.wait(PATIENCE)
        urgent.enqueue()
        staleness_store = worker._maintain_at
        eventually(lambda: worker._maintain_at > staleness_store + 0.2)  # it has looked since
        assert job.refresh().state == "running"
        may_end.set()
        assert job.wait(PATIENCE) == "completed"


def test_the_slot_goes_to_the_job_it_was_made_for(app: Headrace) -> None:
    """Not to the one that was just given back, though its queue comes first."""
    began, may_end = threading.Event(), threading.Event()

    @app.task(preemptible=True, queue="first")
    async def long() -> None:
        began.set()
        while not may_end.is_set():
            await asyncio.sleep(0.01)

    urgent = app.task(name="urgent", priority=5, queue="second")(may_end.set)
    with app.worker(concurrency=1, queues=["first", "second"], queue_order="strict"):
        job = long.enqueue()
        assert began.wait(PATIENCE)
        assert urgent.enqueue().wait(PATIENCE) == "completed"
        assert job.wait(PATIENCE) == "completed"
    assert times_it_made_way(job) == 1


def test_a_paused_worker_ends_no_run(app: Headrace) -> None:
    began, may_end = threading.Event(), threading.Event()

    @app.task(preemptible=True)
    def long() -> None:
        began.set()
        may_end.wait(PATIENCE)

    urgent = app.task(name="urgent", priority=5)(lambda: None)
    with app.worker(concurrency=1) as worker:
        job = long.enqueue()
        assert began.wait(PATIENCE)
        worker.pause()
        urgent.enqueue()
        staleness_store = worker._maintain_at
        eventually(lambda: worker._maintain_at > staleness_store + 0.2)
        assert job.refresh().state == "running"
        may_end.set()
        assert job.wait(PATIENCE) == "completed"
