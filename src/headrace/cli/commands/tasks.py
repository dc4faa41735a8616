"""`headrace tasks`: lists tasks with their numbers, pauses them, and sets their limits and order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from headrace.app.app import Headrace
from headrace.app.metrics.task_stats import TaskStats
from headrace.cli.commands.queues import parse_rule
from headrace.cli.options import chosen_limits, example, field_options
from headrace.cli.output import Column, ago, span
from headrace.cli.resource import Output, Resource, line, lines, table
from headrace.cli.session import Session
from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.queues.rule_fields import TASK_RULES
from headrace.core.queues.rules_text import format_rules
from headrace.core.tasks.batches import batch_text
from headrace.core.tasks.options import check_task_name

_COLUMNS = (
    Column("TASK", min_width=8),
    Column("PENDING", right=True),
    Column("RUNNING", right=True),
    Column("RATE", right=True),
    Column("ERRORS", right=True),
    Column("ERROR RATE", right=True),
    Column("P95", right=True),
    Column("LAST FAILURE", right=True),
    Column("RULES", min_width=8),
)


tasks = Resource(
    "tasks", "List, pause, resume and configure tasks.", "headrace tasks", "headrace tasks pause emails.send"
)


@tasks.command("list", epilog=example("headrace tasks list --json"))
def list_tasks(session: Session) -> Output:
    """List tasks with their open jobs, their numbers of the last hour, their newest dead letter and their rules."""
    found = session.store().task_stats()
    now = datetime.now(UTC)
    empty = "no task is known yet: no worker runs, and no job was enqueued in the last hour"
    return table(found, _COLUMNS, (_row(stats, now) for stats in found), empty)


def _row(stats: TaskStats, now: datetime) -> list[str]:
    figures = stats.figures
    return [
        stats.task,
        f"{stats.pending}{'' if stats.is_exact else '+'}",
        str(stats.running),
        "-" if figures is None else _rate(figures.throughput),
        "-" if figures is None else str(figures.errors),
        "-" if figures is None or figures.error_rate is None else f"{figures.error_rate:.1%}",
        "-" if figures is None or figures.run.p95 is None else span(figures.run.p95),
        ago(stats.last_failure, now),
        ", ".join(filter(None, (batch_text(stats.batch, stats.within), format_rules(stats.rules)))) or "-",
    ]


def _rate(per_second: float) -> str:
    """A rate by the second, minute or hour, whichever is readable."""
    for factor, unit in ((1, "s"), (60, "min")):
        if per_second * factor >= 1:
            return f"{per_second * factor:.1f}/{unit}"
    return f"{per_second * 3600:.0f}/h"


@tasks.command("pause", epilog=example("headrace tasks pause emails.send"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def pause(session: Session, names: tuple[str, ...]) -> Output:
    """Pause tasks: workers start none of their jobs. Running jobs and other tasks continue."""
    return _set(session.store(), names, True)


@tasks.command("resume", epilog=example("headrace tasks resume emails.send"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def resume(session: Session, names: tuple[str, ...]) -> Output:
    """Resume paused tasks."""
    return _set(session.store(), names, False)


def _set(app: Headrace, names: tuple[str, ...], paused: bool) -> Output:
    for name in names:
        check_task_name(name)  # refuse a wrong name before any change
    for name in names:
        app.pause_task(name) if paused else app.resume_task(name)
    texts = (f"task {name} is {'paused' if paused else 'open'}{_unknown_hint(app, name)}" for name in names)
    return lines([{"task": name, "paused": paused} for name in names], texts)


def _unknown_hint(app: Headrace, name: str) -> str:
    """A remark for an unknown task name: it may be paused before its first job, but is usually a typo."""
    known = name in app.tasks or any(name in worker.tasks for worker in app.workers()) or app.jobs.count(task=name)
    return "" if known else " (no worker knows it, and there is no job of it)"


@tasks.command("configure", epilog=example("headrace tasks configure emails.send --rate 10/s --concurrency 5"))
@click.argument("name")
@field_options(TASK_RULES.values(), parse_rule)
@click.option("--clear", "clear_all", is_flag=True, help="Remove every rule that is not given with it.")
def configure(session: Session, /, name: str, clear_all: bool, **given: Any) -> Output:
    """Change a task's rules for all workers. Without options, print them. The word none removes a rule."""
    changes = (dict.fromkeys(TASK_RULES) if clear_all else {}) | chosen_limits(given)
    app = session.store()
    rules = app.configure_task(name, **changes) if changes else app.task_rules().get(check_task_name(name), TaskRules())
    text = f"task {name} has {format_rules(rules) or 'no rules'}{_unknown_hint(app, name)}"
    return line({"task": name, "rules": rules}, text)
