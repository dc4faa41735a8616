"""`headrace lifecycle`: how long jobs of a task or of a queue may stay, who says so, and saying otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import structs

from headrace.app.retention.lifecycle_records import SPANS, LifecyclePolicy
from headrace.cli.options import as_json_option, example, parse_seconds, shared
from headrace.cli.output import Column, print_facts, print_json, print_table, remark
from headrace.cli.session import Session
from headrace.core.retention.lifecycle import DEFAULT, TERMS_NAMES, StoredPolicy, changed_policy
from headrace.core.retention.staleness import in_words
from headrace.errors import InvalidJob

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (Column("KIND"), Column("NAME", least=8), Column("BY"), Column("TERMS", least=8))
_SAID_HERE = {"seconds, a timedelta, or None for": "seconds or 10m, 2h, 3d, or none for", "True": "yes", "False": "no"}
_HELP = {
    "on_stale": "What becomes of stale jobs: dead, fail or review.",
    "archive": "Whether what is kept no longer goes into the archive: yes or no.",
    "remove_on_complete": "Whether completed jobs go at once: yes, no, or how many of the newest stay.",
    "remove_on_fail": "Whether failed jobs go at once: yes, no, or how many of the newest stay.",
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
    """Look at how long jobs may stay, and change it. Without a command: list what tasks and queues say."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_policies, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@lifecycle.command("list", epilog=example("headrace lifecycle list --json"))
@as_json_option
@shared
@click.pass_obj
def list_policies(session: Session, as_json: bool) -> None:
    """List the tasks and queues that say anything of it, by their code or by an operator."""
    found = session.store().lifecycle.all_terms()
    if as_json:
        print_json([structs.asdict(row) for row in found])
    elif not found:
        remark("no task and no queue says anything of it; `headrace lifecycle show` tells what holds for all")
    else:
        rows = [
            [row.kind, row.name, who, " ".join(f"{name}={_word(name, value)}" for name, value in said.items())]
            for row in found
            for who, said in (("its code", row.declared), ("an operator", row.ordered))
            if said
        ]
        print_table(_COLUMNS, rows)


@lifecycle.command(
    "show", epilog=example("headrace lifecycle show", "headrace lifecycle show --queue mail --task send")
)
@click.option("--task", "-t", help="For jobs of this task.")
@click.option("--queue", "-q", help="For jobs in this queue.")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, task: str | None, queue: str | None, as_json: bool) -> None:
    """Show what holds for jobs of a task, in a queue, or for any, and who says so."""
    _print(session.store().lifecycle.terms(task=task, queue=queue), as_json)


def _print(terms: LifecyclePolicy, as_json: bool) -> None:
    if as_json:
        print_json(terms)
    else:
        print_facts((name, f"{_word(name, getattr(terms, name))} ({terms.origin[name]})") for name in TERMS_NAMES)


def as_term(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """A field as the app takes it. The word `none` stays a text, as None means: not said."""
    name = str(param.name)
    if value is None or value in (DEFAULT, "none"):
        return value
    given: Any = {"yes": True, "no": False}.get(value, value)
    if name in SPANS:
        given = parse_seconds(value)
    elif value.isascii() and value.isdecimal():
        given = int(value)
    try:
        changed_policy(StoredPolicy(), {name: value if given is None else given})
    except InvalidJob as error:
        told = str(error).removeprefix("lifecycle: ").removeprefix(f"{name}: ")
        for word, said in _SAID_HERE.items():
            told = told.replace(word, said)
        raise click.BadParameter(told, ctx, param) from None
    return given


def _field_options(function: F) -> F:
    for name in reversed(TERMS_NAMES):
        told = _HELP.get(name) or f"{_told(name)}: seconds or 10m, 2h, 3d; none for no limit."
        metavar = "TIME" if name in SPANS else "WORD"
        function = click.option(f"--{name.replace('_', '-')}", metavar=metavar, callback=as_term, help=told)(function)
    return function


def _told(name: str) -> str:
    kind, _, what = name.partition("_")
    if kind == "keep":
        return f"How long {what} jobs are kept"
    return "How old a job may become" if what == "age" else f"How long a job may be {what}"


@lifecycle.command(
    "configure",
    epilog=example(
        "headrace lifecycle configure --task emails.send --max-pending 10m --on-stale dead",
        "headrace lifecycle configure --queue mail --max-pending default",
        "headrace lifecycle configure --task emails.send --clear",
    ),
)
@click.option("--task", "-t", help="For jobs of this task.")
@click.option("--queue", "-q", help="For jobs in this queue.")
@_field_options
@click.option("--clear", "take_back", is_flag=True, help="Take back everything that an operator said of it before.")
@as_json_option
@shared
@click.pass_obj
def configure(
    session: Session, /, task: str | None, queue: str | None, take_back: bool, as_json: bool, **given: Any
) -> None:
    """Say how long jobs of a task or of a queue may stay, over what its code and the settings say.

    The word none is no limit, and the word default takes back what was said.
    """
    if (task is None) == (queue is None):
        raise click.UsageError("name either a task or a queue: --task NAME or --queue NAME")
    if not take_back and all(value is None for value in given.values()):
        raise click.UsageError("say what to change, such as --max-pending 10m; `headrace lifecycle show` only tells")
    app = session.store()
    said = {name: None if value == "none" else value for name, value in given.items() if value is not None}
    if take_back:
        app.lifecycle.reset(task=task, queue=queue)
    if said:
        app.lifecycle.configure(task=task, queue=queue, **said)
    _print(app.lifecycle.terms(task=task, queue=queue), as_json)


def _word(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return in_words(round(1000 * value)).replace(" ", "") if name in SPANS else str(value)
