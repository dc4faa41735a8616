"""`headrace events`: events of the store, past or live."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import msgspec

from headrace.cli.options import as_json_option, example, moment_or_age, shared
from headrace.cli.output import one_line, remark, say, stamp
from headrace.cli.session import Session
from headrace.core.events.event import Event, page_of
from headrace.errors import InvalidJob


def _since(ctx: click.Context, param: click.Parameter, value: str | None) -> str | datetime | None:
    """A cursor stays a text; anything else is a time."""
    if value is None:
        return None
    try:
        page_of(value)
    except InvalidJob:
        return moment_or_age(ctx, param, value)
    return value


@click.command(
    "events",
    epilog=example(
        "headrace events --follow",
        "headrace events --type 'job.*' --queue emails --since 10m",
        "headrace events --type job.failed --follow --json",
    ),
)
@click.option("--follow", "-f", is_flag=True, help="Stream new events.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only this type, or a pattern such as job.*; may be repeated.",
)
@click.option("--queue", "-q", help="Only events of this queue.")
@click.option("--task", "-t", help="Only events of this task.")
@click.option(
    "--since", callback=_since, metavar="WHEN", help="Start at this time (10m or an ISO time), or after this cursor."
)
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Stop after this many events.")
@as_json_option
@shared
@click.pass_obj
def events(
    session: Session,
    follow: bool,
    types: tuple[str, ...],
    queue: str | None,
    task: str | None,
    since: str | datetime | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show past events, oldest first; with --follow, new events until Ctrl-C.

    With --json, each event is one JSON object on one line, with the cursor that --since takes.
    """
    count = 0
    for event in session.store().events(since, types=types, queue=queue, task=task, follow=follow):
        click.echo(msgspec.json.encode(event).decode()) if as_json else say(_line(event))
        count += 1
        if count == limit:
            return
    if not count and not as_json:
        remark("no events match; the settings events_keep and events_limit bound how long events are kept")


def _line(event: Event) -> str:
    fields: dict[str, Any] = {
        "queue": event.queue,
        "task": event.task,
        "worker": event.worker,
        "attempt": event.attempt,
    }
    fields_and_data = {**fields, **event.data}
    text = " ".join(f"{name}={_format_value(value)}" for name, value in fields_and_data.items() if value is not None)
    return one_line(f"{stamp(event.at)}  {event.type:20} {event.job_id or ''} {text}".rstrip())


def _format_value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
