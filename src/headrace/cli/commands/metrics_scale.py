"""`headrace metrics scale`: how many workers are wanted, for people and for autoscalers."""

from __future__ import annotations

import click

from headrace.cli.options import duration, example
from headrace.cli.output import Column, print_facts, print_table, remark, say, span
from headrace.cli.resource import Output, OutputCommand
from headrace.cli.session import Session
from headrace.core.metrics.scaling import QueueScale

_COLUMNS = (
    Column("QUEUE", min_width=8),
    Column("WORKERS", right=True),
    Column("WANTED", right=True),
    Column("SLOTS", right=True),
    Column("WANTED", right=True),
    Column("BEHIND", right=True),
    Column(""),
)


@click.command(
    "scale",
    cls=OutputCommand,
    epilog=example("headrace metrics scale", "headrace metrics scale -q mail --target-wait 10s --json"),
)
@click.option("--queue", "-q", help="Only this queue.")
@click.option("--target-wait", metavar="TIME", callback=duration, help="The longest wait to aim for.")
@click.option("--window", metavar="TIME", callback=duration, default="5m", help="Window of rates and run times: 5m.")
def scale(session: Session, queue: str | None, target_wait: float | None, window: float) -> Output:
    """Show how many workers each queue wants, and how many seconds it is behind."""
    found = session.store().metrics.scale(target_wait=target_wait, window=window)
    queues = [one for one in found.queues if queue in (None, one.queue)]
    if queue is not None and not queues:
        raise click.ClickException(f"there is no queue {queue!r}; `headrace queues` lists them")

    def show() -> None:
        if queue is None:
            workers = f"{found.workers}, wanted {found.workers_wanted} if they serve all queues"
            behind = ("behind", span(found.seconds_behind))
            print_facts([("target wait", span(found.target_wait)), ("workers", workers), behind])
        if queues:
            say()
            print_table(_COLUMNS, map(_row, queues))
        else:
            remark("there is no queue yet; the first job makes one")

    return Output(found if queue is None else queues[0], show)


def _row(one: QueueScale) -> list[str]:
    numbers = [one.workers, one.workers_wanted, one.slots]
    wanted, paused = f"{one.slots_wanted:.3g}", "paused" if one.paused else ""
    return [one.queue, *map(str, numbers), wanted, span(one.seconds_behind), paused]
