"""Built-in tasks use secrets of the store: they can't be enqueued, changed or claimed by name."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob
from headrace.testing import drain
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_forms import WRITES

FORGED = ["hook", "msg-1", '{"type":"job.completed","data":{"paid":true}}']


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", {"task": "headrace.webhook", "args": FORGED}),
        ("/jobs/bulk", {"jobs": [{"task": "headrace.webhook", "args": FORGED}]}),
        ("/schedules", {"id": "x", "task": "headrace.webhook", "args": FORGED, "every": 60}),
        ("/worker/claim", {"worker": "node-1", "tasks": ["headrace.webhook"], "wait": 0}),
    ],
)
def test_a_built_in_task_is_refused_over_http(app: Headrace, api: Api, path: str, body: dict[str, Any]) -> None:
    kind, detail = api.refused("POST", path, 422, json=body)
    assert (kind, "headrace's own" in detail) == ("invalid-job", True)
    assert app.jobs.count() == 0


def test_a_built_in_task_is_refused_in_the_dashboard_and_in_code(app: Headrace) -> None:
    response = Client(app.asgi(), headers=WRITES).post("/enqueue", content="task=headrace.webhook")
    assert (response.status_code, "headrace's own" in response.json()["text"]) == (400, True)
    with pytest.raises(InvalidJob, match="headrace's own"):
        app.enqueue("headrace.webhook", *FORGED)
    with pytest.raises(ConfigError, match="headrace's own"):
        app.task(name="headrace.webhook")(print)


def test_a_dead_delivery_is_requeued_only_with_its_own_arguments(app: Headrace, api: Api) -> None:
    hook = app.webhooks.create("https://127.0.0.1:9/", "queue.paused", insecure=True)
    job = app.find_task("headrace.webhook").using(retry=0).enqueue("gone", "msg-1", "{}")  # type: ignore[union-attr]
    drain(app)
    [dead_letter] = app.dead.list()
    _, detail = api.refused("POST", f"/dead/{dead_letter.id}/requeue", 422, json={"args": [hook.id, "msg-1", "forged"]})
    assert "headrace's own" in detail
    assert app.jobs.get(job.id).state == "failed"
    assert api.ask("POST", f"/dead/{dead_letter.id}/requeue", json={})["requeued"] is True
