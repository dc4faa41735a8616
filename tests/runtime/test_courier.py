"""Posts of alerts on their way: in order, each told, whatever fails in between."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.runtime.alert_desk import POST, AlertDesk
from headrace.runtime.courier import Courier
from headrace.testing import VirtualClock
from tests.runtime.receivers import Hook, web_server


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_server() as hook:
        yield hook


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock, hook: Hook) -> Iterator[Headrace]:
    with Headrace(url, clock=clock) as app:
        app.alerts.channels.create("ops", kind="webhook", url=hook.url)
        yield app


def courier_of(app: Headrace) -> Courier:
    return Courier(AlertDesk(app.engine, app.settings, None), app.clock)


def told(hook: Hook) -> list[list[tuple[str, str]]]:
    """What each message said of which rule."""
    return [[(one["what"], one["rule"]) for one in json.loads(body)["alerts"]] for _, _, body in hook.got]


def test_a_message_with_more_in_it_is_not_the_one_before(app: Headrace, clock: VirtualClock, hook: Hook) -> None:
    courier = courier_of(app)
    app.alerts.trigger("a", "x", notify="ops")
    hook.status = 503
    courier.deliver()
    clock.advance(15)
    courier.deliver()
    clock.advance(30)
    app.alerts.trigger("b", "x", notify="ops")
    hook.status = 200
    courier.deliver()
    assert told(hook) == [[("raised", "a")], [("raised", "a")], [("raised", "a"), ("raised", "b")]]
    first, again, both = (headers["webhook-id"] for _, headers, _ in hook.got)
    assert first == again
    assert both != first, "who has had the first would drop it, and never know of b"


def test_that_it_is_over_is_not_told_before_that_it_began(app: Headrace, clock: VirtualClock, hook: Hook) -> None:
    courier = courier_of(app)
    raised = app.alerts.trigger("deploy", "it failed", notify="ops")
    hook.status = 503
    courier.deliver()
    hook.status, hook.got = 200, []
    app.alerts.resolve(raised.id)
    app.alerts.trigger("other", "x", notify="ops")
    courier.deliver()
    assert told(hook) == [[("raised", "other")]], "no other alert waits for it"
    clock.advance(15)
    courier.deliver()
    assert told(hook)[1:] == [[("raised", "deploy"), ("resolved", "deploy")]]
    assert app.engine.shelf.browse(POST) == []
