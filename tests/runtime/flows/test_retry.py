"""A flow that was cancelled or has failed is run again as a flow: in its order, in little time, with its own error."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace import FlowRun, Headrace, InvalidJob, JobCancelled, JobFailed, Retry, State, Task, chain, group
from headrace.runtime.jobs import flow_run
from headrace.testing import drain

AnyTask = Task[..., Any, Any]


@pytest.fixture
def order() -> list[str]:
    """The names of the jobs that ran, one after the other."""
    return []


@pytest.fixture
def note(app: Headrace, order: list[str]) -> AnyTask:
    @app.task(retry=0)
    def note(name: str, given: Any = None) -> str:
        order.append(name)
        if name.startswith("bad"):
            raise ValueError(f"{name} is broken")
        return name

    return note


def states(run: FlowRun) -> list[str]:
    return [job.state.value for job in run.refresh().jobs]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_chain_that_was_cancelled_is_run_again_in_its_order(
    app: Headrace, note: AnyTask, order: list[str], one_by_one: bool
) -> None:
    flow = app.flow("cancelled")
    first = flow.add(note.bind("a"))
    second = flow.add(note.using(priority=50).bind("b", first))
    flow.add(note.using(priority=100).bind("c", second))
    run = flow.enqueue()
    if one_by_one:
        for job in reversed(run.jobs):  # so that each is cancelled for itself, and none because of another
            assert job.cancel()
    else:
        assert run.cancel() == 3
    assert run.retry() >= 1
    assert states(run) == ["pending", "waiting", "waiting"]
    assert drain(app) == 3
    assert order == ["a", "b", "c"]
    assert run.result() == "c"


def test_parents_that_were_added_last_are_revived_first(
    app: Headrace, note: AnyTask, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_run, "_BATCH_SIZE", 2)  # else only thousands of jobs would be revived in several commits
    flow = app.flow("upside down")
    children = [flow.add(note.bind(f"child {number}")) for number in range(5)]
    parent = flow.add(note.bind("parent"))
    for child in children:
        child.after(parent)
    run = flow.enqueue()
    for job in run.jobs:
        assert job.cancel()
    assert run.retry() == 6
    assert states(run) == ["waiting"] * 5 + ["pending"]
    drain(app)
    assert order[0] == "parent"
    assert len(order) == 6


@pytest.mark.timed
def test_the_time_to_revive_a_fan_in_grows_with_its_width_only(
    app: Headrace, note: AnyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one child has thousands of parents, and must not be looked at anew for each of them."""
    monkeypatch.setattr(flow_run, "_BATCH_SIZE", 3000)
    total: AnyTask = app.task(name="total")(len)
    narrow, wide = (group(note.bind("x") for _ in range(width)).then(total.bind()).enqueue() for width in (500, 3000))

    def seconds_to_revive(run: FlowRun) -> float:
        parents = [job.id for job in run.jobs[:-1]]
        assert app.jobs.cancel(ids=parents) >= len(parents)
        assert run.refresh().jobs[-1].reason == "parent_failed"
        started = time.monotonic()
        assert run.retry() == len(parents)
        took = time.monotonic() - started
        assert run.counts == {"pending": len(parents), "waiting": 1}
        return took

    # A slow moment of the machine is not a bug. Six times as many parents take 36 times as long if each looks anew.
    ratios = (seconds_to_revive(wide) / seconds_to_revive(narrow) for _ in range(5))
    assert any(ratio < 15 for ratio in ratios)


def test_the_result_raises_the_error_of_the_job_at_fault_and_of_no_other(app: Headrace, note: AnyTask) -> None:
    flow = app.flow("two faults")
    fault = flow.add(note.bind("bad one"))
    between = flow.add(note.bind("between", fault))
    flow.add(note.bind("end", between))
    flow.add(note.bind("bad other"), after=[flow.add(note.bind("fine"))])
    run = flow.enqueue()
    drain(app)
    assert states(run) == ["failed", "cancelled", "cancelled", "completed", "failed"]
    with pytest.raises(JobFailed, match="bad one is broken") as failed:
        run.result()
    assert failed.value.job_id == fault.id


def test_a_job_cancelled_by_a_cancelled_parent_does_not_name_a_failed_one(app: Headrace, note: AnyTask) -> None:
    waits = chain(note.using(delay=60).bind("first"), note.bind("second"))
    run = group(waits, note.bind("bad stranger")).enqueue()
    assert run.jobs[0].cancel()
    drain(app)
    assert states(run) == ["cancelled", "cancelled", "failed"]
    with pytest.raises(JobCancelled) as cancelled:
        run.result()
    assert cancelled.value.job_id == run.jobs[1].id


@pytest.mark.every_engine
def test_a_child_is_retried_with_its_parent_and_not_before(app: Headrace) -> None:
    mended = False

    @app.task(name="parent", retry=0)
    def parent() -> str:
        if not mended:
            raise OSError("away")
        return "there"

    @app.task(name="child")
    def child(given: Any = None) -> Any:
        return given if isinstance(given, str) else "without"

    run = chain(parent.bind(), child.bind(), child.bind()).enqueue()
    drain(app)
    first, second, third = run.jobs
    with pytest.raises(InvalidJob, match=rf"because its parent {first.id} \(task parent\) failed; retry that one"):
        second.retry()
    with pytest.raises(InvalidJob, match=f"because its parent {second.id} .* was cancelled"):
        third.retry()
    with pytest.raises(InvalidJob, match="because its parent"):
        app.jobs.retry(ids=[second.id, third.id])
    assert app.jobs.retry(state="cancelled") == 0
    assert [job.refresh().state for job in (first, second, third)] == ["failed", "cancelled", "cancelled"]
    mended = True
    assert first.retry()
    drain(app)
    assert [job.refresh().state for job in (first, second, third)] == ["completed"] * 3
    assert third.result() == "there"


@pytest.mark.every_engine
def test_a_child_runs_alone_on_request_or_if_its_parent_is_gone(app: Headrace) -> None:
    @app.task(name="parent", retry=0)
    def parent() -> None:
        raise OSError("away")

    @app.task(name="child")
    def child() -> str:
        return "alone"

    parents = [parent.enqueue() for _ in range(2)]
    one, other = (child.using(after=[each]).enqueue() for each in parents)
    drain(app)
    assert one.retry(without_parents=True)
    app.dead.resolve(parents[1].id, "cancelled")
    parents[1].delete()
    assert other.retry()
    drain(app)
    assert one.result() == other.result() == "alone"


def test_why_names_the_last_error(app: Headrace) -> None:
    @app.task(name="weak", retry=Retry(limit=1, base=60, jitter=0))
    def weak() -> None:
        raise OSError("the bank\nis away")

    job = weak.enqueue()
    drain(app)
    assert job.refresh().state is State.RETRYING
    assert "Its last error was OSError: the bank." in job.why()
    job.promote()
    drain(app)
    assert job.refresh().state is State.FAILED
    assert "Its last error was OSError: the bank. Its dead letter" in job.why()
