"""`headrace jobs replay`: runs a stored job here, for its developer."""

from __future__ import annotations

import contextlib
import sys
from bdb import BdbQuit
from typing import Any

import click

from headrace.app.jobs.records import lowered
from headrace.app.jobs.replay import replay_of
from headrace.cli import job_view
from headrace.cli.find_job import job_of
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.output import clean, print_json, remark, say
from headrace.cli.session import Session
from headrace.core.codec import codec
from headrace.errors import HeadraceError, InvalidJob, ReplayStopped
from headrace.runtime.context.logs import configure_unless_done
from headrace.runtime.jobs.services import LogEntry


@click.command("replay", epilog=example("headrace jobs replay 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f --pdb"))
@click.argument("job_id", metavar="ID")
@click.option("--pdb", "debugger", is_flag=True, help="Open the debugger where the task raises.")
@click.option(
    "--recorded-only", is_flag=True, help="Stop at a step without a recorded result. By default, such a step runs."
)
@as_json_option
@shared
@click.pass_obj
def replay(session: Session, job_id: str, debugger: bool, recorded_only: bool, as_json: bool) -> int:
    """Run a stored job here, with the results of its recorded steps, and print what it returns.

    It needs the app, as its task runs in this process. Nothing is claimed, and nothing is stored. With --json, what the
    task prints goes to stderr.
    """
    session.application()
    app = session.store()  # the same app; an error if its store is missing
    settings = app.settings
    configure_unless_done(settings.log_format, settings.log_level, settings.secret_words, insist=False)
    job = job_of(app, job_id)

    def show(line: LogEntry) -> None:
        remark(clean(job_view.log_text(line, job)))

    def fail(text: str) -> None:
        click.echo(clean(text), err=True, nl=False)

    found = replay_of(app.services, job, debugger=debugger, recorded_only=recorded_only, on_line=show, on_error=fail)
    try:
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            value = found.run()
    except ReplayStopped:
        raise
    except BdbQuit:
        raise click.Abort from None
    except (Exception, SystemExit, BaseExceptionGroup):
        return 1  # its traceback is printed
    result = job.redacted(_as_stored(value, settings.max_payload))
    if as_json:
        print_json({"id": job.id, "result": lowered(result)})
    else:
        say(clean(repr(result)))
    return 0


def _as_stored(value: Any, limit: int) -> Any:
    """What the task returned, as a worker stores it."""
    try:
        return codec.decode(codec.encode(value, models=True, limit=limit, where="result"))
    except InvalidJob as error:
        raise HeadraceError(f"the task returned what no worker can store: {error}") from error
