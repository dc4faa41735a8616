"""`headrace webhooks`: HTTP endpoints that receive events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from headrace.cli.options import example
from headrace.cli.output import Column, print_facts, remark, stamp
from headrace.cli.resource import Output, Resource, line, table
from headrace.cli.session import Session

if TYPE_CHECKING:  # importing it would load the worker
    from headrace.app.events.webhooks import Webhook

_COLUMNS = (Column("ID"), Column("URL", min_width=12), Column("TYPES", min_width=8), Column("STATE"))
_DELIVERIES = (
    Column("ID", min_width=12),
    Column("STATE"),
    Column("ATTEMPT"),
    Column("CREATED"),
    Column("ERROR", min_width=8),
)


webhooks = Resource(
    "webhooks",
    "Send events to HTTP endpoints. Without a command: list them.",
    "headrace webhooks",
    "headrace webhooks create https://example.com/hooks --type job.failed",
)


@webhooks.command("list", epilog=example("headrace webhooks list --json"))
def list_webhooks(session: Session) -> Output:
    """List the webhooks, oldest first."""
    found = session.store().webhooks.list()
    rows = ([hook.id, hook.url, ", ".join(hook.types), _state(hook)] for hook in found)
    empty = "no webhooks; `headrace webhooks create URL` creates one"
    return table([_record(hook) for hook in found], _COLUMNS, rows, empty)


@webhooks.command(
    "create", epilog=example("headrace webhooks create https://example.com/hooks --type 'dead.*' --queue emails")
)
@click.argument("address", metavar="URL")
@click.option("--type", "types", multiple=True, default=("job.failed",), help="Event type, or a pattern such as job.*.")
@click.option("--queue", "-q", help="Only events of this queue.")
@click.option("--task", "-t", help="Only events of this task.")
@click.option("--insecure", is_flag=True, help="Allow plain HTTP to other machines.")
def create(session: Session, /, address: str, types: tuple[str, ...], **fields: Any) -> Output:
    """Create a webhook to URL and print its signing secret. The secret is not shown again."""
    hook = session.store().webhooks.create(address, types, **fields)

    def show() -> None:
        print_facts(
            [("id", hook.id), ("url", hook.url), ("types", ", ".join(hook.types)), ("secret", hook.secret or "")]
        )
        remark("the secret is not shown again")

    return Output({**_record(hook), "secret": hook.secret}, show)


@webhooks.command("update", epilog=example("headrace webhooks update 5f2c1d9a7b3e --type 'job.*'"))
@click.argument("webhook_id", metavar="ID")
@click.option("--to", "address", metavar="URL", help="New URL.")
@click.option(
    "--type",
    "types",
    multiple=True,
    help="Event type, or a pattern such as job.*; replaces the old ones; may be repeated.",
)
@click.option("--queue", "-q", help="Only events of this queue; '' for any.")
@click.option("--task", "-t", help="Only events of this task; '' for any.")
@click.option("--insecure", is_flag=True, help="Allow plain HTTP to other machines.")
def update(
    session: Session,
    webhook_id: str,
    address: str | None,
    types: tuple[str, ...],
    queue: str | None,
    task: str | None,
    insecure: bool,
) -> Output:
    """Change a webhook. Options that are not given, and the secret, stay."""
    fields: dict[str, object] = {"url": address, "types": types or None, "queue": queue, "task": task}
    changes = {name: value or None for name, value in fields.items() if value is not None}
    if not changes:
        raise click.UsageError("give a change: --to, --type, --queue or --task")
    return _done(session.store().webhooks.update(webhook_id, insecure=insecure, **changes), "is changed")


@webhooks.command("pause", epilog=example("headrace webhooks pause 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
def pause(session: Session, webhook_id: str) -> Output:
    """Pause a webhook. Events during the pause are not sent to it."""
    return _done(session.store().webhooks.pause(webhook_id), "is paused")


@webhooks.command("resume", epilog=example("headrace webhooks resume 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
def resume(session: Session, webhook_id: str) -> Output:
    """Resume a webhook, with events from now on."""
    return _done(session.store().webhooks.resume(webhook_id), "is active again")


@webhooks.command("delete", epilog=example("headrace webhooks delete 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
def delete(session: Session, webhook_id: str) -> Output:
    """Delete a webhook."""
    hook = session.store().webhooks.get(webhook_id)
    session.store().webhooks.delete(webhook_id)
    return _done(hook, "is deleted")


@webhooks.command("test", epilog=example("headrace webhooks test 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
def test(session: Session, webhook_id: str) -> Output:
    """Send one event of the type webhook.test now."""
    status = session.store().webhooks.test(webhook_id)
    return line({"id": webhook_id, "status": status}, f"the webhook answered {status}")


@webhooks.command("deliveries", epilog=example("headrace webhooks deliveries 5f2c1d9a7b3e --limit 10"))
@click.argument("webhook_id", metavar="ID")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number.")
def deliveries(session: Session, webhook_id: str, limit: int) -> Output:
    """List the newest deliveries of a webhook. Each delivery is a job."""
    jobs = session.store().webhooks.deliveries(webhook_id, limit)
    rows = [
        (job.id, str(job.state), str(job.attempt), stamp(job.created_at), job.errors[-1].message if job.errors else "")
        for job in jobs
    ]
    data = [dict(zip(("id", "state", "attempt", "created_at", "error"), row, strict=True)) for row in rows]
    return table(data, _DELIVERIES, rows, "there are no deliveries yet")


def _done(hook: Webhook, done: str) -> Output:
    return line(_record(hook), f"webhook {hook.id} {done}")


def _state(hook: Webhook) -> str:
    if not hook.paused:
        return "active"
    return f"paused: {hook.reason}" if hook.reason else "paused"


def _record(hook: Webhook) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(hook).items() if name != "secret"}
