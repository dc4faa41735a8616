"""Webhooks: who is sent what from when on, whoever comes, changes or goes in between."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest

from headrace import Happening, Headrace
from headrace.app import webhooks
from headrace.core.clock import instant_ms
from headrace.core.shelf import Paper
from headrace.runtime import listening
from headrace.runtime.posting import NotTaken, post
from tests.support.waiting import PATIENCE, eventually

URL = "https://example.com/hooks"


def _sent(app: Headrace, webhook_id: str) -> int:
    return len(app.webhooks.deliveries(webhook_id))


def test_a_new_webhook_is_sent_all_that_happens_from_then_on(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_LOOK_EVERY", 3600.0)
    first = app.webhooks.create(URL, "queue.paused")
    with app.listening():
        app.queue("a").pause()
        eventually(lambda: _sent(app, first.id) == 1, "it is known who wants something")
        second = app.webhooks.create(URL, "queue.resumed")
        app.queue("a").resume()
        app.queue("b").pause()
        eventually(lambda: _sent(app, first.id) == 2, "what came last is sent")
    assert _sent(app, second.id) == 1


def test_what_happened_while_a_webhook_was_paused_is_not_sent(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_LOOK_EVERY", 0.0)
    hook = app.webhooks.create(URL, "queue.paused")
    app.webhooks.pause(hook.id)
    app.queue("meanwhile").pause()
    [event] = app.events(follow=False, types="queue.paused")
    eventually(lambda: app.clock.now() > instant_ms(event.at), "it was before")
    app.webhooks.resume(hook.id)
    app.queue("afterwards").pause()
    with app.listening():
        eventually(lambda: _sent(app, hook.id), "it is sent events again")
    [message] = app.webhooks.deliveries(hook.id)
    assert '"queue":"afterwards"' in message.args[2]


@pytest.mark.engines("sqlite")
def test_of_two_who_change_a_webhook_none_undoes_what_the_other_did(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = app.webhooks.create(URL, "queue.paused")
    put, others = app.engine.shelf.put, [1]

    def put_second(papers: Sequence[Paper]) -> bool:
        if others:
            others.clear()
            app.webhooks.update(hook.id, queue="mail")
        return put(papers)

    monkeypatch.setattr(app.engine.shelf, "put", put_second)
    assert app.webhooks.update(hook.id, types="queue.resumed").types == ("queue.resumed",)
    assert app.webhooks.get(hook.id).queue == "mail"


@pytest.mark.engines("sqlite")
def test_a_message_waits_for_room_in_its_queue(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_PAUSES", (0.01, 0.01))
    tried, hand_on = [], app.webhooks._hand_on

    def hand_on_and_count(event: Happening) -> None:
        tried.append(event.cursor)
        hand_on(event)

    monkeypatch.setattr(app.webhooks, "_hand_on", hand_on_and_count)
    app.task_by_name("x").enqueue()
    app.queue("default").configure(max_length=1)
    hook = app.webhooks.create(URL, "queue.paused")
    with app.listening():
        app.queue("mail").pause()
        eventually(lambda: len(tried) > 4, "it is tried longer than anything else")
        app.queue("default").configure(max_length=2)
        eventually(lambda: _sent(app, hook.id) == 1, "it is sent")
    assert list(app.events(follow=False, types="worker.error")) == []


@contextlib.contextmanager
def _stalling(status: str) -> Iterator[str]:
    """The address of a server that answers with this status, and never comes to the end of its answer."""
    is_over = threading.Event()

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(f"HTTP/1.1 {status}\r\ncontent-length: 100\r\n\r\nso it is".encode())
            is_over.wait(PATIENCE)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            is_over.set()
            thread.join(PATIENCE)


@pytest.mark.engines("sqlite")
def test_the_status_tells_though_the_rest_of_the_answer_never_comes() -> None:
    with _stalling("200 OK") as url:
        assert post(url, b"{}", {}, PATIENCE / 3) == 200
    with _stalling("410 Gone") as url, pytest.raises(NotTaken) as raised:
        post(url, b"{}", {}, PATIENCE / 3)
    assert (raised.value.status, raised.value.said) == (410, "so it is")
