"""What forms of the dashboard answer when something is wrong with them, with the store, or with us."""

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


def test_what_is_done_is_told_though_it_can_t_be_written_down(
    app: Headrace, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Audit, "record", away)
    told = client.post("/queues/mail/pause")
    assert (told.status_code, told.json()["ok"]) == (200, True)
    assert app.queue("mail").paused is True
    assert "queue.pause by local could not be recorded: no route to the server" in caplog.text


def test_a_store_that_is_away_is_told_so_to_who_acts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Audit, "record", away)
    monkeypatch.setattr("headrace.app.queues.queues.Queue.pause", away)
    told = client.post("/queues/mail/pause")
    assert (told.status_code, told.json()["text"]) == (503, "no route to the server")
    monkeypatch.setattr("headrace.web.pages.command_palette.find", away)
    assert client.get("/palette?q=mail").status_code == 503


def test_an_error_that_nobody_foresaw_is_logged_written_down_and_not_shown(
    app: Headrace, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.app.queues.queues.Queue.pause", broken)
    told = client.post("/queues/mail/pause")
    assert (told.status_code, told.json()["ok"]) == (500, False)
    assert "secret" not in told.text
    assert "ZeroDivisionError" in caplog.text
    assert [(entry.what, entry.outcome) for entry in app.audit.list()] == [("queue.pause", "refused")]


@pytest.mark.parametrize("act", ["cancel", "retry", "promote", "delete"])
@pytest.mark.parametrize("confirmed", ["", "yes"])
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "Pick jobs, or filter the list first"),
        ("page=2", "Pick jobs, or filter the list first"),
        ("state=odd", "is not one of"),
        ("state=,", "is not one of"),
        ("since=0001-01-01T00:00%2B14:00", "neither an age"),
    ],
)
def test_jobs_that_are_not_said_are_left_alone(
    app: Headrace, client: Client, act: str, confirmed: str, query: str, told: str
) -> None:
    app.enqueue("add")
    answer = client.post("/jobs", data={"do": act, "query": query, "confirmed": confirmed})
    assert answer.status_code == 400
    assert told in answer.json()["text"]
    assert app.jobs.count(state="pending") == 1


def test_a_port_of_any_length_is_refused_by_name(client: Client) -> None:
    channel = {"name": "ops", "kind": "email", "host": "localhost", "to": "a@example.com"}
    for port in ("9" * 5000, "100000", "smtp"):
        answer = client.post("/alerts/new-channel", data={**channel, "port": port})
        assert (answer.status_code, answer.json()["text"][:5]) == (400, "port:")


def test_a_cookie_of_any_shape_is_no_reason_to_fail(client: Client) -> None:
    for flash in ("[" * 20_000, "%7B%7D", "[1]", "null"):
        assert client.get("/queues", headers={"cookie": f"headrace_flash={flash}"}).status_code == 200


# -- in the background


def test_a_bulk_action_that_fails_is_not_told_to_go_on() -> None:
    with pytest.raises(ZeroDivisionError):
        background.run_with_timeout(broken)


def test_one_that_fails_after_nobody_waited_any_more_is_logged(
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
