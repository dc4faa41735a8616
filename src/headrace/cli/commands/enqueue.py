"""`headrace enqueue`: submits a job by the name of its task, with arguments as JSON."""

from __future__ import annotations

import difflib
from typing import Any

import click

from headrace.app.app import Headrace
from headrace.cli import job_view
from headrace.cli.options import as_json_option, duration, duration_or_none, example, moment, names, shared
from headrace.cli.output import print_json, remark, say
from headrace.cli.session import Session, missing_file
from headrace.core.codec import codec
from headrace.core.jobs.dependencies import POLICIES
from headrace.errors import CorruptPayload
from headrace.runtime.jobs.job import Job


def _json(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    if value is None:
        return None
    try:
        return codec.decode(value)
    except CorruptPayload as error:
        told = str(error).removeprefix("payload can't be read: ")
        hint = "write '[1, \"two\"]' or '{\"name\": 3}', in single quotes"
        raise click.BadParameter(f"{value!r} is no JSON that can be read ({told}); {hint}", ctx, param) from None


def _metadata(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str] | None:
    for text in value:
        if not text.partition("=")[1] or text.startswith("="):
            raise click.BadParameter(f"{text!r} is not of the form name=value", ctx, param)
    return {name: rest for name, _, rest in (text.partition("=") for text in value)} or None


@click.command(
    "enqueue",
    epilog=example(
        "headrace enqueue add '[1, 2]'",
        'headrace enqueue emails.send \'{"to": "a@b.c"}\' --queue emails --delay 10m',
        "headrace enqueue add '[1, 2]' --wait 10",
        "headrace enqueue render --needs gpu --after import-7 --after import-8",
    ),
)
@click.argument("task")
@click.argument("args", required=False, callback=_json)
@click.argument("kwargs", required=False, callback=_json)
@click.option("--queue", "-q", help="Another queue than the task's own.")
@click.option("--priority", type=int, help="From -100 to 100; higher runs first.")
@click.option("--delay", metavar="TIME", callback=duration, help="Run later: seconds or 10m, 2h, 3d.")
@click.option("--run-at", metavar="TIME", callback=moment, help="Run at an ISO time (UTC).")
@click.option("--expires", metavar="TIME", callback=duration, help="Cancel if it has not started by then.")
@click.option("--timeout", metavar="TIME", callback=duration_or_none, help="Time for each attempt, or none.")
@click.option("--retry", type=int, help="How many runs after the first, if it fails.")
@click.option("--needs", multiple=True, callback=names, metavar="NAME,...", help="What its worker must have.")
@click.option("--rate-key", metavar="KEY", help="Whose rate it counts for, such as a tenant's.")
@click.option("--concurrency-key", metavar="KEY", help="Run with no more of this key than its queue allows.")
@click.option("--after", metavar="JOB", multiple=True, help="Wait for the job with this id; may be repeated.")
@click.option("--on-parent-failure", type=click.Choice(POLICIES), help="If a job it waits for fails.")
@click.option("--job-id", help="An id of your own.")
@click.option("--tag", "tags", multiple=True, help="May be repeated.")
@click.option("--meta", "metadata", multiple=True, callback=_metadata, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--wait", metavar="TIME", callback=duration, help="Wait so long for the job, and print its result.")
@as_json_option
@shared
@click.pass_obj
def enqueue(
    session: Session, /, task: str, args: Any, kwargs: Any, wait: float | None, as_json: bool, **options: Any
) -> None:
    """Submit a job and print its id.

    Arguments are JSON: a list of positional ones, an object of named ones, or both. Values that JSON has no word
    for are tagged, as `headrace jobs show --json` prints them.
    """
    positional, named = _call(args, kwargs)
    if options["on_parent_failure"] and not options["after"]:
        raise click.UsageError("--on-parent-failure is about the jobs it waits for; name them with --after")
    app = session.store(may_create=True, with_tasks=True)
    _doubt(app, session.app_name, task)
    new_file = missing_file(app)
    job = app.task_by_name(task).using(**_said(options)).enqueue(*positional, **named)
    if new_file:
        remark(f"note: this made a new store at {new_file}")
    if as_json:
        _wait_and_print_json(job, wait)
        return
    say(job.id)
    if wait is not None:
        job.result(wait)
        say(job_view.result_text(job))


def _wait_and_print_json(job: Job[Any], wait: float | None) -> None:
    """The record is printed in any case: the job is stored, whatever became of it."""
    if wait is None:
        print_json(job_view.record(job))
        return
    try:
        job.result(wait)
    finally:
        print_json({**job_view.record(job.refresh()), "result": job_view.result_record(job)})


def _call(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    if kwargs is None and isinstance(args, dict):
        args, kwargs = [], args
    positional, named = [] if args is None else args, {} if kwargs is None else kwargs
    if not isinstance(positional, list):
        raise click.UsageError(f"ARGS must be a JSON list, such as '[1, 2]', not {positional!r}")
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named):
        raise click.UsageError(f"KWARGS must be a JSON object, such as '{{\"a\": 1}}', not {named!r}")
    return positional, named


def _said(options: dict[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in options.items() if value not in (None, ())}
    return {name: None if value == "none" and name == "timeout" else value for name, value in said.items()}


def _doubt(app: Headrace, app_name: str | None, task: str) -> None:
    """A name the app does not know is allowed, and most often a slip."""
    if app_name is None or app.find_task(task) is not None:
        return
    near = difflib.get_close_matches(task, app.tasks, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    remark(f"note: {app_name} has no task {task!r}{hint}; the job waits for a worker that does")
