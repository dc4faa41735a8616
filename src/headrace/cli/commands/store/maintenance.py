"""`headrace backup`, `restore`, `optimize`, `checkpoint`, `check` and `storage`: maintenance by hand."""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import msgspec

from headrace.app.admin.backups import archived_in
from headrace.cli.options import as_json_option, example, shared, yes_option
from headrace.cli.output import Column, clean, confirm, paint, print_json, remark, say, size, span
from headrace.cli.resource import Output, OutputCommand, line, lines, table
from headrace.cli.session import Session, missing_file
from headrace.core.health.findings import Finding
from headrace.core.urls import redacted_url

_INTERVAL = 2.0
_STORAGE_COLUMNS = (
    Column("NAME", min_width=20),
    Column("KIND"),
    Column("ENTRIES", right=True),
    Column("SIZE", right=True),
    Column("EXPIRES", right=True),
)


def _progress(quiet: bool) -> Callable[[int, int], None]:
    """A callback that prints the progress on stderr every two seconds."""
    printed_at = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal printed_at
        if not quiet and time.monotonic() - printed_at >= _INTERVAL:
            printed_at = time.monotonic()
            remark(f"{done / max(total, 1):.0%} of the store")

    return show


@click.command("backup", epilog=example("headrace backup /backup/jobs.db", "headrace backup nightly.db --overwrite"))
@click.argument("path", metavar="FILE")
@click.option("--overwrite", is_flag=True, help="Overwrite an existing file.")
@click.option("--without-archive", is_flag=True, help="Leave out archived jobs.")
@as_json_option
@shared
@click.pass_obj
def backup(session: Session, path: str, overwrite: bool, without_archive: bool, as_json: bool) -> None:
    """Back up the whole store to one SQLite file, while it is in use.

    The file has every job accepted before, archived ones included. It is checked before it gets its name, so a file
    with that name is always complete.
    """
    admin = session.store().admin
    result = admin.backup(path, archive=not without_archive, overwrite=overwrite, progress=_progress(as_json))
    if as_json:
        print_json(result)
    else:
        counts = f"{result.jobs:,} jobs and {result.archived:,} archived ones"
        say(f"{counts} are in {clean(result.path)}, {result.bytes / 1e6:,.1f} MB; the file was checked")


