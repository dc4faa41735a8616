"""`headrace workers`: lists workers and sends them commands."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from headrace.app.app import Headrace
from headrace.app.workers import WorkerInfo
from headrace.cli.commands.workers.alive import alive_by_file, alive_in_store
from headrace.cli.options import example
from headrace.cli.output import Column, ago, size
from headrace.cli.resource import Output, Resource, facts, line, table
from headrace.cli.session import Session
from headrace.errors import HeadraceError

_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("PID", right=True),
    Column("BUSY", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
    Column("UP", right=True),
    Column("SEEN", right=True),
    Column("QUEUES", min_width=8),
)
_CAPABILITIES_COLUMN = Column("HAS", min_width=8)  # only if a worker has capabilities


workers = Resource(
    "workers",
    "Show, pause and stop workers. Without a command: list them. (`headrace worker` runs one.)",
    "headrace workers",
)


@workers.command("list", epilog=example("headrace workers list --json"))
def list_workers(session: Session) -> Output:
    """List the workers, including those that have missed heartbeats."""
    now = datetime.now(UTC)
    found = session.store().workers()
    has_capabilities = any(worker.capabilities for worker in found)
    rows = (_row(worker, now) + ([_capabilities(worker)] if has_capabilities else []) for worker in found)
    columns = (*_COLUMNS, _CAPABILITIES_COLUMN) if has_capabilities else _COLUMNS
    return table(found, columns, rows, "no worker is alive; start one with `headrace worker`")


def _row(worker: WorkerInfo, now: datetime) -> list[str]:
    return [
        worker.id,
        worker.condition,
        str(worker.pid),
        f"{worker.running}/{worker.concurrency}",
        str(worker.completed),
        str(worker.failed),
        ago(worker.started_at, now),
        ago(worker.seen_at, now),
        ",".join(f"{name}={weight}" for name, weight in worker.queues.items()) or "all",
    ]


def _capabilities(worker: WorkerInfo) -> str:
    return ",".join(worker.capabilities) or "-"


@workers.command("show", epilog=example("headrace workers show web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
def show(session: Session, worker_id: str) -> Output:
    """Show one worker, with its last memory trace if it traces memory. ID may be a prefix."""
    worker = _find_worker(session.store(), worker_id)
    return facts(worker, _facts(worker))


def _facts(worker: WorkerInfo) -> Iterator[tuple[str, str]]:
    titles = [column.title.lower() for column in _COLUMNS]
    shown = list(zip(titles, _row(worker, datetime.now(UTC)), strict=True))
    yield from [*shown[:3], ("host", worker.host), *shown[3:]]
    if worker.memory is not None and worker.cpu is not None:
        yield from [("cpu", f"{worker.cpu:.0%} of a core"), ("memory", size(worker.memory))]
    if (trace := worker.memory_trace) is not None:
        yield "allocated", f"{size(trace.allocated)}, {size(trace.peak)} peak"
        yield "grown", "\n".join(trace.growth) or "nothing"
    yield from [("has", _capabilities(worker)), ("tasks", ", ".join(sorted(worker.tasks)) or "-")]


@workers.command(
    "alive",
    epilog=example(
        "headrace workers alive    # of this host",
        "headrace workers alive web-1-4711-a1b2c3 --json",
        "headrace workers alive --health-file /tmp/worker.health    # without the store",
    ),
)
@click.argument("worker_id", metavar="[ID]", required=False)
@click.option(
    "--health-file",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read the health file of a worker, and not the store.",
)
@click.option("--ready", is_flag=True, help="Also require that it takes jobs: it is not paused and does not stop.")
def alive(session: Session, worker_id: str | None, health_file: Path | None, ready: bool) -> Output:
    """Exit with 0 if a worker is alive, else with 1. ID may be a prefix; without it, any worker of this host counts."""
    if worker_id is not None and health_file is not None:
        raise click.UsageError("give either an ID or --health-file")
    if health_file is not None:
        result = alive_by_file(health_file, datetime.now(UTC), ready=ready)
    else:
        result = alive_in_store(session.store().workers(), worker_id, socket.gethostname(), ready=ready)
    return line(result, result.reason, int(not result.alive))


@workers.command("pause", epilog=example("headrace workers pause web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
def pause(session: Session, worker_id: str) -> Output:
    """Pause a worker: it starts no more jobs. Running jobs continue. ID may be a prefix."""
    return _send_command(session.store(), worker_id, Headrace.pause_worker, "asked to pause")


@workers.command("resume", epilog=example("headrace workers resume web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
def resume(session: Session, worker_id: str) -> Output:
    """Resume a paused worker."""
    return _send_command(session.store(), worker_id, Headrace.resume_worker, "asked to resume")


@workers.command("stop", epilog=example("headrace workers stop web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
def stop(session: Session, worker_id: str) -> Output:
    """Stop a worker after its running jobs."""
    return _send_command(session.store(), worker_id, Headrace.stop_worker, "asked to stop")


@workers.command("log-level", epilog=example("headrace workers log-level web-1-4711-a1b2c3 INFO,headrace.store=DEBUG"))
@click.argument("worker_id", metavar="ID")
@click.argument("level")
def log_level(session: Session, worker_id: str, level: str) -> Output:
    """Change the log level of a worker's whole process, until the next change or its end."""
    return _send_command(
        session.store(),
        worker_id,
        lambda app, worker: app.set_worker_log_level(worker, level),
        f"asked to log at {level}",
    )


def _send_command(app: Headrace, text: str, send: Callable[[Headrace, str], bool], done: str) -> Output:
    worker = _find_worker(app, text)
    if not send(app, worker.id):
        raise _unknown(text, 0)
    return line({"worker": worker.id, "done": done}, f"worker {worker.id} is {done}")


def _find_worker(app: Headrace, text: str) -> WorkerInfo:
    found = {worker.id: worker for worker in app.workers() if worker.id.startswith(text)}
    if text not in found and len(found) != 1:
        raise _unknown(text, len(found))
    return found[text] if text in found else next(iter(found.values()))


def _unknown(text: str, matches: int) -> HeadraceError:
    problem = f"is a prefix of {matches} worker ids" if matches else "is not a live worker"
    return HeadraceError(f"{text!r} {problem}; `headrace workers` lists them")
