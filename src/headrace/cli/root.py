"""The command `headrace`: everything it can do, gathered."""

from __future__ import annotations

import click

from headrace import __version__
from headrace.cli.alerts import alerts
from headrace.cli.archive import archive, partitions
from headrace.cli.bench import bench
from headrace.cli.care import backup, check, checkpoint, optimize, restore
from headrace.cli.copy import copy
from headrace.cli.dead import dead
from headrace.cli.demo import demo
from headrace.cli.doctor import doctor, migrate
from headrace.cli.enqueue import enqueue
from headrace.cli.flows import flows
from headrace.cli.jobs import jobs, why
from headrace.cli.lifecycle import lifecycle
from headrace.cli.metrics import metrics
from headrace.cli.options import shared
from headrace.cli.queues import queues
from headrace.cli.schedules import schedules
from headrace.cli.signal import signal
from headrace.cli.stale import stale
from headrace.cli.tasks import tasks
from headrace.cli.web import web
from headrace.cli.worker import worker
from headrace.cli.workers import workers

_EPILOG = """\b
Examples:
  headrace demo
  headrace --app shop.jobs:app worker
  headrace enqueue add '[1, 2]' --wait 10
  headrace jobs --state failed
\b
The app is named with --app, HEADRACE_APP, or `app` under [tool.headrace] in pyproject.toml.
Commands that only look at the store can do without one: --url or HEADRACE_URL names it, else it is
headrace.db in the current folder.
\b
Completion for your shell (also zsh_source, fish_source):
  eval "$(_HEADRACE_COMPLETE=bash_source headrace)"
"""


@click.group(
    "headrace",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@shared
@click.version_option(__version__, "--version", "-V", prog_name="headrace", message="%(prog)s %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Background jobs that need nothing but a file. New here? Try: headrace demo"""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (
    demo,
    worker,
    enqueue,
    jobs,
    why,
    signal,
    queues,
    tasks,
    schedules,
    flows,
    dead,
    alerts,
    archive,
    partitions,
    stale,
    lifecycle,
    workers,
    web,
    metrics,
    doctor,
    check,
    backup,
    restore,
    optimize,
    checkpoint,
    migrate,
    copy,
    bench,
):
    root.add_command(command)
