"""`headrace alerts channels` and `channel`: where alerts are sent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from headrace.app.alerts.records import AlertChannel
from headrace.cli.options import as_json_option, chosen, example, names, shared
from headrace.cli.output import Column, print_json, print_table, remark, say
from headrace.cli.session import Session
from headrace.core.alerts.alert import SEVERITIES
from headrace.runtime.alerts.channels import Security, StoredKind

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (
    Column("NAME"),
    Column("KIND"),
    Column("FROM"),
    Column("STATE"),
    Column("WAITING", right=True),
    Column("TARGET", min_width=12),
)


_SECRET = ("hook", "secret", "password")


def _prompt(name: str) -> str:
    """Prompt for a value given as `-`, which keeps it out of the shell history and the process list."""
    if sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")


_FIELDS = (
    click.option("--hook", metavar="URL", help="URL of the webhook or chat; - prompts."),
    click.option("--secret", help="Secret that signs webhook messages; - prompts."),
    click.option("--host", help="SMTP server."),
    click.option("--port", type=int, help="SMTP port; the default depends on --security."),
    click.option("--security", type=click.Choice(get_args(Security)), help="Connection security; default starttls."),
    click.option("--user", help="SMTP user."),
    click.option("--password", help="SMTP password; - prompts."),
    click.option("--sender", help="From address of mails."),
    click.option("--to", multiple=True, callback=names, help="Recipients; may be repeated, or a,b."),
    click.option("--severity", type=click.Choice(SEVERITIES), help="Lowest severity to send."),
    click.option("--enabled/--disabled", default=None, help="Enable or disable the channel."),
)


def _fields(function: F) -> F:
    for option in reversed(_FIELDS):
        function = option(function)
    return function


def _given_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The given options by the field names of a channel. --hook becomes `url`, because --url names the store."""
    fields = {
        name: _prompt(name) if name in _SECRET and value == "-" else value for name, value in chosen(fields).items()
    }
    return {"url" if name == "hook" else name: value for name, value in fields.items()}


@click.command("channels", epilog=example("headrace alerts channels"))
@as_json_option
@shared
@click.pass_obj
def channels(session: Session, as_json: bool) -> None:
    """List the alert channels. Secrets are not shown."""
    found = session.store().alerts.channels.list()
    if as_json:
        print_json(found)
        return
    print_table(_COLUMNS, [_row(found_channel) for found_channel in found])
    for found_channel in found:
        if found_channel.error:
            remark(f"{found_channel.name} failed to send: {found_channel.error}")


def _row(row: AlertChannel) -> list[str]:
    state = "off" if not row.enabled else "failing" if row.error else "ok"
    return [
        row.name,
        row.kind,
        row.origin,
        state,
        str(row.waiting),
        row.target,
    ]


@click.group("channel", invoke_without_command=True, epilog=example("headrace alerts channel test ops"))
@shared
@click.pass_context
def channel(ctx: click.Context) -> None:
    """Create, change, test or delete a channel. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(channels, as_json=False)


@channel.command(
    "add",
    epilog=example(
        "headrace alerts channel add ops --kind slack --hook -",
        "headrace alerts channel add mail --kind email --host mail.example.com --to ops@example.com",
    ),
)
@click.argument("name")
@click.option("--kind", type=click.Choice(get_args(StoredKind)), help="Kind of channel.")
@_fields
@as_json_option
@shared
@click.pass_obj
def add(session: Session, /, name: str, kind: str | None, as_json: bool, **fields: Any) -> None:
    """Create a channel. Rules use it by name; rules without channels use those of the setting `alert_notify`."""
    if kind is None:
        raise click.UsageError(f"give the kind with --kind: {', '.join(get_args(StoredKind))}")
    _report(session.store().alerts.channels.create(name, kind=kind, **_given_fields(fields)), as_json)


@channel.command("set", epilog=example("headrace alerts channel set ops --severity critical"))
@click.argument("name")
@_fields
@as_json_option
@shared
@click.pass_obj
def set_channel(session: Session, /, name: str, as_json: bool, **fields: Any) -> None:
    """Change a channel. Options that are not given keep their values."""
    given = _given_fields(fields)
    if not given:
        raise click.UsageError("say what to change, such as --severity or --disabled")
    _report(session.store().alerts.channels.update(name, **given), as_json)


def _report(changed: AlertChannel, as_json: bool) -> None:
    if as_json:
        print_json(changed)
    else:
        say(
            f"channel {changed.name}: {changed.kind} to {changed.target}; "
            f"try it with `headrace alerts channel test {changed.name}`"
        )


@channel.command("delete", epilog=example("headrace alerts channel delete ops"))
@click.argument("name")
@as_json_option
@shared
@click.pass_obj
def delete(session: Session, name: str, as_json: bool) -> int:
    """Delete a channel that no rule names."""
    done = session.store().alerts.channels.delete(name)
    if as_json:
        print_json({"deleted": done})
    else:
        say(f"channel {name} is deleted" if done else f"there is no channel {name}")
    return 0 if done else 1


@channel.command("test", epilog=example("headrace alerts channel test ops"))
@click.argument("name")
@as_json_option
@shared
@click.pass_obj
def test(session: Session, name: str, as_json: bool) -> int:
    """Send a test message."""
    error = session.store().alerts.channels.test(name)
    if as_json:
        print_json({"delivered": error is None, "error": error})
    else:
        say(f"channel {name} accepted the test message" if error is None else f"channel {name} failed: {error}")
    return 0 if error is None else 1
