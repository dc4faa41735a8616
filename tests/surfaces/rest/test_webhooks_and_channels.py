"""Webhooks and alert channels over HTTP: secrets can be set and never read."""

from __future__ import annotations

import json

import pytest

from headrace import Headrace
from tests.runtime.alerts.receivers import web_server
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import BEYOND, bearer

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def test_a_webhook_is_created_changed_paused_and_deleted(api: Api) -> None:
    response = api("POST", "/webhooks", json={"url": "https://example.com/in?token=t0p", "types": ["dead.*"]})
    assert response.status_code == 201
    made = response.json()
    assert response.headers["location"].endswith(f"/webhooks/{made['id']}")
    assert made["secret"].startswith("whsec_")
    assert made["url"] == "https://example.com/in?***"
    where = f"/webhooks/{made['id']}"
    assert api.ask("GET", where)["types"] == ["dead.entered", "dead.resolved"]
    changed = api.ask("PATCH", where, json={"types": ["job.failed"], "queue": "mail", "url": "https://example.com/on"})
    assert (changed["types"], changed["queue"], changed["url"]) == (["job.failed"], "mail", "https://example.com/on")
    assert api.ask("PATCH", where, json={"queue": None})["queue"] is None
    assert api.ask("POST", f"{where}/pause", json={})["paused"] is True
    assert api.ask("POST", f"{where}/resume", json={})["paused"] is False
    assert [hook["id"] for hook in api.ask("GET", "/webhooks")] == [made["id"]]
    api.ask("DELETE", where, 204, json={})
    for method, path in (("GET", where), ("DELETE", where), ("POST", f"{where}/test"), ("GET", f"{where}/deliveries")):
        assert api.refused(method, path, 404, json={})[0] == "webhook-not-found"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "url"),
        ({"url": "ftp://example.com"}, "url"),
        ({"url": "http://example.com/plain"}, "encrypted"),
        ({"url": "https://me:pass@example.com"}, "password"),
        ({"url": "https://example.com", "types": []}, "types"),
        ({"url": "https://example.com", "types": ["job.exploded"]}, "job.exploded"),
        ({"url": "https://example.com", "secret": "short"}, "secret"),
        ({"url": "https://example.com", "colour": "red"}, "colour"),
    ],
)
def test_an_invalid_webhook_is_refused(api: Api, body: dict[str, object], word: str) -> None:
    assert word in api.refused("POST", "/webhooks", 422, json=body)[1]
    assert api.ask("GET", "/webhooks") == []


@pytest.mark.engines("sqlite")
def test_deliveries_are_sent_and_listed_with_their_outcome(app: Headrace, api: Api) -> None:
    with web_server() as hook:
        made = api.ask("POST", "/webhooks", 201, json={"url": hook.url, "types": ["job.failed"], "secret": SECRET})
        where = f"/webhooks/{made['id']}"
        assert made["secret"] is None, "a given secret is not returned"
        assert api.ask("POST", f"{where}/test", json={}) == {"taken": True, "error": None}
        hook.status = 500
        refused = api.ask("POST", f"{where}/test", json={})
        assert refused["taken"] is False
        assert "500" in refused["error"]
        hook.status = 200

        @app.task(name="boom", retry=0)
        def boom() -> None:
            raise OSError("away")

        with app.worker(concurrency=1):
            boom.enqueue().wait(PATIENCE)
            [job] = eventually(lambda: api.ask("GET", f"{where}/deliveries?limit=5"), "the message")
            app.jobs.get(job["id"]).wait(PATIENCE)
        [delivery] = api.ask("GET", f"{where}/deliveries")
        assert delivery["state"] == "completed"
        assert json.loads(hook.got[-1][2])["type"] == "job.failed"


def test_a_channel_is_created_tested_changed_and_deleted(api: Api) -> None:
    with web_server() as hook:
        body = {"name": "ops", "kind": "webhook", "url": f"{hook.url}/s3cret-path", "secret": SECRET}
        made = api.ask("POST", "/alert-channels", 201, json=body)
        assert (made["origin"], made["signed"], made["target"]) == ("store", True, f"{hook.url}/***")
        assert api.ask("POST", "/alert-channels/ops/test", json={}) == {"taken": True, "error": None}
        assert hook.got[-1][1]["webhook-signature"].startswith("v1,")
        hook.status = 503
        assert "503" in api.ask("POST", "/alert-channels/ops/test", json={})["error"]
    assert api.ask("PATCH", "/alert-channels/ops", json={"severity": "critical"})["severity"] == "critical"
    assert api.ask("GET", "/alert-channels/ops")["signed"] is True, "omitted fields stay"
    assert "already" in api.refused("POST", "/alert-channels", 422, json=body)[1]
    assert {"log", "ops"} == {one["name"] for one in api.ask("GET", "/alert-channels")}
    api.ask("DELETE", "/alert-channels/ops", 204, json={})
    assert api.refused("DELETE", "/alert-channels/ops", 404, json={})[0] == "alert-channel-not-found"
    assert api.refused("GET", "/alert-channels/ops", 404)[0] == "alert-channel-not-found"


@pytest.mark.engines("sqlite")
def test_an_invalid_channel_is_refused(api: Api) -> None:
    for body, word in (
        ({"name": "a b", "kind": "log"}, "name"),
        ({"name": "x", "kind": "pigeon"}, "pigeon"),
        ({"name": "x", "kind": "slack"}, "url"),
        ({"name": "x", "kind": "slack", "url": "https://x", "host": "mail"}, "host"),
        ({"name": "x", "kind": "email", "host": "mail", "to": ["a@b.c"], "port": 0}, "port"),
    ):
        assert word in api.refused("POST", "/alert-channels", 422, json=body)[1]
    assert "built in" in api.refused("DELETE", "/alert-channels/log", 422, json={})[1]


@pytest.mark.engines("sqlite")
def test_no_secret_is_in_a_response_or_in_the_audit_trail(api: Api) -> None:
    private = ("t0p", "s3cret", SECRET, "hunter2", "mailer")
    mail = {"host": "127.0.0.1", "to": ["a@example.com"], "user": "mailer", "password": "hunter2", "port": 1}
    sent = [
        api("POST", "/webhooks", json={"url": "https://example.com/in?token=t0p", "secret": SECRET}),
        api("POST", "/alert-channels", json={"name": "a", "kind": "slack", "url": "https://example.com/s3cret"}),
        api("POST", "/alert-channels", json={"name": "b", "kind": "email", **mail}),
        api("POST", "/alert-channels/b/test", json={}),
        *(api("GET", path) for path in ("/webhooks", "/alert-channels", "/alert-channels/b", "/audit")),
    ]
    assert [response.status_code for response in sent] == [201, 201, 201, 200, 200, 200, 200, 200]
    for response in sent:
        assert not [word for word in private if word in response.text]
    assert "channels.create" in sent[-1].text


@pytest.mark.engines("sqlite")
def test_a_viewer_changes_nothing(app: Headrace) -> None:
    viewer = Api(app.asgi(tokens=["viewer=v:5f2a"]), at=BEYOND)
    for path in ("/webhooks", "/alert-channels"):
        assert viewer("GET", path, headers=bearer("5f2a")).status_code == 200
        assert viewer("POST", path, headers=bearer("5f2a"), json={}).status_code == 403
    assert app.webhooks.list() == []
