"""`headrace questions`: lists what jobs ask people, and answers it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli.find_job import job_of
from headrace.cli.job_arguments import json_argument
from headrace.cli.options import by_option, example
from headrace.cli.output import Column, ago
from headrace.cli.resource import Output, Resource, line, table
from headrace.cli.session import Session

_COLUMNS = (
    Column("JOB"),
    Column("TASK"),
    Column("TO"),
    Column("ASKED", right=True),
    Column("QUESTION", min_width=20),
)

questions = Resource(
    "questions", "List and answer the questions of jobs. Without a command: list them.", "headrace questions"
)


@questions.command("list", epilog=example("headrace questions list --to finance"))
@click.option("--to", metavar="NAME", help="Only questions to this person or group.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")
def list_questions(session: Session, to: str | None, limit: int) -> Output:
    """List the jobs that wait for an answer, the oldest first."""
    now = datetime.now(UTC)
    found = session.store().questions.list(to=to, limit=limit)
    rows = ([one.job, one.task, one.to or "", ago(one.asked_at, now), one.text] for one in found)
    return table(found, _COLUMNS, rows, "no job waits for an answer")


@questions.command(
    "answer",
    epilog=example(
        "headrace questions answer 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f true --by ann",
        "headrace questions answer 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f '{\"approved\": true}'",
    ),
)
@click.argument("job_id", metavar="ID")
@click.argument("data", metavar="JSON", callback=json_argument)
@by_option
def answer(session: Session, job_id: str, data: Any, by: str | None) -> Output:
    """Answer the question of a job, once."""
    app = session.store()
    job = job_of(app, job_id)
    app.questions.answer(job, data, by=by)
    job.refresh()
    return line({"id": job.id, "state": job.state}, f"job {job.id} has its answer; it is {job.state}")
