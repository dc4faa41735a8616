"""`headrace queues`: lists, shows, pauses, configures, clears and deletes queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from headrace.app.queues.queues import Queue, QueueStats
from headrace.cli import job_view
from headrace.cli.options import as_json_option, duration, example, shared, yes_option
from headrace.cli.output import Column, ago, confirm, print_facts, print_json, print_table, remark, say
from headrace.cli.session import Session
from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.states import State
from headrace.core.queues.limits import STRATEGIES
from headrace.core.queues.rules_text import QUEUE_RULES, check_rule, format_rules
from headrace.errors import InvalidJob

F = TypeVar("F", bound=Callable[..., Any])
_MAIN_STATES = (State.RUNNING, State.RETRYING, State.SCHEDULED, State.WAITING, State.FAILED)
_FINISHED_STATES = (State.COMPLETED, State.CANCELLED)  # columns a narrow terminal may drop
_COLUMNS = (
    Column("QUEUE", min_width=8),
    Column("STATE"),
    Column("PENDING", right=True),
    Column("OLDEST", right=True),
    *(Column(state.upper(), right=True) for state in (*_MAIN_STATES, *_FINISHED_STATES)),
)
_RULES_COLUMN = Column("RULES", min_width=8)  # only if a queue has rules


@click.group("queues", invoke_without_command=True, epilog=example("headrace queues", "headrace queues pause emails"))
@as_json_option
@shared
@click.pass_context
def queues(ctx: click.Context, as_json: bool) -> None:
    """Show, pause, resume and configure queues. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_queues, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@queues.command("list", epilog=example("headrace queues list --json"))
@as_json_option
@shared
@click.pass_obj
def list_queues(session: Session, as_json: bool) -> None:
    """List the queues with the number of jobs in each state."""
    found = session.store().queues()
    if as_json:
        print_json(found)
        return
    if not found:
        remark("there are no queues yet; the first job of a queue creates it")
        return
    now = datetime.now(UTC)
    rows = [
        [
            stats.queue,
            _state(stats),
            str(stats.pending),
            ago(stats.oldest_pending, now),
            *(str(getattr(stats, state)) for state in (*_MAIN_STATES, *_FINISHED_STATES)),
            format_rules(stats.rules) or "-",
        ]
        for stats in found
    ]
    with_rules = any(stats.rules != QueueRules() for stats in found)
    print_table(
        (*_COLUMNS, _RULES_COLUMN) if with_rules else _COLUMNS, rows if with_rules else [row[:-1] for row in rows]
    )


def _state(stats: QueueStats) -> str:
    return "paused" if stats.paused else "open" if stats.workers or not stats.pending else "unserved"


@queues.command("show", epilog=example("headrace queues show emails"))
@click.argument("name")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, name: str, as_json: bool) -> None:
    """Show the counts and rules of one queue, and how many jobs its rate allows to start now."""
    stats = session.store().queue(name).stats()
    if as_json:
        print_json(stats)
    else:
        print_facts(_facts(stats))


def _facts(stats: QueueStats) -> Iterator[tuple[str, str]]:
    yield "queue", stats.queue
    yield "state", _state(stats)
    yield "workers", str(stats.workers)
    yield State.PENDING.value, f"{stats.pending} (oldest {ago(stats.oldest_pending, datetime.now(UTC))})"
    for state in (*_MAIN_STATES, *_FINISHED_STATES):
        yield state.value, str(getattr(stats, state))
    yield "rules", format_rules(stats.rules) or "none"
    if stats.starts_left is not None:
        yield "starts left", f"{stats.starts_left} now, under its rate"


