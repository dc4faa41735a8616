"""Terms: code declares them, a worker stores them, an operator goes over them; and options of single jobs."""

from __future__ import annotations

import msgspec
import pytest

from headrace import ConfigError, Headrace, InvalidJob, Lifecycle, PolicyLayers
from headrace.core.jobs.records import JobOptions
from headrace.core.retention.lifecycle import PolicyRow, StoredPolicy
from headrace.runtime.retention.policies import declare_policies

QUICK = Lifecycle(max_pending=600, keep_failed=3600)


def test_a_worker_stores_what_code_declares_and_leaves_what_it_does_not_know(app: Headrace) -> None:
    declare_policies(app.engine.document_store, [PolicyRow("task", "elsewhere", StoredPolicy(max_age=5))])
    declare_policies(app.engine.document_store, [PolicyRow("task", "changed", StoredPolicy(max_age=5))])
    app.task(name="declared", lifecycle=QUICK, remove_on_complete=10, remove_on_fail=True)(lambda: None)
    app.task(name="changed")(lambda: None)
    with app.worker():
        pass
    declared = {"max_pending": 600, "keep_failed": 3600, "remove_on_complete": 10, "remove_on_fail": True}
    held = app.lifecycle.policies_by_name()
    assert held.pop(("any", "job")) == app.lifecycle.policy()
    assert held == {
        (row.kind, row.name): app.lifecycle.policy(**{row.kind: row.name}) for row in app.lifecycle.policies()
    }
    assert app.lifecycle.policies() == [
        PolicyLayers("task", "declared", declared, {}),
        PolicyLayers("task", "elsewhere", {"max_age": 0.005}, {}),
    ]
    app.lifecycle.configure(queue="mail", max_age=None, keep_failed=1.5)
    assert app.lifecycle.policies()[0] == PolicyLayers("queue", "mail", {}, {"max_age": None, "keep_failed": 1.5})
    assert app.lifecycle.sync() == []


def test_an_operator_goes_over_the_code_and_takes_it_back(app: Headrace) -> None:
    app.task(name="send", lifecycle=QUICK)(lambda: None)
    app.lifecycle.sync()
    held = app.lifecycle.configure(task="send", max_pending=60, max_age=None, on_stale="fail")
    assert (held.max_pending, held.max_age, held.on_stale, held.keep_failed) == (60, None, "fail", 3600)
    assert held.origin["max_pending"] == "task, by an operator"
    assert held.origin["keep_failed"] == "task, by its code"
    assert held.origin["max_waiting"] == "setting"
    held = app.lifecycle.configure(task="send", max_pending="default")
    assert (held.max_pending, held.origin["max_pending"]) == (600, "task, by its code")
    assert app.lifecycle.reset(task="send").on_stale == "dead"
    assert app.lifecycle.policy(task="send").origin["on_stale"] == "follows from its thresholds"
    assert app.lifecycle.policy().on_stale == "review"


def test_the_terms_of_a_queue_hold_for_tasks_that_say_nothing(app: Headrace) -> None:
    app.lifecycle.configure(queue="mail", max_waiting=5, remove_on_complete=3)
    app.lifecycle.configure(task="send", remove_on_complete=True)
    held = app.lifecycle.policy(task="send", queue="mail")
    assert (held.max_waiting, held.origin["max_waiting"]) == (5, "queue, by an operator")
    assert held.remove_on_complete is True
    assert app.lifecycle.policy(task="send").max_waiting == 3600


def test_a_task_or_queue_must_be_named(app: Headrace) -> None:
    for both in ({}, {"task": "send", "queue": "mail"}):
        with pytest.raises(InvalidJob, match="either a task or a queue"):
            app.lifecycle.configure(**both, max_age=1)
    with pytest.raises(InvalidJob, match="needs at least one of"):
        app.lifecycle.configure(task="send")


def test_a_call_may_say_that_its_job_goes_when_it_is_done(app: Headrace) -> None:
    task = app.task(name="send", remove_on_fail=True)(lambda: None)
    plain, special = task.enqueue(), task.using(remove_on_complete=True, remove_on_fail=5).enqueue()
    stored = {row.id: row.options for row in app.engine.queries.get([plain.id, special.id])}
    assert stored[plain.id] is None, "what the task says is not repeated in each of its jobs"
    options = msgspec.json.decode(stored[special.id] or "", type=JobOptions)
    assert (options.remove_on_complete, options.remove_on_fail) == (True, 5)


def test_a_lifecycle_is_the_tasks_and_not_a_calls(app: Headrace) -> None:
    task = app.task(name="send")(lambda: None)
    with pytest.raises(InvalidJob, match="set it for the task"):
        task.using(lifecycle=QUICK).enqueue()  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"@app.task: lifecycle: expected Lifecycle\(...\)"):
        app.task(lifecycle=600)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"@app.task: remove_on_fail: expected True"):
        app.task(remove_on_fail=0)


def test_a_worker_that_only_drains_declares_them_too(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    app.task(name="brief", lifecycle=QUICK)(lambda: None)
    monkeypatch.setattr("headrace.app.run_workers.run_in_process", lambda worker: 0)  # it would take over our signals
    assert app.run_worker(drain=True) == 0
    assert app.lifecycle.policy(task="brief").max_pending == 600
