"""`headrace enqueue`: submits a job by the name of its task, with arguments as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from headrace.app.parts import declared_task
from headrace.cli import job_view
from headrace.cli.job_arguments import call_arguments, json_argument, warn_if_unknown
from headrace.cli.options import F, as_json_option, duration, duration_or_none, example, field_options, shared
from headrace.cli.output import print_json, remark, say
from headrace.cli.session import Session, missing_file
from headrace.core.tasks.option_fields import JOB_OPTIONS
from headrace.runtime.jobs.job import Job


def _metadata(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str] | None:
    for text in value:
        if not text.partition("=")[1] or text.startswith("="):
            raise click.BadParameter(f"{text!r} is not of the form name=value", ctx, param)
    return {name: rest for name, _, rest in (text.partition("=") for text in value)} or None


def _options(*names: str) -> Callable[[F], F]:
    return field_options([JOB_OPTIONS[name] for name in names])


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
@click.argument("args", required=False, callback=json_argument)
@click.argument("kwargs", required=False, callback=json_argument)
@click.option("--queue", "-q", help="Queue; overrides the task's.")
@_options("priority", "delay", "run_at", "expires")
@click.option("--timeout", metavar="TIME", callback=duration_or_none, help="Timeout of each attempt, or none.")
@click.option("--retry", type=int, help="Maximum retries after a failure.")
@_options("needs", "rate_key", "concurrency_key", "cost", "budget")
@click.option("--after", metavar="JOB", multiple=True, help="Wait for this job; may be repeated.")
@_options("on_parent_failure", "job_id")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option(
    "--meta", "metadata", multiple=True, callback=_metadata, metavar="NAME=VALUE", help="Metadata; may be repeated."
)
@click.option(
    "--wait", metavar="TIME", callback=duration, help="Wait up to this long for the job, and print its result."
)
@as_json_option
@shared
@click.pass_obj
def enqueue(
    session: Session, /, task: str, args: Any, kwargs: Any, wait: float | None, as_json: bool, **options: Any
) -> None:
    """Submit a job and print its id.

    Arguments are JSON: a list of positional ones, an object of named ones, or both. Types that JSON lacks are tagged,
    as `headrace jobs show --json` prints them.
    """
    positional, named = call_arguments(args, kwargs)
    if options["on_parent_failure"] and not options["after"]:
        raise click.UsageError("--on-parent-failure needs --after")
    app = session.store(may_create=True, with_tasks=True)
    warn_if_unknown(app, session.app_name, task)
    new_file = missing_file(app)
    job = declared_task(app, task).using(**_given_options(options)).enqueue(*positional, **named)
    if new_file:
        remark(f"note: this created a new store at {new_file}")
    if as_json:
        _wait_and_print_json(job, wait, app.settings.max_payload)
        return
    say(job.id)
    if wait is not None:
        job.result(wait)
        say(job_view.result_text(job, app.settings.max_payload))


def _wait_and_print_json(job: Job[Any], wait: float | None, most: int) -> None:
    """Print the record even if the job failed or the wait timed out: the job is stored."""
    if wait is None:
        print_json(job_view.record(job))
        return
    try:
        job.result(wait)
    finally:
        print_json({**job_view.record(job.refresh()), "result": job_view.result_record(job, most)})


def _given_options(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value not in (None, ())}
    return {name: None if value == "none" and name == "timeout" else value for name, value in given.items()}
