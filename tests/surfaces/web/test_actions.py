"""Forms of the dashboard: actions on jobs, schedules, channels, terms and the store, and their messages."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, JobNotFound, State, current_job
from headrace.core.codec.redaction import MASK
from headrace.core.jobs.dependencies import FlowRow
from headrace.testing import VirtualClock, drain
from headrace.web.pages import background
from tests.runtime.alerts.receivers import web_server
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.web.actions import app, ask, client, clock, do, refused
from tests.surfaces.web.client import Client
from tests.surfaces.web.pages.tasks import register

__all__ = ["app", "client", "clock"]  # the fixtures
DAY = 86_400.0
SOON = datetime(2100, 1, 1, 12, tzinfo=UTC)


# -- a job


def test_a_pending_job_gets_another_queue_and_priority(app: Headrace, client: Client) -> None:
    job = register(app)["add"].enqueue(1, 2)
    message = do(client, f"/jobs/{job.id}/update", priority="7", queue="fast")
    assert message == f"Job {job.id} has priority 7, queue fast."
    job.refresh()
    assert (job.priority, job.queue, job.state) == (7, "fast", State.PENDING)
    assert "run_at 2100-01-01 12:00:00+00:00" in do(client, f"/jobs/{job.id}/update", run_at="2100-01-01T12:00")
    assert (job.refresh().run_at, job.state) == (SOON, State.SCHEDULED)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({}, "Nothing was changed."),
        ({"priority": "0", "queue": "sums", "run_at": ""}, "Nothing was changed."),
        ({"priority": "high"}, "priority: 'high' is not a whole number"),
        ({"priority": "1", "run_at": "soon"}, "run_at: 'soon' is not a time such as"),
        ({"priority": "1", "queue": "a/b\n"}, "queue"),
    ],
)
def test_a_wrong_form_does_not_change_a_job(app: Headrace, client: Client, form: dict[str, str], expected: str) -> None:
    job = register(app)["add"].enqueue(1, 2)
    assert expected in refused(client, f"/jobs/{job.id}/update", **form)
    assert (job.refresh().priority, job.queue, job.state) == (0, "sums", State.PENDING)


def test_a_running_job_is_neither_changed_nor_deleted(app: Headrace, client: Client) -> None:
    messages: list[str] = []

    @app.task(name="itself")
    def itself() -> None:
        path = f"/jobs/{current_job().id}"
        messages.extend([refused(client, f"{path}/update", priority="7"), refused(client, f"{path}/delete")])
        messages.append(ask(client, f"{path}/cancel")["ask"])

    job = itself.enqueue()
    drain(app)
    assert messages == [
        f"Job {job.id} has started; it can’t be changed.",
        f"Job {job.id} is running; cancel it first.",
        "Cancel itself while it runs?",
    ]
    assert (job.refresh().state, job.priority) == (State.COMPLETED, 0)


def test_a_job_is_deleted_after_a_confirmation(app: Headrace, client: Client) -> None:
    job = register(app)["add"].enqueue(1, 2)
    question = ask(client, f"/jobs/{job.id}/delete")
    assert question["detail"] == "add, pending. Its history is deleted too; this can’t be undone."
    assert job.refresh().state is State.PENDING
    answer = client.post(f"/jobs/{job.id}/delete", data={"confirmed": "yes"}).json()
    assert answer == {"ok": True, "text": f"Job {job.id} was deleted.", "goto": "/jobs"}
    with pytest.raises(JobNotFound):
        job.refresh()


# -- enqueue


def test_a_job_is_enqueued_with_the_fields_of_the_form(app: Headrace, client: Client, clock: VirtualClock) -> None:
    register(app)
    form = {"task": "add", "args": "[1]", "kwargs": '{"b": 2}', "queue": "fast", "priority": "3", "tags": "a, ,b"}
    answer = client.post("/enqueue", data={**form, "delay": "90.5", "timeout": "5"}).json()
    [job] = app.jobs.find()
    assert (answer["text"], answer["goto"]) == (f"Job {job.id} is scheduled.", f"/jobs/{job.id}")
    assert (job.task, job.args, job.kwargs, job.queue, job.priority) == ("add", (1,), {"b": 2}, "fast", 3)
    assert set(job.tags) == {"a", "b"}
    assert job.run_at - clock.moment == timedelta(seconds=90.5)


@pytest.mark.parametrize("text", ["2100-01-01T12:00", "2100-01-01T14:00+02:00", "2100-01-01T12:00:00Z"])
def test_a_time_without_a_zone_is_utc(app: Headrace, client: Client, text: str) -> None:
    register(app)
    do(client, "/enqueue", task="add", args="[1, 2]", run_at=text)
    assert [job.run_at for job in app.jobs.find()] == [SOON]


def test_a_copy_of_a_job_has_its_secrets(app: Headrace, client: Client) -> None:
    job = register(app)["sign"].enqueue("ann", "sesame")
    page = client.get(f"/enqueue?like={job.id}").text
    assert (MASK in page, "sesame" in page) == (True, False)
    do(client, "/enqueue", task="sign", like=job.id, args=json.dumps(["bob", MASK]))
    assert sorted(one.args for one in app.jobs.find()) == [("ann", "sesame"), ("bob", "sesame")]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"task": ""}, "task: required"),
        ({"priority": "high"}, "priority: 'high' is not a whole number"),
        ({"priority": "1.5"}, "priority: '1.5' is not a whole number"),
        ({"delay": "a while"}, "delay: 'a while' is not a number"),
        ({"delay": "nan"}, "delay"),
        ({"run_at": "tomorrow"}, "run_at: 'tomorrow' is not a time such as 2025-06-01T12:00"),
        ({"args": "[1"}, "args: this is not valid JSON"),
        ({"kwargs": "[1]"}, 'kwargs: expected an object such as {"a": 1}'),
    ],
)
def test_a_wrong_form_enqueues_nothing(app: Headrace, client: Client, form: dict[str, str], expected: str) -> None:
    register(app)
    assert expected in refused(client, "/enqueue", **{"task": "add", "args": "[1, 2]", **form})
    assert app.jobs.count() == 0


# -- a schedule


def test_a_schedule_is_created_and_its_next_run_shown(app: Headrace, client: Client) -> None:
    register(app)
    message = do(
        client, "/new-schedule", id="often", task="add", args="[1, 2]", every="300", queue="fast", priority="2"
    )
    assert message == "Schedule often runs in 5 min."
    made = app.schedules.get("often")
    assert (made.task, made.args, made.queue, made.priority) == ("add", (1, 2), "fast", 2)
    assert made.every == timedelta(seconds=300)
    assert "priority: 'x' is not a whole number" in refused(
        client, "/new-schedule", id="b", task="add", every="5", priority="x"
    )
    assert "id: give the name of the schedule" in refused(client, "/new-schedule", task="add", every="5")
    assert [one.id for one in app.schedules.list()] == ["often"]


def test_only_changed_fields_of_a_schedule_are_updated(app: Headrace, client: Client) -> None:
    register(app)
    app.schedules.create("s", "add", args=[1, 2], every=300, limit=9, jitter=10, start=SOON)
    form = {"every": "300", "limit": "9", "jitter": "10", "start": "2100-01-01T12:00", "args": "[1, 2]", "task": "add"}
    before = app.schedules.get("s")
    assert refused(client, "/schedules/s/update", **form) == "Nothing was changed."
    assert app.schedules.get("s") == before
    do(client, "/schedules/s/update", **{**form, "limit": "", "jitter": "", "start": ""})
    after = app.schedules.get("s")
    assert (after.limit, after.jitter, after.start, after.every) == (None, timedelta(0), None, before.every)
    message = do(client, "/schedules/s/update", every="600", queue="fast", priority="4", args="[1, 3]")
    assert message == "Schedule s was changed; it runs in 10 min."
    after = app.schedules.get("s")
    assert (after.every, after.queue, after.priority, after.args) == (timedelta(seconds=600), "fast", 4, (1, 3))


def test_a_schedule_of_two_timings_is_refused(app: Headrace, client: Client) -> None:
    register(app)
    app.schedules.create("s", "add", args=[1, 2], every=300)
    message = refused(client, "/schedules/s/update", every="300", cron="0 2 * * *")
    assert message == "give exactly one of cron, every and at, not cron and every"
    assert app.schedules.get("s").cron is None


def test_a_changed_task_keeps_queue_and_priority_and_gets_no_secret(app: Headrace, client: Client) -> None:
    register(app)
    app.schedules.create("s", "sign", args=["ann", "sesame"], every=300, queue="safe", priority=6)
    shown = json.dumps(["ann", MASK])
    assert "write it out" in refused(client, "/schedules/s/update", every="300", task="hold", args=shown)
    assert app.schedules.get("s").task == "sign"
    do(client, "/schedules/s/update", every="300", args=json.dumps(["bob", MASK]))
    job = app.schedules.run_now("s")
    assert job.args == ("bob", "sesame")
    do(client, "/schedules/s/update", every="300", task="add", args="[1, 2]")
    after = app.schedules.get("s")
    assert (after.task, after.args, after.queue, after.priority) == ("add", (1, 2), "safe", 6)


def test_a_schedule_is_paused_run_and_deleted(app: Headrace, client: Client) -> None:
    register(app)
    app.schedules.create("s", "add", args=[1, 2], every=300)
    assert do(client, "/schedules/s/pause") == "Schedule s is paused."
    assert app.schedules.get("s").paused
    message = do(client, "/schedules/s/run")
    [job] = app.jobs.find()
    assert message == f"Job {job.id} of schedule s is enqueued."
    do(client, "/schedules/s/resume")
    assert not app.schedules.get("s").paused
    assert ask(client, "/schedules/s/delete")["detail"] == "Its history is deleted too."
    assert do(client, "/schedules/s/delete") == "Schedule s was deleted."
    assert list(app.schedules.list()) == []


def test_the_question_before_deleting_a_declared_schedule_says_that_it_comes_back(
    app: Headrace, client: Client
) -> None:
    @app.every(minutes=5)
    @app.task(name="tick")
    def tick() -> None: ...

    app.schedules.sync()
    assert "the next worker to start creates it again" in ask(client, "/schedules/tick/delete")["detail"]


# -- channels


def test_a_channel_is_created_changed_tested_and_deleted(app: Headrace, client: Client) -> None:
    with web_server() as hook:
        message = do(
            client, "/alerts/new-channel", name="ops", kind="slack", url=f"{hook.url}/hush", severity="warning"
        )
        assert message == "Channel ops was created; send a test message."
        assert do(client, "/alerts/channels/ops/test") == "Channel ops accepted the test message."
        assert refused(client, "/alerts/channels/ops/update", severity="warning") == "Nothing was changed."
        assert refused(client, "/alerts/channels/ops/update", url="") == "Nothing was changed."
        do(client, "/alerts/channels/ops/update", severity="critical", url="")
        hook.status = 500
        message = refused(client, "/alerts/channels/ops/test", 409)
        assert message == "Channel ops failed: the server answered 500"
    assert [path for path, _, _ in hook.got] == ["/hush", "/hush"], "an empty field keeps its value"
    assert app.alerts.channels.get("ops").severity == "critical"
    assert do(client, "/alerts/channels/ops/switch", enabled="no") == "Channel ops is off."
    assert not app.alerts.channels.get("ops").enabled
    assert do(client, "/alerts/channels/ops/switch", enabled="yes") == "Channel ops is on."
    assert app.alerts.channels.get("ops").enabled
    assert ask(client, "/alerts/channels/ops/delete")["ask"] == "Delete channel ops?"
    assert do(client, "/alerts/channels/ops/delete") == "Channel ops was deleted."
    assert "ops" in refused(client, "/alerts/channels/ops/delete", 404)
    assert "ops" not in [one.name for one in app.alerts.channels.list()]


def test_a_port_of_a_channel_is_stored_as_a_number(app: Headrace, client: Client) -> None:
    form = {"name": "post", "kind": "email", "host": "mail.example.com", "to": "ops@example.com"}
    do(client, "/alerts/new-channel", **form, port="2525")
    assert "mail.example.com:2525" in app.alerts.channels.get("post").target
    message = refused(client, "/alerts/new-channel", kind="slack")
    assert message == "name, kind: both are required"


# -- terms, stale jobs, retention


def test_stale_jobs_are_handled_by_their_on_stale_action(app: Headrace, client: Client, clock: VirtualClock) -> None:
    add = register(app)["add"]
    do(client, "/lifecycle/policy", kind="queue", name="sums", max_pending="60", on_stale="dead")
    do(client, "/lifecycle/policy", kind="queue", name="other", max_pending="60", on_stale="review")
    stale, reviewed = add.enqueue(1, 2), add.using(queue="other").enqueue(1, 2)
    clock.advance(61)
    question = ask(client, "/lifecycle/stale")
    assert question["ask"] == "Apply the on_stale action to 2 jobs?"
    assert set(question["detail"].rstrip(".").split("; ")) == {"1 become dead letters", "1 stay, marked for review"}
    assert stale.refresh().state is State.PENDING
    message = do(client, "/lifecycle/stale")
    assert message == "1 job ended as stale. 1 job marked for review."
    assert (stale.refresh().state, reviewed.refresh().state) == (State.FAILED, State.PENDING)
    assert [dead_letter.job_id for dead_letter in app.dead.list()] == [stale.id]


def test_finished_jobs_are_archived_and_restored(app: Headrace, client: Client, clock: VirtualClock) -> None:
    job = register(app)["add"].enqueue(1, 2)
    drain(app)
    clock.advance(60 * DAY)
    question = ask(client, "/lifecycle/archive")
    assert question["ask"] == "Archive or delete 1 job?"
    assert question["detail"] == "1 are archived, 0 are deleted permanently."
    assert app.jobs.count() == 1
    assert do(client, "/lifecycle/archive") == "1 job archived, 0 deleted."
    assert (app.jobs.count(), app.jobs.count(archived=True)) == (0, 1)
    assert refused(client, "/lifecycle/restore") == "job: give the id of the archived job"
    assert do(client, "/lifecycle/restore", job=job.id) == f"Job {job.id} is restored and pending."
    assert (app.jobs.count(), app.jobs.count(archived=True)) == (1, 0)


def test_terms_are_set_and_removed(app: Headrace, client: Client) -> None:
    form = {"kind": "task", "name": "add", "max_pending": "60", "max_running": "none", "keep_failed": "default"}
    message = do(client, "/lifecycle/policy", **form, on_stale="fail")
    assert message == "The policy of task add applies from the next check of a worker."
    [layers] = app.lifecycle.policies()
    assert layers.override == {"max_pending": 60, "max_running": None, "on_stale": "fail"}
    message = refused(client, "/lifecycle/policy", kind="task", name="add", max_pending="long")
    assert message == "max_pending: 'long' is neither a number of seconds, nor none, nor default"
    assert app.lifecycle.policies() == [layers]
    assert refused(client, "/lifecycle/reset", kind="host", name="add") == "Give the task or queue."
    assert do(client, "/lifecycle/reset", kind="task", name="add") == "The policy of task add is removed."
    assert [one.override for one in app.lifecycle.policies() if one.override] == []


# -- the store


def test_the_store_is_repaired_after_a_confirmation(app: Headrace, client: Client) -> None:
    app.engine.transfer.import_records([FlowRow("empty", "empty", app.clock.now())])
    assert "flow" in ask(client, "/system/repair")["detail"]
    assert app.admin.repair(dry_run=True) == {"orphan_flows": 1}
    assert do(client, "/system/repair") == "Repaired: orphan_flows 1."
    assert app.admin.repair(dry_run=True) == {}
    assert do(client, "/system/repair") == "Repaired: nothing."


def test_the_store_is_optimized_and_its_size_shown(client: Client) -> None:
    assert do(client, "/system/optimize").startswith("Statistics are up to date; the store went from ")


@pytest.mark.parametrize(
    ("path", "what", "expected"),
    [
        ("/lifecycle/stale", "lifecycle.detect_stale", "Stale jobs are being handled"),
        ("/lifecycle/archive", "lifecycle.archive", "Jobs are being archived"),
        ("/system/repair", "admin.repair", "The store is being repaired"),
        ("/system/optimize", "admin.optimize", "The store is being optimized"),
    ],
)
def test_a_slow_action_continues_in_the_background(
    app: Headrace, client: Client, monkeypatch: pytest.MonkeyPatch, path: str, what: str, expected: str
) -> None:
    gate, done = threading.Event(), threading.Event()
    facade, _, name = what.partition(".")

    def slow(*_: Any, **__: Any) -> dict[str, int]:
        gate.wait(PATIENCE)
        done.set()
        return {}

    monkeypatch.setattr(background, "_TIMEOUT", 0.0)
    monkeypatch.setattr(type(getattr(app, facade)), name, slow)
    assert do(client, path) == f"{expected} in the background."
    assert not done.is_set()
    gate.set()
    eventually(done.is_set, "the end of it")


def test_a_person_is_erased_after_a_confirmation_with_counts(app: Headrace, client: Client) -> None:
    app.task(name="add")(lambda: None)
    app.task_by_name("add").using(tags=("user:42",)).enqueue()
    app.task_by_name("add").enqueue()
    question = ask(client, "/lifecycle/erase", tag="user:42")
    assert (question["ask"], question["label"]) == ("Erase everything about user:42?", "Erase")
    assert "have 1 job of it" in question["detail"]
    assert do(client, "/lifecycle/erase", tag="user:42") == "Erased: 1 job, 3 events."
    assert app.jobs.count() == 1
    entry = app.audit.list()[0]
    assert (entry.what, entry.target, entry.outcome) == ("lifecycle.erase", "tag user:42", "done")
    assert refused(client, "/lifecycle/erase") == "tag: give the tag of the person or tenant"
