"""A job spawns one job for each call, in any attempt and from any thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace import Headrace, JobFailed, RetryLater, Task, Unique, current_job, group
from headrace.core.queues.limits import Limit, lane_limits_of
from headrace.runtime.context import current_job as current_job_module
from headrace.runtime.context.spawn import Spawning
from headrace.testing import drain
from tests.support.waiting import PATIENCE

AnyTask = Task[..., Any, Any]


@pytest.fixture
def give(app: Headrace) -> AnyTask:
    @app.task
    def give(value: Any = None) -> Any:
        return value

    return give


def test_a_later_attempt_that_spawns_something_else_at_once_is_refused(app: Headrace, give: AnyTask) -> None:
    @app.task(retry=1)
    def parent() -> None:
        attempt = current_job().attempt
        current_job().spawn(give.bind(f"of attempt {attempt}"), at_once=True)
        if attempt == 1:
            raise RetryLater(delay=60)

    job = parent.enqueue()
    drain(app)
    assert job.promote()
    drain(app)
    with pytest.raises(JobFailed, match=r"spawned 'give' in this place .*the same with other arguments.*same order"):
        job.result()
    assert [child.args for child in app.jobs.find(task="give")] == [("of attempt 1",)]


@pytest.mark.parametrize("at_once", [False, True])
def test_threads_of_one_job_spawn_a_job_each(
    app: Headrace, give: AnyTask, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    def slowly(claim: Any) -> Spawning:
        threading.Event().wait(0.05)  # so that every thread is here before the first is through
        return Spawning(claim)

    monkeypatch.setattr(current_job_module, "Spawning", slowly)

    @app.task(retry=0)
    def parent() -> list[str]:
        job, start, spawned = current_job(), threading.Barrier(8), []

        def spawn(number: int) -> None:
            start.wait(PATIENCE)
            spawned.append(job.spawn(give.bind(number), at_once=at_once).id)

        threads = [threading.Thread(target=spawn, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        return spawned

    job = parent.enqueue()
    drain(app)
    spawned = job.result()
    assert len(set(spawned)) == 8
    assert {child.id for child in job.parents()} == set(spawned)
    assert sorted(child.result() for child in job.parents()) == list(range(8))


def test_a_held_job_whose_own_run_is_over_is_not_to_be_promoted(app: Headrace) -> None:
    @app.task(retry=0)
    def broken() -> None:
        raise ValueError("no such thing")

    @app.task(retry=0)
    def parent() -> None:
        current_job().spawn(broken.using(on_parent_failure="hold").bind())

    job = parent.enqueue()
    drain(app)
    [child] = job.parents()
    assert f"held until you decide, because its parent {child.id} (task broken) failed" in job.why()
    assert f"headrace jobs retry {child.id}`, or cancel it" in job.why()
    assert "promote" not in job.why()


@pytest.mark.every_engine
@pytest.mark.parametrize("at_once", [False, True])
def test_a_child_inherits_priority_tags_and_keys_if_asked(app: Headrace, at_once: bool) -> None:
    @app.task(concurrency_key="own")
    def child() -> None: ...

    @app.task
    def plain() -> None: ...

    @app.task
    def parent() -> None:
        job = current_job()
        job.spawn(plain.bind(), at_once=at_once, inherit=True)
        job.spawn(plain.using(priority=1, tags=["b"]).bind(), at_once=at_once, inherit=True)
        job.spawn(child.bind(), at_once=at_once, inherit=True)
        job.spawn(plain.bind(), at_once=at_once)

    key = {"concurrency_key": "acme", "rate_key": "gold"}
    parent.using(priority=7, tags=["a"], **key).enqueue()  # type: ignore[arg-type]
    drain(app)
    children = sorted(app.jobs.find(task="plain"), key=lambda job: job.row.seq)
    assert [(job.priority, job.tags, set(lane_limits_of(job.row.lane))) for job in children] == [
        (7, ("a",), {Limit("key", "acme"), Limit("rate", "gold")}),
        (1, ("b",), {Limit("key", "acme"), Limit("rate", "gold")}),
        (0, (), set()),
    ]
    [other] = app.jobs.find(task="child")
    assert set(lane_limits_of(other.row.lane)) == {Limit("key", "own"), Limit("rate", "gold")}


def test_keys_that_headrace_makes_are_not_inherited(app: Headrace, give: AnyTask) -> None:
    @app.task
    def parent() -> None:
        current_job().spawn(give.bind(), inherit=True)

    parent.using(unique=Unique(on_conflict="keep_last_if_running")).enqueue()
    group([parent.bind()], at_most=1).enqueue()
    drain(app)
    assert [job.row.lane for job in app.jobs.find(task="give")] == ["", ""]
