"""Webhooks: which events each one gets, also if webhooks are added, changed or removed in between."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, Event, Headrace, RetryableError
from headrace.app.events import webhooks
from headrace.core.clock import instant_ms
from headrace.core.documents import Document
from headrace.runtime.events import handlers
from headrace.runtime.http_client import NotTaken, post
from tests.support.waiting import PATIENCE, eventually

URL = "https://example.com/hooks"
LOOPBACK = "127.0.0.0/8"


def _sent(app: Headrace, webhook_id: str) -> int:
    return len(app.webhooks.deliveries(webhook_id))


def test_a_new_webhook_is_sent_all_that_happens_from_then_on(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_REFRESH_INTERVAL", 3600.0)
    first = app.webhooks.create(URL, "queue.paused")
    with app.listening():
        app.queue("a").pause()
        eventually(lambda: _sent(app, first.id) == 1, "the webhooks are known")
        second = app.webhooks.create(URL, "queue.resumed")
        app.queue("a").resume()
        app.queue("b").pause()
        eventually(lambda: _sent(app, first.id) == 2, "what came last is sent")
    assert _sent(app, second.id) == 1


def test_what_happened_while_a_webhook_was_paused_is_not_sent(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_REFRESH_INTERVAL", 0.0)
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
def test_two_concurrent_changes_of_a_webhook_do_not_undo_each_other(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = app.webhooks.create(URL, "queue.paused")
    put, others = app.engine.document_store.put, [1]

    def put_second(documents: Sequence[Document]) -> bool:
        if others:
            others.clear()
            app.webhooks.update(hook.id, queue="mail")
        return put(documents)

    monkeypatch.setattr(app.engine.document_store, "put", put_second)
    assert app.webhooks.update(hook.id, types="queue.resumed").types == ("queue.resumed",)
    assert app.webhooks.get(hook.id).queue == "mail"


@pytest.mark.engines("sqlite")
def test_a_message_waits_while_its_queue_is_full(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_PAUSES", (0.01, 0.01))
    tried, hand_on = [], app.webhooks._enqueue_deliveries

    def hand_on_and_count(event: Event) -> None:
        tried.append(event.cursor)
        hand_on(event)

    monkeypatch.setattr(app.webhooks, "_enqueue_deliveries", hand_on_and_count)
    app.task_by_name("x").using(queue=webhooks.QUEUE).enqueue()
    app.queue(webhooks.QUEUE).configure(max_length=1)
    hook = app.webhooks.create(URL, "queue.paused")
    with app.listening():
        app.queue("mail").pause()
        eventually(lambda: len(tried) > 4, "it is tried longer than anything else")
        app.queue(webhooks.QUEUE).configure(max_length=2)
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
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            is_over.set()
            thread.join(PATIENCE)


@pytest.mark.engines("sqlite")
def test_the_status_decides_though_the_rest_of_the_answer_never_comes() -> None:
    with _stalling("200 OK") as url:
        assert post(url, b"{}", {}, PATIENCE / 3, [LOOPBACK]) == 200
    with _stalling("410 Gone") as url, pytest.raises(NotTaken) as raised:
        post(url, b"{}", {}, PATIENCE / 3, [LOOPBACK])
    assert (raised.value.status, str(raised.value)) == (410, "the server answered 410")


# -- where they may go


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "http://0.0.0.0:1/", "http://0:1/"),
        *("https://169.254.169.254/", "http://10.0.0.1/", "http://192.168.1.1/", "http://100.64.0.1/"),
        *("http://[fe80::1]/", "http://[fd00::1]/", "http://224.0.0.1/"),
        *("http://[::ffff:127.0.0.1]:1/", "http://[64:ff9b::a9fe:a9fe]/", "http://[2002:7f00:1::]/"),
    ],
)
def test_nothing_is_sent_into_the_inner_network_unless_that_is_allowed(url: str) -> None:
    with pytest.raises(NotTaken, match="is not on the public internet; allow its network with webhook_networks"):
        post(url, b"{}", {}, PATIENCE, ["10.9.0.0/16"])


def test_nothing_is_sent_there_through_a_proxy_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with pytest.raises(NotTaken, match="not on the public internet"):
        post("http://169.254.169.254/", b"{}", {}, PATIENCE, [])
    with pytest.raises(NotTaken, match="refused"):  # the proxy is reached, and minds the rest
        post("http://example.com/", b"{}", {}, PATIENCE, [])


class Dialled(OSError):
    """Somebody connects, and goes no further."""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_was_checked_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    answers = [["127.0.0.1", "93.184.216.34"], ["127.0.0.1"]]

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        assert host == "rebound.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers.pop(0)]

    def dial(where: tuple[str, int], *_: Any) -> socket.socket:
        raise Dialled(where[0])

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", dial)
    with pytest.raises(NotTaken, match=r"^93\.184\.216\.34$"):
        post(f"{scheme}://rebound.example/", b"{}", {}, PATIENCE, [])


@pytest.mark.engines("sqlite")
def test_the_setting_says_where_messages_may_go(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with _stalling("204 No Content") as there, Headrace(url) as closed, Headrace(url, webhook_networks=LOOPBACK) as app:
        hook = app.webhooks.create(there, "queue.paused")
        closed.alerts.channels.create("ops", kind="webhook", url=there)
        with pytest.raises(RetryableError, match="webhook_networks"):
            closed.webhooks.test(hook.id)
        assert "webhook_networks" in (closed.alerts.channels.test("ops") or "")
        assert app.webhooks.test(hook.id) == 204


@pytest.mark.engines("sqlite")
def test_a_channel_of_the_settings_may_be_anywhere(url: str) -> None:
    with _stalling("204 No Content") as there, Headrace(url, alert_channels=[f"ops=webhook+{there}"]) as app:
        assert app.alerts.channels.test("ops") is None


def test_networks_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"webhook_networks: 10\.0\.0\.1/8 has host bits set"):
        Headrace("memory://", webhook_networks="10.0.0.1/8")


# -- their queue


@pytest.mark.engines("sqlite")
def test_a_backlog_of_jobs_does_not_hold_messages_up(app: Headrace) -> None:
    hook = app.webhooks.create(URL, "queue.paused")
    app.queue("mail").pause()
    with app.listening():
        eventually(lambda: _sent(app, hook.id), "it is sent")
    [message] = app.webhooks.deliveries(hook.id)
    assert message.queue == webhooks.QUEUE == "headrace.webhooks"
