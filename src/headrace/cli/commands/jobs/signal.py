"""`headrace signal`: sends an event to a job."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.find_job import job_of
from headrace.cli.job_arguments import json_argument
from headrace.cli.options import example
from headrace.cli.resource import Output, OutputCommand, line
from headrace.cli.session import Session
from headrace.errors import HeadraceError


@click.command(
    "signal",
    cls=OutputCommand,
    epilog=example(
        "headrace signal 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f approved",
        'headrace signal 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f approved --data \'{"by": "ann"}\'',
    ),
)
@click.argument("job_id", metavar="ID")
@click.argument("name")
@click.option("--data", callback=json_argument, metavar="JSON", help="Data of the event.")
def signal(session: Session, job_id: str, name: str, data: Any) -> Output:
    """Send an event to a job that waits, or will wait, with current_job().wait_event(NAME)."""
    app = session.store()
    job = job_of(app, job_id)
    if not app.signal(job, name, data):
        raise HeadraceError(f"job {job.id} is {job.refresh().state}; it receives no more events")
    job.refresh()
    data = {"id": job.id, "event": name, "state": job.state}
    return line(data, f"event {name!r} sent to job {job.id}, which is {job.state}")
