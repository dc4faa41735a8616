"""`headrace lifecycle`: staleness thresholds and retention of tasks and queues."""

from __future__ import annotations

from typing import Any

import click

from headrace.app.retention.lifecycle_records import LifecyclePolicy
from headrace.cli.options import chosen_limits, example, field_options, parse_seconds
from headrace.cli.output import Column
from headrace.cli.resource import Output, Resource, facts, table
from headrace.cli.session import Session
from headrace.core.retention.lifecycle import DEFAULT, StoredPolicy, changed_policy
from headrace.core.retention.policy_fields import POLICY_FIELDS, SPANS
from headrace.core.retention.staleness import format_duration
from headrace.errors import InvalidJob

_COLUMNS = (Column("KIND"), Column("NAME", min_width=8), Column("BY"), Column("TERMS", min_width=8))
_CLI_REPLACEMENTS = {
    "seconds, a timedelta, or None for": "seconds or 10m, 2h, 3d, or none for",
    "True": "yes",
    "False": "no",
}


lifecycle = Resource(
    "lifecycle",
    "Show and change staleness thresholds and retention. Without a command: list the tasks and queues that set any.",
    "headrace lifecycle",
    "headrace lifecycle show --task emails.send",
)


@lifecycle.command("list", epilog=example("headrace lifecycle list --json"))
def list_policies(session: Session) -> Output:
    """List the tasks and queues with a lifecycle policy, set in code or by an operator."""
    found = session.store().lifecycle.policies()
    rows = (
        [row.kind, row.name, source, " ".join(f"{name}={_format_value(name, value)}" for name, value in fields.items())]
        for row in found
        for source, fields in (("its code", row.declared), ("an operator", row.override))
        if fields
    )
    empty = "no task or queue has a lifecycle policy; `headrace lifecycle show` shows the defaults"
    return table(found, _COLUMNS, rows, empty)


@lifecycle.command(
    "show", epilog=example("headrace lifecycle show", "headrace lifecycle show --queue mail --task send")
)
@click.option("--task", "-t", help="The task.")
@click.option("--queue", "-q", help="The queue.")
def show(session: Session, task: str | None, queue: str | None) -> Output:
    """Show the policy of a task, a queue or all jobs, and where each value is set."""
    return _shown(session.store().lifecycle.policy(task=task, queue=queue))


def _shown(policy: LifecyclePolicy) -> Output:
    values = {name: _format_value(name, getattr(policy, name)) for name in POLICY_FIELDS}
    return facts(policy, ((name, f"{value} ({policy.origin[name]})") for name, value in values.items()))


def parse_field(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Parse a term. The word `none` stays a text, because None means "not given"."""
    name = str(param.name)
    if value is None or value in (DEFAULT, "none"):
        return value
    parsed: Any = {"yes": True, "no": False}.get(value, value)
    if name in SPANS:
        parsed = parse_seconds(value)
    elif value.isascii() and value.isdecimal():
        parsed = int(value)
    try:
        changed_policy(StoredPolicy(), {name: value if parsed is None else parsed})
    except InvalidJob as error:
        text = str(error).removeprefix("lifecycle: ").removeprefix(f"{name}: ")
        for python_text, cli_text in _CLI_REPLACEMENTS.items():
            text = text.replace(python_text, cli_text)
        raise click.BadParameter(text, ctx, param) from None
    return parsed


@lifecycle.command(
    "configure",
    epilog=example(
        "headrace lifecycle configure --task emails.send --max-pending 10m --on-stale dead",
        "headrace lifecycle configure --queue mail --max-pending default",
        "headrace lifecycle configure --task emails.send --clear",
    ),
)
@click.option("--task", "-t", help="The task.")
@click.option("--queue", "-q", help="The queue.")
@field_options(POLICY_FIELDS.values(), parse_field)
@click.option("--clear", is_flag=True, help="Remove all that operators set before.")
def configure(session: Session, /, task: str | None, queue: str | None, clear: bool, **given: Any) -> Output:
    """Change the lifecycle policy of a task or a queue. It overrides its code and the settings.

    The word none means no limit; the word default removes a term set before.
    """
    if (task is None) == (queue is None):
        raise click.UsageError("name either a task or a queue: --task NAME or --queue NAME")
    if not clear and all(value is None for value in given.values()):
        raise click.UsageError("give a term to change, such as --max-pending 10m; `headrace lifecycle show` shows them")
    app = session.store()
    fields = chosen_limits(given)
    if clear:
        app.lifecycle.reset(task=task, queue=queue)
    if fields:
        app.lifecycle.configure(task=task, queue=queue, **fields)
    return _shown(app.lifecycle.policy(task=task, queue=queue))


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_duration(round(1000 * value)).replace(" ", "") if name in SPANS else str(value)
