"""`headrace queues configure`: rules are given, shown and lifted from the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from tests.surfaces.command_line import Shell, open_shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    with open_shell(monkeypatch, capsys) as shell:
        yield shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        app.task_by_name("x").using(queue="mail").enqueue()
        app.task_by_name("x").using(queue="other").enqueue()
        yield app


def test_a_rule_is_given_shown_and_lifted(shell: Shell, app: Headrace) -> None:
    assert shell("queues", "configure", "mail").out == "queue mail has no rules\n"
    assert shell("queues", "configure", "mail", "--max-length", "100").out == "queue mail has max_length=100\n"
    assert app.queue("mail").rules.max_length == 100
    assert shell("queues", "configure", "mail", "--json").json == {"queue": "mail", "rules": {"max_length": 100}}
    assert shell("queues", "configure", "mail", "--max-length", "none").out == "queue mail has no rules\n"
    shell("queues", "configure", "mail", "--max-length", "5")
    assert shell("queues", "configure", "mail", "--clear", "--json").json == {"queue": "mail", "rules": {}}
    assert app.queue("mail").rules.max_length is None


def test_rules_are_a_column_of_the_list_where_there_are_any(shell: Shell, app: Headrace) -> None:
    assert "RULES" not in shell("queues").out
    app.queue("mail").configure(max_length=3)
    head, *lines = (line.split() for line in shell("queues").out.splitlines())
    assert {line[0]: line[head.index("RULES")] for line in lines} == {"mail": "max_length=3", "other": "-"}
    assert [queue["rules"] for queue in shell("queues", "--json").json] == [{"max_length": 3}, {}]


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_a_wrong_value_is_refused_by_the_option_s_name(shell: Shell, app: Headrace, value: str) -> None:
    ran = shell("queues", "configure", "mail", "--max-length", value)
    assert ran.code == 2
    assert "'--max-length': expected a whole number from 1 to 1,000,000,000, or 'none' for no limit" in ran.err
    assert app.queue("mail").rules.max_length is None
