"""`headrace archive` and `headrace partitions`: retention by hand, and the archive."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from headrace.app.retention.archive_records import ArchiveRun
from headrace.cli import job_view
from headrace.cli.options import argument_option, as_json_option, chosen, example, moment_or_age, shared
from headrace.cli.output import Column, clean, print_facts, print_json, print_table, remark, say, size, span, stamp
from headrace.cli.session import Session
from headrace.core.jobs.states import FINAL

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
    invoke_without_command=True,
    epilog=example("headrace archive", "headrace archive --apply", "headrace archive export jobs.jsonl --since 30d"),
)
@click.option("--dry-run/--apply", default=True, help="Only show what would be done (the default), or do it.")
@as_json_option
@shared
@click.pass_context
def archive(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Archive or delete finished jobs past their retention, as workers do. Without --apply: show how many."""
    if ctx.invoked_subcommand is not None:
        if as_json or not dry_run:
            raise click.UsageError(f"put options after {ctx.invoked_subcommand!r}", ctx)
        return
    session: Session = ctx.obj
    run = session.store().lifecycle.archive(dry_run=dry_run)
    if as_json:
        print_json(msgspec.structs.asdict(run))
        return
    say(_format_run(run))
    if dry_run and (run.archived or run.deleted):
        remark("nothing was changed; --apply makes the change")


@archive.command("stats", epilog=example("headrace archive stats"))
@as_json_option
@shared
@click.pass_obj
def stats(session: Session, as_json: bool) -> None:
    """Show the size of the archive and the last retention run of a worker."""
    archive_stats = session.store().lifecycle.stats()
    if as_json:
        print_json(msgspec.structs.asdict(archive_stats))
        return
    facts = [
        ("jobs", str(archive_stats.jobs)),
        ("size", size(archive_stats.bytes)),
        ("partitions", str(archive_stats.partitions)),
    ]
    if archive_stats.swept_at is not None and archive_stats.seconds is not None:
        retention_run = (
            f"{archive_stats.archived} archived, {archive_stats.deleted} deleted, "
            f"{archive_stats.dead_letters} dead letters removed"
        )
        facts += [
            ("last retention run", f"{stamp(archive_stats.swept_at)}, in {span(archive_stats.seconds)}"),
            ("result", retention_run),
        ]
    else:
        facts.append(("last retention run", "none yet"))
    print_facts(facts)


@archive.command("months", epilog=example("headrace archive months"))
@as_json_option
@shared
@click.pass_obj
def months(session: Session, as_json: bool) -> None:
    """Show the number and size of archived jobs by the month they finished in."""
    found = session.store().lifecycle.months()
    if as_json:
        print_json([msgspec.structs.asdict(row) for row in found])
    elif found:
        print_table(_MONTHS, [[row.month or "the rest", str(row.jobs), size(row.bytes)] for row in found])
    else:
        remark("the archive is empty" if session.store().lifecycle.has_archive else NO_ARCHIVE)


@archive.command("durations", epilog=example("headrace archive durations --since 30d"))
@_filter_options
@as_json_option
@shared
@click.pass_obj
def durations(session: Session, /, as_json: bool, **given: Any) -> None:
    """Show the run times of archived jobs for each task."""
    found = session.store().lifecycle.durations(**chosen(given))
    if as_json:
        print_json([msgspec.structs.asdict(row) for row in found])
        return
    if not found:
        remark("no archived jobs match" if session.store().lifecycle.has_archive else NO_ARCHIVE)
        return
    rows = [[row.task, str(row.jobs), *map(span, (row.average, row.p95, row.longest))] for row in found]
    print_table(_DURATIONS, rows)


@archive.command("export", epilog=example("headrace archive export jobs.jsonl --task emails.send --since 30d"))
@click.argument("file", type=click.Path(dir_okay=False))
@_filter_options
@as_json_option
@shared
@click.pass_obj
def export(session: Session, /, file: str, as_json: bool, **given: Any) -> None:
    """Write archived jobs to FILE: .jsonl, or .parquet with headrace[parquet]. Arguments are written as stored."""
    count = session.store().lifecycle.export(file, **chosen(given))
    if as_json:
        print_json({"file": file, "jobs": count})
    else:
        say(clean(f"{_jobs(count)} written to {file}"))


@archive.command("restore", epilog=example(f"headrace archive restore {_ID}"))
@click.argument("job_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def restore(session: Session, job_id: str, as_json: bool) -> None:
    """Return an archived job to the store, to run again."""
    job = session.store().lifecycle.restore(job_id)
    if as_json:
        print_json(job_view.record(job))
    else:
        say(clean(f"job {job.id} is {job.state}"))


@click.command("partitions", epilog=example("headrace partitions"))
@as_json_option
@shared
@click.pass_obj
def partitions(session: Session, as_json: bool) -> None:
    """List the partitions of the archive, oldest first."""
    found = session.store().lifecycle.partitions()
    if as_json:
        print_json([msgspec.structs.asdict(row) for row in found])
        return
    if not found:
        remark("the archive has no partitions" if session.store().lifecycle.has_archive else NO_ARCHIVE)
        return
    print_table(
        _COLUMNS, [[row.name, _day(row.since), _day(row.until), str(row.jobs), size(row.bytes)] for row in found]
    )


def _format_run(run: ArchiveRun) -> str:
    prefix = "would be " if run.dry_run else ""
    parts = [f"{_jobs(run.archived)} {prefix}archived", f"{run.deleted} {prefix}deleted"]
    if run.dead_letters_expired:
        parts.append(f"{run.dead_letters_expired} dead letters {prefix}expired: unresolved for too long")
    if run.dead_letters:
        parts.append(f"{run.dead_letters} dead letters {prefix}removed")
    if run.dropped:
        parts.append(f"{prefix}dropped: {', '.join(run.dropped)}")
    return f"{', '.join(parts)} (took {span(run.seconds)})"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _day(moment: Any) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"
