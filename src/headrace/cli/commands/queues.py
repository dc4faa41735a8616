"""`headrace queues`: lists, shows, pauses, configures, clears and deletes queues."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from headrace.app.queues.queues import QueueStats
from headrace.cli import job_view
from headrace.cli.options import chosen_limits, duration, example, field_options, yes_option
from headrace.cli.output import Column, ago, confirm
from headrace.cli.resource import Output, Resource, facts, line, lines, table
from headrace.cli.session import Session
from headrace.core.jobs.queue_rules import KeyRules, QueueRules
from headrace.core.jobs.states import State
from headrace.core.queues.rule_fields import KEY_RULES, QUEUE_RULES
from headrace.core.queues.rules_text import check_rule, format_rules
from headrace.core.text import counted
from headrace.errors import InvalidJob

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


queues = Resource(
    "queues",
    "Show, pause, resume and configure queues. Without a command: list them.",
    "headrace queues",
    "headrace queues pause emails",
)


@queues.command("list", epilog=example("headrace queues list --json"))
def list_queues(session: Session) -> Output:
    """List the queues with the number of jobs in each state."""
    found = session.store().queues()
    now = datetime.now(UTC)
    rows = [
        [
            stats.queue,
            stats.condition,
            str(stats.pending),
            ago(stats.oldest_pending, now),
            *(str(getattr(stats, state)) for state in (*_MAIN_STATES, *_FINISHED_STATES)),
            format_rules(stats.rules) or "-",
        ]
        for stats in found
    ]
    with_rules = any(stats.rules != QueueRules() for stats in found)
    return table(
        found,
        (*_COLUMNS, _RULES_COLUMN) if with_rules else _COLUMNS,
        rows if with_rules else [row[:-1] for row in rows],
        "there are no queues yet; the first job of a queue creates it",
    )


@queues.command("show", epilog=example("headrace queues show emails"))
@click.argument("name")
def show(session: Session, name: str) -> Output:
    """Show the counts and rules of one queue, and how many jobs its rate allows to start now."""
    stats = session.store().queue(name).stats()
    return facts(stats, _facts(stats))


def _facts(stats: QueueStats) -> Iterator[tuple[str, str]]:
    yield "queue", stats.queue
    yield "state", stats.condition
    yield "workers", str(stats.workers)
    yield State.PENDING.value, f"{stats.pending} (oldest {ago(stats.oldest_pending, datetime.now(UTC))})"
    for state in (*_MAIN_STATES, *_FINISHED_STATES):
        yield state.value, str(getattr(stats, state))
    yield "rules", format_rules(stats.rules) or "none"
    for key, own in stats.rules.keys.items():
        yield f"key {key}", format_rules(own)
    if stats.starts_left is not None:
        yield "starts left", f"{stats.starts_left} now, under its rate"


@queues.command("pause", epilog=example("headrace queues pause emails reports"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def pause(session: Session, names: tuple[str, ...]) -> Output:
    """Pause queues: workers start none of their jobs. Running jobs continue."""
    return _set(session, names, True)


@queues.command("resume", epilog=example("headrace queues resume emails"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def resume(session: Session, names: tuple[str, ...]) -> Output:
    """Resume paused queues."""
    return _set(session, names, False)


def _set(session: Session, names: tuple[str, ...], paused: bool) -> Output:
    app = session.store()
    known = {stats.queue for stats in app.queues()}
    queue_handles = [app.queue(name) for name in names]  # refuse a wrong name before any change
    for queue in queue_handles:
        queue.pause() if paused else queue.resume()
    texts = (
        f"queue {name} is {'paused' if paused else 'open'}{'' if name in known else ' (new: it has never had a job)'}"
        for name in names
    )
    return lines([{"queue": name, "paused": paused} for name in names], texts)


def parse_rule(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Parse a rule. The word `none`, which removes it, stays a text, because None means "not given"."""
    if value is None or value == "none":
        return value
    given: Any = duration(ctx, param, value) if QUEUE_RULES[str(param.name)].kind is float else _number(value)
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


@queues.command(
    "configure",
    epilog=example(
        "headrace queues configure emails --rate 10/s --burst 20 --concurrency 5",
        "headrace queues configure emails --max-length none",
        "headrace queues configure emails --key acme --rate 100/min --concurrency 3",
        "headrace queues configure emails --clear",
    ),
)
@click.argument("name")
@field_options(QUEUE_RULES.values(), parse_rule)
@click.option("--key", metavar="KEY", help="Change the rate, burst and concurrency of this key alone.")
@click.option("--clear", "clear_all", is_flag=True, help="Remove every rule that is not given with it.")
def configure(session: Session, /, name: str, key: str | None, clear_all: bool, **given: Any) -> Output:
    """Change a queue's rules for all workers and callers. Without options, print them.

    The word none removes a rule.
    """
    queue = session.store().queue(name)
    if key is not None:
        changes = (dict.fromkeys(KEY_RULES) if clear_all else {}) | chosen_limits(given)
        own = queue.configure_key(key, **changes) if changes else queue.rules.keys.get(key, KeyRules())
        text = f"key {key} of queue {queue.name} has {format_rules(own) or 'no rules of its own'}"
        return line({"queue": queue.name, "key": key, "rules": own}, text)
    changes = (dict.fromkeys(QUEUE_RULES) if clear_all else {}) | chosen_limits(given)
    for each in queue.rules.keys if clear_all else ():
        queue.configure_key(each, **dict.fromkeys(KEY_RULES))
    rules = queue.configure(**changes) if changes else queue.rules
    return line({"queue": queue.name, "rules": rules}, f"queue {queue.name} has {format_rules(rules) or 'no rules'}")


@queues.command("peek", epilog=example("headrace queues peek emails -n 5"))
@click.argument("name")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
def peek(session: Session, name: str, limit: int) -> Output:
    """Show the next jobs of a queue in claim order."""
    jobs = session.store().queue(name).peek(limit)
    return job_view.listing(jobs, f"no job is pending in queue {name}")


@queues.command("clear", epilog=example("headrace queues clear emails"))
@click.argument("name")
@yes_option
def clear(session: Session, name: str, yes: bool) -> Output:
    """Delete every unfinished job of a queue that does not run, also scheduled and retrying ones."""
    queue = session.store().queue(name)
    if not yes:
        stats = queue.stats()
        count = stats.scheduled + stats.waiting + stats.pending + stats.retrying
        confirm(f"delete {counted(count, 'job')} of queue {name} that {'has' if count == 1 else 'have'} not started")
    deleted = queue.clear()
    return line({"queue": name, "deleted": deleted}, f"{counted(deleted, 'job')} deleted from queue {name}")


@queues.command("delete", epilog=example("headrace queues delete tpyo"))
@click.argument("name")
@yes_option
def delete(session: Session, name: str, yes: bool) -> Output:
    """Delete a queue with its rules and finished jobs. A new job creates it again.

    A queue with unfinished jobs is refused: clear it first.
    """
    queue = session.store().queue(name)
    if not yes:
        stats = queue.stats()
        count = stats.completed + stats.failed + stats.cancelled
        confirm(f"delete queue {name}, its rules and {counted(count, 'finished job')}")
    deleted = queue.delete()
    text = f"queue {name} is deleted, and {counted(deleted, 'finished job')} with it"
    return line({"queue": name, "deleted": deleted}, text)
