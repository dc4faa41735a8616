"""Budgets: what the attempts of a job and the jobs of a flow report is summed, and stops at a ceiling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import BudgetExceeded, Headrace, InvalidJob, JobFailed, LeaseLost, chain, current_job, current_jobs, group
from headrace.core.jobs.budgets import Spending, cost_step
from headrace.core.jobs.ids import time_of
from headrace.core.jobs.records import ClaimRequest
from headrace.runtime.budgets import drop_budgets
from headrace.testing import VirtualClock, adrain, drain
from tests.runtime.jobs import shop
from tests.support.waiting import PATIENCE


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock, heartbeat=2.0, shutdown_timeout=5.0) as app:
        yield app


def test_the_reports_of_all_attempts_of_a_job_add_up(app: Headrace, clock: VirtualClock) -> None:
    @app.task(budget=1000, retry=3)
    def think(fails: int) -> str:
        current_job().report_cost(100)
        current_job().report_cost(300)
        current_job().report_cost(200)  # takes nothing back
        if current_job().attempt <= fails:
            raise OSError("again")
        return "thought"

    job = think.enqueue(2)
    for _ in range(3):
        drain(app)
        clock.advance(3600)
    assert (job.refresh().state, job.attempt, job.cost) == ("completed", 3, 900)


def test_a_report_beyond_the_ceiling_fails_the_job_for_good(app: Headrace) -> None:
    seen = list[str]()

    @app.task(budget=1000, retry=3)
    def think() -> None:
        current_job().report_cost(1000)
        try:
            current_job().report_cost(1001)
        except BudgetExceeded as error:
            seen.append(str(error))
            raise

    job = think.enqueue()
    drain(app)
    assert (job.refresh().state, job.reason, job.attempt, job.cost) == ("failed", "budget_exceeded", 1, 1001)
    assert seen == ["the job has used 1,001 of 1,000 units"]
    [letter] = app.dead.list()
    assert (letter.reason, letter.job_id) == ("budget_exceeded", job.id)
    with pytest.raises(JobFailed, match="1,001 of 1,000 units"):
        job.result(0)


def test_a_task_may_catch_it_and_end_with_what_it_has(app: Headrace) -> None:
    @app.task
    def think() -> str:
        try:
            current_job().report_cost(11)
        except BudgetExceeded:
            return "as far as I came"
        return "whole"

    job = think.using(budget=10).enqueue()
    drain(app)
    assert job.result(0) == "as far as I came"


def test_an_attempt_does_not_start_when_earlier_ones_used_more(app: Headrace, clock: VirtualClock) -> None:
    ran = list[int]()

    @app.task(budget=10, retry=3)
    def think() -> None:
        ran.append(current_job().attempt)
        try:
            current_job().report_cost(11)
        except BudgetExceeded:
            raise OSError("hides it") from None

    job = think.enqueue()
    for _ in range(3):
        drain(app)
        clock.advance(3600)
    assert (ran, job.refresh().reason) == ([1], "budget_exceeded")


def test_a_retry_by_hand_has_the_whole_budget_again(app: Headrace) -> None:
    @app.task(budget=10, retry=0)
    def think() -> None:
        current_job().report_cost(6)
        raise OSError("broken")

    job = think.enqueue()
    for runs in (1, 2, 3):
        drain(app)
        assert (job.refresh().reason, job.cost) == ("attempts_used_up", 6 * runs)
        job.retry()


def test_without_a_budget_nothing_is_stored(app: Headrace) -> None:
    @app.task
    def think() -> None:
        current_job().report_cost(6)

    job = think.enqueue()
    drain(app)
    assert job.cost == 0
    assert "cost" not in [entry.event for entry in job.history()]


# -- flows


def spend(app: Headrace) -> Any:
    @app.task
    def spend(units: int, *before: Any) -> int:
        current_job().report_cost(units)
        return units

    return spend


def test_the_jobs_of_a_flow_share_a_budget_and_later_ones_do_not_start(app: Headrace) -> None:
    task = spend(app)
    flow = app.flow("research", budget=100)
    jobs = [flow.add(task.using(priority=-n).bind(units)) for n, units in enumerate([60, 40, 1, 0])]
    run = flow.enqueue()
    assert run.spending == Spending(0, 100)
    drain(app)
    assert run.spending == Spending(101, 100)
    rows = [app.jobs.get(node.id) for node in jobs]
    assert [job.state for job in rows] == ["completed", "completed", "failed", "failed"]
    assert [job.reason for job in rows[2:]] == ["budget_exceeded"] * 2
    assert rows[3].errors[0].message == f"flow {run.id} has used 101 of 100 units"
    assert rows[3].cost == 0


def test_a_chain_and_a_group_have_a_budget_too(app: Headrace) -> None:
    task = spend(app)
    first = chain(task.bind(5), task.bind(7).detached(), budget=100).enqueue()
    second = group([task.bind(1), task.bind(2)], budget=50).enqueue()
    third = group(task.bind(1), budget=50).then(task.bind(4).detached()).enqueue()
    drain(app)
    assert [run.spending for run in (first, second, third)] == [Spending(12, 100), Spending(3, 50), Spending(5, 50)]
    assert chain(task.bind(1)).enqueue().spending is None


def test_spawned_jobs_count_in_the_flow(app: Headrace) -> None:
    task = spend(app)

    @app.task
    def parent() -> None:
        current_job().spawn(task.bind(3))
        current_job().spawn(task.bind(4), at_once=True)
        current_job().report_cost(10)

    flow = app.flow("tree", budget=100)
    flow.add(parent.bind())
    run = flow.enqueue()
    drain(app)
    assert (run.refresh().state, run.spending) == ("completed", Spending(17, 100))


def test_attempts_add_up_in_the_flow_and_more_budget_lets_it_go_on(app: Headrace) -> None:
    @app.task(retry=0)
    def think() -> None:
        current_job().report_cost(60)
        raise OSError("broken")

    run = group(think.bind(), budget=100).enqueue()
    drain(app)
    run.retry()
    drain(app)
    assert (run.spending, run.jobs[0].refresh().reason) == (Spending(120, 100), "budget_exceeded")
    assert run.set_budget(1000) == Spending(120, 1000)
    run.retry()
    drain(app)
    assert (run.spending, run.jobs[0].refresh().reason) == (Spending(180, 1000), "attempts_used_up")


def test_a_large_flow_counts_each_run_once(app: Headrace) -> None:
    task = spend(app)
    run = group([task.bind(1) for _ in range(250)], budget=1000).enqueue()
    drain(app)
    assert run.spending == Spending(250, 1000)


def test_a_part_has_no_budget_of_its_own(app: Headrace) -> None:
    task = spend(app)
    part = group(task.bind(1), budget=5)
    for refused in (lambda: chain(part), lambda: app.flow("f").add(part), lambda: app.flow("f", budget=0)):
        with pytest.raises(InvalidJob, match="budget"):
            refused()
    whole = app.flow("whole")
    other = app.flow("other", budget=5)
    other.add(task.bind(1))
    with pytest.raises(InvalidJob, match="budget of its own"):
        whole.add(other)
    with pytest.raises(InvalidJob, match="without a budget"):
        chain(task.bind(1)).enqueue().set_budget(5)


def test_a_process_reports_as_well(app: Headrace) -> None:
    flow = app.flow("boxes", budget=100)
    node = flow.add(app.task(isolation="process")(shop.report_thirty).using(budget=20).bind())
    run = flow.enqueue()
    with app.worker(concurrency=1):
        job = app.jobs.get(node.id)
        assert job.wait(PATIENCE) == "failed"
    assert (job.reason, job.cost, run.spending) == ("budget_exceeded", 30, Spending(30, 100))


def test_a_coroutine_reports_without_blocking(app: Headrace) -> None:
    @app.task(budget=10)
    async def think() -> None:
        await current_job().areport_cost(7)

    job = think.enqueue()
    asyncio.run(adrain(app))
    assert job.cost == 7


def test_a_report_that_did_not_reach_the_flow_is_added_by_the_next_attempt(app: Headrace, clock: VirtualClock) -> None:
    task = spend(app)
    run = group(task.bind(5), budget=100).enqueue()
    request = ClaimRequest("killed", 1, 1000)
    [claim] = app.engine.exchange([], request).claims
    assert app.engine.save_step(claim.lease, cost_step(7, claim.version, clock.now()))  # and then kill -9
    clock.advance(60)
    app.engine.reap(10)
    drain(app)
    assert (run.jobs[0].refresh().cost, run.spending) == (12, Spending(12, 100))


def test_a_report_of_a_run_that_lost_its_job_is_refused(app: Headrace) -> None:
    seen = list[str]()

    @app.task(budget=100)
    def think() -> None:
        app.jobs.get(current_job().id).cancel()
        try:
            current_job().report_cost(5)
        except LeaseLost as error:
            seen.append(str(error))

    job = think.enqueue()
    drain(app)
    assert (job.cost, len(seen)) == (0, 1)


def test_retention_deletes_the_budgets_of_flows_that_are_gone(app: Headrace) -> None:
    def kept(days: int) -> list[str]:
        drop_budgets(app.engine, (time_of(run.id) or 0) + days * 86_400_000)
        return [document.key for document in app.engine.document_store.get("budget")]

    run = chain(spend(app).bind(1), budget=5).enqueue()
    drain(app)
    assert kept(days=2) == [run.id]
    for job in run.jobs:
        job.delete()
    assert kept(days=1) == [run.id], "its jobs may be about to be committed"
    assert kept(days=2) == []


def test_a_job_of_a_batch_exceeds_its_budget_alone(app: Headrace) -> None:
    @app.task(batch=10, budget=10, retry=0)
    def think(costs: list[int]) -> list[int]:
        for job, cost in zip(current_jobs(), costs, strict=True):
            job.report_cost(cost)
        if 13 in costs:
            raise OSError("away")
        return costs

    jobs = [think.enqueue(cost) for cost in (5, 20, 0)]
    drain(app)
    assert [(job.refresh().state, job.reason, job.cost) for job in jobs] == [
        ("completed", None, 5),
        ("failed", "budget_exceeded", 20),
        ("completed", None, 0),
    ]
    jobs = [think.enqueue(cost) for cost in (13, 5)]
    drain(app)
    assert [job.refresh().reason for job in jobs] == ["budget_exceeded", "attempts_used_up"]
