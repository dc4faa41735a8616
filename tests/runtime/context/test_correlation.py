"""One id goes through all that a cause sets off: jobs that jobs enqueue, children, flows, retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, Worker, chain, current_job
from headrace.testing import VirtualClock, drain
from tests.support.gates import SOON
from tests.support.waiting import PATIENCE


def test_what_a_job_sets_off_goes_back_to_it(app: Headrace, worker: Worker, task: Callable[..., Any]) -> None:
    @task(retry=SOON)
    def inner(tell: str) -> str:
        if current_job().attempt == 1:
            raise OSError
        return current_job().correlation_id

    @task
    def outer() -> list[str]:
        return [inner.enqueue("enqueued").id, current_job().spawn(inner.bind("spawned")).id]

    root = outer.enqueue()
    found = [app.jobs.get(job_id) for job_id in root.result(PATIENCE)]
    assert [job.result(PATIENCE) for job in found] == [root.id, root.id]
    assert [job.correlation_id for job in (root, *found)] == [root.id] * 3
    assert [job.metadata for job in found] == [{}, {}]
    assert {job.id for job in app.jobs.find(text=root.id)} == {root.id, *(job.id for job in found)}


@pytest.mark.engines("sqlite")
def test_a_flow_has_its_own_correlation_id_or_that_of_its_enqueuer(app: Headrace) -> None:
    @app.task
    def step(before: int = 0) -> int:
        return before + 1

    flow = chain(step.bind(), step.bind()).enqueue()
    assert {job.correlation_id for job in flow.jobs} == {flow.id}
    with app.correlation("request-1"):
        flow = chain(step.bind(), step.bind()).enqueue()
    assert {job.correlation_id for job in flow.jobs} == {"request-1"}


@pytest.mark.engines("sqlite")
def test_the_correlation_id_of_a_call_goes_first_and_is_inherited(app: Headrace) -> None:
    @app.task
    def inner() -> None: ...

    @app.task
    def outer() -> None:
        inner.enqueue()

    with app.correlation("around"):
        job = outer.using(metadata={"correlation_id": "said", "n": 1}).enqueue()
    drain(app)
    assert (job.correlation_id, job.metadata) == ("said", {"correlation_id": "said", "n": 1})
    (below,) = app.jobs.find(task="inner")
    assert below.correlation_id == "said"
    assert outer.enqueue().row.metadata is None


def test_the_jobs_of_a_schedule_go_back_to_themselves_wherever_it_was_made() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        report = app.task(name="report")(lambda: None)
        with app.correlation("deploy"):
            app.schedules.create("nightly", report.using(metadata={"a": 1}).bind(), every=60)
        clock.advance(60)
        drain(app)
        (job,) = app.jobs.find(task="report")
        assert job.correlation_id == job.id
        assert job.metadata["a"] == 1


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("wrong", ["", "x" * 201, 7, "\ud800"])
def test_an_id_that_is_none_is_refused(app: Headrace, wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="correlation"):
        app.correlation(wrong)
