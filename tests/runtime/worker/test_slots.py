"""Threads and the event loop share the slots of a worker: no kind of job keeps the other waiting, nor a slot idle."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace import Headrace
from headrace.core.clock import SystemClock
from headrace.core.jobs.records import ClaimRequest
from headrace.engines.protocol.engine import Engine
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.execution import RunSpecs
from headrace.runtime.worker.heartbeat import Heartbeat, HeartbeatHost
from headrace.runtime.worker.runners.event_loop import EventLoop
from headrace.runtime.worker.runners.sandbox import Sandboxes
from headrace.runtime.worker.runners.threads import Threads
from headrace.runtime.worker.state import WorkerState
from tests.support.gates import Gate, through
from tests.support.waiting import PATIENCE, eventually

_numbers = itertools.count(1)


@pytest.mark.parametrize("concurrency", [1, 2, 4])
def test_a_backlog_of_one_kind_does_not_keep_a_job_of_the_other_waiting(
    app: Headrace, kind: str, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.runtime.worker.runners.threads._LATE", PATIENCE
    )  # a slow machine's loop is not blocked
    order: list[str] = []

    @app.task
    def threaded() -> None:
        order.append("thread")
        threading.Event().wait(0.001)

    @app.task
    async def coroutine() -> None:
        order.append("async")
        await asyncio.sleep(0.001)

    rare, common = (threaded, coroutine) if kind == "thread" else (coroutine, threaded)
    jobs = app.enqueue_many([task.bind() for task in [*[common] * 200, rare, *[common] * 300]])
    with app.worker(concurrency=concurrency):
        assert {job.wait(PATIENCE) for job in jobs} == {"completed"}
    assert len(order) == 501
    assert order.index(kind) < 240


class _SilentEngine:
    """What a heartbeat listens to at its start."""

    def listen(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(ring=lambda: None)


class Runners:
    """The runners of a worker without the worker: the test places the jobs."""

    def __init__(self, app: Headrace, concurrency: int) -> None:
        self._app = app
        clock = SystemClock()
        self.worker_state = WorkerState(
            concurrency, clock, lambda: None, cast(WorkerLink, SimpleNamespace(now=clock.now, worker="one"))
        )
        self.sandboxes = Sandboxes()
        self.threads = Threads(self.worker_state, self.sandboxes)
        self.loop = EventLoop(self.worker_state)
        self.worker_state.wake_loop = self.loop.wake

    def place(self, *functions: Callable[..., Any]) -> list[Attempt]:
        """Hand in a job of each of these; ensure() is left to the test."""
        tasks = [self._app.task(name=f"task-{next(_numbers)}")(function) for function in functions]
        self._app.enqueue_many([task.bind() for task in tasks])
        claims = self._app.engine.exchange((), ClaimRequest("somebody", len(tasks), 60_000)).claims
        planner = RunSpecs(self._app.find_task, None, 1024)
        attempts = self.worker_state.claimed(claims)
        for attempt in attempts:
            plan = planner.plan(attempt.claim)
            assert plan is not None
            attempt.plan = plan
        self.worker_state.place(attempts)
        return attempts

    def withdraw(self, attempt: Attempt) -> None:
        """As the heartbeat does with a job that was cancelled before it began."""
        engine = cast(Engine, _SilentEngine())
        reports = cast(HeartbeatHost, SimpleNamespace())
        Heartbeat(engine, self.worker_state, self.threads, self.loop, reports, 60.0, 10.0)._drop_lost(
            frozenset([attempt.lease]), "cancelled"
        )

    def stop(self) -> None:
        self.threads.stop()
        self.loop.stop(PATIENCE)
        self.sandboxes.stop()


@pytest.fixture(params=[1, 2])
def concurrency(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def runners(app: Headrace, concurrency: int) -> Iterator[Runners]:
    runners = Runners(app, concurrency)
    yield runners
    runners.stop()


@pytest.mark.parametrize("concurrency", [2], indirect=True)
def test_a_coroutine_that_blocks_the_loop_costs_the_threads_no_slot(runners: Runners) -> None:
    blocks, begins = Gate(), threading.Event()

    async def blocking() -> None:
        blocks.pass_through()

    async def waiting() -> None:
        begins.set()

    ran: list[int] = []
    runners.place(blocking)
    blocks.wait_until_reached()
    runners.place(waiting, *[lambda: ran.append(1)] * 20)
    runners.threads.ensure()
    eventually(lambda: len(ran) == 20, "the end of those that need no loop")
    assert not begins.is_set()
    blocks.open()
    assert begins.wait(PATIENCE)
    eventually(lambda: sorted(runners.worker_state.slots) == [0, 1], "the return of both slots")


@pytest.mark.parametrize("concurrency", [1], indirect=True)
def test_a_slot_left_to_a_job_that_is_cancelled_then_goes_to_a_coroutine(runners: Runners) -> None:
    first, second = Gate(), Gate()
    runners.place(through("async", first))
    first.wait_until_reached()
    _, threaded = runners.place(through("async", second), lambda: None)
    first.open()
    eventually(lambda: runners.worker_state.slots, "the slot that is left to a thread, of which there is none yet")
    assert not second.reached.is_set()
    runners.withdraw(threaded)
    second.wait_until_reached()
    second.open()


@pytest.mark.parametrize("concurrency", [1], indirect=True)
def test_a_coroutine_that_is_late_to_end_without_its_lease_is_settled_like_any_other(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.runtime.worker.runners.event_loop._GRACE", 0.05)
    state, begins = runners.worker_state, threading.Event()

    async def late() -> None:
        begins.set()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            while not state.slots:
                await asyncio.sleep(0.01)
            raise

    [attempt] = runners.place(late)
    assert begins.wait(PATIENCE)
    runners.withdraw(attempt)
    eventually(lambda: list(state.done) == [attempt], "an outcome, so that the worker forgets the attempt")


@pytest.mark.parametrize("concurrency", [2], indirect=True)
def test_a_thread_that_could_not_be_started_takes_nobodys_place(
    runners: Runners, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gates = Gate(), Gate()
    runners.place(*[through("thread", gate) for gate in gates])
    with monkeypatch.context() as short, caplog.at_level("ERROR", "headrace.worker"):
        short.setattr(threading.Thread, "start", refuse)
        for _ in range(5):
            runners.threads.ensure()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["can't start a thread for a job"]
    runners.threads.ensure()
    for gate in gates:  # both at once
        gate.wait_until_reached()
    for gate in gates:
        gate.open()
    eventually(lambda: sorted(runners.worker_state.slots) == [0, 1], "the return of both slots")


class HeldBack(deque[Any]):
    """A line from which a thread takes a job only when the test lets it."""

    def __init__(self) -> None:
        self.gate = Gate()

    def popleft(self) -> Any:
        self.gate.pass_through()
        return super().popleft()


@pytest.mark.parametrize("concurrency", [2], indirect=True)
def test_a_thread_between_its_slot_and_its_job_does_not_keep_the_other_slot_idle(runners: Runners) -> None:
    lasting, coroutine = Gate(), Gate()
    runners.worker_state.ready = line = HeldBack()
    runners.place(through("thread", lasting))
    runners.threads.ensure()
    line.gate.wait_until_reached()
    runners.worker_state.loop_responded.clear()
    runners.place(through("async", coroutine))
    assert runners.worker_state.loop_responded.wait(PATIENCE), (
        "the loop looked for a slot: one is free, and one job seems to wait"
    )
    line.gate.open()
    coroutine.wait_until_reached()
    for gate in (coroutine, lasting):
        gate.open()


@pytest.mark.parametrize("concurrency", [1, 2], indirect=True)
def test_both_kinds_have_their_turns_and_all_slots_come_back(runners: Runners, concurrency: int) -> None:
    order: list[str] = []

    async def coroutine() -> None:
        await asyncio.sleep(0)
        order.append("async")

    runners.place(*[coroutine] * 100, *[lambda: order.append("thread")] * 100)
    runners.threads.ensure()
    eventually(lambda: len(order) == 200, "the end of all jobs")
    eventually(lambda: len(runners.worker_state.slots) == concurrency, "the return of all slots")
    assert not runners.worker_state.slots_for_loop
