"""`headrace lifecycle`: staleness thresholds and retention of tasks and queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import structs

from headrace.app.retention.lifecycle_records import SPANS, LifecyclePolicy
from headrace.cli.options import as_json_option, example, parse_seconds, shared
from headrace.cli.output import Column, print_facts, print_json, print_table, remark
from headrace.cli.session import Session
from headrace.core.retention.lifecycle import DEFAULT, POLICY_FIELDS, StoredPolicy, changed_policy
from headrace.core.retention.staleness import format_duration
from headrace.errors import InvalidJob

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (Column("KIND"), Column("NAME", min_width=8), Column("BY"), Column("TERMS", min_width=8))
_CLI_REPLACEMENTS = {
    "seconds, a timedelta, or None for": "seconds or 10m, 2h, 3d, or none for",
    "True": "yes",
    "False": "no",
}
_HELP = {
    "on_stale": "Action on stale jobs: dead, fail or review.",
    "archive": "Archive jobs past their retention instead of deleting them: yes or no.",
    "remove_on_complete": "Remove completed jobs at once: yes, no, or the number of newest to keep.",
    "remove_on_fail": "Remove failed jobs at once: yes, no, or the number of newest to keep.",
}


@click.group(
    "lifecycle",
    invoke_without_command=True,
    epilog=example("headrace lifecycle", "headrace lifecycle show --task emails.send"),
)
@as_json_option
@shared
@click.pass_context
def lifecycle(ctx: click.Context, as_json: bool) -> None:
    """Show and change staleness thresholds and retention. Without a command: list the tasks and queues that set any."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_policies, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@lifecycle.command("list", epilog=example("headrace lifecycle list --json"))
@as_json_option
@shared
@click.pass_obj
def list_policies(session: Session, as_json: bool) -> None:
    """List the tasks and queues with a lifecycle policy, set in code or by an operator."""
    found = session.store().lifecycle.policies()
    if as_json:
        print_json([structs.asdict(row) for row in found])
    elif not found:
        remark("no task or queue has a lifecycle policy; `headrace lifecycle show` shows the defaults")
    else:
        rows = [
            [
                row.kind,
                row.name,
                source,
                " ".join(f"{name}={_format_value(name, value)}" for name, value in fields.items()),
            ]
            for row in found
            for source, fields in (("its code", row.declared), ("an operator", row.override))
            if fields
        ]
        print_table(_COLUMNS, rows)


@lifecycle.command(
    "show", epilog=example("headrace lifecycle show", "headrace lifecycle show --queue mail --task send")
)
@click.option("--task", "-t", help="The task.")
@click.option("--queue", "-q", help="The queue.")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, task: str | None, queue: str | None, as_json: bool) -> None:
    """Show the policy of a task, a queue or all jobs, and where each value is set."""
    _print(session.store().lifecycle.policy(task=task, queue=queue), as_json)


def _print(policy: LifecyclePolicy, as_json: bool) -> None:
    if as_json:
        print_json(policy)
    else:
        print_facts(
            (name, f"{_format_value(name, getattr(policy, name))} ({policy.origin[name]})") for name in POLICY_FIELDS
        )


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


def _field_options(function: F) -> F:
    for name in reversed(POLICY_FIELDS):
        help_text = _HELP.get(name) or f"{_describe(name)}: seconds or 10m, 2h, 3d; none for no limit."
        metavar = "TIME" if name in SPANS else "WORD"
        function = click.option(f"--{name.replace('_', '-')}", metavar=metavar, callback=parse_field, help=help_text)(
            function
        )
    return function


def _describe(name: str) -> str:
    kind, _, what = name.partition("_")
    if kind == "keep":
        return f"Retention of {what} jobs"
    return "Maximum age of a job" if what == "age" else f"Maximum time a job may be {what}"


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
@_field_options
@click.option("--clear", is_flag=True, help="Remove all that operators set before.")
@as_json_option
@shared
@click.pass_obj
def configure(
    session: Session, /, task: str | None, queue: str | None, clear: bool, as_json: bool, **given: Any
) -> None:
    """Change the lifecycle policy of a task or a queue. It overrides its code and the settings.

    The word none means no limit; the word default removes a term set before.
    """
    if (task is None) == (queue is None):
        raise click.UsageError("name either a task or a queue: --task NAME or --queue NAME")
    if not clear and all(value is None for value in given.values()):
        raise click.UsageError("give a term to change, such as --max-pending 10m; `headrace lifecycle show` shows them")
    app = session.store()
    fields = {name: None if value == "none" else value for name, value in given.items() if value is not None}
    if clear:
        app.lifecycle.reset(task=task, queue=queue)
    if fields:
        app.lifecycle.configure(task=task, queue=queue, **fields)
    _print(app.lifecycle.policy(task=task, queue=queue), as_json)


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_duration(round(1000 * value)).replace(" ", "") if name in SPANS else str(value)
