"""Chains, groups and flows as parts of a flow, and as what a running job spawns."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Flow, Headrace, InvalidJob, RetryLater, Task, chain, current_job, group
from headrace.core.jobs.states import State
from headrace.core.queues.limits import lane_limits_of
from headrace.testing import drain

AnyTask = Task[..., Any, Any]


@pytest.fixture
def join(app: Headrace) -> AnyTask:
    @app.task
    def join(*values: Any) -> str:
        return "".join("".join(value) if isinstance(value, list) else str(value) for value in values)

    return join


# -- in a flow


def test_what_a_chain_or_a_group_adds_stands_for_its_result(app: Headrace, join: AnyTask) -> None:
    flow = app.flow("parts")
    first = flow.add(join.bind("a"))
    side_by_side = flow.add(group(join.bind(first, "b"), chain(join.bind("c"), join.bind("d"))))
    in_a_row = flow.add(chain(join.bind(side_by_side), join.bind("!")))
    flow.add(join.bind(in_a_row, "?"))
    run = flow.enqueue()
    assert drain(app) == 7
    assert run.result() == "abcd!?"


def test_the_first_jobs_of_a_part_run_after_what_it_waits_for(app: Headrace, join: AnyTask) -> None:
    flow = app.flow("parts")
    first, second = flow.add(join.bind("a")), flow.add(join.bind("b"))
    flow.add(
        chain(group(join.bind("c"), join.bind("d")), join.bind("e").detached()),
        after=(node for node in (first, second)),
    )
    run = flow.enqueue()
    parents = {job.args[0]: {str(parent.args[0]) for parent in job.parents()} for job in run.jobs}
    assert parents == {"a": set(), "b": set(), "c": {"a", "b"}, "d": {"a", "b"}, "e": {"c", "d"}}


def test_a_flow_is_a_part_of_another(app: Headrace, join: AnyTask) -> None:
    def cleaned(name: str) -> Flow:
        part = app.flow(name)
        raw = part.add(join.bind(name))
        part.add(join.bind(raw, "-"))
        return part

    flow = app.flow("whole")
    first = flow.add(join.bind("first"))
    both = [flow.add(cleaned(name), after=first) for name in ("x", "y")]
    flow.add(join.bind(both, "."))
    run = flow.enqueue()
    assert drain(app) == 6
    assert run.result() == "x-y-."
    assert {job.flow for job in run.jobs} == {run.id}


def test_a_flow_with_several_ends_stands_for_their_results(app: Headrace, join: AnyTask) -> None:
    part, flow = app.flow("part"), app.flow("whole")
    part.add(join.bind("a"))
    part.add(join.bind("b"))
    flow.add(join.bind(flow.add(part)))
    run = flow.enqueue()
    drain(app)
    assert run.result() == "ab"


def test_a_flow_that_was_added_is_enqueued_with_the_other_one_only(app: Headrace, join: AnyTask) -> None:
    part, flow = app.flow("part"), app.flow("whole")
    node = part.add(join.bind("a"))
    flow.add(part)
    for change in (part.enqueue, lambda: part.add(join.bind("b")), lambda: app.flow("third").add(part)):
        with pytest.raises(InvalidJob, match="'part' was added to flow 'whole'"):
            change()
    node.after(flow.add(join.bind("b")))
    assert len(flow.enqueue().jobs) == 2


def test_the_policy_of_a_part_is_that_of_its_jobs(app: Headrace, join: AnyTask) -> None:
    @app.task(retry=0)
    def fail() -> None:
        raise ValueError

    part, flow = app.flow("part"), app.flow("whole")
    own = part.add(join.bind("own"), on_parent_failure="cancel")
    part.add(join.bind("given"))
    failing = flow.add(fail.bind())
    flow.add(part, after=failing, on_parent_failure="run")
    flow.add(group(join.bind("g").detached()), after=[failing], on_parent_failure="hold")
    run = flow.enqueue()
    drain(app)
    states = {job.args[0]: job.state for job in run.refresh().jobs if job.args}
    assert states == {"own": State.CANCELLED, "given": State.COMPLETED, "g": State.WAITING}
    assert own.policy == "cancel"


def test_at_most_holds_for_a_group_in_a_flow(app: Headrace, join: AnyTask) -> None:
    flow = app.flow("parts")
    flow.add(group((join.bind(number) for number in range(5)), at_most=2))
    flow.enqueue()
    lanes = {job.row.lane for job in app.jobs.find()}
    assert len(lanes) == 1
    assert [limit.name.split("\t")[0] for limit in lane_limits_of(lanes.pop())] == ["2"]


def test_an_empty_group_adds_nothing(app: Headrace, join: AnyTask) -> None:
    flow = app.flow("parts")
    flow.add(join.bind("a", flow.add(group())))
    run = flow.enqueue()
    assert drain(app) == 1
    assert run.result() == "a"


def test_a_refused_part_leaves_the_flow_as_it_was(app: Headrace, join: AnyTask) -> None:
    flow, other = app.flow("parts"), app.flow("other")
    other.add(join.bind("b"))
    flow.add(join.bind("a"))
    with Headrace("memory://") as stranger:
        strange = stranger.task(name="strange")(lambda: None)
        with pytest.raises(InvalidJob, match="belongs to another app"):
            flow.add(group(join.bind("c"), strange.bind()))
        with pytest.raises(InvalidJob, match="belongs to another app"):
            flow.add(stranger.flow("strange"))
    with pytest.raises(InvalidJob, match="after"):
        flow.add(other, after=[object()])
    with pytest.raises(InvalidJob, match="can't be a part of itself"):
        flow.add(flow)
    with pytest.raises(InvalidJob, match="only a call has a name"):
        flow.add(group(join.bind("c")), name="c")  # type: ignore[call-overload]
    with pytest.raises(InvalidJob, match="has no jobs"):
        flow.add(app.flow("empty"))
    with pytest.raises(InvalidJob, match=r"expected a call such as .*, a chain, a group or a flow, got 'join'"):
        flow.add("join")  # type: ignore[call-overload]
    assert len(flow.enqueue().jobs) == 1
    assert len(other.enqueue().jobs) == 1


@pytest.mark.parametrize("inside", [False, True])
def test_what_follows_a_chain_that_ends_in_an_empty_group_waits_for_it(
    app: Headrace, join: AnyTask, inside: bool
) -> None:
    ending_empty = chain(join.bind("a"), group())
    first = group(ending_empty, join.bind("b")) if inside else ending_empty
    run = chain(first, join.bind("c").detached()).enqueue()
    parents = {str(job.args[0]): {str(parent.args[0]) for parent in job.parents()} for job in run.jobs}
    assert parents["c"] == ({"a", "b"} if inside else {"a"})


def test_a_call_with_a_policy_of_its_own_keeps_it_in_a_part(app: Headrace, join: AnyTask) -> None:
    strict = join.using(on_parent_failure="cancel")
    part, flow = app.flow("part"), app.flow("whole")
    own = part.add(strict.bind("p"))
    flow.add(part, on_parent_failure="run")
    [grouped] = flow.add(group(strict.bind("g")), on_parent_failure="run")
    assert (own.policy, grouped.policy) == (None, None)


# -- spawned


@pytest.mark.parametrize("at_once", [False, True])
def test_a_job_waits_for_all_jobs_of_a_chain_that_it_spawned(app: Headrace, join: AnyTask, at_once: bool) -> None:
    @app.task
    def parent() -> list[str]:
        parts = chain(group(join.bind("a"), join.bind("b")), join.bind("c"))
        return [job.id for job in current_job().spawn(parts, at_once=at_once)]

    job = parent.enqueue()
    assert drain(app) == 4
    assert job.result() == [child.id for child in sorted(job.parents(), key=lambda child: child.id)]
    assert [child.result() for child in map(app.jobs.get, job.result())] == ["a", "b", "abc"]
    assert job.refresh().state is State.COMPLETED


def test_what_was_spawned_at_once_is_found_by_a_later_attempt(app: Headrace, join: AnyTask) -> None:
    @app.task(retry=1)
    def parent() -> int:
        spawned = current_job().spawn(
            group((join.bind(text) for text in "abc"), at_most=1).then(join.bind()), at_once=True
        )
        if current_job().attempt == 1:
            raise RetryLater(delay=60)
        return len(spawned)

    job = parent.enqueue()
    drain(app)
    assert app.jobs.count(task="join") == 4
    job.promote()
    drain(app)
    assert (job.result(), app.jobs.count(task="join")) == (4, 4)
    assert job.parents()[-1].result() == "abc"


def test_the_jobs_of_a_group_inherit_and_a_failed_one_cancels_the_parent(app: Headrace, join: AnyTask) -> None:
    @app.task(retry=0)
    def fail() -> None:
        raise ValueError

    @app.task
    def parent() -> None:
        current_job().spawn(group(join.bind("a"), fail.bind()), inherit=True)

    job = parent.using(priority=7, tags=["t"]).enqueue()
    drain(app)
    assert job.refresh().state is State.CANCELLED
    assert {(child.priority, tuple(child.tags)) for child in job.parents()} == {(7, ("t",))}


def test_a_failed_attempt_stores_nothing_of_a_group(app: Headrace, join: AnyTask) -> None:
    @app.task(retry=0)
    def parent() -> None:
        current_job().spawn(group(join.bind("a"), join.bind("b")))
        raise ValueError

    parent.enqueue()
    drain(app)
    assert app.jobs.count(task="join") == 0


@pytest.mark.parametrize("at_once", [False, True])
def test_a_refused_call_leaves_nothing_of_its_group_spawned(app: Headrace, join: AnyTask, at_once: bool) -> None:
    @app.task
    def parent() -> None:
        job = current_job()
        with pytest.raises(InvalidJob, match="unique"):
            job.spawn(group(join.bind("a"), join.using(unique=True).bind("b")), at_once=at_once)
        with pytest.raises(InvalidJob, match="join needs the result of join, which has keep_result=False"):
            job.spawn(chain(join.using(keep_result=False).bind("a"), join.bind("b")), at_once=at_once)

    job = parent.enqueue()
    assert drain(app) == 1
    assert (job.refresh().state, job.parents()) == (State.COMPLETED, [])
