"""The load of queues is read from samples, recent events, rules and live workers."""

from __future__ import annotations

import pytest

from headrace import Headrace, InvalidJob, QueueScale
from headrace.core.events.log import EventGroup
from headrace.runtime.alerts.inputs import AlertInputs
from tests.support.waiting import PATIENCE


def queue(app: Headrace, name: str, **how: float) -> QueueScale:
    return next(one for one in app.metrics.scale(**how).queues if one.queue == name)


def ran(app: Headrace, name: str, seconds: float, ago: float = 0.0) -> None:
    """One job of this queue ran for so long, some time ago."""
    at = app.clock.now() - int(ago * 1000)
    app.engine.events.append(
        [EventGroup("job.completed", at, name, "work", "w", [f"{name}-{seconds}-{ago}"], runs=[int(seconds * 1000)])]
    )


def test_a_store_without_queues_wants_nothing(app: Headrace) -> None:
    found = app.metrics.scale()
    assert (found.target_wait, found.workers_wanted, found.queues) == (60.0, 0, [])


def test_a_backlog_wants_workers_for_its_run_time(app: Headrace) -> None:
    app.enqueue_many([{"task": "work", "queue": "mail"}] * 12)
    assert queue(app, "mail").workers_wanted == 1, "no history: one worker to begin with"
    ran(app, "mail", 20.0)
    found = queue(app, "mail", target_wait=10.0)
    assert found.slots_wanted >= 12, "twelve jobs that run for longer than they may wait"
    assert found.workers_wanted >= 3
    assert found.workers == 0


def test_run_times_of_the_last_day_count_if_nothing_ran_recently(app: Headrace) -> None:
    ran(app, "mail", 20.0, ago=7200.0)
    app.enqueue_many([{"task": "work", "queue": "mail"}] * 12)
    assert queue(app, "mail", target_wait=10.0).workers_wanted >= 3


def test_a_paused_queue_and_a_limit_are_considered(app: Headrace) -> None:
    ran(app, "mail", 20.0)
    app.enqueue_many([{"task": "work", "queue": "mail"}] * 50)
    app.queue("mail").configure(concurrency=2)
    assert queue(app, "mail", target_wait=1.0).slots_wanted == 2
    app.queue("mail").pause()
    found = queue(app, "mail", target_wait=1.0)
    assert (found.paused, found.workers_wanted, found.seconds_behind) == (True, 0, 0)


def test_workers_that_are_paused_or_serve_other_queues_have_no_slots_here(app: Headrace) -> None:
    app.task(name="work")(lambda: None)
    app.task_by_name("work").using(queue="mail").enqueue()
    with app.worker(concurrency=3, queues="other"), app.worker(concurrency=5, queues="mail") as worker:
        job = app.task_by_name("work").using(queue="mail").enqueue()
        job.wait(PATIENCE)
        found = app.metrics.scale()
        assert (found.workers, found.slots) == (2, 8)
        assert (queue(app, "mail").workers, queue(app, "mail").slots) == (1, 5)
        worker.pause()
        app.engine.renew(worker.describe(), (), 1000)
        assert queue(app, "mail").workers == 0


def test_alert_rules_can_use_both_numbers(app: Headrace) -> None:
    app.enqueue_many([{"task": "work", "queue": "mail"}] * 3)
    inputs = AlertInputs(app.engine, app.settings)
    assert inputs.value("workers_wanted", {"queue": "mail"}, None) == 1
    assert inputs.value("seconds_behind", {"queue": "mail"}, None) is not None
    assert inputs.value("workers_wanted", {}, None) == 1
    assert inputs.value("workers_wanted", {"queue": "nothing"}, None) is None
    rule = app.alerts.rules.create("behind", when="seconds_behind > 5m", per=("queue",))
    assert rule.error is None


@pytest.mark.parametrize("wait", [0, -1, "soon", float("inf")])
def test_a_wrong_target_wait_is_named(app: Headrace, wait: float | str) -> None:
    with pytest.raises(InvalidJob, match="target_wait"):
        app.metrics.scale(target_wait=wait)
