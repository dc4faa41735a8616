"""Workers in other languages: leases and versions protect jobs as for Python workers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Job, Retry
from headrace.core.queues.rates import as_rate
from headrace.web.remote_workers import RemoteClaim, RemoteWorkers
from tests.support.damage import put_field
from tests.support.engines import KINDS
from tests.support.site import serve
from tests.support.waiting import PATIENCE
from tests.surfaces.rest.kit import Api

EXAMPLE = Path(__file__).parents[3] / "docs/examples/worker.mjs"
ASK = {"worker": "node-1", "tasks": ["add", "send"], "queues": {"node": 1}, "limit": 10}


def enqueued(app: Headrace, task: str = "add", *args: Any, **options: Any) -> Job[Any]:
    return app.task_by_name(task).using(queue="node", **options).enqueue(*args)


def claimed(api: Api, **more: Any) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = api.ask("POST", "/worker/claim", json={**ASK, **more})["jobs"]
    return jobs


def settled(api: Api, job: dict[str, Any], outcome: str, worker: str = "node-1", **more: Any) -> dict[str, Any]:
    end = {"id": job["id"], "version": job["version"], "outcome": outcome, **more}
    body = {"worker": worker, "outcomes": [end]}
    (answer,) = api.ask("POST", "/worker/settle", json=body)["results"]
    assert answer["id"] == job["id"]
    return {"applied": answer["applied"], "state": answer["state"]}


def test_a_job_is_claimed_and_completed(app: Headrace, api: Api) -> None:
    job = enqueued(app, "add", 1, 2, metadata={"trace": "x"})
    (one,) = claimed(api)
    assert (one["id"], one["task"], one["args"], one["attempt"]) == (job.id, "add", [1, 2], 1)
    assert one["metadata"] == {"trace": "x"}
    assert [worker.id for worker in app.workers()] == ["node-1"]
    assert job.refresh().worker == "node-1"
    assert settled(api, one, "success", result={"sum": 3}) == {"applied": True, "state": "completed"}
    assert job.refresh().outcome() == {"sum": 3}
    assert claimed(api) == []


def test_a_job_with_remove_on_complete_is_marked_for_retention(app: Headrace, api: Api) -> None:
    enqueued(app, "add", 1, 2, remove_on_complete=True)
    assert claimed(api)
    assert [document.key for document in app.engine.document_store.get("~removing")] == ["node"]


def test_an_outcome_counts_once_and_only_from_the_holder_of_the_lease(app: Headrace, api: Api) -> None:
    enqueued(app)
    (one,) = claimed(api)
    assert settled(api, one, "success", worker="thief") == {"applied": False, "state": "running"}
    assert settled(api, {**one, "version": one["version"] - 1}, "success")["applied"] is False
    assert settled(api, one, "success", result=1)["applied"] is True
    assert settled(api, one, "failure", error={"message": "late"}) == {"applied": False, "state": "completed"}
    assert settled(api, {"id": "nothing", "version": 1}, "success") == {"applied": False, "state": None}


def test_a_failure_is_retried_by_the_policy_of_the_call_or_the_task(app: Headrace, api: Api) -> None:
    job = enqueued(app, retry=Retry(limit=1, backoff="fixed", base=60, jitter=0))
    (one,) = claimed(api)
    error = {"type": "ECONNRESET", "message": "lost", "traceback": "at send (mail.js:7)"}
    assert settled(api, one, "failure", error=error) == {"applied": True, "state": "retrying"}
    assert 50 < (job.refresh().run_at - job.created_at).total_seconds() < 70
    assert [(e.type, e.message, e.traceback) for e in job.errors] == [("ECONNRESET", "lost", "at send (mail.js:7)")]
    job.promote()
    (two,) = claimed(api)
    assert two["attempt"] == 2
    assert settled(api, two, "failure", error=error) == {"applied": True, "state": "failed"}
    assert (job.refresh().reason, app.dead.get(job.id).error_type) == ("attempts_used_up", "ECONNRESET")


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ({"outcome": "failure", "permanent": True, "error": {"message": "no"}}, "failed", "permanent_error"),
        ({"outcome": "failure", "error": {"type": "builtins.ValueError"}}, "failed", "permanent_error"),
        ({"outcome": "failure", "error": {"type": "mail.Bounced"}}, "failed", "permanent_error"),
        ({"outcome": "failure", "delay": 600, "error": {}}, "retrying", "attempt 1 of 4 failed"),
        ({"outcome": "snooze", "delay": 600, "reason": "too early"}, "scheduled", "too early"),
        ({"outcome": "release", "reason": "deploy"}, "pending", "deploy"),
        ({"outcome": "cancel", "reason": "not needed"}, "cancelled", "not needed"),
    ],
)
def test_each_outcome_leads_to_its_state(app: Headrace, api: Api, how: dict[str, Any], state: str, reason: str) -> None:
    job = enqueued(app, retry=Retry(never=("mail.Bounced",)))
    (one,) = claimed(api)
    assert settled(api, one, **how) == {"applied": True, "state": state}
    assert (job.refresh().state, job.reason) == (state, reason)
    assert job.attempt == (0 if how["outcome"] in ("snooze", "release") else 1)


@pytest.mark.engines("sqlite")
def test_a_job_with_damaged_options_fails_and_blocks_no_other_claim(folder: Path) -> None:
    url = f"sqlite:///{folder / 'jobs.db'}"
    with Headrace(url) as app:
        app.task(name="add")(lambda number: number)
        jobs = [enqueued(app, "add", number, timeout=9) for number in range(3)]
        put_field(url, jobs[1].id, "options", "{")
        assert [job["id"] for job in claimed(Api(app.asgi(rate=None)))] == [jobs[0].id, jobs[2].id]
        assert (jobs[1].refresh().state, jobs[1].reason) == ("failed", "corrupt_options")


@pytest.mark.every_engine
@pytest.mark.parametrize("damage", ['":2}{"n', "[1]", "7"])
def test_damaged_metadata_is_empty_for_the_worker_and_blocks_no_claim(
    engine_name: str, folder: Path, damage: str
) -> None:
    kind = KINDS[engine_name]
    address = kind.create(folder)
    with Headrace(kind.url(address)) as app:
        app.task(name="add")(lambda number: number)
        jobs = [enqueued(app, "add", number, metadata={"n": number}) for number in range(3)]
        put_field(kind.url(address), jobs[1].id, "metadata", damage)
        there = Api(app.asgi(rate=None))
        given = {job["id"]: job["metadata"] for job in claimed(there)}
        assert given == {jobs[0].id: {"n": 0}, jobs[1].id: {}, jobs[2].id: {"n": 2}}
    kind.discard(address)


def test_a_renewal_returns_lost_jobs_and_stores_progress_and_logs(app: Headrace, api: Api) -> None:
    jobs = [enqueued(app, "add", n) for n in range(2)]
    one, two = claimed(api)
    jobs[1].cancel()
    held = [
        {
            "id": one["id"],
            "version": one["version"],
            "progress": 0.5,
            "logs": [{"message": "half", "fields": {"n": 1}}],
        },
        {"id": two["id"], "version": two["version"]},
    ]
    answer = api.ask("POST", "/worker/renew", json={"worker": "node-1", "jobs": held, "concurrency": 4})
    assert answer == {"lost": [two["id"]], "command": "run"}
    assert jobs[0].refresh().progress == 0.5
    assert [(line.message, line.fields) for line in jobs[0].logs()] == [("half", {"n": 1})]
    app.stop_worker("node-1")
    assert api.ask("POST", "/worker/renew", json={"worker": "node-1"})["command"] == "stop"
    assert claimed(api) == []
    api.ask("POST", "/worker/leave", 204, json={"worker": "node-1"})
    assert app.workers() == []


@pytest.mark.parametrize("outcome", ["success", "failure", "release"])
def test_an_outcome_reports_the_units_that_its_attempt_used(app: Headrace, api: Api, outcome: str) -> None:
    rate = as_rate("1 units/h", 10_000)
    app.queue("node").configure(rate="1 units/h", burst=10_000)
    enqueued(app, cost=3000)
    [job] = claimed(api)
    settled(api, job, outcome, cost=500)
    [full_at] = app.engine.rule_store.limit_state({("queue", "node"): rate}).full_at["queue", "node"]
    assert round((full_at - 1000 * app.clock.now()) / rate.every) == 500


def test_a_text_with_a_nul_is_not_truncated(app: Headrace, api: Api) -> None:
    failing, leaving = enqueued(app, priority=10), enqueued(app)
    first, second = claimed(api)
    assert [first["id"], second["id"]] == [failing.id, leaving.id]
    held = {"id": first["id"], "version": first["version"], "logs": [{"message": "so\0far"}]}
    api.ask("POST", "/worker/renew", json={"worker": "node-1", "jobs": [held]})
    settled(api, first, "failure", permanent=True, error={"type": "E", "message": "no\0route", "traceback": "at\0x"})
    settled(api, second, "cancel", reason="not\0now")
    assert [line.message for line in failing.logs()] == ["so\ufffdfar"]
    error = failing.refresh().errors[-1]
    assert (error.message, error.traceback) == ("no\ufffdroute", "at\ufffdx")
    assert leaving.refresh().reason == "not\ufffdnow"


def test_a_claim_keeps_the_facts_of_earlier_heartbeats(app: Headrace, api: Api) -> None:
    enqueued(app)
    enqueued(app)
    jobs = claimed(api, limit=2)
    (known,) = app.workers()
    assert (known.concurrency, known.running, known.silent, known.tasks) == (2, 2, False, ["add", "send"])
    about = {"host": "far", "pid": 7, "concurrency": 8, "completed": 30, "failed": 4, "tasks": ["add"], "lease": 6}
    held = [{"id": job["id"], "version": job["version"]} for job in jobs]
    api.ask("POST", "/worker/renew", json={"worker": "node-1", "jobs": held, "queues": {"node": 2}, **about})
    for _ in range(2):
        (known,) = app.workers()
        assert (known.host, known.pid, known.concurrency, known.running) == ("far", 7, 8, 2)
        assert (known.completed, known.failed, known.tasks, known.queues) == (30, 4, ["add"], {"node": 2})
        assert known.heartbeat == 2.0
        assert claimed(api) == []


def test_a_job_of_another_task_is_left_to_other_workers(app: Headrace, api: Api) -> None:
    job = enqueued(app, "somebody.elses")
    (before,) = app.engine.queries.get([job.id])
    own_job = enqueued(app, "add", 1)
    assert [one["id"] for one in claimed(api)] == [own_job.id], "it comes after the other one"
    assert claimed(api) == []
    (after,) = app.engine.queries.get([job.id])
    assert (after.state, after.version, after.attempt, after.worker) == ("pending", before.version, 0, None)
    assert [entry.event for entry in job.history()] == ["submit"]
    assert [one["id"] for one in claimed(api, tasks=["somebody.elses"])] == [job.id]


def test_a_claim_waits_for_a_job(app: Headrace, api: Api) -> None:
    enqueued(app).cancel()  # the store exists
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.extend(claimed(api, wait=20)))
    thread.start()
    job = enqueued(app, "add", 1)
    thread.join(PATIENCE)
    assert [one["id"] for one in found] == [job.id]


def test_a_claim_of_a_disconnected_worker_ends_and_takes_no_job(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = threading.Event(), threading.Event()
    claim = RemoteWorkers.claim

    def patient(
        remote_workers: RemoteWorkers, worker: Any, tasks: Any, request: Any, wait: float, *more: Any
    ) -> list[RemoteClaim]:
        began.set()
        try:
            return claim(remote_workers, worker, tasks, request, 10 * PATIENCE, *more)
        finally:
            ended.set()

    body = json.dumps({**ASK, "worker": "gone", "wait": 60})
    with serve(app) as site, monkeypatch.context() as patched:
        patched.setattr(RemoteWorkers, "claim", patient)
        connection = HTTPConnection("127.0.0.1", site.port)
        connection.request("POST", "/api/v1/worker/claim", body, {"content-type": "application/json"})
        assert began.wait(PATIENCE)
        connection.close()
        assert ended.wait(PATIENCE)
    job = enqueued(app)
    assert [one["id"] for one in claimed(api)] == [job.id]


def test_jobs_claimed_in_a_lost_response_are_released(app: Headrace, api: Api) -> None:
    job = enqueued(app)
    (lost,) = claimed(api)
    (again,) = claimed(api, holding=[])
    assert (again["id"], again["attempt"]) == (job.id, 1)
    assert settled(api, lost, "success")["applied"] is False
    assert claimed(api, holding=[{"id": again["id"], "version": again["version"]}]) == []
    assert settled(api, again, "success")["applied"] is True


def test_results_of_parents_are_resolved(app: Headrace, api: Api) -> None:
    flow = app.flow("sum")
    first = flow.add(app.task_by_name("add").using(queue="node").bind(1, 2))
    flow.add(app.task_by_name("send").using(queue="node").bind(first))
    flow.enqueue()
    (one,) = claimed(api)
    settled(api, one, "success", result=3)
    (two,) = claimed(api)
    assert (two["task"], two["args"]) == ("send", [3])


@pytest.mark.engines("sqlite")
def test_arguments_are_decrypted_and_results_encrypted() -> None:
    key = "k1:" + "A" * 43 + "="
    with Headrace("memory://", encryption_keys=[key]) as app:
        api = Api(app.asgi())
        job = enqueued(app, "add", "hush")
        (one,) = claimed(api)
        assert one["args"] == ["hush"]
        settled(api, one, "success", result="silence")
        assert "silence" not in (job.refresh().row.result or "")
        assert job.outcome() == "silence"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("claim", {**ASK, "tasks": []}),
        ("claim", {**ASK, "worker": "a b"}),
        ("claim", {**ASK, "limit": 0}),
        ("claim", {**ASK, "wait": 61}),
        ("claim", {**ASK, "queues": {"bad name": 1}}),
        ("settle", {"worker": "n", "outcomes": [{"id": "x", "version": 1, "outcome": "maybe"}]}),
        ("settle", {"worker": "n", "outcomes": [{"id": "x", "version": 1, "outcome": "cancel"}] * 2}),
        ("renew", {"worker": "n", "jobs": [{"id": "x"}]}),
        ("renew", {"worker": "n", "jobs": [{"id": "x", "version": 2**63}]}),
        ("claim", {**ASK, "queues": {"node": 10**400}}),
        ("claim", {**ASK, "holding": [{"id": "x", "version": 2**63}]}),
        ("settle", {"worker": "n", "outcomes": [{"id": "x", "version": 2**63, "outcome": "cancel"}]}),
    ],
)
def test_invalid_requests_are_refused(api: Api, path: str, body: dict[str, Any]) -> None:
    api.refused("POST", f"/worker/{path}", 422, json=body)


@pytest.mark.slow
def test_a_worker_in_node_claims_renews_fails_once_retries_and_completes(app: Headrace) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing: install Node 18 or later, the example worker of the docs is run with it")
    with serve(app, tokens=["worker=node:5f2a91"]) as site:
        jobs = {
            "sum": enqueued(app, "node.add", 1, 2),
            "flaky": enqueued(app, "node.flaky", retry=Retry(limit=2, backoff="fixed", base=0.1)),
            "slow": enqueued(app, "node.slow", 2500),
            "order": enqueued(app, "node.order", 7, retry=Retry(limit=1, backoff="fixed", base=0.1)),
        }
        command = [node, str(EXAMPLE), f"http://127.0.0.1:{site.port}"]
        env = {**os.environ, "HEADRACE_TOKEN": "5f2a91"}
        worker = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        try:
            assert jobs["sum"].result(PATIENCE) == 3
            assert jobs["flaky"].result(PATIENCE) == {"attempt": 2}
            assert [error.message for error in jobs["flaky"].errors] == ["not the first time"]
            assert jobs["slow"].wait(PATIENCE) == "completed"
            assert jobs["slow"].refresh().progress is not None  # the lease was renewed
            assert jobs["order"].result(PATIENCE) == {"order": 7, "run": 1}  # charged once, in the first run
            assert sorted(job.result() for job in app.jobs.find(task="node.add")) == [3, 8]  # one was spawned
            app.stop_worker(app.workers()[0].id)  # an operator's command
            _, stderr = worker.communicate(timeout=PATIENCE)
        finally:
            worker.kill()
            worker.communicate(timeout=PATIENCE)
        assert (worker.returncode, stderr) == (0, "")
    assert app.workers() == []
