"""Posts of alerts on their way: in order, each told, whatever fails in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence

import pytest

from headrace import Headrace
from headrace.core.documents import Document
from headrace.errors import EngineUnavailable
from headrace.runtime.alerts import store
from headrace.runtime.alerts.outbox import Outbox
from headrace.runtime.alerts.store import POST, AlertStore
from headrace.testing import VirtualClock
from tests.runtime.alerts.receivers import Hook, web_server
from tests.support.waiting import eventually


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_server() as hook:
        yield hook


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock, hook: Hook) -> Iterator[Headrace]:
    with Headrace(url, clock=clock, webhook_networks=["127.0.0.0/8"]) as app:
        app.alerts.channels.create("ops", kind="webhook", url=hook.url)
        yield app


def courier_of(app: Headrace) -> Outbox:
    return Outbox(AlertStore(app.engine, app.settings, None), app.clock)


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
    assert app.engine.document_store.browse(POST) == []


@pytest.mark.engines("sqlite")
def test_none_is_passed_over_while_others_take_theirs_away(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PAGE", 2)
    for name in "abcde":
        app.alerts.trigger(name, "x", notify="ops")
    posts = AlertStore(app.engine, app.settings, None).browse(POST)
    first, second = next(posts), next(posts)
    assert app.engine.document_store.remove([second])
    assert [document.key for document in (first, *posts)] == [
        document.key for document in app.engine.document_store.browse(POST)
    ]


@pytest.mark.engines("sqlite")
def test_who_could_not_set_out_has_told_nobody(
    app: Headrace, clock: VirtualClock, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    courier = courier_of(app)
    app.alerts.trigger("deploy", "it failed", notify="ops")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            courier.set_out()
    courier.set_out()
    assert len(app.engine.document_store.browse(POST)) == 1
    clock.advance(120)
    eventually(lambda: not courier.set_out() and told(hook) == [[("raised", "deploy")]], "it is told later")


@pytest.mark.engines("sqlite")
def test_what_was_told_is_not_told_again_because_the_store_is_away(
    app: Headrace, clock: VirtualClock, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(documents: Sequence[Document]) -> bool:
        raise EngineUnavailable("on purpose")

    courier = courier_of(app)
    app.alerts.trigger("deploy", "it failed", notify="ops")
    courier.set_out()
    eventually(lambda: told(hook), "it is told")
    with monkeypatch.context() as patch:
        patch.setattr(app.engine.document_store, "remove", away)
        eventually(lambda: _is_cut_off(courier), "it is about to be settled")
    eventually(lambda: not courier.set_out(), "it is settled")
    clock.advance(3600)
    courier.deliver()
    assert told(hook) == [[("raised", "deploy")]]
    assert app.engine.document_store.browse(POST) == []


def _is_cut_off(courier: Outbox) -> bool:
    try:
        courier.set_out()
    except EngineUnavailable:
        return True
    return False
