"""`headrace jobs stream`: what a job streams, as it comes or so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
import msgspec

from headrace.app.jobs.records import chunk_of
from headrace.cli.find_job import job_of
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.output import clean, print_json, remark
from headrace.cli.session import Session
from headrace.core.events.stream import Chunk
from headrace.runtime.jobs.job import Job


@click.command("stream", epilog=example("headrace jobs stream 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f --follow"))
@click.argument("job_id", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Wait for more until the job finishes.")
@click.option("--after", metavar="CURSOR", help="Only chunks behind the one with this cursor, which --json shows.")
@as_json_option
@shared
@click.pass_obj
def stream(session: Session, job_id: str, follow: bool, after: str | None, as_json: bool) -> None:
    """Show what a job streamed with current_job().stream(...): texts as they are, data as lines of JSON."""
    if follow and as_json:
        raise click.UsageError("--json prints one document; leave --follow out")
    job = job_of(session.store(), job_id)
    chunks = job.stream(after, follow=follow)
    if as_json:
        print_json([chunk_of(chunk, job) for chunk in chunks])
        return
    try:
        any_chunks = _print(job, chunks)
    except KeyboardInterrupt:
        return
    if follow:
        remark(f"the job is {job.refresh().state}")
    elif not any_chunks:
        remark("the job has streamed nothing")


def _print(job: Job[Any], chunks: Iterable[Chunk]) -> bool:
    """Print chunks; whether there were any. Texts continue each other's lines, up to the next run or data."""
    last: Chunk | None = None
    is_open = False
    for chunk in chunks:
        if chunk.number == 1 and last is not None:
            _end_line(is_open)
            is_open = False
            remark(f"the stream begins anew, in attempt {chunk.attempt}")
        if isinstance(chunk.data, str):
            click.echo(clean(chunk.data), nl=False)
            is_open = not chunk.data.endswith("\n") if chunk.data else is_open
        else:
            _end_line(is_open)
            click.echo(msgspec.json.encode(chunk_of(chunk, job).data).decode())
            is_open = False
        last = chunk
    _end_line(is_open)
    return last is not None


def _end_line(is_open: bool) -> None:
    if is_open:
        click.echo()