@click.command(
    "restore",
    epilog=example("headrace restore /backup/jobs.db", "headrace restore jobs.db postgresql://shop@db/shop --replace"),
)
@click.argument("path", metavar="FILE")
@click.argument("target", metavar="[URL]", required=False)
@click.option("--replace", is_flag=True, help="Delete everything in the store first.")
@click.option("--dry-run", is_flag=True, help="Check the file and count the jobs in the store; change nothing.")
@yes_option
@as_json_option
@shared
@click.pass_obj
def restore(
    session: Session, path: str, target: str | None, replace: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Restore the backup FILE into a store: that of URL, --url or the app.

    No worker may be alive. Jobs that were running at the backup start again.
    """
    if target is not None:
        if session.url or session.app:
            raise click.UsageError("the store is given twice; leave out URL, or --url and --app")
        session.url = target
    app = session.store(may_create=True)
    url = redacted_url(app.engine.url)
    jobs = app.admin.examine(path)
    existing = 0 if missing_file(app) else app.jobs.count()  # a dry run must not create the store
    if dry_run:
        _report_plan(jobs, archived_in(path), url, existing, as_json)
        return
    if replace and existing and not yes:
        confirm(f"remove all {existing:,} jobs of {url} and restore the backup")
    result = app.admin.restore(path, replace=replace, progress=_progress(as_json))
    if as_json:
        print_json({"url": url, **msgspec.structs.asdict(result)})
        return
    say(f"{result.jobs:,} jobs are now in {url}, and {result.archived:,} archived ones in its archive")
    if result.left_out:
        say(
            f"{result.left_out:,} archived jobs were left out: this store has no archive; set archive_url and restore "
            "again"
        )
    if result.released:
        say(f"{result.released:,} of them were running at the backup; they start again")


def _report_plan(jobs: int, archived: int, url: str, existing: int, as_json: bool) -> None:
    if as_json:
        print_json({"url": url, "jobs": jobs, "archived": archived, "present": existing})
    else:
        counts = f"{jobs:,} jobs and {archived:,} archived ones"
        say(f"the backup is complete and has {counts}; {url} has {existing:,} jobs now. Nothing was changed")


@click.command("checkpoint", cls=OutputCommand, epilog=example("headrace checkpoint"))
def checkpoint(session: Session) -> Output:
    """Checkpoint the write-ahead log of an SQLite file and truncate it."""
    sizes = session.store().admin.checkpoint()
    if not sizes:
        return line(sizes, "nothing to do: the server manages its own log")
    texts = [f"the log had {sizes['log_before'] / 1e6:,.1f} MB and has {sizes['log_after'] / 1e6:,.1f} MB"]
    if sizes["log_after"]:
        texts.append("a reader still uses the log; run this again later")
    return lines(sizes, texts)


@click.command("optimize", cls=OutputCommand, epilog=example("headrace optimize", "headrace optimize --full --yes"))
@click.option("--full", is_flag=True, help="Reclaim all free space; may block other processes until done.")
@yes_option
def optimize(session: Session, full: bool, yes: bool) -> Output:
    """Update the store's statistics and reclaim free space."""
    app = session.store()
    if full and not yes:
        confirm(f"rewrite {redacted_url(app.engine.url)}, which blocks all other users until it is done")
    sizes = app.admin.optimize(full=full)
    sizes_text = f"{sizes['size_before'] / 1e6:,.1f} MB and has {sizes['size_after'] / 1e6:,.1f} MB"
    return line(sizes, f"the store had {sizes_text}")


@click.command(
    "check",
    cls=OutputCommand,
    epilog=example("headrace check", "headrace check --deep", "headrace check --repair --dry-run"),
)
@click.option("--deep", is_flag=True, help="Read every job, compare checksums, and name the largest.")
@click.option("--repair", is_flag=True, help="Repair what can be repaired.")
@click.option("--dry-run", is_flag=True, help="With --repair: show what would be repaired; change nothing.")
def check(session: Session, deep: bool, repair: bool, dry_run: bool) -> Output:
    """Check the store for damage, orphans and zombies. Exits with 1 if problems remain."""
    if dry_run and not repair:
        raise click.UsageError("--dry-run needs --repair")
    admin = session.store().admin
    repaired = admin.repair(dry_run=dry_run) if repair else {}
    found = admin.check(deep=deep)

    def show() -> None:
        for code, count in repaired.items():
            say(f"{'would repair' if dry_run else 'repaired'}: {count:,} {code}")
        _print_findings(found)

    has_problems = any(not finding.note for finding in found)
    return Output({"findings": found, "repaired": repaired, "dry_run": dry_run}, show, int(has_problems))


def _print_findings(found: list[Finding]) -> None:
    for finding in found:
        text = clean(f"{finding.code}: {finding}")
        say(f"note: {text}" if finding.note else paint(f"wrong: {text}", "red"))
        if finding.examples:
            say(f"  such as {clean(', '.join(finding.examples))}")
    if not any(not finding.note for finding in found):
        say(paint("all is well", "green"))


@click.command(
    "storage", cls=OutputCommand, epilog=example("headrace storage", "headrace storage 'queue:*' --limit 1000")
)
@click.argument("pattern", default="*")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=100, show_default=True)
def storage(session: Session, pattern: str, limit: int) -> Output:
    """List the tables or keys of the store that match PATTERN, with their sizes. It does not block other processes.

    Names lack the common prefix. Values are not shown. On PostgreSQL, the number of entries of a table is the server's
    estimate.
    """
    found = session.store().admin.storage(pattern, limit=limit)
    rows = (
        [
            part.name,
            part.kind,
            f"{part.entries:,}",
            "-" if part.bytes is None else size(part.bytes),
            "-" if part.expires is None else f"in {span(part.expires)}",
        ]
        for part in found
    )
    hints = [f"there may be more than {limit}; --limit shows more"] if len(found) == limit else []
    return table(found, _STORAGE_COLUMNS, rows, f"nothing matches {pattern}", hints)
