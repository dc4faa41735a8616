"""`headrace schedules`: lists, shows, previews, pauses, runs, creates and deletes schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import msgspec

from headrace.app.schedules.records import Schedule, ScheduleRun
from headrace.cli import job_view
from headrace.cli.job_arguments import call_arguments, json_argument, warn_if_unknown
from headrace.cli.options import example, field_options, moment, yes_option
from headrace.cli.output import Column, ago, confirm, one_line, print_facts, print_table, remark, say, span
from headrace.cli.resource import Output, Resource, line, lines, table
from headrace.cli.session import Session, missing_file
from headrace.core.schedules.timing_fields import TIMING
from headrace.core.tasks.arguments import by_name, line_of
from headrace.core.tasks.option_fields import JOB_OPTIONS
from headrace.errors import InvalidSchedule

T = TypeVar("T")

_RUNS_SHOWN = 10
_COLUMNS = (
    Column("ID", min_width=12),
    Column("STATE"),
    Column("RUNS", min_width=12),
    Column("NEXT"),
    Column("DUE", right=True),
    Column("LAST", right=True),
    Column("FIRED", right=True),
    Column("TASK", min_width=8),
    Column("FROM"),
)
_RUN_COLUMNS = (Column("TIME"), Column("STATUS"), Column("JOB", min_width=12), Column("DETAIL", min_width=12))


schedules = Resource(
    "schedules",
    "Show, pause, run, create and delete schedules. Without a command: list them.",
    "headrace schedules",
    "headrace schedules preview --cron '0 9 * * MON' --tz Europe/Vienna",
)


# -- reading


@schedules.command("list", epilog=example("headrace schedules list --json"))
def list_schedules(session: Session) -> Output:
    """List the schedules with their next runs, each in its time zone."""
    app = session.store()
    found = app.schedules.list()
    now = datetime.now(UTC)
    new = sorted(set(app.schedules.declared) - {schedule.id for schedule in found})
    return table(
        [_record(schedule) for schedule in found],
        _COLUMNS,
        (_row(schedule, now) for schedule in found),
        "there are no schedules; declare one with @app.cron or @app.every, or use `headrace schedules create`",
        (f"note: the code declares {name}; the next worker to start stores it" for name in new),
    )


def _row(schedule: Schedule, now: datetime) -> list[str]:
    return [
        schedule.id,
        _state(schedule),
        _timing(schedule),
        _local(schedule.next_run),
        ago(schedule.next_run, now),
        ago(schedule.last_run, now),
        str(schedule.fired),
        schedule.task,
        schedule.origin,
    ]


def _state(schedule: Schedule) -> str:
    if schedule.paused:
        return "paused"
    return "failed" if schedule.error else "over" if schedule.is_over else "active"


def _timing(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"every {span(schedule.every.total_seconds())}"
    return schedule.cron if schedule.cron is not None else "once"


def _local(moment: datetime | None) -> str:
    """A time in its own zone: `2026-03-02 09:00:00 EST`."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S %Z}"


@schedules.command("show", epilog=example("headrace schedules show nightly"))
@click.argument("schedule_id", metavar="ID")
def show_schedule(session: Session, schedule_id: str) -> Output:
    """Show everything about one schedule, with its last runs."""
    app = session.store()
    schedule = app.schedules.get(schedule_id)
    runs = app.schedules.history(schedule_id, limit=_RUNS_SHOWN)

    def show() -> None:
        print_facts(_facts(schedule, app.services.parameter_names(schedule.task)))
        if runs:
            say()
            print_table(_RUN_COLUMNS, map(_run_row, runs))

    return Output({**_record(schedule), "runs": [_run_record(run) for run in runs]}, show)


