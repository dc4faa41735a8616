"""`headrace jobs cancel|retry|promote|delete|update`: actions on jobs, by id or by filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from headrace.app.app import Headrace
from headrace.cli.find_job import job_of
from headrace.cli.options import chosen, duration, example, filters, moment, moment_or_age, yes_option
from headrace.cli.output import clean, confirm, remark, say
from headrace.cli.resource import Output, OutputCommand, line
from headrace.cli.session import Session
from headrace.core.jobs.states import FINAL, State, Trigger, sources
from headrace.core.text import counted
from headrace.errors import HeadraceError
from headrace.runtime.jobs.job import Job

_BOUNDS = ("finished_before", "limit")


class JobAction(NamedTuple):
    """An action: its name, its past participle, the source states, and its functions for one and many jobs."""

    name: str
    done: str
    states: frozenset[State]
    one: Callable[[Job[Any]], bool]
    many: Callable[..., int]


class ActionRefused(NamedTuple):
    """A job that the action did not change."""

    id: str
    reason: str


def _action_named(app: Headrace, name: str) -> JobAction:
    jobs = app.jobs
    return {
        "cancel": JobAction("cancel", "cancelled", sources(Trigger.CANCEL), Job.cancel, jobs.cancel),
        "retry": JobAction("retry", "queued again", sources(Trigger.REVIVE), Job.retry, jobs.retry),
        "promote": JobAction("promote", "promoted", sources(Trigger.PROMOTE_NOW), Job.promote, jobs.promote),
        "delete": JobAction("delete", "deleted", sources(Trigger.DELETE), Job.delete, jobs.delete),
    }[name]


def _action_command(
    name: str, help_text: str, *examples: str, bounds: Sequence[Callable[[Any], Any]] = ()
) -> click.Command:
    """Build a command that applies an action to jobs by id or by filters; `bounds` are its extra options."""

    def with_bounds(function: Any) -> Any:
        for option in reversed(bounds):
            function = option(function)
        return function

    @click.command(name, cls=OutputCommand, help=help_text, epilog=example(*examples))
    @click.argument("ids", metavar="[ID]...", nargs=-1)
    @filters
    @with_bounds
    @click.option("--all", "everything", is_flag=True, help="All jobs; required without ids and filters.")
    @yes_option
    def command(session: Session, /, ids: tuple[str, ...], everything: bool, yes: bool, **given: Any) -> Output:
        given_filters = chosen(given)
        _check_choice(name, ids, given_filters, everything)
        action = _action_named(session.store(), name)
        if ids:
            changed, refused = _by_id(session.store(), action, ids)
        else:
            changed, refused = _by_filter(session.store(), action, given_filters, yes), []
        return _output(action, changed, refused)

    return command


def _check_choice(name: str, ids: tuple[str, ...], given_filters: dict[str, Any], everything: bool) -> None:
    if ids and (given_filters or everything):
        raise click.UsageError("give ids or filters, not both")
    if given_filters.keys() == {"limit"}:
        raise click.UsageError("--limit needs a filter, or --finished-before")
    if everything and given_filters:
        raise click.UsageError("--all means no filter; give one or the other")
    if not (ids or given_filters or everything):
        raise click.UsageError(f"give the jobs to {name}: ids, filters such as --queue, or --all")


def _by_id(app: Headrace, action: JobAction, ids: tuple[str, ...]) -> tuple[int, list[ActionRefused]]:
    changed, refused = 0, []
    for text in dict.fromkeys(ids):
        try:
            job = job_of(app, text)
            if action.one(job):
                changed += 1
            else:
                refused.append(ActionRefused(job.id, f"is {job.refresh().state}; {_states_text(action)}"))
        except HeadraceError as error:
            refused.append(ActionRefused(clean(text), clean(str(error))))  # invalid UTF-8 can't be printed as JSON
    return changed, refused


def _states_text(action: JobAction) -> str:
    *most, last = (state.value for state in State if state in action.states)
    return f"{action.name} applies to jobs that are {', '.join(most)} or {last}"


def _by_filter(app: Headrace, action: JobAction, given_filters: dict[str, Any], yes: bool) -> int:
    bounds = {name: given_filters[name] for name in _BOUNDS if name in given_filters}
    states = action.states & FINAL if "finished_before" in bounds else action.states
    default = states if action.name != "retry" else frozenset({State.FAILED})
    requested = [State(state) for state in given_filters.get("state", ())] or sorted(default)
    selection = {name: value for name, value in given_filters.items() if name not in bounds}
    selection["state"] = [state for state in requested if state in states]
    if not selection["state"]:
        raise click.UsageError(_states_text(action))
    count = app.jobs.count(**selection)
    if count and not yes:
        bound_text = "" if not bounds else "up to " if "limit" not in bounds else f"at most {bounds['limit']} of "
        confirm(f"{action.name} {bound_text}{counted(count, 'job')}")
    return action.many(**selection, **bounds) if count else 0


def _output(action: JobAction, changed: int, refused: list[ActionRefused]) -> Output:
    def show() -> None:
        if changed or not refused:
            say(f"{counted(changed, 'job')} {action.done}")
        for refused_job in refused:
            remark(f"error: {refused_job.id}: {refused_job.reason}")

    data = {"action": action.name, "changed": changed, "refused": [refused_job._asdict() for refused_job in refused]}
    return Output(data, show, int(bool(refused)))


cancel = _action_command(
    "cancel",
    "Cancel unfinished jobs. A running job is asked to stop, and its result is refused.",
    "headrace jobs cancel 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f",
    "headrace jobs cancel --queue emails --state pending",
)
retry = _action_command(
    "retry",
    "Run finished jobs again, with fresh attempts. Filters select failed jobs unless --state is given.",
    "headrace jobs retry --task emails.send --since 1d",
)
promote = _action_command(
    "promote",
    "Run scheduled and retrying jobs now, and waiting jobs without their dependencies.",
    "headrace jobs promote --state retrying --queue emails",
)
delete = _action_command(
    "delete",
    "Delete jobs that are not running, with their history.",
    "headrace jobs delete --state completed --until 30d --yes",
    "headrace jobs delete --finished-before 7d --limit 1000 --yes",
    bounds=(
        click.option(
            "--finished-before",
            metavar="TIME",
            callback=moment_or_age,
            help="Only jobs that finished before: 10m, 2h, 3d or an ISO time (UTC).",
        ),
        click.option("--limit", "-n", type=click.IntRange(1), help="Maximum number; oldest finished first."),
    ),
)


@click.command(
    "fork",
    cls=OutputCommand,
    epilog=example("headrace jobs fork 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f --from-step mail"),
)
@click.argument("job_id", metavar="ID")
@click.option("--from-step", metavar="STEP", help="The step to begin with; the results of those before it are kept.")
def fork(session: Session, job_id: str, from_step: str | None) -> Output:
    """Run a finished job anew from one of its steps, as a new job."""
    app = session.store()
    forked = app.jobs.fork(job_of(app, job_id), from_step=from_step)
    return line({"id": forked.id, "from_step": from_step}, f"job {forked.id} enqueued")


@click.command(
    "update",
    cls=OutputCommand,
    epilog=example("headrace jobs update 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f --priority 50 --delay 10m"),
)
@click.argument("job_id", metavar="ID")
@click.option("--priority", type=int, help="From -100 to 100; higher runs first.")
@click.option("--run-at", callback=moment, metavar="TIME", help="New start time, an ISO time (UTC).")
@click.option("--delay", callback=duration, metavar="TIME", help="New start time from now: seconds or 10m, 2h.")
@click.option("--queue", "-q", help="New queue.")
def update(
    session: Session,
    job_id: str,
    priority: int | None,
    run_at: datetime | None,
    delay: float | None,
    queue: str | None,
) -> Output:
    """Change a job that has not started."""
    if run_at is not None and delay is not None:
        raise click.UsageError("--run-at and --delay exclude each other")
    if delay is not None:
        run_at = datetime.now(UTC) + timedelta(seconds=min(delay, 1e9))
    if priority is None and run_at is None and queue is None:
        raise click.UsageError("give a change: --priority, --run-at, --delay or --queue")
    job = job_of(session.store(), job_id)
    if not job.update(priority=priority, run_at=run_at, queue=queue):
        raise HeadraceError(f"job {job.id} is {job.state}; only a job that has not started can be changed")
    data = {"id": job.id, "priority": job.priority, "run_at": job.run_at, "queue": job.queue}
    return line(data, f"job {job.id} changed")
