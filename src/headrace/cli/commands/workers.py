"""`headrace workers`: who is alive and on what, and asking one to pause, go on or stop."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from headrace.app.app import Headrace
from headrace.app.workers import WorkerInfo
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


@workers.command("show", epilog=example("headrace workers show web-1-4711-a1b2c3"))
@click.argument("worker_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, worker_id: str, as_json: bool) -> None:
    """Show one worker, with what it last saw if it traces its memory. ID may be its beginning."""
    worker = _meant(session.store(), worker_id)
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
        facts.append(("allocated", f"{size(trace.allocated)}, {size(trace.peak)} at the most"))
        facts.append(("grown", grown))
    facts += [("has", _capabilities(worker)), ("tasks", ", ".join(sorted(worker.tasks)) or "-")]
    print_facts(facts)


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
    meant = _meant(app, text).id
    if not ask(meant):
        raise _unknown(text, 0)
    say(f"worker {meant} is {done}")


def _meant(app: Headrace, text: str) -> WorkerInfo:
    found = {worker.id: worker for worker in app.workers() if worker.id.startswith(text)}
    if text not in found and len(found) != 1:
        raise _unknown(text, len(found))
    return found[text] if text in found else next(iter(found.values()))


def _unknown(text: str, begun: int) -> HeadraceError:
    told = f"begins the ids of {begun} workers" if begun else "is no worker that is alive"
    return HeadraceError(f"{text!r} {told}; `headrace workers` lists them")
