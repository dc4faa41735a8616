"""Prefetched jobs last for the exchanges with the store, and a worker releases those that do not start in time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace import Headrace
from headrace.core.clock import SystemClock
from headrace.core.settings.settings import Settings
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.worker import exchange as trading
from headrace.runtime.worker import prefetch as pacing
from headrace.runtime.worker.exchange import STALLED, WorkerExchange
from headrace.runtime.worker.execution import RunSpecs
from headrace.runtime.worker.state import WorkerState


def test_a_job_that_comes_after_a_quiet_time_is_not_taken_for_stalled(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(name="nothing")(lambda: None)
    clock = SystemClock()
    worker_state = WorkerState(1, clock, lambda: None, cast(WorkerLink, SimpleNamespace(now=clock.now)))
    worker_exchange = WorkerExchange(
        "somebody", app.engine, worker_state, RunSpecs(app.find_task, None, 1024), Settings(), None, app.registry.names
    )
    monotonic = 1000.0
    monkeypatch.setattr(trading, "time", SimpleNamespace(monotonic=lambda: monotonic))

    def turn() -> int:
        attempts, _ = worker_exchange.exchange(worker_exchange.capacity())
        worker_state.place(worker_exchange.planned(attempts))
        worker_exchange.give_back_if_stalled()
        return len(attempts)

    assert turn() == 0
    monotonic += 10 * STALLED  # nothing happens for a while
    app.task_by_name("nothing").enqueue()
    assert turn() == 1
    assert worker_state.waiting == 1, "no thread had a chance to begin it yet"
    monotonic += STALLED / 2
    turn()
    assert worker_state.waiting == 1
    monotonic += STALLED
    turn()
    assert worker_state.waiting == 0, "now another worker may have it"


@pytest.mark.parametrize(("turn_takes", "least", "most"), [(0.001, 230, 270), (0.02, 370, 430), (0.5, 400, 1000)])
def test_the_stock_lasts_for_as_long_as_the_store_takes(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, turn_takes: float, least: int, most: int
) -> None:
    task = app.task(name="nothing")(lambda: None)
    app.enqueue_many([task.bind() for _ in range(5000)])
    clock = SystemClock()
    worker_state = WorkerState(1, clock, lambda: None, cast(WorkerLink, SimpleNamespace(now=clock.now)))
    monotonic = 1000.0
    for module in (trading, pacing):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: monotonic))
    worker_exchange = WorkerExchange(
        "somebody", app.engine, worker_state, RunSpecs(app.find_task, None, 1024), Settings(), None, app.registry.names
    )
    answer = app.engine.exchange

    def run_one() -> None:
        nonlocal monotonic
        run = worker_state.ready.popleft()
        worker_state.begin(run, 0)
        monotonic += 0.0002
        worker_state.end(run, run.plan.success(run.claim, None, clock.now()))

    def exchange(*args: Any, **more: Any) -> Any:
        nonlocal monotonic
        over = monotonic + turn_takes
        while worker_state.ready and monotonic < over:
            run_one()
        monotonic = max(monotonic, over)
        return answer(*args, **more)

    monkeypatch.setattr(app.engine, "exchange", exchange)
    for _ in range(30):
        while not (capacity := worker_exchange.capacity()):
            run_one()
        attempts, _ = worker_exchange.exchange(capacity)
        worker_state.place(worker_exchange.planned(attempts))
    assert least <= 2 * worker_state.low_water <= most
