"""Sends forms of the dashboard as its scripts do, to a store in memory with a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace
from headrace.testing import VirtualClock
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_forms import WRITES


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace("memory://", clock=clock, webhook_networks=("127.0.0.0/8",)) as app:
        yield app


@pytest.fixture
def client(app: Headrace) -> Client:
    return Client(app.asgi(), headers=WRITES)


def ask(client: Client, path: str, /, **form: Any) -> dict[str, str]:
    """The confirmation that the action needs."""
    answer = client.post(path, data=form)
    assert answer.status_code == 200, answer.text
    question: dict[str, str] = answer.json()
    assert question.pop("confirmed")
    assert question.keys() == {"ask", "detail", "label"}
    return question


def do(client: Client, path: str, /, **form: Any) -> str:
    """Run the action; return its message."""
    answer = client.post(path, data={**form, "confirmed": "yes"})
    assert (answer.status_code, answer.json()["ok"]) == (200, True), answer.text
    return str(answer.json()["text"])


def refused(client: Client, path: str, status: int = 400, /, **form: Any) -> str:
    """Run an action that fails; return its error."""
    answer = client.post(path, data={**form, "confirmed": "yes"})
    assert (answer.status_code, answer.json()["ok"]) == (status, False), answer.text
    return str(answer.json()["text"])
