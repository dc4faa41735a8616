"""`headrace webhooks`: HTTP endpoints that receive events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from headrace.cli.options import as_json_option, example, shared
from headrace.cli.output import Column, print_facts, print_json, print_table, remark, say, stamp
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


@click.group(
    "webhooks",
    invoke_without_command=True,
    epilog=example("headrace webhooks", "headrace webhooks create https://example.com/hooks --type job.failed"),
)
@as_json_option
@shared
@click.pass_context
def webhooks(ctx: click.Context, as_json: bool) -> None:
    """Send events to HTTP endpoints. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_webhooks, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@webhooks.command("list", epilog=example("headrace webhooks list --json"))
@as_json_option
@shared
@click.pass_obj
def list_webhooks(session: Session, as_json: bool) -> None:
    """List the webhooks, oldest first."""
    found = session.store().webhooks.list()
    if as_json:
        print_json([_record(hook) for hook in found])
    elif not found:
        remark("no webhooks; `headrace webhooks create URL` creates one")
    else:
        print_table(_COLUMNS, ([hook.id, hook.url, ", ".join(hook.types), _state(hook)] for hook in found))


@webhooks.command(
    "create", epilog=example("headrace webhooks create https://example.com/hooks --type 'dead.*' --queue emails")
)
@click.argument("address", metavar="URL")
@click.option("--type", "types", multiple=True, default=("job.failed",), help="Event type, or a pattern such as job.*.")
@click.option("--queue", "-q", help="Only events of this queue.")
@click.option("--task", "-t", help="Only events of this task.")
@click.option("--insecure", is_flag=True, help="Allow plain HTTP to other machines.")
@as_json_option
@shared
@click.pass_obj
def create(
    session: Session,
    address: str,
    types: tuple[str, ...],
    queue: str | None,
    task: str | None,
    insecure: bool,
    as_json: bool,
) -> None:
    """Create a webhook to URL and print its signing secret. The secret is not shown again."""
    hook = session.store().webhooks.create(address, types, queue=queue, task=task, insecure=insecure)
    if as_json:
        print_json({**_record(hook), "secret": hook.secret})
    else:
        print_facts(
            [("id", hook.id), ("url", hook.url), ("types", ", ".join(hook.types)), ("secret", hook.secret or "")]
        )
        remark("the secret is not shown again")


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
@as_json_option
@shared
@click.pass_obj
def update(
    session: Session,
    webhook_id: str,
    address: str | None,
    types: tuple[str, ...],
    queue: str | None,
    task: str | None,
    insecure: bool,
    as_json: bool,
) -> None:
    """Change a webhook. Options that are not given, and the secret, stay."""
    fields: dict[str, object] = {"url": address, "types": types or None, "queue": queue, "task": task}
    changes = {name: value or None for name, value in fields.items() if value is not None}
    if not changes:
        raise click.UsageError("give a change: --to, --type, --queue or --task")
    _report(session.store().webhooks.update(webhook_id, insecure=insecure, **changes), "is changed", as_json)


@webhooks.command("pause", epilog=example("headrace webhooks pause 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def pause(session: Session, webhook_id: str, as_json: bool) -> None:
    """Pause a webhook. Events during the pause are not sent to it."""
    _report(session.store().webhooks.pause(webhook_id), "is paused", as_json)


@webhooks.command("resume", epilog=example("headrace webhooks resume 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def resume(session: Session, webhook_id: str, as_json: bool) -> None:
    """Resume a webhook, with events from now on."""
    _report(session.store().webhooks.resume(webhook_id), "is active again", as_json)


@webhooks.command("delete", epilog=example("headrace webhooks delete 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def delete(session: Session, webhook_id: str, as_json: bool) -> None:
    """Delete a webhook."""
    hook = session.store().webhooks.get(webhook_id)
    session.store().webhooks.delete(webhook_id)
    _report(hook, "is deleted", as_json)


@webhooks.command("test", epilog=example("headrace webhooks test 5f2c1d9a7b3e"))
@click.argument("webhook_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def test(session: Session, webhook_id: str, as_json: bool) -> None:
    """Send one event of the type webhook.test now."""
    status = session.store().webhooks.test(webhook_id)
    print_json({"id": webhook_id, "status": status}) if as_json else say(f"the webhook answered {status}")


@webhooks.command("deliveries", epilog=example("headrace webhooks deliveries 5f2c1d9a7b3e --limit 10"))
@click.argument("webhook_id", metavar="ID")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number.")
@as_json_option
@shared
@click.pass_obj
def deliveries(session: Session, webhook_id: str, limit: int, as_json: bool) -> None:
    """List the newest deliveries of a webhook. Each delivery is a job."""
    jobs = session.store().webhooks.deliveries(webhook_id, limit)
    rows = [
        (job.id, str(job.state), str(job.attempt), stamp(job.created_at), job.errors[-1].message if job.errors else "")
        for job in jobs
    ]
    if as_json:
        print_json([dict(zip(("id", "state", "attempt", "created_at", "error"), row, strict=True)) for row in rows])
    elif not rows:
        remark("there are no deliveries yet")
    else:
        print_table(_DELIVERIES, [list(row) for row in rows])


def _report(hook: Webhook, done: str, as_json: bool) -> None:
    if as_json:
        print_json(_record(hook))
    else:
        say(f"webhook {hook.id} {done}")


def _state(hook: Webhook) -> str:
    if not hook.paused:
        return "active"
    return f"paused: {hook.reason}" if hook.reason else "paused"


def _record(hook: Webhook) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(hook).items() if name != "secret"}
