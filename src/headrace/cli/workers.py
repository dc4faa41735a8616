"""`headrace workers`: who is alive and on what, and asking one to pause, go on or stop."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from headrace.app.app import Headrace
from headrace.app.workers import WorkerInfo
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.session import Session
from headrace.cli.show import Column, ago, print_json, print_table, remark, say
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
    Column("QUEUES", least=8),
)
_CAPABILITIES_COLUMN = Column("HAS", least=8)  # only where a worker has any


@click.group("workers", invoke_without_command=True, epilog=example("headrace workers"))
@as_json_option
@shared
@click.pass_context
def workers(ctx: click.Context, as_json: bool) -> None:
    """Look at workers, pause and stop them. Without a command: list them. (`headrace worker` runs one.)"""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_workers, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@workers.command("list", epilog=example("headrace workers list --json"))
@as_json_option
@shared
@click.pass_obj
def list_workers(session: Session, as_json: bool) -> None:
    """List the workers that are alive, or were when they were last heard of."""
    app = session.store()
    now = datetime.now(UTC)
    found = app.workers()
    if as_json:
        print_json([msgspec.structs.asdict(worker) for worker in found])
    elif not found:
        remark("no worker is alive; start one with `headrace worker`")
    else:
        is_equipped = any(worker.capabilities for worker in found)
        rows = [_row(worker, now) + ([_capabilities(worker)] if is_equipped else []) for worker in found]
        print_table((*_COLUMNS, _CAPABILITIES_COLUMN) if is_equipped else _COLUMNS, rows)


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


@workers.command("pause", epilog=example("headrace workers pause web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@shared
@click.pass_obj
def pause(session: Session, worker_id: str) -> None:
    """Have a worker start no more jobs; those that run go on. ID may be its beginning."""
    app = session.store()
    _wish(app, worker_id, app.pause_worker, "asked to pause")


@workers.command("resume", epilog=example("headrace workers resume web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@shared
@click.pass_obj
def resume(session: Session, worker_id: str) -> None:
    """Have a paused worker start jobs again."""
    app = session.store()
    _wish(app, worker_id, app.resume_worker, "asked to go on")


@workers.command("stop", epilog=example("headrace workers stop web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@shared
@click.pass_obj
def stop(session: Session, worker_id: str) -> None:
    """Have a worker finish what it runs and end."""
    app = session.store()
    _wish(app, worker_id, app.stop_worker, "asked to stop")


@workers.command("log-level", epilog=example("headrace workers log-level web-1-4711-a1b2c3 INFO,headrace.store=DEBUG"))
@click.argument("worker_id", metavar="ID")
@click.argument("level")
@shared
@click.pass_obj
def log_level(session: Session, worker_id: str, level: str) -> None:
    """Have a worker log at another level, with all of its process, until it is told again or ends."""
    app = session.store()
    _wish(app, worker_id, lambda meant: app.set_worker_log_level(meant, level), f"asked to log at {level}")


def _wish(app: Headrace, text: str, ask: Any, done: str) -> None:
    ids = [worker.id for worker in app.workers() if worker.id.startswith(text)]
    meant = text if text in ids else ids[0] if len(ids) == 1 else None
    if meant is None or not ask(meant):
        told = f"begins the ids of {len(ids)} workers" if ids else "is no worker that is alive"
        raise HeadraceError(f"{text!r} {told}; `headrace workers` lists them")
    say(f"worker {meant} is {done}")
