"""Actions on dead letters: requeue, add, resolve, note, purge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from headrace.app.dead_letters.dead import Dead
from headrace.app.dead_letters.records import BulkRequeue
from headrace.cli.options import by_option, chosen, duration, example, moment_or_age, yes_option
from headrace.cli.output import confirm
from headrace.cli.resource import Output, OutputCommand, line
from headrace.cli.session import Session
from headrace.core.clock import to_datetime
from headrace.core.dead_letters.records import BY_HAND, STATUSES
from headrace.core.text import counted

F = TypeVar("F", bound=Callable[..., Any])
_ID = "0197b6f35c1e7d2a9c3e0a1b2c3d4e5f"
_FILTERS = (
    click.option("--reason", help="Only this reason, such as attempts_used_up."),
    click.option("--task", "-t", help="Only jobs of this task."),
    click.option("--queue", "-q", help="Only jobs of this queue."),
    click.option("--fingerprint", help="Only this fingerprint; see `headrace dead groups`."),
    click.option(
        "--since", metavar="TIME", callback=moment_or_age, help="Created since: 10m, 2h, 3d or an ISO time (UTC)."
    ),
    click.option("--until", metavar="TIME", callback=moment_or_age, help="Created before; same format as --since."),
)


def dead_letter_filters(function: F) -> F:
    """The options that select dead letters."""
    for option in reversed(_FILTERS):
        function = option(function)
    return function


def status_option(function: F) -> F:
    choice = click.Choice([*STATUSES, "all"])
    return click.option("--status", type=choice, default="pending", show_default=True, help="Only this status.")(
        function
    )


def _by_and_note_options(function: F) -> F:
    return by_option(click.option("--note", metavar="TEXT", help="A note, kept with the dead letter.")(function))


@click.command(
    "requeue",
    cls=OutputCommand,
    epilog=example(
        f"headrace dead requeue {_ID} --by ann --note 'server is back'",
        "headrace dead requeue --fingerprint 5f1d0c7e9a3b2c4d --rate 10/s",
        "headrace dead requeue --all --dry-run",
    ),
)
@click.argument("dead_letter_id", metavar="[ID]", required=False)
@dead_letter_filters
@click.option("--all", "everything", is_flag=True, help="All pending dead letters.")
@click.option("--limit", "-n", type=click.IntRange(1), help="Maximum number, newest first.")
@click.option("--rate", metavar="RATE", help="Spread the starts of the jobs, such as 10/s.")
@click.option("--boost", type=int, help="Priority to add; overrides the setting.")
@click.option("--max-requeues", type=click.IntRange(0), help="Maximum requeues of a job; overrides the setting.")
@click.option("--args", "arguments", metavar="JSON", help="With ID: other arguments, such as '[1, 2]'.")
@click.option("--kwargs", metavar="JSON", help="With ID: other named arguments, such as '{\"to\": 1}'.")
@_by_and_note_options
@click.option("--dry-run", is_flag=True, help="Only show how many.")
@yes_option
def requeue(
    session: Session,
    /,
    dead_letter_id: str | None,
    everything: bool,
    limit: int | None,
    rate: str | None,
    boost: int | None,
    max_requeues: int | None,
    arguments: str | None,
    kwargs: str | None,
    dry_run: bool,
    yes: bool,
    **given: Any,
) -> Output:
    """Run the job of one dead letter, or of all that match, again. ID may be the id of the job."""
    by_and_note = {"by": given.pop("by"), "note": given.pop("note")}
    filters = chosen(given)
    options: dict[str, Any] = {"priority_boost": boost, "max_requeues": max_requeues, **by_and_note}
    if dead_letter_id is not None:
        if filters or everything or rate or limit or dry_run:
            raise click.UsageError("give an ID or filters, not both")
        new_arguments = {"args": _json("--args", arguments), "kwargs": _json("--kwargs", kwargs)}
        result = session.store().dead.requeue(dead_letter_id, **options, **new_arguments)
        return line(result, result.message)
    if arguments or kwargs:
        raise click.UsageError("--args and --kwargs are for a single dead letter: give its ID")
    if not filters and not everything:
        raise click.UsageError("give an ID, filters, or --all")
    dead_letters = session.store().dead
    bulk_options: dict[str, Any] = {**filters, **options, "everything": everything, "limit": limit, "rate": rate}
    # Leave out jobs that fail after the count that the user confirms.
    bulk_options.setdefault("until", to_datetime(session.store().clock.now() + 1))
    matches = dead_letters.requeue_where(**bulk_options, dry_run=True)
    if not dry_run:
        if matches.matched and not yes:
            confirm(f"requeue {counted(matches.matched, 'dead letter')}")
        matches = dead_letters.requeue_where(**bulk_options)
    return line(matches, _format_bulk(matches))


@click.command(
    "add",
    cls=OutputCommand,
    epilog=example(f"headrace dead add {_ID} --reason wrong_total --note 'ask the shop' --by ann"),
)
@click.argument("job_id", metavar="JOB")
@click.option("--reason", default=BY_HAND, show_default=True, help="The reason, one word.")
@_by_and_note_options
def add(session: Session, job_id: str, reason: str, by: str | None, note: str | None) -> Output:
    """Make a dead letter of a job by hand. A job that has not started fails."""
    dead_letter = session.store().dead.add(job_id, reason=reason, by=by, note=note)
    return line(dead_letter, f"job {dead_letter.job_id} has the dead letter {dead_letter.id}")


@click.command(
    "resolve",
    cls=OutputCommand,
    epilog=example(f"headrace dead resolve {_ID} manually_resolved --by ann --note 'refunded'"),
)
@click.argument("dead_letter_id", metavar="ID")
@click.argument("status")
@_by_and_note_options
def resolve(session: Session, dead_letter_id: str, status: str, by: str | None, note: str | None) -> Output:
    """Close a pending dead letter as manually_resolved, permanently_failed or cancelled. Its job does not change."""
    dead_letter = session.store().dead.resolve(dead_letter_id, status, by=by, note=note)
    return line(dead_letter, f"dead letter {dead_letter.id} is {dead_letter.status}")


@click.command("note", cls=OutputCommand, epilog=example(f"headrace dead note {_ID} 'asked the bank' --by ann"))
@click.argument("dead_letter_id", metavar="ID")
@click.argument("text")
@by_option
def note(session: Session, dead_letter_id: str, text: str, by: str | None) -> Output:
    """Add a note to a dead letter."""
    dead_letter = session.store().dead.note(dead_letter_id, text, by=by)
    return line(dead_letter, f"dead letter {dead_letter.id} has {len(dead_letter.notes)} notes")


@click.command(
    "purge", cls=OutputCommand, epilog=example("headrace dead purge --older-than 30d", "headrace dead purge --dry-run")
)
@click.option(
    "--older-than",
    metavar="TIME",
    default="30d",
    show_default=True,
    callback=duration,
    help="Minimum age since resolution.",
)
@click.option(
    "--status", type=click.Choice(STATUSES), multiple=True, help="Only this status; required for pending ones."
)
@click.option("--dry-run", is_flag=True, help="Only show how many.")
@yes_option
def purge(session: Session, older_than: float, status: tuple[str, ...], dry_run: bool, yes: bool) -> Output:
    """Delete old dead letters. Pending ones stay unless --status names them."""
    dead_letters: Dead = session.store().dead
    count = dead_letters.purge(older_than=older_than, status=status or None, dry_run=True)
    if not dry_run:
        if count and not yes:
            confirm(f"remove {counted(count, 'dead letter')} for good")
        count = dead_letters.purge(older_than=older_than, status=status or None)
    verb = "would be removed" if dry_run else "removed"
    return line({"purged": count, "dry_run": dry_run}, f"{counted(count, 'dead letter')} {verb}")


def _json(option: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise click.UsageError(f"{option}: {text!r} is not JSON: {error}") from None


def _format_bulk(result: BulkRequeue) -> str:
    verb = "would be requeued" if result.dry_run else "requeued"
    parts = [f"{counted(result.requeued, 'dead letter')} {verb}"]
    if result.permanently_failed:
        parts.append(f"{result.permanently_failed} permanently failed: requeued too often")
    if result.skipped:
        parts.append(f"{result.skipped} skipped: already handled, or the job is no longer failed")
    return "; ".join(parts)
