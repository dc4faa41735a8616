"""The notifications in the outbox: in order, each delivered, whatever fails in between."""

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


def outbox_of(app: Headrace) -> Outbox:
    return Outbox(AlertStore(app.engine, app.settings, None), app.clock)


def received(hook: Hook) -> list[list[tuple[str, str]]]:
    """The actions and rules of each message."""
    return [[(one["what"], one["rule"]) for one in json.loads(body)["alerts"]] for _, _, body in hook.got]


def test_a_message_with_more_in_it_is_not_the_one_before(app: Headrace, clock: VirtualClock, hook: Hook) -> None:
    outbox = outbox_of(app)
    app.alerts.trigger("a", "x", notify="ops")
    hook.status = 503
    outbox.deliver()
    clock.advance(15)
    outbox.deliver()
    clock.advance(30)
    app.alerts.trigger("b", "x", notify="ops")
    hook.status = 200
    outbox.deliver()
    assert received(hook) == [[("raised", "a")], [("raised", "a")], [("raised", "a"), ("raised", "b")]]
    first, again, both = (headers["webhook-id"] for _, headers, _ in hook.got)
    assert first == again
    assert both != first, "a receiver that had the first would drop it, and never get b"


def test_the_end_of_an_alert_is_not_sent_before_its_beginning(app: Headrace, clock: VirtualClock, hook: Hook) -> None:
    outbox = outbox_of(app)
    raised = app.alerts.trigger("deploy", "it failed", notify="ops")
    hook.status = 503
    outbox.deliver()
    hook.status, hook.got = 200, []
    app.alerts.resolve(raised.id)
    app.alerts.trigger("other", "x", notify="ops")
    outbox.deliver()
    assert received(hook) == [[("raised", "other")]], "no other alert waits for it"
    clock.advance(15)
    outbox.deliver()
    assert received(hook)[1:] == [[("raised", "deploy"), ("resolved", "deploy")]]
    assert app.engine.document_store.get(POST) == []


@pytest.mark.engines("sqlite")
def test_none_is_passed_over_while_others_take_theirs_away(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PAGE", 2)
    for name in "abcde":
        app.alerts.trigger(name, "x", notify="ops")
    posts = AlertStore(app.engine, app.settings, None).browse(POST)
    first, second = next(posts), next(posts)
    assert app.engine.document_store.put((), [second])
    assert [document.key for document in (first, *posts)] == [
        document.key for document in app.engine.document_store.get(POST)
    ]


@pytest.mark.engines("sqlite")
def test_a_delivery_that_could_not_start_was_not_sent(
    app: Headrace, clock: VirtualClock, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    outbox = outbox_of(app)
    app.alerts.trigger("deploy", "it failed", notify="ops")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            outbox.start_due()
    outbox.start_due()
    assert len(app.engine.document_store.get(POST)) == 1
    clock.advance(120)
    eventually(lambda: not outbox.start_due() and received(hook) == [[("raised", "deploy")]], "it is sent later")


@pytest.mark.engines("sqlite")
def test_an_outage_does_not_repeat_a_delivered_notification(
    app: Headrace, clock: VirtualClock, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = app.engine.document_store.put

    def away(documents: Sequence[Document], delete: Sequence[Document] = ()) -> bool:
        if delete:
            raise EngineUnavailable("on purpose")
        return put(documents)

    outbox = outbox_of(app)
    app.alerts.trigger("deploy", "it failed", notify="ops")
    outbox.start_due()
    eventually(lambda: received(hook), "it is sent")
    with monkeypatch.context() as patch:
        patch.setattr(app.engine.document_store, "put", away)
        eventually(lambda: _is_cut_off(outbox), "it is about to be settled")
    eventually(lambda: not outbox.start_due(), "it is settled")
    clock.advance(3600)
    outbox.deliver()
    assert received(hook) == [[("raised", "deploy")]]
    assert app.engine.document_store.get(POST) == []


def _is_cut_off(outbox: Outbox) -> bool:
    try:
        outbox.start_due()
    except EngineUnavailable:
        return True
    return False
