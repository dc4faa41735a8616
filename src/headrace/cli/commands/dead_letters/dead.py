"""`headrace dead`: views of dead letters. Actions on them are in `actions`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from headrace.app.dead_letters.records import DeadGroup, DeadLetter, DeadStats
from headrace.cli import job_view
from headrace.cli.commands.dead_letters.actions import (
    add,
    dead_letter_filters,
    note,
    purge,
    requeue,
    resolve,
    status_option,
)
from headrace.cli.options import chosen, example, limit_option
from headrace.cli.output import Column, ago, print_facts, print_table, stamp
from headrace.cli.resource import Output, Resource, table
from headrace.cli.session import Session
from headrace.core.tasks.arguments import line_of

_ID = "0197b6f35c1e7d2a9c3e0a1b2c3d4e5f"
_COLUMNS = (
    Column("ID"),
    Column("STATUS"),
    Column("TASK", min_width=8),
    Column("ARGUMENTS", min_width=10),
    Column("REASON", min_width=8),
    Column("AGE", right=True),
    Column("REQUEUES", right=True),
    Column("ERROR", min_width=12),
)
_GROUP_COLUMNS = (
    Column("FINGERPRINT"),
    Column("COUNT", right=True),
    Column("TASK", min_width=8),
    Column("FIRST", right=True),
    Column("LAST", right=True),
    Column("ERROR", min_width=12),
)
_STATS = ("total", "pending", "requeued", "manually_resolved", "permanently_failed", "cancelled", "expired")


dead = Resource(
    "dead",
    "Inspect and requeue jobs that failed for good. Without a command: list pending dead letters.",
    "headrace dead",
    "headrace dead groups",
    "headrace dead requeue --fingerprint 5f1d0c7e9a3b2c4d",
)


@dead.command("list", epilog=example("headrace dead list --task send --since 1d", "headrace dead list --status all"))
@dead_letter_filters
@status_option
@limit_option
@click.option("--cursor", help="Continue after the page that ended with this cursor.")
def list_dead_letters(session: Session, /, status: str, limit: int, cursor: str | None, **given: Any) -> Output:
    """List dead letters, newest first."""
    requested = None if status == "all" else status
    page = session.store().dead.list(status=requested, limit=limit, cursor=cursor, **chosen(given))
    now = datetime.now(UTC)
    return table(
        {"dead_letters": list(page), "cursor": page.cursor},
        _COLUMNS,
        (_row(dead_letter, now) for dead_letter in page),
        "no dead letters match" if chosen(given) or requested != "pending" else "no dead letters are pending",
        [f"more follow: add --cursor {page.cursor}"] if page.cursor else [],
    )


@dead.command("show", epilog=example(f"headrace dead show {_ID}"))
@click.argument("dead_letter_id", metavar="ID")
def show_dead_letter(session: Session, dead_letter_id: str) -> Output:
    """Show everything about one dead letter. ID may be the id of its job."""
    dead_letters = session.store().dead
    dead_letter = dead_letters.get(dead_letter_id)
    history = dead_letters.history(dead_letter.id)

    def show() -> None:
        print_facts(_facts(dead_letter))
        if history:
            print_facts([("history", "")])
            print_table(job_view.HISTORY_COLUMNS, map(job_view.entry_row, history))

    return Output({**_record(dead_letter), "history": history}, show)


@dead.command("groups", epilog=example("headrace dead groups --json"))
@status_option
@limit_option
def groups(session: Session, status: str, limit: int) -> Output:
    """Group dead letters by the fingerprint of their error, largest group first."""
    found = session.store().dead.groups(status=None if status == "all" else status, limit=limit)
    now = datetime.now(UTC)
    return table(found, _GROUP_COLUMNS, (_group_row(group, now) for group in found), "no dead letters match")


@dead.command("stats", epilog=example("headrace dead stats"))
def stats(session: Session) -> Output:
    """Count dead letters by reason."""
    found = session.store().dead.stats()
    titles = [name.upper() for name in _STATS]
    columns = [Column("REASON", min_width=8), *(Column(title, right=True) for title in (*titles, "REQUEUES"))]
    columns += [Column("OLDEST"), Column("NEWEST")]
    return table(found, columns, map(_stats_row, found), "there are no dead letters")


for command in (add, requeue, resolve, note, purge):
    dead.add_command(command)


def _record(dead_letter: DeadLetter) -> dict[str, Any]:
    return msgspec.structs.asdict(dead_letter)


def _error(kind: str | None, message: str | None) -> str:
    return f"{kind}: {message}" if kind else message or "-"


def _row(dead_letter: DeadLetter, now: datetime) -> list[str]:
    error = _error(dead_letter.error_type, dead_letter.error_message)
    age = ago(dead_letter.entered_at, now)
    return [
        dead_letter.id,
        dead_letter.status,
        dead_letter.task,
        "unreadable" if dead_letter.damage else line_of(dead_letter.arguments),
        dead_letter.reason,
        age,
        str(dead_letter.requeues),
        error,
    ]


def _group_row(group: DeadGroup, now: datetime) -> list[str]:
    ages = (ago(group.first_seen, now), ago(group.last_seen, now))
    return [group.fingerprint, str(group.count), group.task, *ages, _error(group.error_type, group.message)]


def _stats_row(row: DeadStats) -> list[str]:
    counts = [str(getattr(row, name)) for name in _STATS]
    return [row.reason, *counts, f"{row.average_requeues:.2f}", stamp(row.oldest), stamp(row.newest)]


def _facts(dead_letter: DeadLetter) -> Iterator[tuple[str, str]]:
    yield "id", dead_letter.id
    yield "status", dead_letter.status
    if dead_letter.resolved_at:
        yield (
            "resolved",
            stamp(dead_letter.resolved_at) + (f" by {dead_letter.resolved_by}" if dead_letter.resolved_by else ""),
        )
    yield "job", dead_letter.job_id
    yield "task", dead_letter.task
    yield "queue", dead_letter.queue
    yield "reason", dead_letter.reason
    yield "entered", stamp(dead_letter.entered_at)
    yield "first failed", stamp(dead_letter.first_failed_at)
    yield "was", f"{dead_letter.original_state}, attempt {dead_letter.attempts} of {dead_letter.max_attempts}"
    yield "priority", str(dead_letter.priority)
    yield "requeues", str(dead_letter.requeues)
    if dead_letter.next_requeue_at:
        yield "next requeue", stamp(dead_letter.next_requeue_at)
    yield "fingerprint", dead_letter.fingerprint or "-"
    yield "arguments", dead_letter.damage or job_view.arguments_text(dead_letter.arguments) or "none"
    optional_facts = {
        "tags": ", ".join(dead_letter.tags),
        "metadata": repr(dead_letter.metadata) if dead_letter.metadata else "",
        "flow": dead_letter.flow,
        "parents": ", ".join(dead_letter.parents),
    }
    yield from ((name, text) for name, text in optional_facts.items() if text)
    if dead_letter.crashes:
        yield "crashes", "\n".join(f"{stamp(at)} {worker}" for at, worker in dead_letter.crashes)
    if dead_letter.worker:
        yield "worker", dead_letter.worker
    yield from _failure(dead_letter)


def _failure(dead_letter: DeadLetter) -> Iterator[tuple[str, str]]:
    yield "error", _error(dead_letter.error_type, dead_letter.error_message)
    if dead_letter.error_traceback:
        yield "traceback", dead_letter.error_traceback
    if dead_letter.steps:
        yield "steps", ", ".join(dead_letter.steps)
    if dead_letter.progress is not None:
        yield "progress", repr(dead_letter.progress)
    if dead_letter.logs:
        yield "logs", "\n".join(job_view.line_text(line) for line in dead_letter.logs)
    for note_ in dead_letter.notes:
        yield "note", f"{stamp(note_.at)}{f' {note_.by}' if note_.by else ''}: {note_.text}"
