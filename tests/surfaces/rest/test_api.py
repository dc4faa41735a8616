"""The REST API, endpoint by endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace, Job, chain, current_job
from headrace.core.access import Role
from headrace.core.jobs.records import ClaimRequest
from headrace.testing import drain
from headrace.web.api.route_table import Endpoint
from headrace.web.api.router import ENDPOINTS
from tests.support.cases import check_each
from tests.support.traced_worker import sign_on_tracing
from tests.support.waiting import PATIENCE
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import bearer

TOKENS = {"admin": "admin-token", "viewer": "viewer-token", "worker": "worker-token"}


@pytest.fixture
def app(app: Headrace) -> Headrace:
    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="sign_in", redact=("password",))
    def sign_in(user: str, password: str) -> dict[str, str]:
        return {"user": user, "password": password}

    @app.task(name="boom", retry=0)
    def boom() -> None:
        raise OSError("the mail server is away")

    return app


# -- every endpoint


def path_of(endpoint: Endpoint) -> str:
    return endpoint.path.replace("{", "").replace("}", "")


@pytest.mark.engines("sqlite")
def test_each_endpoint_needs_its_role(app: Headrace) -> None:
    there = Api(app.asgi(tokens=[f"{role}={token}" for role, token in TOKENS.items()], rate=None))

    def check(endpoint: Endpoint) -> None:
        may: dict[Role, set[str]] = {
            "viewer": {"viewer", "admin"},
            "worker": {"worker", "admin"},
            "admin": {"admin"},
        }
        for role, token in TOKENS.items():
            # A stream would never end, so the request has a bad parameter.
            response = there(
                endpoint.method, f"{path_of(endpoint)}?limit=no", headers=bearer(token), content=b"no JSON"
            )
            if role in may[endpoint.role]:
                assert response.status_code != 403, response.text
            else:
                assert (response.status_code, response.json()["type"]) == (403, "urn:headrace:forbidden")
        assert there(endpoint.method, path_of(endpoint)).status_code == 401

    check_each(ENDPOINTS, check)


@pytest.mark.engines("sqlite")
def test_a_read_only_server_refuses_every_write(app: Headrace) -> None:
    there = Api(app.asgi(read_only=True, rate=None))

    def check(endpoint: Endpoint) -> None:
        response = there(endpoint.method, path_of(endpoint), json={})
        assert (response.status_code, response.json()["type"]) == (403, "urn:headrace:read-only")

    check_each([one for one in ENDPOINTS if one.method != "GET"], check)


def test_names_of_endpoints_are_unique_and_lists_have_limits() -> None:
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len(names) == len(set(names))
    assert all(endpoint.summary.endswith(".") for endpoint in ENDPOINTS)


# -- jobs


def test_a_job_is_submitted_found_shown_and_deleted(app: Headrace, api: Api) -> None:
    made = api("POST", "/jobs", json={"task": "add", "args": [1, 2], "tags": ["sum"], "priority": 5})
    assert made.status_code == 201
    job_id = made.json()["id"]
    assert made.headers["location"] == f"/api/v1/jobs/{job_id}"
    assert [job["id"] for job in api.ask("GET", "/jobs?tag=sum")["jobs"]] == [job_id]
    assert api.ask("PATCH", f"/jobs/{job_id}", json={"priority": 7})["priority"] == 7
    drain(app)
    job = api.ask("GET", f"/jobs/{job_id}")
    assert (job["state"], job["args"], job["result"], job["attempt"]) == ("completed", [1, 2], 3, 1)
    events = [entry["event"] for entry in api.ask("GET", f"/jobs/{job_id}/history")]
    assert events == ["submit", "update", "claim", "succeed"]
    assert "completed" in api.ask("GET", f"/jobs/{job_id}/why")["why"]
    assert api.ask("DELETE", f"/jobs/{job_id}", 204) is None
    assert api.refused("GET", f"/jobs/{job_id}", 404)[0] == "job-not-found"


def test_secrets_are_redacted_also_for_an_admin(app: Headrace, api: Api) -> None:
    job: Job[Any] = app.enqueue("sign_in", "ann", "hunter2")
    drain(app)
    for path in (f"/jobs/{job.id}", "/jobs", f"/jobs/{job.id}/history"):
        assert "hunter2" not in api("GET", path).text
    assert api.ask("GET", f"/jobs/{job.id}")["args"] == ["ann", "***"]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"task": "add", "args": [1]}, 422, "'b'"),
        ({"task": "add", "args": [1, "x"]}, 422, "expected int"),
        ({"task": "add", "args": [1, 2], "priority": 1000}, 422, "priority"),
        ({"task": "add", "args": [1, 2], "qeue": "x"}, 422, "qeue"),
        ({"task": "add", "args": [1, 2], "retry": {"limit": -1}}, 422, "retry limit"),
        ({"task": "add", "args": [1, 2], "unique": {"by": ["args"], "key": "x", "window": -1}}, 422, "unique"),
        ({"task": "add", "args": ["x" * 1_100_000, 2]}, 422, "expected int"),
        ({"args": [1, 2]}, 422, "task"),
        ([], 422, "object"),
    ],
)
def test_a_bad_job_is_refused_by_name(api: Api, body: Any, status: int, word: str) -> None:
    assert word in api.refused("POST", "/jobs", status, json=body)[1]


@pytest.mark.engines("sqlite")
def test_a_body_that_is_not_json_is_refused(api: Api) -> None:
    headers = {"content-type": "application/json"}
    for content in (b"{", b"\xff", b'{"args":' + b"[" * 100_000):
        assert api.refused("POST", "/jobs", 400, content=content, headers=headers)[0] == "malformed-json"


def test_many_jobs_are_stored_together_or_not_at_all(app: Headrace, api: Api) -> None:
    good = {"task": "add", "args": [1, 2]}
    assert len(api.ask("POST", "/jobs/bulk", 201, json={"jobs": [good, good, good]})["ids"]) == 3
    api.refused("POST", "/jobs/bulk", 422, json={"jobs": [good, {"task": "add", "args": []}]})
    assert app.jobs.count() == 3


def test_a_taken_id_and_a_full_queue_have_their_own_problems(app: Headrace, api: Api) -> None:
    job = {"task": "add", "args": [1, 2], "job_id": "reports/2026"}
    api.ask("POST", "/jobs", 201, json=job)
    assert api.refused("POST", "/jobs", 409, json=job)[0] == "duplicate-job"
    assert api.ask("GET", "/jobs/reports%2F2026")["id"] == "reports/2026"
    app.queue("small").configure(max_length=1)
    api.ask("POST", "/jobs", 201, json={"task": "add", "args": [1, 2], "queue": "small"})
    response = api("POST", "/jobs", json={"task": "add", "args": [1, 2], "queue": "small"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")


def test_pages_follow_each_other_and_name_each_job_once(app: Headrace, api: Api) -> None:
    stored: list[Job[int]] = app.enqueue_many([{"task": "add", "args": [n, n]} for n in range(25)])
    ids = [job.id for job in stored]
    seen, cursor = [], ""
    while True:
        page = api.ask("GET", f"/jobs?limit=10&total=true{cursor}")
        assert (page["total"], page["total_is_exact"]) == (25, True)
        seen += [job["id"] for job in page["jobs"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert seen == ids[::-1]


@pytest.mark.engines("sqlite", "postgres")
def test_a_search_without_an_index_continues_after_its_cursor(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.api.resources.jobs._TEXT_SCAN_LIMIT", 10)
    app.enqueue_many([{"task": "add", "args": [n, n]} for n in (424242, *range(25))])
    page = api.ask("GET", "/jobs?text=424242&total=true")
    assert (page["jobs"], page["total"], page["total_is_exact"]) == ([], 0, False)
    for _ in range(2):
        page = api.ask("GET", f"/jobs?text=424242&cursor={page['cursor']}")
        assert page["jobs"] == []
    page = api.ask("GET", f"/jobs?text=424242&cursor={page['cursor']}")
    assert ([job["task"] for job in page["jobs"]], page["cursor"]) == (["add"], None)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "state=gone", "since=yesterday", "colour=red", "queue=a&queue=b"]
)
def test_a_bad_parameter_is_named(api: Api, query: str) -> None:
    assert query.partition("=")[0] in api.refused("GET", f"/jobs?{query}", 422)[1]


def test_actions_on_one_job_report_a_wrong_state(app: Headrace, api: Api) -> None:
    job: Job[int] = app.task_by_name("add").using(delay=60).enqueue(1, 2)
    assert api.ask("POST", f"/jobs/{job.id}/promote", json={})["state"] == "pending"
    assert api.refused("POST", f"/jobs/{job.id}/promote", 409, json={})[0] == "wrong-state"
    assert api.ask("POST", f"/jobs/{job.id}/cancel", json={})["state"] == "cancelled"
    assert api.refused("POST", f"/jobs/{job.id}/cancel", 409, json={})[0] == "wrong-state"
    assert api.ask("POST", f"/jobs/{job.id}/retry", json={})["state"] == "pending"


def test_a_dry_run_of_a_bulk_action_counts_its_jobs(app: Headrace, api: Api) -> None:
    app.enqueue_many([{"task": "add", "args": [n, n], "queue": "a" if n % 2 else "b"} for n in range(10)])
    assert api.refused("POST", "/jobs/cancel", 422, json={})[0] == "invalid-job"
    answer = api.ask("POST", "/jobs/cancel", json={"queue": "a", "dry_run": True})
    assert answer == {"changed": 5, "dry_run": True}
    assert api.ask("POST", "/jobs/cancel", json={"queue": "a"})["changed"] == 5
    assert api.ask("POST", "/jobs/retry", json={"queue": "a", "dry_run": True})["changed"] == 0
    retry = {"queue": "a", "state": ["cancelled"]}
    assert api.ask("POST", "/jobs/retry", json={**retry, "dry_run": True})["changed"] == 5
    assert api.ask("POST", "/jobs/retry", json=retry)["changed"] == 5
    assert api.ask("POST", "/jobs/delete", json={"queue": "b"})["changed"] == 5


# -- queues, tasks, workers


def test_a_queue_is_configured_paused_peeked_and_cleared(app: Headrace, api: Api) -> None:
    jobs: list[Job[int]] = app.enqueue_many([{"task": "add", "args": [n, n], "queue": "mail"} for n in range(3)])
    answer = api.ask("PATCH", "/queues/mail", json={"rate": "10/s", "burst": 20, "concurrency": 5, "ageing": 30})
    assert {name: answer["rules"][name] for name in ("rate", "burst", "concurrency", "ageing")} == {
        "rate": "10/s",
        "burst": 20,
        "concurrency": 5,
        "ageing": 30.0,
    }
    assert api.ask("PATCH", "/queues/mail", json={"rate": None})["rules"]["rate"] is None
    assert api.ask("POST", "/queues/mail/pause", json={})["paused"] is True
    assert api.ask("POST", "/queues/mail/resume", json={})["paused"] is False
    assert [job["id"] for job in api.ask("GET", "/queues/mail/peek?limit=2")] == [jobs[0].id, jobs[1].id]
    assert [queue["pending"] for queue in api.ask("GET", "/queues") if queue["queue"] == "mail"] == [3]
    assert api.ask("POST", "/queues/mail/clear", json={})["changed"] == 3
    assert api.refused("PATCH", "/queues/mail", 422, json={"weight": 0})[0] == "invalid-job"


def test_a_queue_is_deleted_when_nothing_in_it_is_open(api: Api, app: Headrace) -> None:
    job = app.task_by_name("add").using(queue="tpyo").enqueue(1, 2)
    assert api.refused("DELETE", "/queues/tpyo", 409)[0] == "queue-not-empty"
    job.cancel()
    api.ask("DELETE", "/queues/tpyo", status=204)
    assert "tpyo" not in [queue["queue"] for queue in api.ask("GET", "/queues")]


def test_a_task_is_paused_and_limited(app: Headrace, api: Api) -> None:
    assert api.ask("POST", "/tasks/add/pause", json={})["paused"] is True
    assert api.ask("PATCH", "/tasks/add", json={"rate": "5/min"})["rate"] == "5/min"
    assert api.ask("PATCH", "/tasks/add", json={"strategy": "lifo"})["strategy"] == "lifo"
    assert [task["task"] for task in api.ask("GET", "/tasks")] == ["add", "boom", "sign_in"]
    assert api.ask("POST", "/tasks/add/resume", json={})["paused"] is False


def test_the_batches_of_a_task_are_returned(app: Headrace, api: Api) -> None:
    app.task(name="embed", batch=100, within=0.5)(lambda texts: None)
    found = {task["task"]: (task["batch"], task["within"]) for task in api.ask("GET", "/tasks")}
    assert (found["embed"], found["add"]) == ((100, 0.5), (None, None))


def test_a_worker_is_returned_with_its_memory_trace(app: Headrace, api: Api) -> None:
    sign_on_tracing(app.engine, "w1", "a.py:3 +2 kB")
    trace = api.ask("GET", "/workers/w1")["memory_trace"]
    assert trace == {"allocated": 5 * 2**20, "peak": 7 * 2**20, "growth": ["a.py:3 +2 kB"]}


def test_a_worker_is_listed_paused_and_stopped(app: Headrace, api: Api) -> None:
    with app.worker(concurrency=1) as worker:
        assert [one["id"] for one in api.ask("GET", "/workers")] == [worker.id]
        assert api.ask("GET", f"/workers/{worker.id}")["concurrency"] == 1
        assert api.ask("POST", f"/workers/{worker.id}/pause", json={})["id"] == worker.id
        assert api.ask("POST", f"/workers/{worker.id}/resume", json={})["id"] == worker.id
        level = {"level": "WARNING,headrace.cli=WARNING"}
        assert api.ask("POST", f"/workers/{worker.id}/log-level", json=level)["id"] == worker.id
        [row] = app.engine.queries.workers()
        assert "WARNING,headrace.cli=WARNING" in row.command
        loud = api.refused("POST", f"/workers/{worker.id}/log-level", 422, json={"level": "LOUD"})
        assert "'LOUD' is not one of" in loud[1]
        assert api.ask("POST", f"/workers/{worker.id}/stop", json={})["id"] == worker.id
        assert worker.join(PATIENCE)
    assert api.refused("POST", "/workers/nobody/stop", 404, json={})[0] == "worker-not-found"


def test_a_worker_that_ends_before_the_answer_was_stopped(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Headrace.stop_worker

    def stopped(self: Headrace, worker_id: str) -> bool:
        is_known = stop(self, worker_id)
        assert worker.join(PATIENCE)
        return is_known

    monkeypatch.setattr(Headrace, "stop_worker", stopped)
    with app.worker(concurrency=1) as worker:
        assert api.ask("POST", f"/workers/{worker.id}/stop", json={})["id"] == worker.id
        assert app.workers() == []


# -- schedules, flows


def test_a_schedule_is_created_changed_run_and_deleted(app: Headrace, api: Api) -> None:
    body = {"id": "nightly", "task": "add", "args": [1, 2], "cron": "0 2 * * *", "tz": "Europe/Vienna", "priority": 3}
    assert api.ask("POST", "/schedules", 201, json=body)["cron"] == "0 2 * * *"
    assert api.refused("POST", "/schedules", 409, json=body)[0] == "duplicate-schedule"
    assert len(api.ask("GET", "/schedules/nightly/preview?n=3")) == 3
    assert api.ask("PATCH", "/schedules/nightly", json={"every": 300})["every"] == 300.0
    assert api.ask("POST", "/schedules/nightly/pause", json={})["paused"] is True
    assert [one["id"] for one in api.ask("GET", "/schedules?paused=true")] == ["nightly"]
    assert api.ask("POST", "/schedules/nightly/resume", json={})["paused"] is False
    job = api.ask("POST", "/schedules/nightly/run-now", 201, json={})
    assert (job["task"], job["priority"]) == ("add", 3)
    assert [run["job_id"] for run in api.ask("GET", "/schedules/nightly/history")] == [job["id"]]
    assert api.ask("PATCH", "/schedules/nightly", json={"task": "add", "args": [3, 4]})["args"] == [3, 4]
    api.ask("DELETE", "/schedules/nightly", 204)
    assert api.refused("GET", "/schedules/nightly", 404)[0] == "schedule-not-found"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    "timing", [{}, {"cron": "99 * * * *"}, {"every": -1}, {"cron": "0 9 * * *", "tz": "Mars/Base"}, {"every": 1e300}]
)
def test_a_bad_timing_is_refused(api: Api, timing: dict[str, Any]) -> None:
    api.refused("POST", "/schedules", 422, json={"id": "s", "task": "add", "args": [1, 2], **timing})


def test_a_budget_is_shown_with_the_flow_and_its_jobs_and_raised(app: Headrace, api: Api) -> None:
    @app.task
    def ask(tokens: int) -> None:
        current_job().report_cost(tokens)

    run = chain(ask.bind(1200), budget=1000).enqueue()
    drain(app)
    assert api.ask("GET", f"/flows/{run.id}")["budget"] == {"used": 1200, "ceiling": 1000}
    assert api.ask("GET", f"/jobs/{run.jobs[0].id}")["cost"] == 1200
    assert api.ask("POST", f"/flows/{run.id}/budget", json={"units": 5000}) == {"used": 1200, "ceiling": 5000}
    api.refused("POST", f"/flows/{run.id}/budget", 422, json={"units": 0})
    plain = chain(ask.bind(1)).enqueue()
    assert api.ask("GET", f"/flows/{plain.id}")["budget"] is None
    api.refused("POST", f"/flows/{plain.id}/budget", 422, json={"units": 5})


def test_a_call_may_cancel_the_running_one(app: Headrace, api: Api) -> None:
    app.task(name="answer")(lambda text: text)
    unique = {"by": ["task"], "on_conflict": "cancel_running"}
    call = {"task": "answer", "args": ["x"], "unique": unique}
    first = api.ask("POST", "/jobs", 201, json=call)
    [claim] = app.engine.exchange([], ClaimRequest("w", 1, 60_000)).claims
    assert claim.id == first["id"]
    second = api.ask("POST", "/jobs", 201, json=call)
    assert second["id"] != first["id"]
    assert api.ask("GET", f"/jobs/{first['id']}")["reason"] == f"cancelled by a newer call, job {second['id']}"


def test_a_flow_shows_its_graph_and_is_cancelled(app: Headrace, api: Api) -> None:
    flow = app.flow("import")
    first = flow.add(app.tasks["add"].bind(1, 2))
    flow.add(app.tasks["add"].bind(first, 3))
    run = flow.enqueue()
    assert [one["id"] for one in api.ask("GET", "/flows")["flows"]] == [run.id]
    answer = api.ask("GET", f"/flows/{run.id}")
    assert (len(answer["jobs"]), len(answer["graph"]["edges"])) == (2, 1)
    assert api.ask("POST", f"/flows/{run.id}/cancel", json={})["changed"] == 2
    assert api.ask("GET", f"/flows/{run.id}")["flow"]["state"] == "cancelled"
    assert api.refused("GET", "/flows/nothing", 404)[0] == "flow-not-found"


# -- dead letters, lifecycle, system


def test_a_dead_letter_is_shown_requeued_and_resolved(app: Headrace, api: Api) -> None:
    app.enqueue_many([{"task": "boom"} for _ in range(3)])
    drain(app)
    dead_letters = api.ask("GET", "/dead?task=boom")["dead_letters"]
    assert [dead_letter["error_type"] for dead_letter in dead_letters] == ["OSError"] * 3
    assert api.ask("GET", "/dead/groups")[0]["count"] == 3
    assert api.ask("GET", "/dead/stats")[0]["pending"] == 3
    first, second, _ = (dead_letter["id"] for dead_letter in dead_letters)
    assert api.ask("POST", f"/dead/{first}/requeue", json={"note": "fixed"})["requeued"] is True
    assert api.refused("POST", f"/dead/{first}/requeue", 409, json={})[0] == "dead-letter-closed"
    answer = api.ask("POST", f"/dead/{second}/resolve", json={"status": "manually_resolved", "note": "by hand"})
    assert (answer["status"], answer["resolved_by"]) == ("manually_resolved", "local")
    noted = api.ask("POST", f"/dead/{second}/notes", json={"text": "it was the mail server"})["notes"]
    assert [note["text"] for note in noted][-1] == "it was the mail server"
    assert api.ask("POST", "/dead/requeue", json={"task": "boom", "dry_run": True})["matched"] == 1
    assert api.ask("POST", "/dead/requeue", json={"task": "boom"})["requeued"] == 1
    assert api.refused("POST", "/dead/requeue", 422, json={})[0] == "invalid-job"
    assert api.ask("POST", "/dead/purge", json={"older_than": 0, "dry_run": True})["dry_run"] is True
    assert api.ask("GET", f"/dead/{second}/history")[0]["event"] == "submit"
    added = api.ask(
        "POST", "/dead", json={"job_id": dead_letters[1]["job_id"], "reason": "wrong_total", "note": "again"}
    )
    assert (added["reason"], added["status"], added["notes"][0]["text"]) == ("wrong_total", "pending", "again")
    assert api.refused("POST", "/dead", 422, json={"job_id": dead_letters[1]["job_id"]})[0] == "invalid-job"
    assert api.refused("POST", "/dead", 404, json={"job_id": "nowhere"})[0] == "job-not-found"
    api.ask("DELETE", f"/dead/{second}", 204)
    assert api.refused("DELETE", f"/dead/{second}", 404)[0] == "dead-letter-not-found"


def test_a_key_of_a_queue_has_rules_of_its_own(app: Headrace, api: Api) -> None:
    answer = api.ask(
        "PATCH", "/queues/mail/keys", json={"key": "acme", "rate": "60/min, 1000/h", "concurrency": 3, "weight": 2}
    )
    assert answer["keys"] == {"acme": {"rate": "1/s, 1000/h", "burst": 1, "concurrency": 3, "weight": 2}}
    assert app.queue("mail").rules.concurrency_of_key("acme") == 3
    assert (
        api.ask("PATCH", "/queues/mail/keys", json={"key": "acme", **dict.fromkeys(("rate", "concurrency", "weight"))})[
            "keys"
        ]
        == {}
    )
    assert api.ask("GET", "/queues/mail")["keys"] == {}


def test_the_lifecycle_is_shown_and_configured(app: Headrace, api: Api) -> None:
    app.enqueue("add", 1, 2)
    ordered = {"queue": "default", "max_pending": 0.001, "on_stale": "fail"}
    assert api.ask("PATCH", "/lifecycle/policy", json=ordered)["max_pending"] == 0.001
    assert api.ask("GET", "/lifecycle/policy?queue=default")["on_stale"] == "fail"
    while not api.ask("GET", "/lifecycle/stale"):
        pass  # a millisecond must pass
    assert [job["applied"] for job in api.ask("POST", "/lifecycle/stale", json={})] == [False]
    assert [job["applied"] for job in api.ask("POST", "/lifecycle/stale", json={"dry_run": False})] == [True]
    assert api.ask("POST", "/lifecycle/archive", json={})["dry_run"] is True
    assert api.ask("GET", "/lifecycle/ages") == []
    assert api.ask("GET", "/lifecycle/archive")["jobs"] == 0
    assert api.ask("GET", "/lifecycle/archive/months") == []
    assert isinstance(api.ask("GET", "/lifecycle/partitions"), list)


def test_every_write_is_in_the_audit_trail_without_arguments_of_jobs(app: Headrace, api: Api) -> None:
    api.ask("POST", "/jobs", 201, json={"task": "sign_in", "kwargs": {"user": "ann", "password": "hunter2"}})
    api.ask("POST", "/queues/mail/pause", json={})
    api.ask("POST", "/jobs/nothing/cancel", 404, json={})
    entries = api.ask("GET", "/audit?limit=2")
    recorded = [(entry["who"], entry["what"], entry["target"], entry["outcome"]) for entry in entries["entries"]]
    assert recorded == [
        ("local", "jobs.cancel", "nothing", "job-not-found"),
        ("local", "queues.pause", "mail", "done"),
    ]
    last = api("GET", f"/audit?cursor={entries['cursor']}")
    assert [entry["what"] for entry in last.json()["entries"]] == ["jobs.create"]
    assert "hunter2" not in last.text
    assert [entry.what for entry in app.audit.list()] == ["jobs.cancel", "queues.pause", "jobs.create"]


@pytest.mark.engines("sqlite")
def test_the_system_resource_has_no_secret() -> None:
    with Headrace("memory://", web_auth=["ann:s3cret"], web_tokens=["node:5f2a91"]) as app:
        response = Api(app.asgi(), headers=bearer("5f2a91"))("GET", "/system")
        assert response.status_code == 200
        assert "s3cret" not in response.text
        assert "5f2a91" not in response.text


def test_tables_and_keys_of_the_store_are_listed_without_their_values(api: Api) -> None:
    api.ask("POST", "/jobs", 201, json={"task": "sign_in", "kwargs": {"user": "ann", "password": "hunter2"}})
    (jobs,) = api.ask("GET", "/system/storage?pattern=job?")
    assert jobs.keys() == {"name", "kind", "entries", "bytes", "expires"}
    assert jobs["name"] == "jobs"
    assert len(api.ask("GET", "/system/storage?limit=1")) == 1
    assert "hunter2" not in api("GET", "/system/storage?limit=1000").text
    api.ask("GET", "/system/storage?limit=0", 422)


@pytest.mark.engines("sqlite")
def test_an_unchanged_response_is_not_sent_again(api: Api) -> None:
    response = api("GET", "/queues")
    again = api("GET", "/queues", headers={"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.engines("sqlite")
def test_an_unexpected_error_is_not_shown(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[Any]:
        raise RuntimeError("/etc/secret is on fire")

    monkeypatch.setattr(app, "queues", broken)
    response = api("GET", "/queues")
    assert (response.status_code, response.json()["type"]) == (500, "urn:headrace:internal-error")
    assert "fire" not in response.text
    assert "Traceback" not in response.text
    assert "on fire" in caplog.text


@pytest.mark.engines("sqlite")
def test_a_problem_names_the_field_and_what_is_allowed_there(api: Api) -> None:
    def check(case: tuple[str, str, Any, str, str]) -> None:
        method, path, body, field, expected = case
        problem = api.ask(method, path, 422, **({} if body is None else {"json": body}))
        assert problem["field"] == field, problem
        assert expected in problem["detail"]

    job = {"task": "add", "args": [1, 2]}
    check_each(
        [
            ("POST", "/jobs", {**job, "priority": 999}, "priority", "from -100 to 100"),
            ("POST", "/jobs", {**job, "priority": "high"}, "priority", "Expected"),
            ("POST", "/jobs", {**job, "priorty": 1}, "priorty", "fields are task, args, kwargs"),
            ("POST", "/jobs", {"args": []}, "task", "missing"),
            ("POST", "/jobs", {**job, "retry": {"limt": 1}}, "retry.limt", "fields are limit, backoff, base"),
            ("POST", "/jobs/bulk", {"jobs": [{**job, "x": 1}]}, "jobs[0].x", "fields are task, args"),
            ("POST", "/jobs", {"task": "add", "args": ["x", 1]}, "a", "expected int"),
            ("GET", "/jobs?stat=x", None, "stat", "parameters are state, queue, task"),
            ("GET", "/jobs?limit=x", None, "limit", "Expected"),
            ("PATCH", "/queues/default", {"max_lenght": 1}, "max_lenght", "max_length"),
        ],
        check,
    )