def _facts(schedule: Schedule, names: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    now = datetime.now(UTC)
    yield "id", schedule.id
    yield "state", _state(schedule)
    yield "runs", f"{_timing(schedule)} ({schedule.tz})"
    yield "next run", _moment(schedule.next_run, now)
    yield "last run", _moment(schedule.last_run, now)
    yield "last job", schedule.last_job or "-"
    yield "fired", str(schedule.fired) + (f" of {schedule.limit}" if schedule.limit is not None else "")
    yield "task", f"{schedule.task} in queue {schedule.queue}"
    yield "arguments", one_line(line_of(by_name(names, schedule.args, schedule.kwargs))) or "none"
    for name in ("start", "end"):
        if (limit := getattr(schedule, name)) is not None:
            yield name, _local(limit)
    if schedule.jitter:
        yield "jitter", span(schedule.jitter.total_seconds())
    yield "clocks change", f"gap: {schedule.dst_gap}, overlap: {schedule.dst_overlap}"
    yield "missed runs", f"catch up: {schedule.catch_up}"
    yield "overlapping runs", schedule.overlap
    yield "made by", f"{schedule.origin}, {_local(schedule.created_at)}"
    if schedule.error:
        yield "error", schedule.error


def _moment(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "-"
    distance = ago(moment, now)
    return f"{_local(moment)} ({distance if distance.startswith('in ') else f'{distance} ago'})"


def _run_row(run: ScheduleRun) -> list[str]:
    more = f"{run.skipped} runs since then: " if run.skipped > 1 else ""
    return [_local(run.at), run.status, run.job_id or "-", more + (run.detail or "")]


@schedules.command(
    "preview",
    epilog=example("headrace schedules preview nightly -n 3", "headrace schedules preview --cron '0 2 * * *'"),
)
@click.argument("schedule_id", metavar="[ID]", required=False)
@click.option("--cron", help="A cron expression of 5 or 6 fields, or @daily and the like, instead of a schedule.")
@click.option("--tz", metavar="ZONE", help="Time zone of the expression, such as Europe/Vienna; default UTC.")
@click.option("--after", metavar="TIME", callback=moment, help="Start after this ISO time (UTC) instead of now.")
@click.option("-n", "--limit", "n", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
def preview(
    session: Session, schedule_id: str | None, cron: str | None, tz: str | None, after: datetime | None, n: int
) -> Output:
    """Show the next run times of a schedule or of a cron expression."""
    if (schedule_id is None) == (cron is None):
        raise click.UsageError("give the ID of a schedule, or an expression with --cron")
    app = session.store(may_create=cron is not None)
    timing = {name: value for name, value in (("cron", cron), ("tz", tz)) if value is not None}
    times = _with_usage_errors(lambda: app.schedules.preview(schedule_id, n=n, after=after, **timing))
    return lines([time.astimezone(UTC) for time in times], map(_local, times), "no more runs")


# -- changing


@schedules.command("pause", epilog=example("headrace schedules pause nightly"))
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def pause(session: Session, ids: tuple[str, ...]) -> Output:
    """Pause schedules. Jobs they have enqueued continue."""
    schedules = session.store().schedules
    known = [schedules.get(name).id for name in ids]  # refuse a wrong id before any change
    paused = [schedules.pause(name) for name in known]
    return lines([_record(schedule) for schedule in paused], (f"schedule {one.id} is paused" for one in paused))


@schedules.command("resume", epilog=example("headrace schedules resume nightly"))
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def resume(session: Session, ids: tuple[str, ...]) -> Output:
    """Resume schedules from now on. Runs missed during the pause are not made up."""
    schedules = session.store().schedules
    known = [schedules.get(name).id for name in ids]
    resumed = [schedules.resume(name) for name in known]
    return lines([_record(schedule) for schedule in resumed], map(_next_run, resumed))


def _next_run(schedule: Schedule) -> str:
    text = "has no run left" if schedule.next_run is None else f"runs next at {_local(schedule.next_run)}"
    return f"schedule {schedule.id} {text}"


@schedules.command("run", epilog=example("headrace schedules run nightly"))
@click.argument("schedule_id", metavar="ID")
def run(session: Session, schedule_id: str) -> Output:
    """Enqueue the job of a schedule now and print its id. Its run times do not change."""
    job = session.store().schedules.run_now(schedule_id)
    return line(job_view.record(job), job.id)


@schedules.command("delete", epilog=example("headrace schedules delete nightly"))
@click.argument("schedule_id", metavar="ID")
@yes_option
def delete(session: Session, schedule_id: str, yes: bool) -> Output:
    """Delete a schedule and its history. Jobs it has enqueued stay."""
    app = session.store()
    schedule = app.schedules.get(schedule_id)
    if not yes:
        confirm(f"delete schedule {schedule_id} of task {schedule.task}")
    deleted = app.schedules.delete(schedule_id)
    if schedule.origin == "code":
        remark("note: the code declares it, so the next worker to start creates it again (pause it instead)")
    return line({"schedule": schedule_id, "deleted": deleted}, f"schedule {schedule_id} is deleted")


@schedules.command(
    "create",
    epilog=example(
        "headrace schedules create nightly report --cron '0 2 * * *' --tz Europe/Vienna --overlap skip",
        "headrace schedules create pulse ping '[\"db\"]' --every 30s",
    ),
)
@click.argument("schedule_id", metavar="ID")
@click.argument("task")
@click.argument("args", required=False, callback=json_argument)
@click.argument("kwargs", required=False, callback=json_argument)
@field_options(TIMING.values())
@click.option("--immediate", is_flag=True, default=None, help="Also enqueue its job once, now.")
@click.option("--queue", "-q", help="Queue; overrides the task's.")
@field_options([JOB_OPTIONS["priority"]])
def create(session: Session, /, schedule_id: str, task: str, args: Any, kwargs: Any, **options: Any) -> Output:
    """Create a schedule with --cron, --every or --at. Arguments are JSON, as for `headrace enqueue`."""
    positional, named = call_arguments(args, kwargs)
    app = session.store(may_create=True, with_tasks=True)
    warn_if_unknown(app, session.app_name, task)
    new_file = missing_file(app)
    given = {name: value for name, value in options.items() if value is not None}
    created = _with_usage_errors(
        lambda: app.schedules.create(schedule_id, task, args=positional, kwargs=named, **given)
    )
    if new_file:
        remark(f"note: this created a new store at {new_file}")
    return line(_record(created), _next_run(created))


def _with_usage_errors(call: Callable[[], T]) -> T:
    """Turn an invalid schedule into a usage error."""
    try:
        return call()
    except InvalidSchedule as error:
        raise click.UsageError(str(error)) from None


# -- JSON


def _record(schedule: Schedule) -> dict[str, Any]:
    """The JSON record: times in UTC, durations in seconds."""
    record = {name: _plain(value) for name, value in msgspec.structs.asdict(schedule).items()}
    return {**record, "state": _state(schedule)}


def _run_record(run: ScheduleRun) -> dict[str, Any]:
    return {name: _plain(value) for name, value in msgspec.structs.asdict(run).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value.total_seconds() if hasattr(value, "total_seconds") else value
