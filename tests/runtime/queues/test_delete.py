"""A queue that is not wanted any more is on no list, and is back when it is used."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace, QueueNotEmpty, QueueRules, Retry, Task
from headrace.runtime.metrics.gauges import GaugeSampler
from headrace.testing import drain


@pytest.fixture
def work(app: Headrace) -> Task[..., Any, Any]:
    @app.task(name="work")
    def work() -> str:
        return "done"

    return work


def listed(app: Headrace) -> list[str]:
    return [stats.queue for stats in app.queues()]


def test_a_misspelt_queue_can_be_deleted(app: Headrace, work: Task[..., Any, Any]) -> None:
    work.using(queue="tpyo").enqueue().delete()
    work.enqueue()
    assert listed(app) == ["default", "tpyo"]
    assert app.queue("tpyo").delete() == 0
    assert listed(app) == ["default"]
    assert app.queue("tpyo").stats().pending == 0


def test_it_comes_back_by_use_and_its_jobs_run(app: Headrace, work: Task[..., Any, Any]) -> None:
    """Also of a producer that knew it before."""
    work.using(queue="mail").enqueue()
    drain(app)
    assert app.queue("mail").delete() == 1
    assert app.jobs.count() == 0
    job = work.using(queue="mail").enqueue()
    assert listed(app) == ["mail"]
    drain(app)
    assert job.result(0) == "done"


def test_to_clear_a_queue_deletes_all_that_does_not_run(app: Headrace, work: Task[..., Any, Any]) -> None:
    fails = app.task(name="fails", queue="mail", retry=Retry(base=600))(lambda: 1 / 0)
    done, failing = work.using(queue="mail").enqueue(), fails.enqueue()
    drain(app)
    assert [job.refresh().state for job in (done, failing)] == ["completed", "retrying"]
    parent = work.using(queue="mail").enqueue()
    work.using(queue="mail", after=[parent]).enqueue()
    work.using(queue="mail", delay=60).enqueue()
    assert app.queue("mail").clear() == 4
    assert [job.id for job in app.jobs.find()] == [done.id]


@pytest.mark.parametrize("state", ["pending", "scheduled"])
def test_with_unfinished_jobs_it_is_refused(app: Headrace, work: Task[..., Any, Any], state: str) -> None:
    work.using(queue="mail").enqueue()
    drain(app)
    work.using(queue="mail", delay=60 if state == "scheduled" else 0).enqueue()
    app.queue("mail").configure(weight=3)
    with pytest.raises(QueueNotEmpty, match="queue 'mail' has 1 unfinished job") as refused:
        app.queue("mail").delete()
    assert (refused.value.queue, refused.value.jobs) == ("mail", 1)
    assert (app.jobs.count(), app.queue("mail").rules.weight) == (2, 3)


def test_its_rules_and_terms_go_with_it(app: Headrace, work: Task[..., Any, Any]) -> None:
    queue = app.queue("mail")
    queue.configure(weight=3, concurrency=1)
    queue.pause()
    app.lifecycle.configure(queue="mail", max_pending=60)
    queue.delete()
    assert (queue.paused, queue.rules, app.lifecycle.policies(), listed(app)) == (False, QueueRules(), [], [])
    queue.pause()
    assert listed(app) == ["mail"]


def test_a_queue_that_never_was_is_deleted_without_a_trace(app: Headrace) -> None:
    assert app.queue("nowhere").delete() == 0
    assert app.engine.document_store.kinds("~deleted") == []


def test_metrics_have_no_series_of_a_deleted_queue(app: Headrace, work: Task[..., Any, Any]) -> None:
    work.using(queue="tpyo").enqueue().delete()
    app.queue("tpyo").delete()
    work.enqueue()
    assert "tpyo" not in str(GaugeSampler(app.engine)._read(app.clock.now()))
