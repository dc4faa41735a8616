"""`headrace jobs` and `headrace why`: views of jobs. Actions on them are in `actions`."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli import job_view
from headrace.cli.commands.jobs.actions import cancel, delete, fork, promote, retry, update
from headrace.cli.commands.jobs.replay import replay
from headrace.cli.commands.jobs.stream import stream
from headrace.cli.commands.retention.archive import NO_ARCHIVE
from headrace.cli.find_job import job_of
from headrace.cli.options import as_json_option, chosen, example, filters, limit_option, shared
from headrace.cli.output import clean, print_json, remark, say
from headrace.cli.resource import Output, OutputCommand, OutputGroup, facts, lines, table
from headrace.cli.session import Session
from headrace.engines.protocol.core import Bell
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry

_POLL_INTERVAL = 0.5


def _paging(function: Any) -> Any:
    return limit_option(click.option("--cursor", help="Continue after the page that ended with this cursor.")(function))


def _archived(function: Any) -> Any:
    help_text = "Archived jobs instead; --since and --until then apply to their finish."
    return click.option("--archived", is_flag=True, help=help_text)(function)


@click.group(
    "jobs",
    cls=OutputGroup,
    invoke_without_command=True,
    epilog=example(
        "headrace jobs --state failed --since 2h", "headrace jobs show 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"
    ),
)
@filters
@_archived
@_paging
@as_json_option
@shared
@click.pass_context
def jobs(ctx: click.Context, /, **given: Any) -> Any:
    """List, show and change jobs. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        return list_jobs.run(ctx.obj, **given)
    misplaced = [name for name, value in chosen(given).items() if value and (name, value) != ("limit", 50)]
    if misplaced:  # ignored, `jobs --queue mail delete` would mean all queues
        option = {"as_json": "json", "args": "arg"}.get(misplaced[0], misplaced[0])
        raise click.UsageError(f"put --{option} after {ctx.invoked_subcommand!r}", ctx)
    return None


@click.command(
    "list", cls=OutputCommand, epilog=example("headrace jobs list --queue emails --state failed,retrying --since 1d")
)
@filters
@_archived
@_paging
def list_jobs(session: Session, /, limit: int, cursor: str | None, archived: bool, **given: Any) -> Output:
    """List jobs, newest first."""
    app = session.store()
    page = app.jobs.find(limit=limit, cursor=cursor, archived=archived, **chosen(given))
    if given.get("text") and app.cipher is not None:
        remark("note: --text does not search encrypted arguments, only ids, tasks, reasons and metadata")

    def show() -> None:
        if archived and not app.lifecycle.has_archive:
            remark(NO_ARCHIVE)
            return
        for name in () if page else given.get("args") or ():
            if not app.services.is_indexed(name):
                remark(f"note: no known task has {name!r} in its index; --text searches arguments without one")
        empty = "no jobs match" if chosen(given) else f"there are no {'archived ' if archived else ''}jobs"
        job_view.listing(page, empty).show()
        if page.cursor:
            remark(f"more follow: add --cursor {page.cursor}")

    return Output(lambda: {"jobs": [job_view.record(job) for job in page], "cursor": page.cursor}, show)


@click.command("show", cls=OutputCommand, epilog=example("headrace jobs show 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"))
@click.argument("job_id", metavar="ID")
@click.option("--payloads", is_flag=True, help="Load what is in the payload store, up to max_payload bytes each.")
def show(session: Session, job_id: str, payloads: bool) -> Output:
    """Show everything about one job. ID may be a prefix of at least 8 characters."""
    app = session.store()
    job = job_of(app, job_id)
    steps = [] if job.spooled or job.archived else app.engine.queries.details(job.id, history=False, logs=0).steps
    most = app.settings.max_payload if payloads else 0
    return facts(lambda: job_view.full_record(job, steps, most), job_view.facts(job, steps, most))


@click.command(
    "history", cls=OutputCommand, epilog=example("headrace jobs history 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f")
)
@click.argument("job_id", metavar="ID")
def history(session: Session, job_id: str) -> Output:
    """Show the history of a job, oldest first."""
    entries = job_of(session.store(), job_id).history()
    return table(entries, job_view.HISTORY_COLUMNS, map(job_view.entry_row, entries))


@click.command("logs", epilog=example("headrace jobs logs 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f --follow"))
@click.argument("job_id", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Stream new lines until the job finishes.")
@as_json_option
@shared
@click.pass_obj
def logs(session: Session, job_id: str, follow: bool, as_json: bool) -> None:
    """Show the lines a job logged with current_job().log(...)."""
    if follow and as_json:
        raise click.UsageError("--json prints one document; leave --follow out")
    app = session.store()
    job = job_of(app, job_id)
    if as_json:
        print_json([job_view.log_record(line, job) for line in job.logs()])
    elif follow:
        bell = app.engine.listen("done")
        try:
            _follow(job, bell)
        except KeyboardInterrupt:
            return
        finally:
            bell.close()
    elif not _print_lines(job, job.logs()):
        remark("the job has logged nothing")


def _follow(job: Job[Any], bell: Bell) -> None:
    seen: list[LogEntry] = []
    while True:
        is_finished = job.refresh().is_finished  # before reading the lines, so that none of the last ones is missed
        lines = job.logs()
        _print_lines(job, _unseen(seen, lines))
        seen = lines
        if is_finished:
            remark(f"the job is {job.state}")
            return
        bell.wait(_POLL_INTERVAL)


def _unseen(before: list[LogEntry], now: list[LogEntry]) -> list[LogEntry]:
    """The new lines. Both lists are tails of the same log, so the end of `before` overlaps with `now`."""
    for overlap in range(min(len(before), len(now)), 0, -1):
        if before[-overlap:] == now[:overlap]:
            return now[overlap:]
    return now


def _print_lines(job: Job[Any], lines: list[LogEntry]) -> bool:
    for line in lines:
        say(clean(job_view.log_text(line, job)))
    return bool(lines)


for command in (list_jobs, show, history, logs, stream, cancel, retry, promote, delete, update, fork, replay):
    jobs.add_command(command)


@click.command("why", cls=OutputCommand, epilog=example("headrace why 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"))
@click.argument("job_id", metavar="ID")
def why(session: Session, job_id: str) -> Output:
    """Explain in one sentence why a job is not running, or what it is doing."""
    job = job_of(session.store(), job_id)
    found = job.explain()
    remedy = found.remedy
    has_remedy = remedy is not None and remedy.command not in found.sentence
    texts = [found.sentence, *([f"To change that: {remedy.command}"] if remedy and has_remedy else [])]
    return lines({"id": job.id, "state": job.state, "why": found.sentence, "remedy": remedy}, texts)
