"""Units as users meet them: a cost before, the report of a run after, and what holds a job back."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob, Retry, current_job
from headrace.core.jobs.records import Isolation
from headrace.core.queues.rates import as_rate, units_of
from headrace.testing import VirtualClock, drain
from tests.runtime.queues import unit_tasks
from tests.support.waiting import PATIENCE

MINUTE = 60_000_000
RATE = as_rate("1000 units/min", 1000)


def used(app: Headrace, queue: str = "default") -> int:
    """The units that the bucket of the queue has given at this moment."""
    [full_at] = app.engine.rule_store.limit_state({("queue", queue): RATE}).full_at.get(("queue", queue), [0])
    return round(max(full_at - 1000 * app.clock.now(), 0) / RATE.every)


@pytest.fixture
def budgeted(app: Headrace) -> Headrace:
    app.queue("default").configure(rate="1000 units/min", burst=1000)
    return app


def test_the_cost_is_that_of_the_call_or_else_of_the_task(app: Headrace) -> None:
    ask = app.task(name="ask", cost=300)(lambda: None)
    assert units_of(ask.enqueue().row.options) == 300
    assert units_of(ask.using(cost=7).enqueue().row.options) == 7
    assert units_of(app.task(name="plain")(lambda: None).enqueue().row.options) == 1


@pytest.mark.parametrize("cost", [0, -1, 1.5, "300", True, 10**9 + 1])
def test_what_is_no_cost_is_refused(app: Headrace, cost: Any) -> None:
    with pytest.raises(ConfigError, match="cost: expected a whole number of units from 1 to 1,000,000,000"):
        app.task(name="ask", cost=cost)


def test_a_worker_runs_as_many_as_there_are_units_and_says_what_holds_the_next(budgeted: Headrace) -> None:
    app = budgeted
    ask = app.task(name="ask", cost=400)(lambda: None)
    jobs = [ask.enqueue() for _ in range(3)]
    with app.worker():
        assert [job.wait(PATIENCE) for job in jobs[:2]] == ["completed"] * 2
        assert jobs[2].refresh().state == "pending"
        why = jobs[2].why()
        assert "It waits for 400 units of 1000 units/min of queue 'default', free in " in why
        assert app.queue("default").stats().starts_left is not None


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_run_reports_what_it_has_used_wherever_it_runs(budgeted: Headrace, isolation: Isolation) -> None:
    function = unit_tasks.areport if isolation == "async" else unit_tasks.report
    job = budgeted.task(name="report", cost=400, isolation=isolation)(function).enqueue(50)
    with budgeted.worker():
        assert job.wait(PATIENCE) == "completed"
    assert used(budgeted) <= 50


def test_a_run_that_fails_has_used_units_too() -> None:
    clock = VirtualClock()
    app = Headrace("memory://", clock=clock)
    app.queue("default").configure(rate="1000 units/min", burst=1000)

    @app.task(cost=100, retry=Retry(2, base=0.5, jitter=0))
    def fails() -> None:
        current_job().report_cost(1)
        current_job().report_cost(250)
        raise OSError("down")

    fails.enqueue()
    drain(app)
    assert used(app) == 250
    clock.advance(1)
    drain(app)
    assert used(app) == pytest.approx(483, abs=1)
    app.close()


def test_a_report_is_checked(app: Headrace) -> None:
    @app.task
    def report(units: Any) -> None:
        with pytest.raises(InvalidJob, match="units: expected a whole number of units from 0"):
            current_job().report_cost(units)

    jobs = [report.enqueue(units) for units in (-1, 1.5, "7", True)]
    drain(app)
    assert [job.refresh().state for job in jobs] == ["completed"] * 4


def test_a_queue_without_such_a_rate_takes_any_report(app: Headrace) -> None:
    job = app.task(name="report")(lambda: current_job().report_cost(10**9)).enqueue()
    drain(app)
    assert job.refresh().state == "completed"
