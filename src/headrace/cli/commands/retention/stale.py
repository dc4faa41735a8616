"""`headrace stale`: lists and handles stale jobs, and shows job ages."""

from __future__ import annotations

from typing import Any

import click

from headrace.app.retention.lifecycle_records import StaleJob, StateAges
from headrace.cli.options import example
from headrace.cli.output import Column, print_table, remark, say
from headrace.cli.resource import Output, OutputCommand, table
from headrace.cli.session import Session
from headrace.core.retention.staleness import format_duration

_COLUMNS = (
    Column("JOB", min_width=12),
    Column("TASK", min_width=8),
    Column("QUEUE", min_width=8),
    Column("STATE"),
    Column("FOR", right=True),
    Column("AT MOST", right=True),
    Column("ACTION"),
)
_AGE_COLUMNS = (
    Column("STATE"),
    Column("QUEUE", min_width=8),
    Column("JOBS", right=True),
    Column("AVERAGE", right=True),
    Column("LONGEST", right=True),
    Column("> 1 H", right=True),
    Column("> 1 D", right=True),
    Column("STALEST", min_width=12),
)
_DONE = {"dead": "made a dead letter", "fail": "failed", "review": "noted for review"}


@click.command(
    "stale",
    cls=OutputCommand,
    epilog=example(
        "headrace stale",
        "headrace stale --warnings --queue mail",
        "headrace stale --apply",
        "headrace stale --ages",
    ),
)
@click.option(
    "--apply/--dry-run", "apply", default=False, help="Apply their on_stale action, or only list them (the default)."
)
@click.option("--task", "-t", help="Only jobs of this task.")
@click.option("--queue", "-q", help="Only jobs in this queue.")
@click.option("--warnings", is_flag=True, help="Also jobs past 75 % of their limit.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many.")
@click.option("--ages", is_flag=True, help="Show how long jobs have been in their state, for each state and queue.")
def stale(session: Session, /, apply: bool, ages: bool, limit: int, **filters: Any) -> Output:
    """List jobs that exceed the time limit of their state or age; with --apply, apply their on_stale action.

    Workers do this every `stale_check` seconds. `headrace lifecycle` shows and changes the limits.
    """
    if ages:
        return _ages(session)
    found = session.store().lifecycle.detect_stale(dry_run=not apply, limit=limit, **filters)

    def show() -> None:
        if not found:
            remark("no job is stale")
            return
        print_table(_COLUMNS, [_row(job, apply) for job in found])
        if apply:
            _print_summary(found)
        if len(found) == limit:
            remark(f"there may be more than these {limit}; see --limit" + (", or run it again" if apply else ""))

    return Output({"dry_run": not apply, "jobs": found}, show)


def _row(job: StaleJob, was_applied: bool) -> list[str]:
    durations = [format_duration(round(1000 * seconds)) for seconds in (job.lasted, job.threshold)]
    return [
        job.id,
        job.task,
        job.queue,
        job.state if job.by == "state" else "(age)",
        *durations,
        _action(job, was_applied),
    ]


def _action(job: StaleJob, was_applied: bool) -> str:
    if not job.is_stale:
        return f"soon {job.action}"
    if not was_applied:
        return job.action
    return _DONE[job.action] if job.applied else "no longer stale"


def _print_summary(found: list[StaleJob]) -> None:
    done = [job.action for job in found if job.applied]
    parts = [f"{done.count(action)} {text}" for action, text in _DONE.items() if action in done]
    say(", ".join(parts) or "no job was changed")


def _ages(session: Session) -> Output:
    found = session.store().lifecycle.ages()
    return table(found, _AGE_COLUMNS, map(_age_row, found), "there are no open jobs")


def _age_row(ages: StateAges) -> list[str]:
    return [
        ages.state,
        ages.queue,
        str(ages.jobs),
        *(format_duration(round(1000 * seconds)) for seconds in (ages.average, ages.longest)),
        str(ages.over_an_hour),
        str(ages.over_a_day),
        " ".join(ages.stalest[:3]),
    ]
