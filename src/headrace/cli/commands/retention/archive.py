"""`headrace archive` and `headrace partitions`: retention by hand, and the archive."""

from __future__ import annotations

from typing import Any

import click

from headrace.app.retention.archive_records import ArchiveRun, ArchiveStats
from headrace.cli import job_view
from headrace.cli.options import argument_option, as_json_option, chosen, example, moment_or_age, shared
from headrace.cli.output import Column, remark, size, span, stamp
from headrace.cli.resource import Output, OutputCommand, OutputGroup, facts, line, table
from headrace.cli.session import Session
from headrace.core.jobs.states import FINAL
from headrace.core.text import counted

NO_ARCHIVE = "this store has no archive; set `archive_url` to an SQL store, such as sqlite:///archive.db"
_ID = "0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"
_COLUMNS = (
    Column("PARTITION"),
    Column("FROM"),
    Column("UNTIL"),
    Column("JOBS", right=True),
    Column("SIZE", right=True),
)
_MONTHS = (Column("MONTH"), Column("JOBS", right=True), Column("SIZE", right=True))
_DURATIONS = (
    Column("TASK", min_width=8),
    Column("JOBS", right=True),
    Column("AVERAGE", right=True),
    Column("P95", right=True),
    Column("LONGEST", right=True),
)


def _filter_options(function: Any) -> Any:
    for option in (
        click.option(
            "--until", metavar="TIME", callback=moment_or_age, help="Finished before; same format as --since."
        ),
        click.option(
            "--since", metavar="TIME", callback=moment_or_age, help="Finished since: 10m, 2h, 3d or an ISO time (UTC)."
        ),
        argument_option,
        click.option("--tag", help="Only jobs with this tag."),
        click.option("--task", "-t", help="Only jobs of this task."),
        click.option("--queue", "-q", help="Only jobs in this queue."),
        click.option(
            "--state", type=click.Choice(sorted(state.value for state in FINAL)), help="Only jobs in this final state."
        ),
    ):
        function = option(function)
    return function


@click.group(
    "archive",
    cls=OutputGroup,
    invoke_without_command=True,
    epilog=example("headrace archive", "headrace archive --apply", "headrace archive export jobs.jsonl --since 30d"),
)
@click.option("--dry-run/--apply", default=True, help="Only show what would be done (the default), or do it.")
@as_json_option
@shared
@click.pass_context
def archive(ctx: click.Context, dry_run: bool, as_json: bool) -> int:
    """Archive or delete finished jobs past their retention, as workers do. Without --apply: show how many."""
    if ctx.invoked_subcommand is not None:
        if as_json or not dry_run:
            raise click.UsageError(f"put options after {ctx.invoked_subcommand!r}", ctx)
        return 0
    session: Session = ctx.obj
    run = session.store().lifecycle.archive(dry_run=dry_run)
    code = line(run, _format_run(run)).print(as_json)
    if dry_run and (run.archived or run.deleted) and not as_json:
        remark("nothing was changed; --apply makes the change")
    return code


@archive.command("stats", epilog=example("headrace archive stats"))
def stats(session: Session) -> Output:
    """Show the size of the archive and the last retention run of a worker."""
    archive_stats = session.store().lifecycle.stats()
    return facts(archive_stats, _facts(archive_stats))


def _facts(archive_stats: ArchiveStats) -> list[tuple[str, str]]:
    shown = [
        ("jobs", str(archive_stats.jobs)),
        ("size", size(archive_stats.bytes)),
        ("partitions", str(archive_stats.partitions)),
    ]
    if archive_stats.swept_at is not None and archive_stats.seconds is not None:
        retention_run = (
            f"{archive_stats.archived} archived, {archive_stats.deleted} deleted, "
            f"{counted(archive_stats.dead_letters, 'dead letter')} removed"
        )
        shown += [
            ("last retention run", f"{stamp(archive_stats.swept_at)}, in {span(archive_stats.seconds)}"),
            ("result", retention_run),
        ]
    else:
        shown.append(("last retention run", "none yet"))
    return shown


@archive.command("months", epilog=example("headrace archive months"))
def months(session: Session) -> Output:
    """Show the number and size of archived jobs by the month they finished in."""
    found = session.store().lifecycle.months()
    rows = ([row.month or "the rest", str(row.jobs), size(row.bytes)] for row in found)
    return table(found, _MONTHS, rows, _empty(session, "the archive is empty"))


@archive.command("durations", epilog=example("headrace archive durations --since 30d"))
@_filter_options
def durations(session: Session, /, **given: Any) -> Output:
    """Show the run times of archived jobs for each task."""
    found = session.store().lifecycle.durations(**chosen(given))
    rows = ([row.task, str(row.jobs), *map(span, (row.average, row.p95, row.longest))] for row in found)
    return table(found, _DURATIONS, rows, _empty(session, "no archived jobs match"))


@archive.command("export", epilog=example("headrace archive export jobs.jsonl --task emails.send --since 30d"))
@click.argument("file", type=click.Path(dir_okay=False))
@_filter_options
def export(session: Session, /, file: str, **given: Any) -> Output:
    """Write archived jobs to FILE: .jsonl, or .parquet with headrace[parquet]. Arguments are written as stored."""
    count = session.store().lifecycle.export(file, **chosen(given))
    return line({"file": file, "jobs": count}, f"{counted(count, 'job')} written to {file}")


@archive.command("restore", epilog=example(f"headrace archive restore {_ID}"))
@click.argument("job_id", metavar="ID")
def restore(session: Session, job_id: str) -> Output:
    """Return an archived job to the store, to run again."""
    job = session.store().lifecycle.restore(job_id)
    return line(job_view.record(job), f"job {job.id} is {job.state}")


@click.command("partitions", cls=OutputCommand, epilog=example("headrace partitions"))
def partitions(session: Session) -> Output:
    """List the partitions of the archive, oldest first."""
    found = session.store().lifecycle.partitions()
    rows = ([row.name, _day(row.since), _day(row.until), str(row.jobs), size(row.bytes)] for row in found)
    return table(found, _COLUMNS, rows, _empty(session, "the archive has no partitions"))


def _empty(session: Session, text: str) -> str:
    return text if session.store().lifecycle.has_archive else NO_ARCHIVE


def _format_run(run: ArchiveRun) -> str:
    prefix = "would be " if run.dry_run else ""
    parts = [f"{counted(run.archived, 'job')} {prefix}archived", f"{run.deleted} {prefix}deleted"]
    if run.dead_letters_expired:
        parts.append(f"{counted(run.dead_letters_expired, 'dead letter')} {prefix}expired: unresolved for too long")
    if run.dead_letters:
        parts.append(f"{counted(run.dead_letters, 'dead letter')} {prefix}removed")
    if run.dropped:
        parts.append(f"{prefix}dropped: {', '.join(run.dropped)}")
    return f"{', '.join(parts)} (took {span(run.seconds)})"


def _day(moment: Any) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"
