"""What machines ask of the web surface is answered, also while the store is away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from tests.surfaces.web.client import BEYOND, Client, basic
from tests.surfaces.web.test_forms import away


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


def test_a_process_without_its_store_lives_and_is_not_ready(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(app.asgi())
    assert client.get("/readyz").json() == {"status": "ok"}
    monkeypatch.setattr(type(app.engine.queries), "queues", away)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert answer.headers["retry-after"] == "5"
    assert "not ready: no route to the server" in caplog.text, "why is told to the log alone"
    assert client.get("/healthz").status_code == 200


def test_who_scrapes_a_store_that_is_away_is_told_so(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(app.asgi())
    assert "headrace_" in client.get("/metrics").text
    monkeypatch.setattr(type(app.metrics), "prometheus", away)
    answer = client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert (answer.json()["type"], answer.json()["detail"]) == (
        "urn:headrace:engine-unavailable",
        "no route to the server",
    )


def test_who_may_not_look_scrapes_nothing(app: Headrace) -> None:
    web = app.asgi(auth=("worker=cron:hush", "viewer=eve:look"))
    assert Client(web, at=BEYOND, headers=basic("eve", "look")).get("/metrics").status_code == 200
    for headers in ({}, basic("cron", "hush")):
        answer = Client(web, at=BEYOND, headers=headers).get("/metrics")
        assert answer.status_code in (401, 403)
        assert "headrace_" not in answer.text
