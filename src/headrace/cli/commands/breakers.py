"""`headrace breakers`: lists circuit breakers at which calls have failed, and closes them."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from headrace.app.breakers import BreakerStatus
from headrace.cli.options import by_option, example
from headrace.cli.output import Column, ago
from headrace.cli.resource import Output, Resource, line, table
from headrace.cli.session import Session

_COLUMNS = (
    Column("BREAKER", min_width=8),
    Column("STATE"),
    Column("FAILURES", right=True),
    Column("NEXT TRY", right=True),
    Column("LAST ERROR", min_width=12),
)

breakers = Resource(
    "breakers",
    "List and reset circuit breakers. Without a command: list them.",
    "headrace breakers",
    "headrace breakers reset stripe",
)


@breakers.command("list", epilog=example("headrace breakers list --json"))
def list_breakers(session: Session) -> Output:
    """List the circuit breakers at which calls have failed, open ones first. The others are closed."""
    found = session.store().breakers.list()
    now = datetime.now(UTC)
    return table(found, _COLUMNS, (_row(one, now) for one in found), "nothing has failed: every breaker is closed")


def _row(one: BreakerStatus, now: datetime) -> list[str]:
    next_try = "now" if one.state == "trying" else ago(one.open_until, now)
    return [one.name, one.state, str(one.failures), next_try, one.error]


@breakers.command("reset", epilog=example("headrace breakers reset stripe --by ann"))
@click.argument("name")
@by_option
def reset(session: Session, name: str, by: str | None) -> Output:
    """Close a circuit breaker, as if nothing had failed. Jobs that it put back run when they are due."""
    session.store().breakers.reset(name, by=by)
    return line({"breaker": name, "state": "closed"}, f"breaker {name} is closed")
