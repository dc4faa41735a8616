"""`headrace erase`: erases everything that the store holds about a person or a tenant."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from headrace.app.admin.erasure import Erasure
from headrace.app.services.filters import described
from headrace.cli.options import by_option, chosen, example, filters, yes_option
from headrace.cli.output import clean, confirm, remark, say
from headrace.cli.resource import Output, OutputCommand
from headrace.cli.session import Session
from headrace.core.text import counted

_FREED = "backups keep what they have, and so does freed space until `headrace optimize --full`"


@click.command(
    "erase",
    cls=OutputCommand,
    epilog=example(
        "headrace erase --tag user:42 --dry-run",
        "headrace erase --tag user:42 --by ann",
        "headrace erase --arg customer=42 --by ann --yes",
    ),
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filters
@click.option("--key", help="Only jobs with this concurrency_key or rate_key.")
@by_option
@click.option("--dry-run", is_flag=True, help="Only show what would be erased.")
@yes_option
def erase(session: Session, /, ids: tuple[str, ...], by: str | None, dry_run: bool, yes: bool, **given: Any) -> Output:
    """Erase all that the store and its archive hold about the matching jobs: of a person, or of a tenant.

    The jobs, their dead letters, schedules and questions are deleted, and events and the audit trail no longer say
    anything about them. Running jobs are cancelled; the exit code is 1 if some still run, then erase again.
    """
    which = chosen({**given, "ids": ids})
    if not which:
        raise click.UsageError("give the jobs to erase: ids, or filters such as --tag")
    if by is None and not dry_run:
        raise click.UsageError("give your name for the audit trail: --by NAME")
    admin = session.store().admin
    if dry_run:
        return _output(admin.erase(dry_run=True, **which))
    if not yes:
        planned = admin.erase(dry_run=True, **which)
        confirm(f"erase everything about {clean(described(which))}: {planned.format_counts()}")
    return _output(admin.erase(by=by, **which))


def _output(erasure: Erasure) -> Output:
    def show() -> None:
        say(f"{'would be erased' if erasure.dry_run else 'erased'}: {erasure.format_counts()}")
        if erasure.dry_run and erasure.running:
            remark(f"{counted(erasure.running, 'job')} would be cancelled first")
        elif erasure.running:
            remark(f"{counted(erasure.running, 'cancelled job')} still run; erase again when they have ended")
        if not erasure.dry_run:
            remark(_FREED)

    return Output(msgspec.structs.asdict(erasure), show, int(bool(erasure.running and not erasure.dry_run)))
