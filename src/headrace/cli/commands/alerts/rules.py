"""`headrace alerts rules` and `rule`: the conditions that raise alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from headrace.app.alerts.records import AlertRule
from headrace.cli.options import chosen, example, field_options
from headrace.cli.output import Column, span
from headrace.cli.resource import Output, OutputCommand, Resource, facts, line, table
from headrace.cli.session import Session
from headrace.core.alerts.rules import ALERT_RULE
from headrace.core.alerts.text import labels_text

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("SEVERITY"),
    Column("FOR", right=True),
    Column("PER"),
    Column("WHEN", min_width=12),
)
_HOLDS_TEXTS = {True: "holds", False: "does not hold", None: "no data"}


def _labels(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    for text in value:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not NAME=TEXT", ctx, param)
    return dict(text.split("=", 1) for text in value)


def labels_option(function: F) -> F:
    """--label NAME=TEXT, which may be repeated."""
    help_text = "A label; may be repeated."
    return click.option("--label", "labels", metavar="NAME=TEXT", multiple=True, callback=_labels, help=help_text)(
        function
    )


def _fields(function: F) -> F:
    fields = (field for name, field in ALERT_RULE.items() if name != "labels")
    return labels_option(field_options(fields)(function))


def _given_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen(fields).items() if value != {}}


@click.command("rules", cls=OutputCommand, epilog=example("headrace alerts rules", "headrace alerts rules --json"))
def rules(session: Session) -> Output:
    """List every rule with its state."""
    found = session.store().alerts.rules.list()
    errors = (f"{rule.name} can't be evaluated: {rule.error}" for rule in found if rule.error)
    return table(found, _COLUMNS, map(_row, found), hints=errors)


def _row(rule_record: AlertRule) -> list[str]:
    return [
        rule_record.name,
        rule_record.state,
        rule_record.severity,
        _time(rule_record.for_),
        ",".join(rule_record.per) or "-",
        rule_record.when,
    ]


def _time(seconds: float) -> str:
    return span(seconds) if seconds else "-"


rule = Resource(
    "rule",
    "Show, create, change, test or delete a rule. Without a command: list them.",
    "headrace alerts rule set queue_depth --when 'depth > 5000'",
    listing=rules,
)


@rule.command("show", epilog=example("headrace alerts rule show queue_depth"))
@click.argument("name")
def show(session: Session, name: str) -> Output:
    """Show everything about a rule."""
    return _shown(session.store().alerts.rules.get(name))


def _shown(rule_record: AlertRule) -> Output:
    return facts(rule_record, _facts(rule_record))


def _facts(rule_record: AlertRule) -> Iterator[tuple[str, str]]:
    yield "name", rule_record.name
    yield "state", rule_record.state
    if rule_record.error:
        yield "error", rule_record.error
    yield "when", rule_record.when
    yield "for", _time(rule_record.for_)
    yield "per", ", ".join(rule_record.per) or "-"
    yield "severity", rule_record.severity
    yield "cooldown", _time(rule_record.cooldown)
    yield "notify", "default (alert_notify)" if rule_record.notify is None else ", ".join(rule_record.notify) or "none"
    yield "labels", labels_text(rule_record.labels) or "-"
    yield "summary", rule_record.summary or "-"
    yield "runbook", rule_record.runbook or "-"
    yield "origin", "shipped" + (", changed" if rule_record.changed else "") if rule_record.shipped else "an operator"


@rule.command("add", epilog=example("headrace alerts rule add busy --when 'wait_p95[10m] > 30s' --per queue --for 5m"))
@click.argument("name")
@_fields
def add(session: Session, /, name: str, **fields: Any) -> Output:
    """Create a rule."""
    return _shown(session.store().alerts.rules.create(name, **_given_fields(fields)))


@rule.command("set", epilog=example("headrace alerts rule set queue_depth --when 'depth > 5000' --notify ops"))
@click.argument("name")
@_fields
def set_rule(session: Session, /, name: str, **fields: Any) -> Output:
    """Change a rule, also a built-in one. Options that are not given keep their values."""
    given = _given_fields(fields)
    if not given:
        raise click.UsageError("say what to change, such as --when or --disabled")
    return _shown(session.store().alerts.rules.update(name, **given))


@rule.command("delete", epilog=example("headrace alerts rule delete busy"))
@click.argument("name")
def delete(session: Session, name: str) -> Output:
    """Delete a rule. A built-in rule returns to its defaults."""
    done = session.store().alerts.rules.delete(name)
    text = f"rule {name} is deleted" if done else f"there is no rule {name}"
    return line({"deleted": done}, text, int(not done))


@rule.command(
    "test", epilog=example("headrace alerts rule test no_worker", "headrace alerts rule test --when 'depth > 5'")
)
@click.argument("name", required=False)
@_fields
def test(session: Session, /, name: str | None, **fields: Any) -> Output:
    """Evaluate a stored rule, or a condition given with --when, now. No notification is sent."""
    found = session.store().alerts.rules.test(name, **_given_fields(fields))
    columns = (Column("HOLDS"), Column("WHAT", min_width=12))
    rows = ([_HOLDS_TEXTS[reading.holds], reading.summary] for reading in found)
    return table(found, columns, rows, "nothing to evaluate: no queue or task matches the rule")
