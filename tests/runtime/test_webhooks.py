"""Webhooks: who is sent what from when on, whoever comes, changes or goes in between."""

from __future__ import annotations

import pytest

from headrace import Headrace
from headrace.app import webhooks
from tests.runtime.kit import eventually

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
