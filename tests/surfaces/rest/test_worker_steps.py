"""Steps, events and spawned jobs of workers in other languages."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Call, Headrace
from tests.surfaces.rest.kit import Api
from tests.surfaces.rest.test_worker_protocol import claimed, enqueued, settled

pytestmark = pytest.mark.every_engine


def run_of(job: dict[str, Any], worker: str = "node-1") -> dict[str, Any]:
    return {"worker": worker, "id": job["id"], "version": job["version"]}


def kept(api: Api, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.ask("POST", "/worker/steps", json=run_of(job))
    return found


def store(api: Api, job: dict[str, Any], name: str, result: Any) -> None:
    api.ask("POST", "/worker/step", 204, json={**run_of(job), "name": name, "result": result})


def test_a_later_run_gets_the_results_of_the_steps_of_earlier_ones(app: Headrace, api: Api) -> None:
    job = enqueued(app, "send", 7)
    (first,) = claimed(api)
    assert kept(api, first) == {"steps": {}, "events": {}}
    store(api, first, "charge", {"receipt": 7, "day": {"$date": "2026-03-01"}})
    store(api, first, "nothing", None)
    store(api, first, "charge", "a second time")
    settled(api, first, "failure", error={"message": "away"}, delay=0)
    (second,) = claimed(api, wait=10)
    results = {"charge": {"receipt": 7, "day": {"$date": "2026-03-01"}}, "nothing": None}
    assert kept(api, second) == {"steps": results, "events": {}}
    assert settled(api, second, "success")["state"] == "completed"
    assert [entry.message for entry in job.history() if entry.event == "step"] == ["charge", "nothing"]


def test_a_step_is_refused_once_the_job_is_lost(app: Headrace, api: Api) -> None:
    job = enqueued(app)
    (one,) = claimed(api)
    job.cancel()
    kind, text = api.refused("POST", "/worker/step", 409, json={**run_of(one), "name": "late"})
    assert kind == "lease-lost"
    assert "step 'late' was not stored; stop working on it" in text
    assert api.refused("POST", "/worker/steps", 409, json=run_of(one))[0] == "lease-lost"
    assert app.engine.queries.details(job.id).steps == []


def test_only_the_worker_of_a_job_reads_and_stores_its_steps(app: Headrace, api: Api) -> None:
    enqueued(app)
    (one,) = claimed(api)
    assert api.refused("POST", "/worker/steps", 409, json=run_of(one, "thief"))[0] == "lease-lost"
    forged = {**run_of(one, "thief"), "name": "charge", "result": "nothing"}
    assert api.refused("POST", "/worker/step", 409, json=forged)[0] == "lease-lost"
    assert kept(api, one)["steps"] == {}
    unknown = {"worker": "node-1", "id": "nothing", "version": 1}
    assert api.refused("POST", "/worker/steps", 409, json=unknown)[0] == "lease-lost"


def test_a_step_that_is_too_large_or_has_no_name_is_refused(app: Headrace, api: Api) -> None:
    enqueued(app)
    (one,) = claimed(api)
    body = {**run_of(one), "name": "big", "result": "x" * (app.settings.max_payload + 1)}
    assert "1,048,576 bytes" in api.refused("POST", "/worker/step", 413, json=body)[1]
    api.refused("POST", "/worker/step", 422, json={**run_of(one), "name": ""})
    assert kept(api, one)["steps"] == {}


@pytest.mark.engines("sqlite")
def test_steps_and_events_are_encrypted_in_the_store_and_clear_for_the_worker() -> None:
    with Headrace("memory://", encryption_keys=["k1:" + "A" * 43 + "="]) as app:
        api = Api(app.asgi())
        job = enqueued(app)
        (one,) = claimed(api)
        store(api, one, "charge", "hush")
        app.signal(job, "approved", {"by": "silence"})
        assert kept(api, one) == {"steps": {"charge": "hush"}, "events": {"approved": [{"by": "silence"}]}}
        stored = [step.value or "" for step in app.engine.queries.details(job.id).steps]
        assert not any("hush" in value or "silence" in value for value in stored)


def test_a_job_waits_for_an_event_and_gets_it(app: Headrace, api: Api) -> None:
    job = enqueued(app)
    (one,) = claimed(api)
    assert settled(api, one, "wait", event="approved") == {"applied": True, "state": "scheduled"}
    assert "It waits for event 'approved'" in job.why()
    assert claimed(api) == []
    app.signal(job, "approved", {"by": "ann"})
    (two,) = claimed(api, wait=10)
    assert two["attempt"] == 1
    assert kept(api, two)["events"] == {"approved": [{"by": "ann"}]}
    settled(api, two, "wait", event="approved", number=2, delay=3600)
    assert claimed(api) == []
    app.signal(job, "approved", "bob")
    (three,) = claimed(api, wait=10)
    assert kept(api, three)["events"] == {"approved": [{"by": "ann"}, "bob"]}


def test_a_wait_is_over_when_its_time_is(app: Headrace, api: Api) -> None:
    enqueued(app)
    (one,) = claimed(api)
    settled(api, one, "wait", event="approved", delay=0)
    (two,) = claimed(api, wait=10)
    assert kept(api, two)["events"] == {}
    settled(api, two, "wait", event="approved", delay=1e300)  # a century, as everywhere
    assert claimed(api) == []


def test_a_job_completes_after_the_jobs_that_it_spawned(app: Headrace, api: Api) -> None:
    flow = app.flow("import")
    parent = flow.add(app.task_by_name("add").using(queue="node").bind(1, 2))
    flow.add(app.task_by_name("send").using(queue="node").bind(parent))
    run = flow.enqueue()
    (one,) = claimed(api)
    calls = [{"task": "send", "args": [n], "queue": "node", "tags": ["part"]} for n in range(2)]
    assert settled(api, one, "success", result=3, spawn=calls) == {"applied": True, "state": "waiting"}
    children = claimed(api)
    assert [(child["task"], child["args"]) for child in children] == [("send", [0]), ("send", [1])]
    assert app.jobs.count(flow=run) == 4
    correlations = {app.jobs.get(child["id"]).correlation_id for child in children}
    assert correlations == {app.jobs.get(one["id"]).correlation_id}
    for child in children:
        assert app.jobs.get(one["id"]).state == "waiting"
        settled(api, child, "success")
    assert app.jobs.get(one["id"]).state == "completed"
    (last,) = claimed(api)
    assert last["args"] == [3]


def test_a_late_success_spawns_nothing(app: Headrace, api: Api) -> None:
    job = enqueued(app)
    (one,) = claimed(api)
    job.cancel()
    assert settled(api, one, "success", spawn=[{"task": "send"}])["applied"] is False
    assert app.jobs.count() == 1


def refuse_sends(call: Call[Any]) -> None:
    if call.task.name == "send" and call.args == ("secret",):
        raise PermissionError("send: this is not for you")


@pytest.mark.parametrize(
    ("spawned", "why"),
    [
        ({"priority": 5000}, "priority"),
        ({"retry": {"jitter": 7}}, "retry jitter"),
        ({"args": ["secret"]}, "not for you"),
        ({"task": "headrace.webhook"}, "headrace's own"),
    ],
)
def test_an_invalid_job_to_spawn_fails_its_attempt_and_no_other(
    app: Headrace, api: Api, spawned: dict[str, Any], why: str
) -> None:
    app.around_enqueue(refuse_sends)
    jobs = [enqueued(app, retry=0), enqueued(app)]
    one, two = claimed(api)
    outcomes = [
        {
            "id": one["id"],
            "version": one["version"],
            "outcome": "success",
            "spawn": [{"task": "send", **spawned}],
        },
        {"id": two["id"], "version": two["version"], "outcome": "success"},
    ]
    results = api.ask("POST", "/worker/settle", json={"worker": "node-1", "outcomes": outcomes})["results"]
    assert [result["state"] for result in results] == ["failed", "completed"]
    assert why in jobs[0].errors[0].message
    assert app.jobs.count() == 2


def test_a_job_that_starts_at_once_is_enqueued_with_its_parent(app: Headrace, api: Api) -> None:
    job = enqueued(app)
    (one,) = claimed(api)
    child = {"task": "send", "queue": "node", "parent": one["id"], "job_id": f"{one['id']}.1"}
    api.ask("POST", "/jobs", 201, json=child)
    assert api.refused("POST", "/jobs", 409, json=child)[0] == "duplicate-job"
    assert settled(api, one, "success") == {"applied": True, "state": "waiting"}
    (two,) = claimed(api)
    settled(api, two, "success")
    assert job.refresh().state == "completed"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    "more",
    [
        {"outcome": "failure", "spawn": [{"task": "send"}]},
        {"outcome": "wait"},
        {"outcome": "wait", "event": ""},
        {"outcome": "wait", "event": "go", "number": 0},
    ],
)
def test_outcomes_that_make_no_sense_are_refused(app: Headrace, api: Api, more: dict[str, Any]) -> None:
    job = enqueued(app)
    (one,) = claimed(api)
    outcome = {"id": one["id"], "version": one["version"], **more}
    api.refused("POST", "/worker/settle", 422, json={"worker": "node-1", "outcomes": [outcome]})
    assert job.refresh().state == "running"


def test_the_error_of_a_remote_attempt_is_stored_without_the_secrets_of_its_job(app: Headrace, api: Api) -> None:
    job = app.task_by_name("send").using(queue="node", retry=0).enqueue(password="hunter2-hunter2")
    (one,) = claimed(api)
    error = {"type": "Refused", "message": "no hunter2-hunter2", "traceback": "at login('hunter2-hunter2')"}
    settled(api, one, "failure", error=error)
    assert job.refresh().errors[0].type == "Refused"
    assert "hunter2" not in f"{job.errors} {app.dead.get(job.id)!r} {job.row}".replace(job.row.payload, "")
