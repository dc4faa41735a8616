"""The newest call cancels the running job of its key, and starts when that has ended, never beside it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from headrace import Headrace, JobCancelled, JobInterrupted, Unique, current_job
from headrace.testing import drain
from tests.runtime.jobs import shop
from tests.support.gates import Gate
from tests.support.waiting import PATIENCE, eventually

NEWEST = Unique(by=("task",), on_conflict="cancel_running")


def test_a_coroutine_is_cancelled_and_the_next_starts_after_its_cleanup(app: Headrace) -> None:
    begun, cleaning, seen = Gate(), Gate(), list[str]()

    @app.task(unique=NEWEST)
    async def answer(number: int) -> int:
        if number == 1:
            try:
                await begun.apass_through()
            except asyncio.CancelledError:
                await cleaning.apass_through()
                seen.append("cleaned")
                raise
        seen.append(f"ran {number}")
        return number

    with app.worker(concurrency=4):
        first = answer.enqueue(1)
        begun.wait_until_reached()
        second = answer.enqueue(2)
        cleaning.wait_until_reached()
        assert first.refresh().state == "running"
        assert "was asked to stop (cancelled by a newer call, job" in first.why()
        assert f"It waits for job {first.id}" in second.why()
        assert second.why().endswith("which is running and was asked to stop.")
        third = answer.enqueue(3)
        assert third.id == second.id
        cleaning.open()
        assert third.result(PATIENCE) == 3
        with pytest.raises(JobCancelled, match=second.id):
            first.result(PATIENCE)
    assert seen == ["cleaned", "ran 3"]
    assert [entry.event for entry in first.history()] == ["submit", "claim", "cancel_request", "cancel"]
    assert [entry.event for entry in second.history()] == ["submit", "supersede", "update", "claim", "succeed"]
    assert first.id in str(second.history()[1].message)


def test_an_interruptible_thread_is_interrupted(app: Headrace) -> None:
    begun, seen = threading.Event(), list[str]()

    @app.task(unique=NEWEST, interrupt=True, timeout=600)
    def answer(number: int) -> int:
        try:
            while number == 1:
                begun.set()
        except JobInterrupted:
            seen.append("interrupted")
            raise
        seen.append("ran")
        return number

    with app.worker(concurrency=4):
        first = answer.enqueue(1)
        assert begun.wait(PATIENCE)
        assert answer.enqueue(2).result(PATIENCE) == 2
    assert seen == ["interrupted", "ran"]
    assert first.refresh().state == "cancelled"


def test_a_process_is_killed(app: Headrace, folder: Path) -> None:
    started = folder / "started"
    forever = app.task(isolation="process", unique=NEWEST)(shop.ignore_everything_for_ever)
    with app.worker(concurrency=4):
        first = forever.enqueue(str(started))
        eventually(lambda: started.exists() and started.read_text(), "the start")
        pid = started.read_text()
        second = forever.enqueue(str(folder / "next"))
        eventually((folder / "next").exists, "the next one's start")
        assert not Path(f"/proc/{pid}").exists()
        assert first.refresh().state == "cancelled"
        second.cancel()


def test_a_thread_that_cannot_be_stopped_is_waited_for(app: Headrace) -> None:
    gate, seen = Gate(), list[str]()

    @app.task(unique=NEWEST)
    def answer(number: int) -> int:
        if number == 1:
            gate.pass_through()
            seen.append(f"asked: {current_job().cancel_requested}")
        else:
            seen.append("ran")
        return number

    with app.worker(concurrency=4):
        first = answer.enqueue(1)
        gate.wait_until_reached()
        second = answer.enqueue(2)
        eventually(lambda: answer.enqueue(2).id == second.id and "asked to stop" in first.why(), "the request")
        assert first.refresh().state == "running"
        gate.open()
        assert second.result(PATIENCE) == 2
    assert seen[-1] == "ran"
    assert (first.refresh().state, len(seen)) == ("cancelled", 2)


def test_a_prefetched_job_that_has_not_begun_ends_at_once(app: Headrace) -> None:
    gate = Gate()
    hold = app.task(name="hold")(gate.pass_through)
    answer = app.task(name="answer", unique=NEWEST)(lambda number: number)
    with app.worker(concurrency=1):
        hold.enqueue()
        gate.wait_until_reached()
        jobs = [answer.enqueue(number) for number in range(3)]
        gate.open()
        assert jobs[-1].result(PATIENCE) == 2
        assert app.jobs.count(state="completed", task="answer") == 1


def test_a_job_that_calls_its_own_task_ends_for_that(app: Headrace) -> None:
    @app.task(unique=NEWEST)
    def again(number: int) -> int:
        if number == 1:
            again.enqueue(2)
        return number

    first = again.enqueue(1)
    drain(app)
    assert first.refresh().state == "cancelled"
    assert [job.result(0) for job in app.jobs.find(state="completed")] == [2]


def test_a_job_that_sleeps_is_cancelled_at_once(app: Headrace) -> None:
    @app.task(unique=NEWEST)
    def agent(number: int) -> int:
        if number == 1:
            current_job().step("think", lambda: 1)
            current_job().sleep(3600)
        return number

    first = agent.enqueue(1)
    drain(app)
    second = agent.enqueue(2)
    assert first.refresh().state == "cancelled"
    drain(app)
    assert second.result(0) == 2
