"""What was fetched ahead and gets no turn is given back, but not before it had the time to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headrace import Headrace
from headrace.core.clock import SystemClock
from headrace.core.settings import Settings
from headrace.runtime import trade as trading
from headrace.runtime.context import Line
from headrace.runtime.crew import Crew
from headrace.runtime.plan import Planner
from headrace.runtime.trade import STALLED, Trade


def test_a_job_that_comes_after_a_quiet_time_is_not_taken_for_stalled(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(name="nothing")(lambda: None)
    clock = SystemClock()
    crew = Crew(1, clock, lambda: None, cast(Line, SimpleNamespace(now=clock.now)))
    trade = Trade("somebody", app.engine, crew, Planner(app.find_task, None, 1024), Settings(), None)
    monotonic = 1000.0
    monkeypatch.setattr(trading, "time", SimpleNamespace(monotonic=lambda: monotonic))

    def turn() -> int:
        claims, _ = trade.exchange(trade.room())
        crew.place(trade.planned(claims))
        trade.give_back_if_stalled()
        return len(claims)

    assert turn() == 0
    monotonic += 10 * STALLED  # nothing happens for a while
    app.task_by_name("nothing").enqueue()
    assert turn() == 1
    assert crew.waiting == 1, "no thread had a chance to begin it yet"
    monotonic += STALLED / 2
    turn()
    assert crew.waiting == 1
    monotonic += STALLED
    turn()
    assert crew.waiting == 0, "now another worker may have it"
