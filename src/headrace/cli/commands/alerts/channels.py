"""`headrace alerts channels` and `channel`: where alerts are sent."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from headrace.app.alerts.records import AlertChannel
from headrace.cli.options import chosen, example, field_options
from headrace.cli.output import Column
from headrace.cli.resource import Output, OutputCommand, Resource, line, table
from headrace.cli.session import Session
from headrace.runtime.alerts.channels import CHANNEL_FIELDS, StoredKind

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


# --url names the store.
_OPTIONS = [field._replace(name="hook") if name == "url" else field for name, field in CHANNEL_FIELDS.items()]


def _given_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The given options by the field names of a channel."""
    fields = {
        name: _prompt(name) if name in _SECRET and value == "-" else value for name, value in chosen(fields).items()
    }
    return {"url" if name == "hook" else name: value for name, value in fields.items()}


@click.command("channels", cls=OutputCommand, epilog=example("headrace alerts channels"))
def channels(session: Session) -> Output:
    """List the alert channels. Secrets are not shown."""
    found = session.store().alerts.channels.list()
    failures = (f"{channel.name} failed to send: {channel.error}" for channel in found if channel.error)
    return table(found, _COLUMNS, map(_row, found), hints=failures)


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


channel = Resource(
    "channel",
    "Create, change, test or delete a channel. Without a command: list them.",
    "headrace alerts channel test ops",
    listing=channels,
)


@channel.command(
    "add",
    epilog=example(
        "headrace alerts channel add ops --kind slack --hook -",
        "headrace alerts channel add mail --kind email --host mail.example.com --to ops@example.com",
    ),
)
@click.argument("name")
@click.option("--kind", type=click.Choice(get_args(StoredKind)), help="Kind of channel.")
@field_options(_OPTIONS)
def add(session: Session, /, name: str, kind: str | None, **fields: Any) -> Output:
    """Create a channel. Rules use it by name; rules without channels use those of the setting `alert_notify`."""
    if kind is None:
        raise click.UsageError(f"give the kind with --kind: {', '.join(get_args(StoredKind))}")
    return _changed(session.store().alerts.channels.create(name, kind=kind, **_given_fields(fields)))


@channel.command("set", epilog=example("headrace alerts channel set ops --severity critical"))
@click.argument("name")
@field_options(_OPTIONS)
def set_channel(session: Session, /, name: str, **fields: Any) -> Output:
    """Change a channel. Options that are not given keep their values."""
    given = _given_fields(fields)
    if not given:
        raise click.UsageError("say what to change, such as --severity or --disabled")
    return _changed(session.store().alerts.channels.update(name, **given))


def _changed(channel: AlertChannel) -> Output:
    hint = f"try it with `headrace alerts channel test {channel.name}`"
    return line(channel, f"channel {channel.name}: {channel.kind} to {channel.target}; {hint}")


@channel.command("delete", epilog=example("headrace alerts channel delete ops"))
@click.argument("name")
def delete(session: Session, name: str) -> Output:
    """Delete a channel that no rule names."""
    done = session.store().alerts.channels.delete(name)
    text = f"channel {name} is deleted" if done else f"there is no channel {name}"
    return line({"deleted": done}, text, int(not done))


@channel.command("test", epilog=example("headrace alerts channel test ops"))
@click.argument("name")
def test(session: Session, name: str) -> Output:
    """Send a test message."""
    error = session.store().alerts.channels.test(name)
    text = f"channel {name} accepted the test message" if error is None else f"channel {name} failed: {error}"
    return line({"delivered": error is None, "error": error}, text, int(error is not None))
