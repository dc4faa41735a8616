"""Flows from end to end: what waits for what, what it is given, and what becomes of it if that goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    Call,
    EngineUnavailable,
    FlowNotFound,
    FlowRun,
    Headrace,
    InvalidJob,
    Job,
    JobCancelled,
    JobFailed,
    ParentFailure,
    RetryLater,
    State,
    Task,
    Unique,
    chain,
    current_job,
    group,
)
from headrace.runtime.worker.results import ResultResolver
from headrace.testing import drain
from tests.runtime.jobs import shop
from tests.support.gates import Gate, through
from tests.support.waiting import PATIENCE, eventually

AnyTask = Task[..., Any, Any]


@dataclass(frozen=True)
class Order:
    number: int
    price: float


@pytest.fixture
def give(app: Headrace) -> AnyTask:
    @app.task
    def give(value: Any = None) -> Any:
        return value

    return give


@pytest.fixture
def listed(app: Headrace) -> AnyTask:
    @app.task
    def listed(*args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    return listed


@pytest.fixture
def broken(app: Headrace) -> AnyTask:
    """Fails until it is mended."""

    @app.task(retry=0)
    def broken() -> str:
        if not broken.mended:  # type: ignore[attr-defined]
            raise ValueError("no such thing")
        return "mended"

    broken.mended = False  # type: ignore[attr-defined]
    return broken


def states(run: FlowRun) -> list[str]:
    return [job.state.value for job in run.refresh().jobs]


# -- what is given


def test_a_node_as_an_argument_is_a_dependency_and_gives_its_result(
    app: Headrace, give: AnyTask, listed: AnyTask
) -> None:
    flow = app.flow("import")
    raw = flow.add(give.bind({"rows": [1, 2]}))
    when = flow.add(give.bind(datetime(2026, 3, 1, tzinfo=UTC)))
    last = flow.add(listed.bind(raw, [raw, (when,)], by={"name": when}))
    run = flow.enqueue()
    assert (run.name, run.state, run.progress) == ("import", "running", (0, 3))
    assert states(run) == ["pending", "pending", "waiting"]
    assert drain(app) == 3
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    expected = [[{"rows": [1, 2]}, [{"rows": [1, 2]}, (moment,)]], {"by": {"name": moment}}]
    assert run.result() == expected
    assert (run.state, run.progress) == ("completed", (3, 3))
    assert run.results == {raw.id: {"rows": [1, 2]}, when.id: moment, last.id: expected}
    assert [job.id for job in run.jobs] == [raw.id, when.id, last.id]


@pytest.mark.usefixtures("worker")
def test_a_model_is_rebuilt_by_the_annotation_of_the_job_that_is_given_it(
    app: Headrace, task: Callable[..., Any]
) -> None:
    @task
    def place(number: int) -> Order:
        return Order(number, 9.5)

    @task
    def total(orders: list[Order], first: Order) -> float:
        assert first.number == 1
        return sum(order.price for order in orders)

    flow = app.flow("orders")
    orders = [flow.add(place.bind(number)) for number in (1, 2)]
    flow.add(total.bind(orders, first=orders[0]))
    assert flow.enqueue().result(PATIENCE) == 19.0


def test_a_handle_of_a_job_as_an_argument_is_a_dependency_too(app: Headrace, give: AnyTask, listed: AnyTask) -> None:
    first = give.enqueue("early")
    second = listed.enqueue(first, again=[first])
    assert second.refresh().state == "waiting"
    assert second.args[0].id == first.id
    drain(app)
    third = give.enqueue(first)
    drain(app)
    assert (second.result(), third.result()) == ([["early"], {"again": ["early"]}], "early")
    assert (second.parents(), first.children()) == ([first], [second, third])
    assert first.flow is None


def test_none_is_a_result_like_any_other(app: Headrace, give: AnyTask, listed: AnyTask) -> None:
    run = chain(give.bind(None), listed.bind()).enqueue()
    drain(app)
    assert run.result() == [[None], {}]


def test_what_comes_after_others_waits_for_them_without_their_results(app: Headrace, give: AnyTask) -> None:
    order: list[str] = []

    @app.task
    def step(name: str) -> None:
        order.append(name)

    flow = app.flow("steps")
    last = flow.add(step.bind("last"))
    first = flow.add(step.using(priority=-100).bind("first"))
    flow.add(step.bind("middle"), after=[first])
    last.after(first, flow.add(step.bind("also")))
    run = flow.enqueue()
    outside = step.using(after=[*run.jobs], priority=100).enqueue("outside")
    by_id = step.using(after=outside.id).enqueue("by id")
    drain(app)
    assert order.index("first") < order.index("middle")
    assert order.index("last") > max(order.index("first"), order.index("also"))
    assert order[-2:] == ["outside", "by id"]
    assert by_id.refresh().state == "completed"


def test_a_job_can_be_put_before_one_that_waits_already(app: Headrace, give: AnyTask) -> None:
    late = give.using(delay=3600).enqueue("late")
    early = give.using(parent=late).enqueue("early")
    assert late.refresh().state == "waiting"
    assert (late.parents(), early.children()) == ([early], [late])
    assert "first job" not in late.why()
    drain(app)
    assert (early.refresh().state, late.refresh().state) == ("completed", "scheduled")


def test_many_jobs_in_one_commit_may_wait_for_others(app: Headrace, give: AnyTask) -> None:
    gate = give.enqueue(0)
    calls: list[Call[Any]] = [give.bind(1), give.using(after=[gate]).bind(2), give.bind(gate)]
    jobs = app.enqueue_many(calls)
    assert [job.refresh().state for job in jobs] == ["pending", "waiting", "waiting"]
    drain(app)
    assert [job.result() for job in jobs] == [1, 2, 0]


# -- chains and groups


def test_a_chain_hands_each_result_on_as_the_first_argument(app: Headrace, give: AnyTask, listed: AnyTask) -> None:
    run = chain(give.bind(1), listed.bind("x", k=2), listed.bind()).enqueue()
    drain(app)
    assert run.result() == [[[[1, "x"], {"k": 2}]], {}]
    assert run.name == "chain"


def test_a_group_ends_with_the_list_of_results_in_its_order(app: Headrace, give: AnyTask) -> None:
    several, single = group(give.bind(n) for n in range(3)).enqueue(), group([give.bind("only")]).enqueue()
    drain(app)
    assert (several.result(), single.result()) == ([0, 1, 2], ["only"])


def test_chains_and_groups_nest(app: Headrace, give: AnyTask, listed: AnyTask) -> None:
    inner = chain(give.bind(), listed.bind("c"))
    whole = chain(give.bind("a"), group(give.bind(), inner, group(give.bind(), give.bind())), listed.bind("end"))
    run = whole.enqueue()
    summary = group(give.bind(1), give.bind(2)).then(give.bind(), listed.bind()).enqueue()
    drain(app)
    assert run.result() == [[["a", [["a", "c"], {}], ["a", "a"]], "end"], {}]
    assert summary.result() == [[[1, 2]], {}]


@pytest.mark.parametrize("make", [chain, group])
@pytest.mark.parametrize("parts", [(1,), ("fetch",), ([1],), (None,)], ids=repr)
@pytest.mark.engines("sqlite")
def test_what_is_no_call_is_refused(make: Callable[..., Any], parts: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidJob, match=make.__name__):
        make(*parts)


@pytest.mark.slow
def test_ten_thousand_results_go_into_one_job(app: Headrace, give: AnyTask) -> None:
    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    run = group(give.bind(n) for n in range(10_000)).then(total.bind()).enqueue()
    with app.worker(concurrency=2):
        assert run.result(120) == sum(range(10_000))
    assert run.progress == (10_001, 10_001)


# -- what is refused


def test_a_circle_a_stranger_and_an_empty_flow_are_refused_and_nothing_is_stored(
    app: Headrace, give: AnyTask, listed: AnyTask
) -> None:
    loop = app.flow("loop")
    a = loop.add(give.bind())
    b = loop.add(listed.bind(a))
    a.after(b)
    with pytest.raises(InvalidJob, match=r"give -> listed -> give|listed -> give -> listed"):
        loop.enqueue()
    flow = app.flow("ours")
    flow.add(give.bind(app.flow("theirs").add(give.bind())))
    with pytest.raises(InvalidJob, match="'theirs'"):
        flow.enqueue()
    with pytest.raises(InvalidJob, match="has no jobs"):
        app.flow("empty").enqueue()
    assert app.jobs.count() == 0
    assert app.flows.list() == []


def test_a_job_that_is_nowhere_can_not_be_waited_for(app: Headrace, give: AnyTask) -> None:
    with pytest.raises(InvalidJob, match="job-nowhere"):
        give.using(after=["job-nowhere"]).enqueue()
    gone = give.enqueue()
    assert gone.delete()
    with pytest.raises(InvalidJob, match=gone.id):
        give.enqueue(gone)
    flow = app.flow("f")
    flow.add(give.bind(1))
    flow.add(give.bind(gone))
    with pytest.raises(InvalidJob, match=gone.id):
        flow.enqueue()
    assert app.jobs.count() == 0


def test_a_bad_call_in_a_flow_stores_nothing(app: Headrace) -> None:
    @app.task
    def strict(number: int) -> int:
        return number

    flow = app.flow("f")
    flow.add(strict.bind(1))
    flow.add(strict.bind("one"))
    with pytest.raises(InvalidJob, match="number"):
        flow.enqueue()
    assert app.jobs.count() == 0


def test_a_flow_is_enqueued_once(app: Headrace, give: AnyTask) -> None:
    flow = app.flow("once")
    flow.add(give.bind())
    flow.enqueue()
    with pytest.raises(InvalidJob, match="already enqueued"):
        flow.enqueue()
    with pytest.raises(InvalidJob, match="already enqueued"):
        flow.add(give.bind())
    assert app.jobs.count() == 1


def test_wrong_options_and_arguments_are_refused(app: Headrace, give: AnyTask) -> None:
    flow = app.flow("f")
    with Headrace("memory://") as other, pytest.raises(InvalidJob, match="another app"):
        flow.add(other.task_by_name("stranger").bind())
    for wrong in (None, 3, give, "give"):
        with pytest.raises(InvalidJob, match="expected a call"):
            flow.add(wrong)  # type: ignore[call-overload]
    for name in ("", None, "x" * 101, "line\nbreak"):
        with pytest.raises(InvalidJob, match="flow"):
            app.flow(name)  # type: ignore[arg-type]
    for options in ({"on_parent_failure": "ignore"}, {"after": 7}, {"after": [None]}, {"parent": 3}):
        with pytest.raises(InvalidJob, match=next(iter(options))):
            give.using(**options)
    with pytest.raises(InvalidJob, match="on_parent_failure"):
        flow.add(give.bind(), on_parent_failure="explode")  # type: ignore[call-overload]
    for after in (3, [None], [[3]], object()):
        refusing = app.flow("after")
        with pytest.raises(InvalidJob, match="after: expected"):
            refusing.add(give.bind(), after=after)
        with pytest.raises(InvalidJob, match="has no jobs"):
            refusing.enqueue()
    assert app.flow("after").add(give.bind(), after=None).waits_for == ()
    with pytest.raises(InvalidJob, match="wait for itself"):
        give.using(job_id="me", after=["me"]).enqueue()


@pytest.mark.parametrize(
    "options",
    [{"unique": Unique()}, {"idempotency_key": "k"}, {"debounce": 5}, {"throttle": 5}],
    ids=lambda options: next(iter(options)),
)
def test_what_may_be_the_same_as_another_can_not_wait(app: Headrace, give: AnyTask, options: dict[str, Any]) -> None:
    name = next(iter(options))
    parent = give.enqueue()
    with pytest.raises(InvalidJob, match=name):
        give.using(**options, after=[parent])
    with pytest.raises(InvalidJob, match=name):
        give.using(**options).enqueue(parent)
    with pytest.raises(InvalidJob, match=name):
        chain(give.bind(), give.using(**options).bind()).enqueue()
    with pytest.raises(InvalidJob, match=name):
        app.enqueue_many([give.using(**options).bind(1), give.bind(parent)])
    assert app.jobs.count() == 1


def test_a_result_that_is_not_kept_can_not_be_promised(app: Headrace, give: AnyTask) -> None:
    with pytest.raises(InvalidJob, match="keep_result=False"):
        chain(give.using(keep_result=False).bind(1), give.bind()).enqueue()
    flow = app.flow("fine")
    flow.add(give.bind()).after(flow.add(give.using(keep_result=False).bind(1)))
    assert flow.enqueue().state == "running"


def test_a_schedule_can_not_wait_for_a_job(app: Headrace, give: AnyTask) -> None:
    with pytest.raises(InvalidJob, match="schedule"):
        app.schedules.create("s", give.bind(give.enqueue()), every=60)


# -- when it goes wrong


def test_policies_decide_what_becomes_of_the_children_of_a_failed_job(
    app: Headrace, give: AnyTask, broken: AnyTask
) -> None:
    flow = app.flow("policies")
    bad = flow.add(broken.bind())
    cancelled = flow.add(give.bind(bad))
    flow.add(give.bind(cancelled))
    runs = flow.add(give.bind(bad), on_parent_failure="run")
    flow.add(give.using(on_parent_failure="hold").bind(bad))
    run = flow.enqueue()
    drain(app)
    assert states(run) == ["failed", "cancelled", "cancelled", "completed", "waiting"]
    assert run.results[runs.id] == ParentFailure(bad.id, "broken", State.FAILED, "ValueError", "no such thing")
    assert run.state == "running"
    held = run.jobs[4]
    assert "held" in held.why()
    assert f"headrace jobs retry {bad.id}" in held.why()
    assert f"headrace jobs promote {held.id}" in held.why()
    assert held.promote()
    drain(app)
    assert isinstance(held.result(), ParentFailure)
    assert run.refresh().state == "failed"


def test_the_result_of_a_flow_raises_the_error_of_the_job_at_fault(
    app: Headrace, give: AnyTask, broken: AnyTask
) -> None:
    run = chain(broken.bind(), give.bind(), give.bind()).enqueue()
    drain(app)
    with pytest.raises(JobFailed, match="no such thing") as failed:
        run.result(PATIENCE)
    assert failed.value.job_id == run.jobs[0].id
    with pytest.raises(JobCancelled, match="parent_failed"):
        run.jobs[1].result()
    assert f"Its parent {run.jobs[0].id} (task broken) failed" in run.jobs[1].why()
    assert "its parent" in str([entry.message for entry in run.jobs[1].history()])


def test_retry_runs_the_failed_part_again(app: Headrace, give: AnyTask, broken: AnyTask) -> None:
    flow = app.flow("retried")
    ok = flow.add(give.bind("ok"))
    bad = flow.add(broken.bind()).after(ok)
    flow.add(give.bind([ok, bad]))
    run = flow.enqueue()
    drain(app)
    assert states(run) == ["completed", "failed", "cancelled"]
    broken.mended = True  # type: ignore[attr-defined]
    assert run.retry() == 1
    assert states(run) == ["completed", "pending", "waiting"]
    drain(app)
    assert run.result() == ["ok", "mended"]
    assert [job.attempt for job in run.jobs] == [1, 1, 1]
    assert run.retry() == 0


def test_cancel_ends_whatever_is_not_over(app: Headrace, give: AnyTask) -> None:
    run = chain(give.bind(1), give.using(delay=60).bind(), give.bind(), give.bind()).enqueue()
    drain(app)
    assert run.cancel() == 3
    assert (run.state, run.progress) == ("cancelled", (4, 4))
    assert run.cancel() == 0
    with pytest.raises(JobCancelled):
        run.result()


@pytest.mark.parametrize("how", ["deleted", "not kept", "lost"])
def test_a_promised_result_that_is_gone_fails_the_job_for_good_and_names_its_parent(
    app: Headrace, give: AnyTask, how: str
) -> None:
    unstorable = app.task(name="unstorable")(object)
    parent = (unstorable if how == "lost" else give.using(keep_result=how != "not kept")).enqueue()
    child = give.using(delay=60).enqueue(parent)
    drain(app)
    assert child.refresh().state == "scheduled"
    if how == "deleted":
        assert parent.delete()
    assert child.promote()
    with app.worker(concurrency=1), pytest.raises(JobFailed, match=parent.id) as failed:
        child.result(PATIENCE)
    assert failed.value.reason == "parent_result_missing"
    assert child.refresh().attempt == 1


def test_a_job_that_is_run_before_its_time_has_no_result_to_be_given(app: Headrace, give: AnyTask) -> None:
    child = give.enqueue(give.using(delay=3600).enqueue(1))
    assert child.promote()
    drain(app)
    with pytest.raises(JobFailed, match="no result yet"):
        child.result()


def test_a_store_that_is_away_while_results_are_read_costs_no_job(
    app: Headrace, give: AnyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages = [EngineUnavailable("away for a moment")]
    resolve_results = ResultResolver.resolve_results

    def away_at_first(self: ResultResolver, claims: Any) -> Any:
        if outages:
            raise outages.pop()
        return resolve_results(self, claims)

    monkeypatch.setattr(ResultResolver, "resolve_results", away_at_first)
    run = chain(give.bind(1), give.bind()).enqueue()
    with app.worker(concurrency=1):
        assert run.result(PATIENCE) == 1
    assert outages == []
    assert [job.attempt for job in run.jobs] == [1, 1]


# -- jobs that jobs make


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("at_once", [False, True])
def test_a_job_is_not_completed_before_those_it_spawned(
    app: Headrace, kind: str, task: Callable[..., Any], at_once: bool
) -> None:
    gate = Gate()
    child: AnyTask = app.task(name="child")(through(kind, gate, lambda: "done"))

    @task
    def parent() -> str:
        return current_job().spawn(child.bind(), at_once=at_once).id

    run = chain(parent.bind(), app.task(name="after")(lambda value: value).bind()).enqueue()
    gate.wait_until_reached()
    first = run.jobs[0]
    eventually(lambda: first.refresh().state == "waiting", "its own run")
    assert "Its own run has ended" in first.why()
    gate.open()
    child_id = run.result(PATIENCE)
    spawned = app.jobs.get(child_id)
    assert (spawned.result(), spawned.flow, spawned.children()) == ("done", run.id, [first])
    assert run.refresh().progress == (3, 3)
    assert first.refresh().state == "completed"
    found = [(entry.event, entry.from_state, entry.to_state) for entry in first.history()]
    assert found[-2:] == [("succeed", "running", "waiting"), ("unblock", "waiting", "completed")]


def test_what_a_failed_attempt_spawned_is_not_stored(app: Headrace, give: AnyTask) -> None:
    @app.task(retry=0)
    def parent() -> None:
        current_job().spawn(give.bind(1))
        raise ValueError("no")

    job = parent.enqueue()
    drain(app)
    assert (job.refresh().state, app.jobs.count()) == ("failed", 1)


def test_a_later_attempt_finds_what_an_earlier_one_spawned_at_once(app: Headrace, give: AnyTask) -> None:
    @app.task
    def parent() -> list[str]:
        jobs = [current_job().spawn(give.bind(number), at_once=True) for number in range(3)]
        if current_job().attempt == 1:
            raise RetryLater(delay=60)
        return [job.id for job in jobs]

    job = parent.enqueue()
    drain(app)
    job.promote()
    drain(app)
    assert job.result() == [f"{job.id}.{number}" for number in (1, 2, 3)]
    assert app.jobs.count(task="give") == 3
    assert job.attempt == 2


def test_a_spawned_job_that_fails_cancels_its_parent_or_does_not(app: Headrace, broken: AnyTask) -> None:
    @app.task
    def parent(policy: Any) -> Any:
        current_job().spawn(broken.using(on_parent_failure=policy).bind())
        return policy

    jobs = [parent.enqueue(policy) for policy in ("cancel", "run", "hold")]
    drain(app)
    assert [job.refresh().state for job in jobs] == ["cancelled", "completed", "waiting"]
    assert jobs[1].result() == "run"


def test_only_calls_can_be_spawned_and_only_by_a_running_job(app: Headrace, give: AnyTask) -> None:
    @app.task(retry=0)
    def parent() -> list[str]:
        found = []
        for wrong in (give, None, give.using(unique=True).bind(), give.using(parent="x").bind()):
            with pytest.raises(InvalidJob) as refused:
                current_job().spawn(wrong)  # type: ignore[arg-type]
            found.append(str(refused.value))
        return found

    job = parent.enqueue()
    drain(app)
    found = job.result()
    assert [part in line for part, line in zip(("call", "call", "unique", "parent"), found, strict=True)] == [True] * 4


@pytest.mark.engines("sqlite")
def test_a_sandbox_can_spawn_and_be_given_results() -> None:
    app = shop.family
    with app, app.worker(concurrency=2):
        first = shop.grown.enqueue(1)
        job = app.enqueue(shop.spawning, first)
        assert app.jobs.get(job.result(PATIENCE)).result(PATIENCE) == 4


@pytest.mark.engines("sqlite")
def test_what_a_sandbox_can_not_see_it_can_not_store_under() -> None:
    app = shop.family
    with app, app.worker(concurrency=1), pytest.raises(JobFailed, match="leave at_once out"):
        shop.spawning_at_once.enqueue().result(PATIENCE)


@pytest.mark.engines("postgres", "redis")
def test_a_spool_takes_no_job_that_waits_for_others(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise EngineUnavailable("the server is away")

    with Headrace(url, spool=str(folder / "spool.db")) as app:
        give = app.task(name="give")(lambda value=None: value)
        parent = give.enqueue()
        monkeypatch.setattr(app.engine, "insert", away)
        with pytest.raises(EngineUnavailable, match="away"):
            give.enqueue(parent)
        with pytest.raises(EngineUnavailable, match="away"):
            chain(give.bind(), give.bind()).enqueue()
        assert (app.spooled(), app.jobs.count()) == (0, 1)


# -- handles


def test_the_graph_of_a_flow_is_data_and_drawings(app: Headrace, give: AnyTask) -> None:
    flow = app.flow("drawn")
    a = flow.add(give.bind(1))
    b = flow.add(give.bind(a), on_parent_failure="hold")
    run = flow.enqueue()
    graph = run.graph()
    assert graph["edges"] == [{"from": a.id, "to": b.id, "policy": "hold"}]
    assert [(node["id"], node["state"]) for node in graph["nodes"]] == [(a.id, "pending"), (b.id, "waiting")]
    assert "n1 --> n2" in run.mermaid()
    assert run.svg().count("<rect") == 2


@pytest.mark.every_engine
def test_a_handle_shows_the_state_of_a_job_whose_parents_were_over(app: Headrace, give: AnyTask) -> None:
    @app.task(retry=0)
    def fail() -> None:
        raise OSError

    done, failed = give.enqueue(1), fail.enqueue()
    drain(app)
    open_one = give.enqueue(2)
    for parent, state in ((done, State.PENDING), (failed, State.CANCELLED), (open_one, State.WAITING)):
        after = give.using(after=[parent]).enqueue()
        assert (after.state, app.jobs.get(after.id).state) == (state, state)
    later = give.using(after=[done], delay=60).enqueue()
    assert later.state is State.SCHEDULED
    assert asyncio.run(_enqueued(give.using(after=[failed]))).state is State.CANCELLED


async def _enqueued(task: AnyTask) -> Job[Any]:
    return await task.aenqueue()


def test_a_node_is_shown_by_its_name_and_keeps_its_metadata(app: Headrace) -> None:
    flow = app.flow("import")
    tagged = app.task_by_name("load").using(metadata={"source": "crm"})
    flow.add(tagged.bind(1), name="load users")
    flow.add(tagged.bind(2))
    run = flow.enqueue()
    assert [(node["name"], node["task"]) for node in run.graph()["nodes"]] == [("load users", "load"), ("load", "load")]
    assert run.jobs[0].metadata == {"source": "crm", "name": "load users"}
    assert "load users" in run.mermaid()
    assert "load users" in run.svg()


@pytest.mark.parametrize("name", ["", 7])
def test_a_node_without_a_proper_name_is_refused(app: Headrace, name: Any) -> None:
    flow = app.flow("import")
    with pytest.raises(InvalidJob, match="name"):
        flow.add(app.task_by_name("load").bind(1), name=name)


def test_flows_are_listed_newest_first_and_found_by_id(app: Headrace, give: AnyTask) -> None:
    runs = [group(give.bind(n), give.bind(n)).enqueue() for n in range(3)]
    assert app.flows.list() == runs[::-1]
    assert app.flows.list(limit=1, before=runs[1].id) == [runs[0]]
    assert [job.id for job in app.flows.get(runs[0].id).jobs] == [job.id for job in runs[0].jobs]
    assert app.jobs.count(flow=runs[0]) == app.jobs.count(flow=runs[0].id) == 2
    drain(app)
    assert app.flows.get(runs[2].id).result() == [2, 2]
    assert app.jobs.delete(flow=runs[1].id) == 2
    with pytest.raises(FlowNotFound, match=runs[1].id):
        runs[1].refresh()
    assert app.flows.list() == [runs[2], runs[0]]


def test_a_flow_that_takes_too_long_says_how_far_it_is(app: Headrace, give: AnyTask) -> None:
    run = chain(give.bind(1), give.using(delay=3600).bind()).enqueue()
    drain(app)
    for wait in (run.wait, run.result):
        with pytest.raises(TimeoutError, match=r"1 of 2 jobs have finished.*scheduled to run in"):
            wait(0.01)
    with pytest.raises(InvalidJob, match="timeout"):
        run.wait("soon")  # type: ignore[arg-type]


@pytest.mark.usefixtures("worker")
def test_all_of_it_has_async_twins(app: Headrace, give: AnyTask) -> None:
    async def use() -> None:
        flow = app.flow("async")
        flow.add(give.bind(flow.add(give.bind(1))))
        run = await flow.aenqueue()
        assert await run == await run.aresult(PATIENCE) == 1
        assert await run.await_(PATIENCE) == "completed"
        assert len(await run.ajobs()) == len(await run.aresults()) == 2
        assert (await app.flows.aget(run.id), (await app.flows.alist())[0]) == (run, run)
        assert await (await chain(give.bind(2), give.bind()).aenqueue()) == 2
        first = await give.aenqueue(3)
        second = await give.aenqueue(first)
        assert await second == 3
        assert (await second.aparents(), await first.achildren()) == ([first], [second])

    asyncio.run(use())


def test_a_waiting_job_says_what_it_waits_for(app: Headrace, give: AnyTask) -> None:
    parents = [give.using(delay=60).enqueue(n) for n in range(3)]
    child = give.using(after=parents).enqueue()
    single = give.enqueue(parents[0])
    assert child.why() == f"It waits for 3 of 3 jobs, first job {parents[0].id} (task give), which is scheduled."
    assert single.why() == f"It waits for job {parents[0].id} (task give), which is scheduled."
    assert parents[0].promote()
    drain(app)
    assert child.why() == f"It waits for 2 of 3 jobs, first job {parents[1].id} (task give), which is scheduled."


def test_a_child_with_a_time_of_its_own_waits_for_that_as_well(app: Headrace, give: AnyTask) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    run = chain(give.bind(1), give.using(run_at=later).bind()).enqueue()
    drain(app)
    assert states(run) == ["completed", "scheduled"]


# -- a group of nothing


@pytest.mark.engines("sqlite")
def test_what_follows_an_empty_group_gets_an_empty_list_and_keeps_its_place(app: Headrace) -> None:
    ran: list[str] = []

    @app.task(name="note")
    def note(name: str) -> str:
        ran.append(name)
        return name

    @app.task(name="count")
    def count(results: list[Any], suffix: str = "-") -> str:
        ran.append("count")
        return f"{len(results)} {suffix}"

    alone = group([]).then(count.bind(suffix="alone")).enqueue()
    behind = chain(note.bind("first"), group([]), group([]), count.bind(suffix="behind")).enqueue()
    inside = group(note.bind("x"), group([])).enqueue()
    last = chain(note.bind("last"), group([])).enqueue()
    drain(app)
    assert alone.result(PATIENCE) == "0 alone"
    assert behind.result(PATIENCE) == "0 behind"
    assert inside.result(PATIENCE) == ["x", []]
    assert (last.result(PATIENCE), last.refresh().state) == ([], "completed")
    graph = behind.graph()
    assert len(graph["edges"]) == 1, "it waits for what stood before the empty groups"


@pytest.mark.engines("sqlite")
def test_an_empty_group_by_itself_stores_nothing_and_is_completed(app: Headrace) -> None:
    for empty, result in ((group([]), []), (group(group([]), group([])), [[], []]), (chain(group([])), [])):
        run = empty.enqueue()
        assert (run.state, run.is_finished, run.progress, run.jobs) == ("completed", True, (0, 0), [])
        assert (run.result(0), run.refresh().wait(0), run.results) == (result, "completed", {})
        assert (run.cancel(), run.retry(), run.graph()["nodes"]) == (0, 0, [])
        assert asyncio.run(empty.aenqueue()).result(0) == result
    assert app.jobs.count() == 0
    with pytest.raises(InvalidJob, match="it is empty"):
        chain()


# -- calls that take no result


@pytest.mark.engines("sqlite")
def test_a_detached_call_waits_for_its_place_and_gets_no_result(app: Headrace) -> None:
    ran: list[Any] = []

    @app.task(name="note", keep_result=False)
    def note(value: Any = "nothing") -> Any:
        ran.append(value)
        return value

    run = chain(
        note.bind(1).detached(),
        note.bind().detached(),
        group(note.bind(2).detached(), note.bind(3).detached()),
        note.bind("end").detached(),
    ).enqueue()
    assert len(run.graph()["edges"]) == 1 + 2 + 2
    drain(app)
    assert run.refresh().state == "completed"
    assert (ran[:2], sorted(ran[2:4]), ran[4:]) == ([1, "nothing"], [2, 3], ["end"])


@pytest.mark.engines("sqlite")
def test_a_detached_call_is_cancelled_with_the_part_before_it_like_any_other(app: Headrace, give: AnyTask) -> None:
    @app.task(name="fail", retry=0)
    def fail() -> None:
        raise RuntimeError("no")

    run = chain(fail.bind(), give.bind(1).detached(), give.bind()).enqueue()
    drain(app)
    assert states(run) == ["failed", "cancelled", "cancelled"]
