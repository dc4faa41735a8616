"""Circuit breakers on the dashboard: the warning of the Overview, the section of the page Tasks, and its button."""

from __future__ import annotations

import re

import pytest

from headrace import Headrace
from headrace.testing import VirtualClock
from tests.surfaces.web.actions import app, client, clock, do, refused
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_forms import WRITES
from tests.surfaces.web.test_pages import FORM

__all__ = ["app", "client", "clock"]  # the fixtures


def fail(app: Headrace, name: str, limit: int, times: int = 1) -> None:
    breaker = app.breaker(name, failures=limit)
    for _ in range(times):
        with pytest.raises(ConnectionError), breaker:
            raise ConnectionError("away")


def section(page: str) -> list[str]:
    """The lines of the section, as text."""
    found = re.search(r'<section class="card" id="breakers".*?</section>', page, re.DOTALL)
    lines = re.findall(r"<li.*?</li>", found[0], re.DOTALL) if found else []
    return [" ".join(re.sub(r"<[^>]+>", " ", line).replace(" :", ":").split()) for line in lines]


def test_breakers_with_failures_are_shown_where_tasks_are(app: Headrace, client: Client, clock: VirtualClock) -> None:
    assert 'id="breakers"' not in client.get("/tasks").text
    fail(app, "sms", 1)
    clock.advance(30)
    fail(app, "bank", 5, times=2)
    fail(app, "stripe", 5, times=5)
    clock.advance(18)
    client = Client(app.asgi())
    assert [line.replace(" : ", ": ").replace(" ,", ",") for line in section(client.get("/tasks").text)] == [
        "stripe: open after 5 failures (ConnectionError), next try in 12 s Reset",
        "bank: 2 failures in a row (ConnectionError) Reset",
        "sms: trying again after 1 failure (ConnectionError), the next call decides Reset",
    ]
    page = client.get("/").text
    assert '<a href="/tasks">Breaker stripe is open after 5 failures (ConnectionError).</a>' in page
    assert "Breaker bank" not in page


def test_a_button_resets_a_breaker(app: Headrace, client: Client) -> None:
    name = "<b>eu</b> west/1"
    fail(app, name, 1)
    page = client.get("/tasks").text
    assert "<b>eu</b>" not in page
    assert "&lt;b&gt;eu&lt;/b&gt; west/1" in page
    assert "<b>eu</b>" not in client.get("/").text
    [action] = re.findall(r'action="(/breakers/[^"]+)"', page)
    assert do(client, action) == f"Breaker {name} is closed; jobs that it put back run when they are due."
    assert app.breakers.list() == []
    assert 'id="breakers"' not in client.get("/tasks").text
    assert "nothing has failed at breaker" in refused(client, action, 404)
    assert ("breakers.reset", name, "done") in [(one.what, one.target, one.outcome) for one in app.audit.list()]


def test_a_viewer_sees_breakers_without_a_button(app: Headrace) -> None:
    fail(app, "stripe", 1)
    there = Client(app.asgi(read_only=True), headers=WRITES)
    page = there.get("/tasks").text
    assert section(page)[0].startswith("stripe")
    assert "/breakers/stripe/reset" not in page
    refused(there, "/breakers/stripe/reset", 403)
    assert [one.name for one in app.breakers.list()] == ["stripe"]


def test_the_button_needs_the_token_of_its_page(app: Headrace) -> None:
    fail(app, "stripe", 1)
    there = Client(app.asgi())
    assert there.post("/breakers/stripe/reset", content="", headers=FORM).status_code == 403
    token = re.search(r'name="form_token" value="(\w+)"', there.get("/tasks").text)
    assert token is not None
    answer = there.post("/breakers/stripe/reset", content=f"form_token={token[1]}", headers=FORM)
    assert answer.json()["ok"] is True
    assert app.breakers.list() == []