@queues.command("pause", epilog=example("headrace queues pause emails reports"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@shared
@click.pass_obj
def pause(session: Session, names: tuple[str, ...]) -> None:
    """Pause queues: workers start none of their jobs. Running jobs continue."""
    _set(session, names, True)


@queues.command("resume", epilog=example("headrace queues resume emails"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@shared
@click.pass_obj
def resume(session: Session, names: tuple[str, ...]) -> None:
    """Resume paused queues."""
    _set(session, names, False)


def _set(session: Session, names: tuple[str, ...], paused: bool) -> None:
    app = session.store()
    known = {stats.queue for stats in app.queues()}
    queue_handles = [app.queue(name) for name in names]  # refuse a wrong name before any change
    for queue in queue_handles:
        if paused:
            queue.pause()
        else:
            queue.resume()
        hint = "" if queue.name in known else " (new: it has never had a job)"
        say(f"queue {queue.name} is {'paused' if paused else 'open'}{hint}")


def parse_rule(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Parse a rule. The word `none`, which removes it, stays a text, because None means "not given"."""
    if value is None or value == "none":
        return value
    given: Any = duration(ctx, param, value) if param.name == "ageing" else _number(value)
    try:
        check_rule(str(param.name), given)
        return given
    except InvalidJob as error:
        text = str(error).partition(": ")[2].replace("None", "'none'")
        raise click.BadParameter(text, ctx, param) from None


def _number(value: str) -> Any:
    if value.isascii() and value.isdecimal():
        return int(value)
    try:
        return float(value)
    except ValueError:
        return value


_RULES = tuple(
    click.option(f"--{name.replace('_', '-')}", metavar=metavar, callback=parse_rule, help=help_text)
    for name, metavar, help_text in (
        ("max_length", "N", "Maximum number of waiting jobs; beyond it, enqueuing raises QueueFull."),
        ("weight", "N", "Share of claims relative to other queues."),
        ("strategy", "NAME", f"Order of its jobs: {', '.join(STRATEGIES)}."),
        ("ageing", "TIME", "Waiting time worth one point of priority: seconds or 10m, 2h."),
        ("rate", "RATE", "Maximum start rate, such as 10/s or 100/min."),
        ("burst", "N", "Maximum starts at once after a pause."),
        ("concurrency", "N", "Maximum running jobs, over all workers."),
        ("key_rate", "RATE", "Maximum start rate of each rate_key."),
        ("key_burst", "N", "Maximum starts at once of each rate_key after a pause."),
        ("key_concurrency", "N", "Maximum running jobs of each concurrency_key."),
    )
)


def _rule_options(function: F) -> F:
    for option in reversed(_RULES):
        function = option(function)
    return function


@queues.command(
    "configure",
    epilog=example(
        "headrace queues configure emails --rate 10/s --burst 20 --concurrency 5",
        "headrace queues configure emails --max-length none",
        "headrace queues configure emails --clear",
    ),
)
@click.argument("name")
@_rule_options
@click.option("--clear", "clear_all", is_flag=True, help="Remove every rule that is not given with it.")
@as_json_option
@shared
@click.pass_obj
def configure(session: Session, /, name: str, clear_all: bool, as_json: bool, **given: Any) -> None:
    """Change a queue's rules for all workers and callers. Without options, print them.

    The word none removes a rule.
    """
    queue = session.store().queue(name)
    rules = _change(queue, {rule: value for rule, value in given.items() if value is not None}, clear_all)
    if as_json:
        print_json({"queue": queue.name, "rules": rules})
    elif rules == QueueRules():
        say(f"queue {queue.name} has no rules")
    else:
        say(f"queue {queue.name} has {format_rules(rules)}")


def _change(queue: Queue, given: dict[str, Any], clear_all: bool) -> QueueRules:
    removed = dict.fromkeys(QUEUE_RULES) if clear_all else {}
    changes = removed | {rule: None if value == "none" else value for rule, value in given.items()}
    return queue.configure(**changes) if changes else queue.rules


@queues.command("peek", epilog=example("headrace queues peek emails -n 5"))
@click.argument("name")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
@as_json_option
@shared
@click.pass_obj
def peek(session: Session, name: str, limit: int, as_json: bool) -> None:
    """Show the next jobs of a queue in claim order."""
    jobs = session.store().queue(name).peek(limit)
    if as_json:
        print_json([job_view.record(job) for job in jobs])
    elif not jobs:
        remark(f"no job is pending in queue {name}")
    else:
        now = datetime.now(UTC)
        print_table(job_view.JOB_COLUMNS, [job_view.row(job, now) for job in jobs])


@queues.command("clear", epilog=example("headrace queues clear emails"))
@click.argument("name")
@yes_option
@as_json_option
@shared
@click.pass_obj
def clear(session: Session, name: str, yes: bool, as_json: bool) -> None:
    """Delete every job of a queue that has not started."""
    queue = session.store().queue(name)
    if not yes:
        stats = queue.stats()
        count = stats.scheduled + stats.waiting + stats.pending + stats.retrying
        confirm(f"delete the {count} jobs of queue {name} that have not started")
    deleted = queue.clear()
    if as_json:
        print_json({"queue": name, "deleted": deleted})
    else:
        say(f"{deleted} jobs deleted from queue {name}")


@queues.command("delete", epilog=example("headrace queues delete tpyo"))
@click.argument("name")
@yes_option
@as_json_option
@shared
@click.pass_obj
def delete(session: Session, name: str, yes: bool, as_json: bool) -> None:
    """Delete a queue with its rules and finished jobs. A new job creates it again.

    A queue with unfinished jobs is refused: clear it first.
    """
    queue = session.store().queue(name)
    if not yes:
        stats = queue.stats()
        count = stats.completed + stats.failed + stats.cancelled
        confirm(f"delete queue {name}, its rules and its {count} finished jobs")
    deleted = queue.delete()
    if as_json:
        print_json({"queue": name, "deleted": deleted})
    else:
        say(f"queue {name} is deleted, and {deleted} finished jobs with it")
