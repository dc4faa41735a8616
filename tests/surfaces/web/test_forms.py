"""Forms of the dashboard: errors of the form, of the store, and unexpected ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace
from headrace.app.admin.audit import Audit
from headrace.web.pages import background
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_pages import FORM

WRITES = {**FORM, "x-requested-with": "test"}


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


@pytest.fixture
def client(app: Headrace) -> Client:
    return Client(app.asgi(), headers=WRITES)


def away(*_: Any, **__: Any) -> Any:
    raise EngineUnavailable("no route to the server")


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("secret")


def test_an_action_succeeds_if_the_audit_trail_is_unavailable(
    app: Headrace, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Audit, "record", away)
    response = client.post("/queues/mail/pause")
    assert (response.status_code, response.json()["ok"]) == (200, True)
    assert app.queue("mail").paused is True
    assert "queue.pause by local could not be recorded: no route to the server" in caplog.text


def test_an_action_on_an_unavailable_store_shows_the_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Audit, "record", away)
    monkeypatch.setattr("headrace.app.queues.queues.Queue.pause", away)
    response = client.post("/queues/mail/pause")
    assert (response.status_code, response.json()["text"]) == (503, "no route to the server")
    monkeypatch.setattr("headrace.web.pages.command_palette.find", away)
    assert client.get("/palette?q=mail").status_code == 503


def test_an_unexpected_error_is_logged_and_recorded_and_not_shown(
    app: Headrace, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.app.queues.queues.Queue.pause", broken)
    response = client.post("/queues/mail/pause")
    assert (response.status_code, response.json()["ok"]) == (500, False)
    assert "secret" not in response.text
    assert "ZeroDivisionError" in caplog.text
    assert [(entry.what, entry.outcome) for entry in app.audit.list()] == [("queue.pause", "refused")]


@pytest.mark.parametrize("act", ["cancel", "retry", "promote", "delete"])
@pytest.mark.parametrize("confirmed", ["", "yes"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "Pick jobs, or filter the list first"),
        ("page=2", "Pick jobs, or filter the list first"),
        ("state=odd", "is not one of"),
        ("state=,", "is not one of"),
        ("since=0001-01-01T00:00%2B14:00", "neither an age"),
    ],
)
def test_an_action_without_a_selection_changes_no_job(
    app: Headrace, client: Client, act: str, confirmed: str, query: str, expected: str
) -> None:
    app.enqueue("add")
    answer = client.post("/jobs", data={"do": act, "query": query, "confirmed": confirmed})
    assert answer.status_code == 400
    assert expected in answer.json()["text"]
    assert app.jobs.count(state="pending") == 1


def test_a_port_of_any_length_is_refused_by_name(client: Client) -> None:
    channel = {"name": "ops", "kind": "email", "host": "localhost", "to": "a@example.com"}
    for port in ("9" * 5000, "100000", "smtp"):
        answer = client.post("/alerts/new-channel", data={**channel, "port": port})
        assert (answer.status_code, answer.json()["text"][:5]) == (400, "port:")


def test_a_malformed_cookie_causes_no_error(client: Client) -> None:
    for flash in ("[" * 20_000, "%7B%7D", "[1]", "null"):
        assert client.get("/queues", headers={"cookie": f"headrace_flash={flash}"}).status_code == 200


# -- in the background


def test_a_failed_bulk_action_is_not_reported_as_running() -> None:
    with pytest.raises(ZeroDivisionError):
        background.run_with_timeout(broken)


def test_a_failure_in_the_background_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_TIMEOUT", 0.0)
    left = threading.Event()

    def act() -> None:
        left.wait(PATIENCE)
        raise EngineUnavailable("no route to the server")

    assert background.run_with_timeout(act) is None
    left.set()
    eventually(lambda: "no route to the server" in caplog.text, "the log")
