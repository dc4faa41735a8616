"""When runners ring for their worker: when little is left to do, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headrace.core.clock import SystemClock
from headrace.core.jobs.outcomes import succeed
from headrace.core.jobs.records import Claim, Isolation
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.worker.execution import RunSpec
from headrace.runtime.worker.state import WorkerState


def claim(number: int) -> Claim:
    return Claim(f"job-{number}", number, "task", "default", 0, 1, 1, 4, "{}", 0, 0, 0, 0, 0, None, None)


@pytest.mark.parametrize("isolation", ["thread", "async"])
def test_runners_ring_once_no_more_than_the_low_water_waits(isolation: Isolation) -> None:
    rings: list[int] = []
    clock = SystemClock()
    worker_state = WorkerState(
        1, clock, lambda: rings.append(worker_state.waiting), cast(WorkerLink, SimpleNamespace(now=clock.now))
    )
    plan = cast(RunSpec, SimpleNamespace(isolation=isolation, timeout=None, tracer=None))
    attempts = worker_state.claimed(map(claim, range(5)))
    for attempt in attempts:
        attempt.plan = plan
    worker_state.place(attempts)
    worker_state.low_water = 2
    line = worker_state.ready_async if isolation == "async" else worker_state.ready
    while line:
        run = line.popleft()
        assert worker_state.begin(run, slot=0)
        assert worker_state.end(run, succeed(run.claim, None, None, 0))
    assert rings == [
        2,
        2,
        1,
        1,
        0,
        0,
    ]  # at the start of a run that may take long, with outcomes at hand, and at its end
    assert len(worker_state.done) == 5
