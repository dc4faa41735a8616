"""`headrace breakers` lists circuit breakers with failures, and closes them."""

from __future__ import annotations

import pytest

from headrace import Headrace
from tests.support.command_line import Shell


def fail(app: Headrace, name: str, limit: int) -> None:
    with pytest.raises(ConnectionError), app.breaker(name, failures=limit, open_for=3600):
        raise ConnectionError("away")


def test_breakers_are_listed_and_reset(shell: Shell) -> None:
    with shell.app() as app:
        app.queues()  # creates the store
        ran = shell("breakers")
        assert (ran.code, ran.out, ran.err) == (0, "", "nothing has failed: every breaker is closed\n")
        fail(app, "bank", 5)
        fail(app, "stripe", 1)
        head, first, second = shell("breakers").out.splitlines()
        assert head.split() == ["BREAKER", "STATE", "FAILURES", "NEXT", "TRY", "LAST", "ERROR"]
        assert first.split() == ["stripe", "open", "1", "in", "59m", "ConnectionError"]
        assert second.split() == ["bank", "failing", "1", "-", "ConnectionError"]
        listed = shell("breakers", "list", "--json").json
        assert [(one["name"], one["state"], one["failures"], one["error"]) for one in listed] == [
            ("stripe", "open", 1, "ConnectionError"),
            ("bank", "failing", 1, "ConnectionError"),
        ]
        assert listed[1]["open_until"] is None
        assert shell("breakers", "--json").json == listed
        assert "note: breaker 'stripe' is open after 1 failure (ConnectionError);" in shell("doctor").out
        ran = shell("breakers", "reset", "stripe", "--by", "ann")
        assert (ran.code, ran.out) == (0, "breaker stripe is closed\n")
        assert shell("breakers", "reset", "bank", "--json").json == {"breaker": "bank", "state": "closed"}
        assert app.breakers.list() == []
        ran = shell("breakers", "reset", "stripe")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("error: nothing has failed at breaker 'stripe'")
        assert [(entry.who, entry.what, entry.target) for entry in app.audit.list()] == [
            ("ann", "breakers.reset", "stripe")
        ]
