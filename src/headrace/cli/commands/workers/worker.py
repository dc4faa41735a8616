"""`headrace worker`: runs workers with the given options."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import click

from headrace import __version__
from headrace.app.app import Headrace
from headrace.app.config import unused_urls
from headrace.cli.commands.workers.reload import run_reloading
from headrace.cli.options import duration, example, log_options, names, shared
from headrace.cli.session import Session
from headrace.core.settings.queue_weights import Queues, parse_queues
from headrace.core.settings.settings import AUTO, choices_of
from headrace.core.urls import redacted_url
from headrace.errors import ConfigError
from headrace.runtime.context.logs import configure_unless_done

log = logging.getLogger("headrace.cli")
_TASKS_NAMED = 12


def _concurrency(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and value != AUTO and not value.isdecimal():
        raise click.BadParameter(f"{value!r} is not a whole number, nor {AUTO}")
    return value


def _queues(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Queues | None:
    try:
        return parse_queues(",".join(value)) if value else None
    except ConfigError as error:
        raise click.BadParameter(str(error).removeprefix("queues: "), ctx, param) from None


@click.command(
    "worker",
    epilog=example(
        "headrace --app shop.jobs:app worker",
        "headrace worker -q critical=3,default=1 -c 8 --processes 2",
        "headrace worker --health-port 0.0.0.0:8081    # for the probes of Kubernetes",
        "headrace worker --drain    # in tests and cron: run what is due, then end",
    ),
)
@click.option(
    "--queues", "-q", multiple=True, callback=_queues, metavar="NAME[=WEIGHT],...", help="Queues to serve; default all."
)
@click.option(
    "--concurrency",
    "-c",
    callback=_concurrency,
    metavar="N",
    help="Concurrent jobs in each process; auto: one per CPU.",
)
@click.option("--processes", type=int, help="Number of worker processes; this one restarts them.")
@click.option("--drain", is_flag=True, help="Run until no job is due, then end.")
@click.option("--once", is_flag=True, help="Run at most one job, then end.")
@click.option("--reload", "reloading", is_flag=True, help="Restart when a .py file changes (for development).")
@click.option("--lease", metavar="TIME", callback=duration, help="How long a claim holds without a heartbeat.")
@click.option("--heartbeat", metavar="TIME", callback=duration, help="Time between heartbeats.")
@click.option(
    "--shutdown-timeout", metavar="TIME", callback=duration, help="Time for running jobs to finish after SIGTERM."
)
@click.option("--max-jobs", type=int, help="Replace a process after this many jobs.")
@click.option("--max-memory", type=int, metavar="MB", help="Replace a process that uses more memory than this.")
@click.option(
    "--trace-memory",
    metavar="TIME",
    callback=duration,
    help="Log at this interval which code's memory has grown; slow.",
)
@click.option(
    "--health-file", metavar="PATH", help="Rewrite this file while the worker is alive; remove it at the end."
)
@click.option(
    "--health-port",
    metavar="[HOST:]PORT",
    help="Answer GET /live and /ready over HTTP here; the default host is 127.0.0.1.",
)
@click.option("--prefetch", type=int, help="Maximum number of prefetched jobs.")
@click.option(
    "--strategy",
    type=click.Choice(choices_of("strategy")),
    help="Order of jobs in a queue; overrides the queue's.",
)
@click.option("--queue-order", type=click.Choice(choices_of("queue_order")), help="How claims are shared among queues.")
@click.option(
    "--needs",
    "capabilities",
    multiple=True,
    callback=names,
    metavar="NAME,...",
    help="Capabilities of this worker for jobs that need them, such as gpu.",
)
@log_options
@shared
@click.pass_obj
def worker(session: Session, /, drain: bool, once: bool, reloading: bool, **settings: Any) -> int:
    """Run workers until SIGTERM or Ctrl-C. Running jobs finish first; a second signal cuts that short.

    Options that are not given follow the app's settings (HEADRACE_CONCURRENCY, [tool.headrace], ...). Logging goes to
    stderr; an app that sets up logging itself keeps its own unless a --log option is given.
    """
    if reloading:
        return _reload(drain or once)
    _check(drain, once, settings)
    app = session.application()
    log_level, log_format = settings.pop("log_level"), settings.pop("log_format")
    log_settings = log_format or app.settings.log_format, log_level or app.settings.log_level
    configure_unless_done(*log_settings, app.settings.secret_words, insist=bool(log_level or log_format))
    _announce(app, session.app_name or "", settings)
    code = app.run_worker(drain=drain or once, at_most=1 if once else None, **settings)
    from headrace.runtime.worker.supervisor import RECYCLED  # loaded with the worker, not for other commands

    if code == RECYCLED and drain:  # recycled before the queues were empty: continue in a fresh process
        app.close()
        os.execv(sys.executable, [sys.executable, "-m", "headrace", *sys.argv[1:]])
    return 0 if code == RECYCLED else code


def _check(drain: bool, once: bool, settings: dict[str, Any]) -> None:
    if drain and once:
        raise click.UsageError("--drain and --once exclude each other")
    if (drain or once) and (settings["processes"] or 1) > 1:
        raise click.UsageError("--drain and --once run in one process; leave --processes out")


def _reload(ends: bool) -> int:
    if ends:
        raise click.UsageError("--reload keeps running; leave --drain and --once out")
    arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
    return run_reloading(arguments, os.getcwd())


def _announce(app: Headrace, name: str, given: dict[str, Any]) -> None:
    settings = app.settings
    queues = given["queues"] or settings.queues
    log.info(
        "headrace %s, app %s, %s, queues %s, concurrency %s, processes %d, capabilities %s, tasks %s",
        __version__,
        name,
        redacted_url(app.engine.url),
        ", ".join(f"{queue}={weight}" for queue, weight in queues.items()) if queues else "all",
        given["concurrency"] or settings.concurrency,
        given["processes"] or settings.processes,
        ", ".join(given["capabilities"] or settings.capabilities) or "none",
        _tasks(app),
    )
    for sentence in unused_urls(app.settings_origin, app.engine.url):
        log.warning("%s", sentence)
    if not app.tasks:
        log.warning("the app has no tasks: import the modules that define them where %s is created", name)
    if app.engine.url == "memory://":
        log.warning("memory:// lives inside this process: no other process can submit jobs to this worker")


def _tasks(app: Headrace) -> str:
    names = sorted(app.tasks)
    more = f" and {len(names) - _TASKS_NAMED} more" if len(names) > _TASKS_NAMED else ""
    return ", ".join(names[:_TASKS_NAMED]) + more if names else "none"
