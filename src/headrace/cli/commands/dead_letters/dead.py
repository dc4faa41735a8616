"""`headrace dead`: views of dead letters. Actions on them are in `actions`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from headrace.app.dead_letters.records import DeadGroup, DeadLetter, DeadStats
from headrace.cli import job_view
from headrace.cli.commands.dead_letters.actions import add, letter_filters, note, purge, requeue, resolve, status_option
from headrace.cli.options import as_json_option, chosen, example, shared
from headrace.cli.output import Column, ago, print_facts, print_json, print_table, remark, stamp
from headrace.cli.session import Session

_ID = "0197b6f35c1e7d2a9c3e0a1b2c3d4e5f"
_COLUMNS = (
    Column("ID"),
    Column("STATUS"),
    Column("TASK", least=8),
    Column("REASON", least=8),
    Column("AGE", right=True),
    Column("REQUEUES", right=True),
    Column("ERROR", least=12),
)
_GROUP_COLUMNS = (
    Column("FINGERPRINT"),
    Column("COUNT", right=True),
    Column("TASK", least=8),
    Column("FIRST", right=True),
    Column("LAST", right=True),
    Column("ERROR", least=12),
)
_STATS = ("total", "pending", "requeued", "manually_resolved", "permanently_failed", "cancelled", "expired")


def _limit(function: Any) -> Any:
    return click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True)(function)


@click.group(
    "dead",
    invoke_without_command=True,
    epilog=example("headrace dead", "headrace dead groups", "headrace dead requeue --fingerprint 5f1d0c7e9a3b2c4d"),
)
@as_json_option
@shared
@click.pass_context
def dead(ctx: click.Context, as_json: bool) -> None:
    """Inspect and requeue jobs that failed for good. Without a command: list pending dead letters."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_letters, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@dead.command("list", epilog=example("headrace dead list --task send --since 1d", "headrace dead list --status all"))
@letter_filters
@status_option
@_limit
@click.option("--cursor", help="Continue after the page that ended with this cursor.")
@as_json_option
@shared
@click.pass_obj
def list_letters(session: Session, /, status: str, limit: int, cursor: str | None, as_json: bool, **given: Any) -> None:
    """List dead letters, newest first."""
    wanted = None if status == "all" else status
    page = session.store().dead.list(status=wanted, limit=limit, cursor=cursor, **chosen(given))
    if as_json:
        print_json({"letters": [_record(letter) for letter in page], "cursor": page.cursor})
        return
    if not page:
        remark("no dead letters match" if chosen(given) or wanted != "pending" else "no dead letters are pending")
        return
    now = datetime.now(UTC)
    print_table(_COLUMNS, [_row(letter, now) for letter in page])
    if page.cursor:
        remark(f"more follow: add --cursor {page.cursor}")


