"""`headrace flows`: lists, shows, cancels, retries and draws flows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli import job_view
from headrace.cli.options import as_json_option, example, shared, yes_option
from headrace.cli.output import Column, ago, clean, confirm, print_facts, print_json, print_table, remark, say, stamp
from headrace.cli.session import Session
from headrace.core.jobs.states import State
from headrace.runtime.jobs.flow_run import FlowRun

_ID = "0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"
_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("NAME", min_width=8),
    Column("DONE", right=True),
    Column("AGE", right=True),
    Column("JOBS", min_width=12),
)


def _limit(function: Any) -> Any:
    return click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True)(function)


@click.group("flows", invoke_without_command=True, epilog=example("headrace flows", f"headrace flows show {_ID}"))
@as_json_option
@shared
@click.pass_context
def flows(ctx: click.Context, as_json: bool) -> None:
    """Show, draw, cancel and retry flows. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_flows, limit=50, before=None, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


@flows.command("list", epilog=example("headrace flows list --limit 10 --json"))
@_limit
@click.option("--before", metavar="ID", help="Only flows older than this one.")
@as_json_option
@shared
@click.pass_obj
def list_flows(session: Session, limit: int, before: str | None, as_json: bool) -> None:
    """List flows, newest first."""
    found = session.store().flows.list(limit, before)
    if as_json:
        print_json([_record(run) for run in found])
        return
    if not found:
        remark("there are no flows")
        return
    now = datetime.now(UTC)
    print_table(_COLUMNS, [_row(run, now) for run in found])
    if len(found) == limit:
        remark(f"more may follow: add --before {found[-1].id}")


@flows.command("show", epilog=example(f"headrace flows show {_ID}"))
@click.argument("flow_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def show(session: Session, flow_id: str, as_json: bool) -> None:
    """Show the progress and the jobs of a flow."""
    run = session.store().flows.get(flow_id)
    if as_json:
        print_json({**_record(run), "jobs": [job_view.record(job) for job in run.jobs]})
        return
    print_facts(_facts(run))
    say()
    now = datetime.now(UTC)
    print_table(job_view.JOB_COLUMNS, [job_view.row(job, now) for job in run.jobs])


@flows.command("cancel", epilog=example(f"headrace flows cancel {_ID}"))
@click.argument("flow_id", metavar="ID")
@yes_option
@as_json_option
@shared
@click.pass_obj
def cancel(session: Session, flow_id: str, yes: bool, as_json: bool) -> None:
    """Cancel all unfinished jobs of a flow."""
    run = session.store().flows.get(flow_id)
    done, total = run.progress
    if done < total and not yes:
        confirm(f"cancel {_jobs(total - done)} of flow {clean(run.name)}")
    _report(run, "cancel", run.cancel(), "cancelled", as_json)


@flows.command("retry", epilog=example(f"headrace flows retry {_ID}"))
@click.argument("flow_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def retry(session: Session, flow_id: str, as_json: bool) -> None:
    """Retry the failed and cancelled jobs of a flow, with the jobs cancelled because of them."""
    run = session.store().flows.get(flow_id)
    _report(run, "retry", run.retry(), "queued again, with the jobs that waited for them", as_json)


@flows.command("graph", epilog=example(f"headrace flows graph {_ID}", f"headrace flows graph {_ID} --format svg"))
@click.argument("flow_id", metavar="ID")
@click.option("--format", "how", type=click.Choice(["mermaid", "svg", "json"]), default="mermaid", show_default=True)
@as_json_option
@shared
@click.pass_obj
def graph(session: Session, flow_id: str, how: str, as_json: bool) -> None:
    """Draw the dependencies of a flow and the state of each job."""
    run = session.store().flows.get(flow_id)
    if as_json or how == "json":
        print_json(run.graph())
    else:
        say(run.svg() if how == "svg" else run.mermaid())


def _record(run: FlowRun) -> dict[str, Any]:
    done, total = run.progress
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state,
        "created_at": run.created_at,
        "done": done,
        "total": total,
        "counts": run.counts,
    }


def _row(run: FlowRun, now: datetime) -> list[str]:
    done, total = run.progress
    return [run.id, run.state, run.name, f"{done}/{total}", ago(run.created_at, now), _counts(run)]


def _facts(run: FlowRun) -> Iterator[tuple[str, str]]:
    done, total = run.progress
    yield "id", run.id
    yield "name", run.name
    yield "state", run.state
    yield "done", f"{done} of {total} jobs"
    yield "created", stamp(run.created_at)
    yield "jobs", _counts(run)


def _counts(run: FlowRun) -> str:
    counts = run.counts
    return ", ".join(f"{counts[state]} {state.value}" for state in State if counts.get(state))


def _report(run: FlowRun, action: str, changed: int, done: str, as_json: bool) -> None:
    if as_json:
        print_json({"action": action, "changed": changed, "flow": _record(run)})
    else:
        say(f"{_jobs(changed)} {done}")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
