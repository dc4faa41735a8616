"""Health checks and metrics respond, also while the store is unavailable."""

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


def test_a_process_without_its_store_is_alive_and_not_ready(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(app.asgi())
    assert client.get("/readyz").json() == {"status": "ok"}
    monkeypatch.setattr(type(app.engine.queries), "rules", away)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert answer.headers["retry-after"] == "5"
    assert "not ready: no route to the server" in caplog.text, "only the log has the reason"
    assert client.get("/healthz").status_code == 200


def test_scraping_an_unavailable_store_is_an_error(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(app.asgi())
    assert "headrace_" in client.get("/metrics").text
    monkeypatch.setattr(type(app.metrics), "prometheus", away)
    answer = client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert (answer.json()["type"], answer.json()["detail"]) == (
        "urn:headrace:engine-unavailable",
        "no route to the server",
    )


def test_a_worker_role_may_not_scrape(app: Headrace) -> None:
    web = app.asgi(auth=("worker=cron:hush", "viewer=eve:look"))
    assert Client(web, at=BEYOND, headers=basic("eve", "look")).get("/metrics").status_code == 200
    for headers in ({}, basic("cron", "hush")):
        answer = Client(web, at=BEYOND, headers=headers).get("/metrics")
        assert answer.status_code in (401, 403)
        assert "headrace_" not in answer.text
