"""`headrace queues`: what waits where, and holding it up or letting it go."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from headrace.cli import portrait
from headrace.cli.options import as_json_option, example, shared, yes_option
from headrace.cli.session import Session
from headrace.cli.show import Column, ago, confirm, print_json, print_table, remark, say
from headrace.core.states import State

_PRESSING = (State.RUNNING, State.RETRYING, State.SCHEDULED, State.WAITING, State.FAILED)
_OVER = (State.COMPLETED, State.CANCELLED)  # what a narrow terminal may drop
_COLUMNS = (
    Column("QUEUE", least=8),
    Column("STATE"),
    Column("PENDING", right=True),
    Column("OLDEST", right=True),
    *(Column(state.upper(), right=True) for state in (*_PRESSING, *_OVER)),
)


@click.group("queues", invoke_without_command=True, epilog=example("headrace queues", "headrace queues pause emails"))
@as_json_option
@shared
@click.pass_context
def queues(ctx: click.Context, as_json: bool) -> None:
    """Look at queues, pause and resume them. Without a command: list them."""
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
        remark("there are no queues yet; the first job of a queue makes it")
        return
    now = datetime.now(UTC)
    rows = [
        [
            stats.queue,
            "paused" if stats.paused else "open",
            str(stats.pending),
            ago(stats.oldest_pending, now),
            *(str(getattr(stats, state)) for state in (*_PRESSING, *_OVER)),
        ]
        for stats in found
    ]
    print_table(_COLUMNS, rows)


@queues.command("pause", epilog=example("headrace queues pause emails reports"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@shared
@click.pass_obj
def pause(session: Session, names: tuple[str, ...]) -> None:
    """Let no worker take jobs from these queues. Jobs that run go on."""
    _set(session, names, True)


@queues.command("resume", epilog=example("headrace queues resume emails"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@shared
@click.pass_obj
def resume(session: Session, names: tuple[str, ...]) -> None:
    """Let workers take jobs from these queues again."""
    _set(session, names, False)


def _set(session: Session, names: tuple[str, ...], paused: bool) -> None:
    app = session.store()
    known = {stats.queue for stats in app.queues()}
    handles = [app.queue(name) for name in names]  # a wrong name is refused before anything changes
    for queue in handles:
        if paused:
            queue.pause()
        else:
            queue.resume()
        new = "" if queue.name in known else " (it is new: no job was ever in it)"
        say(f"queue {queue.name} is {'paused' if paused else 'open'}{new}")


@queues.command("peek", epilog=example("headrace queues peek emails -n 5"))
@click.argument("name")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
@as_json_option
@shared
@click.pass_obj
def peek(session: Session, name: str, limit: int, as_json: bool) -> None:
    """Show the next jobs of a queue in the order they will run."""
    jobs = session.store().queue(name).peek(limit)
    if as_json:
        print_json([portrait.record(job) for job in jobs])
    elif not jobs:
        remark(f"no job is pending in queue {name}")
    else:
        now = datetime.now(UTC)
        print_table(portrait.JOB_COLUMNS, [portrait.row(job, now) for job in jobs])


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
