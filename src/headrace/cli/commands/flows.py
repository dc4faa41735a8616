"""`headrace flows`: lists, shows, cancels, retries and draws flows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli import job_view
from headrace.cli.options import example, limit_option, yes_option
from headrace.cli.output import Column, ago, clean, confirm, print_facts, print_json, say, stamp
from headrace.cli.resource import Output, Resource, line, table
from headrace.cli.session import Session
from headrace.core.jobs.states import State
from headrace.core.queues.rates import MOST_UNITS
from headrace.core.text import counted
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


flows = Resource(
    "flows",
    "Show, draw, cancel and retry flows, and change their budget. Without a command: list them.",
    "headrace flows",
    f"headrace flows show {_ID}",
)


@flows.command("list", epilog=example("headrace flows list --limit 10 --json"))
@limit_option
@click.option("--before", metavar="ID", help="Only flows older than this one.")
def list_flows(session: Session, limit: int, before: str | None) -> Output:
    """List flows, newest first."""
    found = session.store().flows.list(limit, before)
    now = datetime.now(UTC)
    hints = [f"more may follow: add --before {found[-1].id}"] if len(found) == limit else []
    rows = (_row(run, now) for run in found)
    return table(lambda: [_record(run) for run in found], _COLUMNS, rows, "there are no flows", hints)


@flows.command("show", epilog=example(f"headrace flows show {_ID}"))
@click.argument("flow_id", metavar="ID")
def show_flow(session: Session, flow_id: str) -> Output:
    """Show the progress and the jobs of a flow."""
    run = session.store().flows.get(flow_id)

    def show() -> None:
        print_facts(_facts(run))
        say()
        job_view.listing(run.jobs, "").show()

    return Output(lambda: _full_record(run), show)


@flows.command("cancel", epilog=example(f"headrace flows cancel {_ID}"))
@click.argument("flow_id", metavar="ID")
@yes_option
def cancel(session: Session, flow_id: str, yes: bool) -> Output:
    """Cancel all unfinished jobs of a flow."""
    run = session.store().flows.get(flow_id)
    done, total = run.progress
    if done < total and not yes:
        confirm(f"cancel {counted(total - done, 'job')} of flow {clean(run.name)}")
    return _done(run, "cancel", run.cancel(), "cancelled")


@flows.command("retry", epilog=example(f"headrace flows retry {_ID}"))
@click.argument("flow_id", metavar="ID")
def retry(session: Session, flow_id: str) -> Output:
    """Retry the failed and cancelled jobs of a flow, with the jobs cancelled because of them."""
    run = session.store().flows.get(flow_id)
    return _done(run, "retry", run.retry(), "queued again, with the jobs that waited for them")


@flows.command("budget", epilog=example(f"headrace flows budget {_ID} 80000"))
@click.argument("flow_id", metavar="ID")
@click.argument("units", type=click.IntRange(1, MOST_UNITS))
def budget(session: Session, flow_id: str, units: int) -> Output:
    """Change how many units the jobs of a flow may report in all."""
    spending = session.store().flows.get(flow_id).set_budget(units)
    return line({"action": "budget", "budget": spending}, f"used {spending.text}")


@flows.command("graph", epilog=example(f"headrace flows graph {_ID}", f"headrace flows graph {_ID} --format svg"))
@click.argument("flow_id", metavar="ID")
@click.option("--format", "how", type=click.Choice(["mermaid", "svg", "json"]), default="mermaid", show_default=True)
def graph(session: Session, flow_id: str, how: str) -> Output:
    """Draw the dependencies of a flow and the state of each job."""
    run = session.store().flows.get(flow_id)
    if how == "json":
        return Output(run.graph, lambda: print_json(run.graph()))
    return Output(run.graph, lambda: say(run.svg() if how == "svg" else run.mermaid()))


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


def _full_record(run: FlowRun) -> dict[str, Any]:
    return {**_record(run), "budget": run.spending, "jobs": [job_view.record(job) for job in run.jobs]}


def _row(run: FlowRun, now: datetime) -> list[str]:
    done, total = run.progress
    return [run.id, run.state, run.name, f"{done}/{total}", ago(run.created_at, now), _counts(run)]


def _facts(run: FlowRun) -> Iterator[tuple[str, str]]:
    done, total = run.progress
    yield "id", run.id
    yield "name", run.name
    yield "state", run.state
    yield "done", f"{done} of {total} jobs"
    if (spending := run.spending) is not None:
        yield "budget", f"used {spending.text}"
    yield "created", stamp(run.created_at)
    yield "jobs", _counts(run)


def _counts(run: FlowRun) -> str:
    counts = run.counts
    return ", ".join(f"{counts[state]} {state.value}" for state in State if counts.get(state))


def _done(run: FlowRun, action: str, changed: int, done: str) -> Output:
    return line({"action": action, "changed": changed, "flow": _record(run)}, f"{counted(changed, 'job')} {done}")
