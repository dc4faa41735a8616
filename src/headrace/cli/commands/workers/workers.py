"""`headrace workers`: lists workers and sends them commands."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from headrace.app.app import Headrace
from headrace.app.workers import WorkerInfo
from headrace.cli.commands.workers.alive import alive_by_file, alive_in_store
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.output import Column, ago, print_facts, print_json, print_table, remark, say, size
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


@click.group("workers", invoke_without_command=True, epilog=example("headrace workers"))
@as_json_option
@shared
@click.pass_context
def workers(ctx: click.Context, as_json: bool) -> None:
    """Show, pause and stop workers. Without a command: list them. (`headrace worker` runs one.)"""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_workers, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@workers.command("list", epilog=example("headrace workers list --json"))
@as_json_option
@shared
@click.pass_obj
def list_workers(session: Session, as_json: bool) -> None:
    """List the workers, including those that have missed heartbeats."""
    app = session.store()
    now = datetime.now(UTC)
    found = app.workers()
    if as_json:
        print_json([msgspec.structs.asdict(worker) for worker in found])
    elif not found:
        remark("no worker is alive; start one with `headrace worker`")
    else:
        has_capabilities = any(worker.capabilities for worker in found)
        rows = [_row(worker, now) + ([_capabilities(worker)] if has_capabilities else []) for worker in found]
        print_table((*_COLUMNS, _CAPABILITIES_COLUMN) if has_capabilities else _COLUMNS, rows)


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
@as_json_option
@shared
@click.pass_obj
def show(session: Session, worker_id: str, as_json: bool) -> None:
    """Show one worker, with its last memory trace if it traces memory. ID may be a prefix."""
    worker = _find_worker(session.store(), worker_id)
    if as_json:
        print_json(msgspec.structs.asdict(worker))
        return
    titles = [column.title.lower() for column in _COLUMNS]
    facts = list(zip(titles, _row(worker, datetime.now(UTC)), strict=True))
    facts.insert(3, ("host", worker.host))
    if worker.memory is not None and worker.cpu is not None:
        facts += [("cpu", f"{worker.cpu:.0%} of a core"), ("memory", size(worker.memory))]
    if (trace := worker.memory_trace) is not None:
        grown = "\n".join(trace.growth) or "nothing"
        facts.append(("allocated", f"{size(trace.allocated)}, {size(trace.peak)} peak"))
        facts.append(("grown", grown))
    facts += [("has", _capabilities(worker)), ("tasks", ", ".join(sorted(worker.tasks)) or "-")]
    print_facts(facts)


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
@as_json_option
@shared
@click.pass_obj
def alive(session: Session, worker_id: str | None, health_file: Path | None, ready: bool, as_json: bool) -> int:
    """Exit with 0 if a worker is alive, else with 1. ID may be a prefix; without it, any worker of this host counts."""
    if worker_id is not None and health_file is not None:
        raise click.UsageError("give either an ID or --health-file")
    if health_file is not None:
        result = alive_by_file(health_file, datetime.now(UTC), ready=ready)
    else:
        result = alive_in_store(session.store().workers(), worker_id, socket.gethostname(), ready=ready)
    if as_json:
        print_json(result)
    else:
        say(result.reason)
    return 0 if result.alive else 1


@workers.command("pause", epilog=example("headrace workers pause web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@shared
@click.pass_obj
def pause(session: Session, worker_id: str) -> None:
    """Pause a worker: it starts no more jobs. Running jobs continue. ID may be a prefix."""
    app = session.store()
    _send_command(app, worker_id, app.pause_worker, "asked to pause")


@workers.command("resume", epilog=example("headrace workers resume web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@shared
@click.pass_obj
def resume(session: Session, worker_id: str) -> None:
    """Resume a paused worker."""
    app = session.store()
    _send_command(app, worker_id, app.resume_worker, "asked to resume")


@workers.command("stop", epilog=example("headrace workers stop web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@shared
@click.pass_obj
def stop(session: Session, worker_id: str) -> None:
    """Stop a worker after its running jobs."""
    app = session.store()
    _send_command(app, worker_id, app.stop_worker, "asked to stop")


@workers.command("log-level", epilog=example("headrace workers log-level web-1-4711-a1b2c3 INFO,headrace.store=DEBUG"))
@click.argument("worker_id", metavar="ID")
@click.argument("level")
@shared
@click.pass_obj
def log_level(session: Session, worker_id: str, level: str) -> None:
    """Change the log level of a worker's whole process, until the next change or its end."""
    app = session.store()
    _send_command(app, worker_id, lambda worker: app.set_worker_log_level(worker, level), f"asked to log at {level}")


def _send_command(app: Headrace, text: str, command: Any, done: str) -> None:
    worker_id = _find_worker(app, text).id
    if not command(worker_id):
        raise _unknown(text, 0)
    say(f"worker {worker_id} is {done}")


def _find_worker(app: Headrace, text: str) -> WorkerInfo:
    found = {worker.id: worker for worker in app.workers() if worker.id.startswith(text)}
    if text not in found and len(found) != 1:
        raise _unknown(text, len(found))
    return found[text] if text in found else next(iter(found.values()))


def _unknown(text: str, matches: int) -> HeadraceError:
    problem = f"is a prefix of {matches} worker ids" if matches else "is not a live worker"
    return HeadraceError(f"{text!r} {problem}; `headrace workers` lists them")
