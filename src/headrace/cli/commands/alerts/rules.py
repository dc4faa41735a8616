"""`headrace alerts rules` and `rule`: the conditions that raise alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from headrace.app.alerts.records import AlertReading, AlertRule
from headrace.cli.options import as_json_option, chosen, duration, example, names, shared
from headrace.cli.output import Column, print_facts, print_json, print_table, remark, say, span
from headrace.cli.session import Session
from headrace.core.alerts.alert import SEVERITIES
from headrace.core.metrics.catalog import LABELS

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


_FIELDS = (
    click.option("--when", metavar="CONDITION", help="Such as 'error_rate[5m] > 5% and depth > 100'."),
    click.option(
        "--for",
        "for_",
        metavar="TIME",
        callback=duration,
        help="How long the condition must hold before it fires: 30s, 5m.",
    ),
    click.option("--cooldown", metavar="TIME", callback=duration, help="Time between repeated notifications: 10m, 1h."),
    click.option("--severity", type=click.Choice(SEVERITIES), help="Severity of its alerts."),
    click.option("--per", multiple=True, callback=names, help=f"Evaluate separately per: {', '.join(LABELS)}."),
    click.option("--notify", multiple=True, callback=names, help="Channels to notify; may be repeated, or a,b."),
    click.option("--summary", metavar="TEXT", help="Summary text for notifications."),
    click.option("--runbook", metavar="URL", help="Link to the runbook, for notifications."),
    click.option("--enabled/--disabled", default=None, help="Enable or disable the rule."),
)


def _fields(function: F) -> F:
    for option in reversed(_FIELDS):
        function = option(function)
    return labels_option(function)


def _given_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen(fields).items() if value != {}}


@click.command("rules", epilog=example("headrace alerts rules", "headrace alerts rules --json"))
@as_json_option
@shared
@click.pass_obj
def rules(session: Session, as_json: bool) -> None:
    """List every rule with its state."""
    found = session.store().alerts.rules.list()
    if as_json:
        print_json(found)
        return
    print_table(_COLUMNS, [_row(rule_record) for rule_record in found])
    for rule_record in found:
        if rule_record.error:
            remark(f"{rule_record.name} can't be evaluated: {rule_record.error}")


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


@click.group(
    "rule",
    invoke_without_command=True,
    epilog=example("headrace alerts rule set queue_depth --when 'depth > 5000'"),
)
@shared
@click.pass_context
def rule(ctx: click.Context) -> None:
    """Show, create, change, test or delete a rule. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(rules, as_json=False)


@rule.command("show", epilog=example("headrace alerts rule show queue_depth"))
@click.argument("name")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, name: str, as_json: bool) -> None:
    """Show everything about a rule."""
    _print(session.store().alerts.rules.get(name), as_json)


def _print(rule_record: AlertRule, as_json: bool) -> None:
    if as_json:
        print_json(rule_record)
    else:
        print_facts(_facts(rule_record))


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
    yield "labels", ", ".join(f"{name}={value}" for name, value in rule_record.labels.items()) or "-"
    yield "summary", rule_record.summary or "-"
    yield "runbook", rule_record.runbook or "-"
    yield "origin", "shipped" + (", changed" if rule_record.changed else "") if rule_record.shipped else "an operator"


@rule.command("add", epilog=example("headrace alerts rule add busy --when 'wait_p95[10m] > 30s' --per queue --for 5m"))
@click.argument("name")
@_fields
@as_json_option
@shared
@click.pass_obj
def add(session: Session, /, name: str, as_json: bool, **fields: Any) -> None:
    """Create a rule."""
    _print(session.store().alerts.rules.create(name, **_given_fields(fields)), as_json)


@rule.command("set", epilog=example("headrace alerts rule set queue_depth --when 'depth > 5000' --notify ops"))
@click.argument("name")
@_fields
@as_json_option
@shared
@click.pass_obj
def set_rule(session: Session, /, name: str, as_json: bool, **fields: Any) -> None:
    """Change a rule, also a built-in one. Options that are not given keep their values."""
    given = _given_fields(fields)
    if not given:
        raise click.UsageError("say what to change, such as --when or --disabled")
    _print(session.store().alerts.rules.update(name, **given), as_json)


@rule.command("delete", epilog=example("headrace alerts rule delete busy"))
@click.argument("name")
@as_json_option
@shared
@click.pass_obj
def delete(session: Session, name: str, as_json: bool) -> int:
    """Delete a rule. A built-in rule returns to its defaults."""
    done = session.store().alerts.rules.delete(name)
    if as_json:
        print_json({"deleted": done})
    else:
        say(f"rule {name} is deleted" if done else f"there is no rule {name}")
    return 0 if done else 1


@rule.command(
    "test", epilog=example("headrace alerts rule test no_worker", "headrace alerts rule test --when 'depth > 5'")
)
@click.argument("name", required=False)
@_fields
@as_json_option
@shared
@click.pass_obj
def test(session: Session, /, name: str | None, as_json: bool, **fields: Any) -> None:
    """Evaluate a stored rule, or a condition given with --when, now. No notification is sent."""
    found = session.store().alerts.rules.test(name, **_given_fields(fields))
    if as_json:
        print_json(found)
    elif not found:
        remark("nothing to evaluate: no queue or task matches the rule")
    else:
        print_table((Column("HOLDS"), Column("WHAT", min_width=12)), [_reading_row(reading) for reading in found])


def _reading_row(reading: AlertReading) -> list[str]:
    return [_HOLDS_TEXTS[reading.holds], reading.summary]