@dead.command("show", epilog=example(f"headrace dead show {_ID}"))
@click.argument("letter_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, letter_id: str, as_json: bool) -> None:
    """Show everything about one dead letter. ID may be the id of its job."""
    queries = session.store().dead
    letter = queries.get(letter_id)
    history = queries.history(letter.id)
    if as_json:
        print_json({**_record(letter), "history": [job_view.entry_record(entry) for entry in history]})
        return
    print_facts(_facts(letter))
    if history:
        print_facts([("history", "")])
        print_table(job_view.HISTORY_COLUMNS, [job_view.entry_row(entry) for entry in history])


@dead.command("groups", epilog=example("headrace dead groups --json"))
@status_option
@_limit
@as_json_option
@shared
@click.pass_obj
def groups(session: Session, status: str, limit: int, as_json: bool) -> None:
    """Group dead letters by the fingerprint of their error, largest group first."""
    found = session.store().dead.groups(status=None if status == "all" else status, limit=limit)
    if as_json:
        print_json([msgspec.structs.asdict(group) for group in found])
        return
    if not found:
        remark("no dead letters match")
        return
    now = datetime.now(UTC)
    print_table(_GROUP_COLUMNS, [_group_row(group, now) for group in found])


@dead.command("stats", epilog=example("headrace dead stats"))
@as_json_option
@shared
@click.pass_obj
def stats(session: Session, as_json: bool) -> None:
    """Count dead letters by reason."""
    found = session.store().dead.stats()
    if as_json:
        print_json([msgspec.structs.asdict(one) for one in found])
        return
    if not found:
        remark("there are no dead letters")
        return
    titles = [name.upper() for name in _STATS]
    columns = [Column("REASON", least=8), *(Column(title, right=True) for title in (*titles, "REQUEUES"))]
    print_table([*columns, Column("OLDEST"), Column("NEWEST")], [_stats_row(one) for one in found])


for command in (add, requeue, resolve, note, purge):
    dead.add_command(command)


def _record(letter: DeadLetter) -> dict[str, Any]:
    return msgspec.structs.asdict(letter)


def _error(kind: str | None, message: str | None) -> str:
    return f"{kind}: {message}" if kind else message or "-"


def _row(letter: DeadLetter, now: datetime) -> list[str]:
    told = _error(letter.error_type, letter.error_message)
    age = ago(letter.entered_at, now)
    return [letter.id, letter.status, letter.task, letter.reason, age, str(letter.requeues), told]


def _group_row(group: DeadGroup, now: datetime) -> list[str]:
    seen = (ago(group.first_seen, now), ago(group.last_seen, now))
    return [group.fingerprint, str(group.count), group.task, *seen, _error(group.error_type, group.message)]


def _stats_row(one: DeadStats) -> list[str]:
    counts = [str(getattr(one, name)) for name in _STATS]
    return [one.reason, *counts, f"{one.average_requeues:.2f}", stamp(one.oldest), stamp(one.newest)]


def _facts(letter: DeadLetter) -> Iterator[tuple[str, str]]:
    yield "id", letter.id
    yield "status", letter.status
    if letter.resolved_at:
        yield "resolved", stamp(letter.resolved_at) + (f" by {letter.resolved_by}" if letter.resolved_by else "")
    yield "job", letter.job_id
    yield "task", letter.task
    yield "queue", letter.queue
    yield "reason", letter.reason
    yield "entered", stamp(letter.entered_at)
    yield "first failed", stamp(letter.first_failed_at)
    yield "was", f"{letter.original_state}, attempt {letter.attempts} of {letter.max_attempts}"
    yield "priority", str(letter.priority)
    yield "requeues", str(letter.requeues)
    if letter.next_requeue_at:
        yield "next requeue", stamp(letter.next_requeue_at)
    yield "fingerprint", letter.fingerprint or "-"
    yield "args", letter.damage or repr(letter.args)
    yield "kwargs", repr(letter.kwargs)
    kept = {
        "tags": ", ".join(letter.tags),
        "metadata": repr(letter.metadata) if letter.metadata else "",
        "flow": letter.flow,
        "parents": ", ".join(letter.parents),
    }
    yield from ((name, told) for name, told in kept.items() if told)
    if letter.crashes:
        yield "crashes", "\n".join(f"{stamp(at)} {worker}" for at, worker in letter.crashes)
    if letter.worker:
        yield "worker", letter.worker
    yield from _failure(letter)


def _failure(letter: DeadLetter) -> Iterator[tuple[str, str]]:
    yield "error", _error(letter.error_type, letter.error_message)
    if letter.error_traceback:
        yield "traceback", letter.error_traceback
    if letter.steps:
        yield "steps", ", ".join(letter.steps)
    if letter.progress is not None:
        yield "progress", repr(letter.progress)
    if letter.logs:
        yield "logs", "\n".join(job_view.line_text(line) for line in letter.logs)
    for remark_ in letter.notes:
        yield "note", f"{stamp(remark_.at)}{f' {remark_.by}' if remark_.by else ''}: {remark_.text}"
