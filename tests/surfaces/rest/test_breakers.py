"""Circuit breakers over REST."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headrace import Headrace
from headrace.testing import VirtualClock
from tests.surfaces.rest.kit import Api


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://", clock=VirtualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))) as app:
        yield app


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None), headers={"x-requested-with": "x"})


def fail(app: Headrace, name: str, limit: int) -> None:
    with pytest.raises(ConnectionError), app.breaker(name, failures=limit):
        raise ConnectionError("away")


def test_breakers_are_listed_and_reset(app: Headrace, api: Api) -> None:
    assert api.ask("GET", "/breakers") == []
    fail(app, "bank", 5)
    fail(app, "stripe/eu", 1)
    assert api.ask("GET", "/breakers") == [
        {
            "name": "stripe/eu",
            "state": "open",
            "failures": 1,
            "error": "ConnectionError",
            "open_until": "2026-03-01T12:00:30Z",
        },
        {"name": "bank", "state": "failing", "failures": 1, "error": "ConnectionError", "open_until": None},
    ]
    assert api.ask("POST", "/breakers/stripe%2Feu/reset", 204) is None
    assert [one["name"] for one in api.ask("GET", "/breakers")] == ["bank"]
    kind, detail = api.refused("POST", "/breakers/stripe%2Feu/reset", 404)
    assert (kind, "nothing has failed at breaker 'stripe/eu'" in detail) == ("breaker-not-found", True)
    assert {(entry.what, entry.who, entry.target, entry.outcome) for entry in app.audit.list()} == {
        ("breakers.reset", "local", "stripe/eu", "done"),
        ("breakers.reset", "local", "stripe/eu", "breaker-not-found"),
    }


def test_a_viewer_lists_breakers_and_may_not_reset_them(app: Headrace) -> None:
    fail(app, "stripe", 1)
    there = Api(app.asgi(tokens=["viewer=geheim"], rate=None), headers={"authorization": "Bearer geheim"})
    assert [one["name"] for one in there.ask("GET", "/breakers")] == ["stripe"]
    assert there("POST", "/breakers/stripe/reset").status_code == 403
    assert [one.name for one in app.breakers.list()] == ["stripe"]
