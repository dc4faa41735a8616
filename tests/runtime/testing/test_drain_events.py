"""drain() emits the events of a worker: events and metrics work in a test as elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from headrace import Headrace, current_job
from headrace.core.events.event import Event
from headrace.testing import VirtualClock, adrain, drain, inline

pytestmark = pytest.mark.engines("sqlite")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace("memory://", clock=clock) as app:

        @app.task(name="work", retry=1)
        def work(fail: bool = False) -> None:
            clock.advance(2)
            current_job().log("under way")
            if fail:
                raise OSError("away")

        yield app


def types(app: Headrace) -> list[str]:
    return [event.type.removeprefix("job.") for event in app.events(types="job.*", follow=False)]


def test_a_success_and_a_failure_have_the_events_of_a_worker(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("work")
    clock.advance(5)
    drain(app)
    assert types(app) == ["enqueued", "started", "log", "completed"], "a run and its notes are one exchange"
    completed = next(event for event in app.events(types="job.completed", follow=False))
    started = next(event for event in app.events(types="job.started", follow=False))
    assert (started.data["wait"], completed.data["run"]) == (5.0, 2.0)
    before = len(types(app))
    app.enqueue("work", True)
    drain(app)
    clock.advance(3600)
    drain(app)
    after = [kind for kind in types(app)[before:] if kind != "log"]
    assert after[0] == "enqueued"
    assert after.count("started") == after.count("attempt_failed") == 2
    assert after.count("retry_scheduled") == after.count("failed") == 1


def test_metrics_count_what_was_drained(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("work")
    clock.advance(5)
    drain(app)
    value = app.metrics.value
    assert (value("enqueued"), value("started"), value("completed"), value("errors")) == (1, 1, 1, 0)
    assert value("run_max", task="work") == 2.0
    assert value("wait_max", queue="default") == 5.0


def test_adrain_and_inline_emit_events_too(app: Headrace) -> None:
    app.enqueue("work")
    asyncio.run(adrain(app))
    with inline(app):
        app.enqueue("work")
    assert app.metrics.value("completed") == 2
    assert types(app).count("completed") == 2


def test_handlers_run_in_workers_and_with_listen(app: Headrace) -> None:
    seen: list[Event] = []
    app.on("job.completed")(seen.append)
    app.enqueue("work")
    drain(app)
    assert seen == []


def test_without_events_drain_emits_nothing() -> None:
    with Headrace("memory://", events=False) as app:
        app.task(name="work")(lambda: None)
        app.enqueue("work")
        drain(app)
        assert types(app) == []
