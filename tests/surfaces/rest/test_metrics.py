"""Metrics and alerts over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from headrace import Headrace
from tests.support.waiting import PATIENCE
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import BEYOND, Client, bearer


def worked(app: Headrace) -> None:
    """A worker has run one job."""

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    job = app.task_by_name("add").using(queue="mail").enqueue(1, 2)
    with app.worker(concurrency=1):
        job.wait(PATIENCE)


def test_metrics_count_the_outcomes_of_jobs(app: Headrace, api: Api) -> None:
    worked(app)
    answer = api.ask("GET", "/metrics?window=10m")
    assert answer["total"]["completed"] == 1
    assert [queue["queue"] for queue in api.ask("GET", "/metrics/queues?window=10m")] == ["mail"]
    assert api.ask("GET", "/metrics/queues/mail?window=10m")["figures"]["enqueued"] == 1
    assert api.refused("GET", "/metrics/queues/nothing", 404)[0] == "queue-not-found"
    assert [task["task"] for task in api.ask("GET", "/metrics/tasks?queue=mail")] == ["add"]
    points = api.ask("GET", "/metrics/series/completed?queue=mail&window=10m")["points"]
    assert sum(point["value"] or 0 for point in points) == 1
    assert len(api.ask("GET", "/metrics/days?count=3")) == 3
    [mail] = api.ask("GET", "/metrics/scale?target_wait=10s")["queues"]
    assert (mail["queue"], mail["seconds_behind"]) == ("mail", 0)
    assert "target_wait" in api.refused("GET", "/metrics/scale?target_wait=soon", 422)[1]
    assert api.refused("GET", "/metrics/series/beauty", 422)[0] == "invalid-job"
    assert "window" in api.refused("GET", "/metrics?window=soon", 422)[1]


@pytest.mark.engines("sqlite")
def test_prometheus_metrics_need_credentials(app: Headrace) -> None:
    worked(app)
    asgi = app.asgi(tokens=["viewer=prometheus:5f2a"])
    response = Client(asgi, at=BEYOND).get("/metrics", headers=bearer("5f2a"))
    assert response.headers["content-type"].startswith("text/plain")
    assert "headrace_" in response.text
    assert Client(asgi, at=BEYOND).get("/metrics").status_code == 401


def test_a_rule_is_created_tested_changed_and_deleted(app: Headrace, api: Api) -> None:
    rule = {"name": "long", "when": "depth > 1000", "for_": 60, "severity": "critical"}
    assert api.ask("POST", "/alert-rules", 201, json=rule)["when"] == "depth > 1000"
    assert "long" in [one["name"] for one in api.ask("GET", "/alert-rules")]
    assert api.ask("PATCH", "/alert-rules/long", json={"enabled": False})["state"] == "off"
    by_reason = {"per": ["task", "reason"]}
    assert api.ask("PATCH", "/alert-rules/dead_letter", json=by_reason)["per"] == ["task", "reason"]
    assert [reading["holds"] for reading in api.ask("GET", "/alert-rules/long/test")] in ([False], [None])
    assert api.ask("POST", "/alert-rule-test", json={"when": "1 > 0"})[0]["holds"] is True
    api.ask("DELETE", "/alert-rules/long", 204)
    assert api.refused("GET", "/alert-rules/long", 404)[0] == "alert-rule-not-found"
    assert api.refused("POST", "/alert-rules", 422, json={"name": "x", "when": "import os"})[0] == "invalid-alert"


def test_an_alert_is_acknowledged_silenced_and_resolved(app: Headrace, api: Api) -> None:
    alert = app.alerts.trigger("disk", "the disk is nearly full", severity="critical")
    assert [one["id"] for one in api.ask("GET", "/alerts?severity=critical")] == [alert.id]
    seen = api.ask("POST", f"/alerts/{alert.id}/acknowledge", json={"note": "on it"})
    assert (seen["state"], seen["acknowledged_by"], seen["note"]) == ("acknowledged", "local", "on it")
    silence = api.ask("POST", "/alert-silences", 201, json={"rule": "disk", "for_": 3600})
    assert api.ask("GET", f"/alerts/{alert.id}")["silenced"] is True
    assert [one["id"] for one in api.ask("GET", "/alert-silences")] == [silence["id"]]
    api.ask("DELETE", f"/alert-silences/{silence['id']}", 204)
    assert api.ask("POST", f"/alerts/{alert.id}/resolve", json={})["state"] == "resolved"
    assert api.ask("GET", "/alerts") == []
    assert {change["what"] for change in api.ask("GET", "/alert-history")} >= {"raised", "acknowledged", "resolved"}
    assert [channel["name"] for channel in api.ask("GET", "/alert-channels")]
    assert api.refused("POST", "/alerts/nothing/resolve", 404, json={})[0] == "alert-not-found"


def test_the_history_of_alerts_continues_after_its_cursor_also_within_one_millisecond(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = app.clock.now()
    with monkeypatch.context() as still:
        still.setattr(type(app.clock), "now", lambda _: moment)
        for name in ("disk", "memory", "network"):
            app.alerts.trigger(name, "it is nearly full")
    first = api.ask("GET", "/alert-history?limit=2")
    rest = api.ask("GET", f"/alert-history?limit=2&cursor={quote(first[-1]['cursor'])}")
    assert sorted(change["alert"]["rule"] for change in first + rest) == ["disk", "memory", "network"]
