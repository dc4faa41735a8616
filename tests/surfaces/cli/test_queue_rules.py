"""`headrace queues configure`: rules are set, shown and removed."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from headrace import Headrace
from headrace.cli.commands.queues import parse_rule
from headrace.cli.commands.retention.lifecycle import parse_field
from headrace.cli.options import duration, duration_or_none, moment, moment_or_age
from headrace.cli.root import load_all
from headrace.testing import drain
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        app.task_by_name("x").using(queue="mail").enqueue()
        app.task_by_name("x").using(queue="other").enqueue()
        yield app


def test_a_rule_is_set_shown_and_removed(shell: Shell, app: Headrace) -> None:
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


def test_one_queue_is_shown_with_what_its_rate_has_left(shell: Shell, app: Headrace) -> None:
    facts = dict(line.split(None, 1) for line in shell("queues", "show", "mail").out.splitlines())
    assert (facts["queue"], facts["state"], facts["rules"]) == ("mail", "unserved", "none")
    assert facts["pending"].startswith("1 (oldest ")
    assert "starts" not in facts
    assert shell("queues", "show", "mail", "--json").json["starts_left"] is None
    app.queue("mail").configure(rate="1/h", burst=3)
    app.task(name="x")(lambda: None)
    drain(app)
    assert "starts left  2 now, under its rate" in shell("queues", "show", "mail").out
    record = shell("queues", "show", "mail", "--json").json
    assert (record["starts_left"], record["completed"]) == (2, 1)
    assert shell("queues", "show", "no blanks").code == 2


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_a_wrong_value_is_refused_by_the_option_s_name(shell: Shell, app: Headrace, value: str) -> None:
    ran = shell("queues", "configure", "mail", "--max-length", value)
    assert ran.code == 2
    assert "'--max-length': expected a whole number from 1 to 1,000,000,000, or 'none' for no limit" in ran.err
    assert app.queue("mail").rules.max_length is None


@pytest.mark.parametrize(
    ("expected", "seconds"), [("90", 90), ("0.5", 0.5), ("500ms", 0.5), ("10m", 600), ("1h30m", 5400)]
)
def test_ageing_accepts_every_format_of_a_duration(shell: Shell, app: Headrace, expected: str, seconds: float) -> None:
    assert shell("queues", "configure", "mail", "--ageing", expected).code == 0
    assert app.queue("mail").rules.ageing == seconds * 1000
    assert shell("queues", "configure", "mail", "--ageing", "none").out == "queue mail has no rules\n"


def test_every_option_that_takes_a_time_reads_it_the_same_way() -> None:
    """Every option with the metavar TIME uses a shared callback, or is a rule or a term, which have their own tests."""
    shared = {duration, duration_or_none, moment, moment_or_age, parse_rule, parse_field}
    found = [
        (command.name, param.name, param.callback)
        for command in walk(load_all())
        for param in command.params
        if param.metavar == "TIME"
    ]
    assert len(found) > 15
    assert [(command, name) for command, name, callback in found if callback not in shared] == []


def walk(command: click.Command) -> Iterator[click.Command]:
    yield command
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        yield from walk(each)


def test_a_key_has_rules_of_its_own(shell: Shell, app: Headrace) -> None:
    assert shell("queues", "configure", "mail", "--key", "acme").out == (
        "key acme of queue mail has no rules of its own\n"
    )
    given = ("--key", "acme", "--rate", "60/min, 1000 units/h", "--concurrency", "3")
    assert shell("queues", "configure", "mail", *given).out == (
        "key acme of queue mail has rate=1/s, 1000 units/h burst=1 concurrency=3\n"
    )
    assert app.queue("mail").rules.keys["acme"].concurrency == 3
    assert "key acme" in shell("queues", "show", "mail").out
    assert shell("queues", "configure", "mail").out == "queue mail has keys=acme\n"
    refused = shell("queues", "configure", "mail", "--key", "acme", "--max-length", "3")
    assert refused.code != 0
    assert "unknown rule 'max_length'" in refused.err
    shell("queues", "configure", "mail", "--key", "acme", "--clear")
    assert app.queue("mail").rules.keys == {}


def test_clear_removes_the_rules_of_keys_too(shell: Shell, app: Headrace) -> None:
    app.queue("mail").configure_key("acme", concurrency=3)
    assert shell("queues", "configure", "mail", "--clear").out == "queue mail has no rules\n"
    assert app.queue("mail").rules.keys == {}
