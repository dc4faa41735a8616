"""`headrace bench`: a benchmark of a few seconds, on a temporary file.

It answers "is it fast enough on this machine?" and does not touch the user's store.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from headrace.app.app import Headrace
from headrace.app.config import find_settings
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.output import Column, print_json, print_table, remark
from headrace.cli.session import Session
from headrace.errors import HeadraceError
from headrace.runtime.jobs.task import Task

_BATCH = 1000
_MAX_JOBS_PER_SECOND = 40_000  # jobs/s: more than any worker process reaches


class Measurement(msgspec.Struct, frozen=True):
    """One result."""

    name: str
    jobs: int
    seconds: float
    per_second: float


def do_nothing(number: int) -> None:
    """A task that does nothing, so that only headrace's own cost is measured."""


@click.command("bench", epilog=example("headrace bench", "headrace bench --seconds 1 --json"))
@click.option(
    "--seconds", type=click.FloatRange(0.1, 60), default=1.5, show_default=True, help="Duration of each measurement."
)
@click.option(
    "--concurrency", "-c", type=click.IntRange(1, 64), default=4, show_default=True, help="Concurrency of the worker."
)
@as_json_option
@shared
@click.pass_obj
def bench(session: Session, seconds: float, concurrency: int, as_json: bool) -> None:
    """Measure single enqueues, bulk enqueues and job runs on a temporary SQLite file."""
    session.read_env_file()
    settings = find_settings({"url": session.url}).settings
    if not as_json:
        remark(f"measuring on a temporary file, durability {settings.durability}, about {3 * seconds:.0f} seconds ...")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        url = "memory://" if settings.url.startswith("memory:") else f"sqlite:///{Path(folder) / 'bench.db'}"
        with Headrace(url, durability=settings.durability) as app:
            engine = str(app.engine.maintenance.facts().details["engine"])
            results = _measure(app, seconds, concurrency)
    if as_json:
        system = {"engine": engine, "durability": settings.durability, "python": platform.python_version()}
        print_json({**system, "concurrency": concurrency, "results": results})
        return
    columns = (Column("WHAT"), Column("JOBS", right=True), Column("SECONDS", right=True))
    rows = [
        [result.name, f"{result.jobs:,}", f"{result.seconds:.2f}", f"{result.per_second:,.0f}"] for result in results
    ]
    print_table((*columns, Column("JOBS/S", right=True)), rows)


def _measure(app: Headrace, seconds: float, concurrency: int) -> list[Measurement]:
    task: Task[..., None, None] = app.task(name="nothing")(do_nothing)
    results = [
        _repeat("enqueue, one by one", seconds, lambda: _one(task)),
        _repeat(f"enqueue_many, {_BATCH} at once", seconds, lambda: _many(app, task)),
    ]
    app.queue("default").clear()
    return [*results, _run(app, task, seconds, concurrency)]


def _repeat(name: str, seconds: float, step: Callable[[], int]) -> Measurement:
    step()  # warm-up: the first call opens the store
    jobs, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        jobs += step()
    return Measurement(name, jobs, round(elapsed, 3), round(jobs / elapsed, 1))


def _one(task: Task[..., None, None]) -> int:
    task.enqueue(1)
    return 1


def _many(app: Headrace, task: Task[..., None, None]) -> int:
    return len(app.enqueue_many([task.bind(number) for number in range(_BATCH)]))


def _run(app: Headrace, task: Task[..., None, None], seconds: float, concurrency: int) -> Measurement:
    """Run jobs enqueued beforehand until the time is up or none is left."""
    waiting = sum(_many(app, task) for _ in range(max(int(seconds * _MAX_JOBS_PER_SECOND) // _BATCH, 1)))
    started = time.perf_counter()
    with app.worker(concurrency=concurrency) as worker:
        while (jobs := worker.describe().completed) < waiting and time.perf_counter() - started < seconds:
            if worker.stopped.wait(0.005):
                raise HeadraceError(f"the worker stopped after {jobs} of {waiting} jobs")
        elapsed = time.perf_counter() - started
    return Measurement(f"run, {concurrency} threads", jobs, round(elapsed, 3), round(jobs / elapsed, 1))
