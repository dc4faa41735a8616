"""Options that conflict in a flow are refused, or left out, and the error names the flow."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import FlowNotFound, Headrace, InvalidJob, JobFailed, PayloadTooLarge, Task, chain, group
from headrace.testing import drain
from tests.support.waiting import PATIENCE

AnyTask = Task[..., Any, Any]


@dataclass(frozen=True)
class Order:
    number: int


@pytest.fixture
def give(app: Headrace) -> AnyTask:
    @app.task(retry=0)
    def give(value: Any = None) -> Any:
        return value

    return give


@pytest.mark.engines("sqlite")
def test_a_node_of_another_flow_is_refused_also_in_a_list(app: Headrace, give: AnyTask) -> None:
    stranger = app.flow("theirs").add(give.bind())
    for after in (stranger, [stranger], [[stranger]], (stranger,)):
        flow = app.flow("ours")
        flow.add(give.bind()).after(after)
        with pytest.raises(InvalidJob, match="was added to another flow, 'theirs'"):
            flow.enqueue()
    flow = app.flow("ours")
    own = flow.add(give.bind())
    assert flow.add(give.bind()).after([own, "some-job"]).waits_for == (own.id, "some-job")


@pytest.mark.parametrize("in_worker", [False, True])
def test_a_result_that_does_not_fit_is_reported_with_the_parent_it_came_from(
    app: Headrace, give: AnyTask, in_worker: bool
) -> None:
    @app.task
    def ship(order: Order, *more: Order) -> None: ...

    flow = app.flow("unfit")
    bad, good = flow.add(give.bind({"number": "seven"})), flow.add(give.bind({"number": 7}))
    flow.add(ship.bind(bad))
    flow.add(ship.bind(good, bad))
    run = flow.enqueue()
    if in_worker:
        with app.worker(concurrency=1):
            run.wait(PATIENCE)
    else:
        drain(app)
    _, _, single, several = run.refresh().jobs
    with pytest.raises(
        JobFailed, match=rf"ship\(\) argument 'order'.*the result of its parent {bad.id} does not fit"
    ) as failed:
        single.result()
    assert (failed.value.reason, single.attempt) == ("parent_result_unfit", 1)
    with pytest.raises(JobFailed, match=rf"a result of one of its 2 parents, the first of which is {good.id}"):
        several.result()


def test_results_leave_out_what_could_not_be_stored(app: Headrace, give: AnyTask) -> None:
    lost: AnyTask = app.task(name="lost")(object)
    run = group(lost.bind(), give.bind(2)).enqueue()
    drain(app)
    assert run.refresh().state == "completed"
    assert run.results == {run.jobs[1].id: 2}


@pytest.mark.engines("sqlite")
def test_too_many_results_for_one_job_have_their_own_error() -> None:
    with Headrace("memory://", max_payload=2000) as app:
        count: AnyTask = app.task(name="count")(len)
        give: AnyTask = app.task(name="give")(str)
        with pytest.raises(PayloadTooLarge, match=r"count: the ids of the 100 jobs .*max_payload, or split the group"):
            group(give.bind(n) for n in range(100)).then(count.bind()).enqueue()
        with pytest.raises(PayloadTooLarge, match="keep the data in a file"):
            chain(give.bind(1), app.task(name="large")(max).bind("x" * 3000)).enqueue()
        assert app.jobs.count() == 0


@pytest.mark.engines("sqlite")
def test_a_flow_is_stored_on_one_connection(app: Headrace, give: AnyTask) -> None:
    flow = app.flow("two doors")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        flow.add(give.using(connection=connection).bind(1))
        flow.add(give.bind(2))
        with pytest.raises(InvalidJob, match="flow 'two doors': all jobs must use the same connection"):
            flow.enqueue()


def test_flows_before_one_that_is_nowhere_are_no_flows(app: Headrace, give: AnyTask) -> None:
    run = chain(give.bind(1)).enqueue()
    with pytest.raises(FlowNotFound, match="nope"):
        app.flows.list(before="nope")
    assert app.flows.list(before=run.id) == []


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("make", [chain, group])
def test_a_value_that_is_nested_too_deep_is_refused_with_our_error(app: Headrace, give: AnyTask, make: Any) -> None:
    def nested(levels: int) -> Any:
        whole = make(give.bind(1))
        for _ in range(levels - 1):
            whole = make(whole)
        return whole

    run = nested(150).enqueue()
    drain(app)
    assert str(run.result()).strip("[]") == "1"
    with pytest.raises(InvalidJob, match="nested deeper than 200 levels"):
        nested(2000).enqueue()
