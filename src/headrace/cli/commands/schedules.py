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
from headrace.cli.options import as_json_option, duration, example, moment, shared, yes_option
from headrace.cli.output import Column, ago, confirm, one_line, print_facts, print_json, print_table, remark, say, span
from headrace.cli.session import Session, missing_file
from headrace.core.tasks.arguments import by_name, line_of
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


@click.group(
    "schedules",
    invoke_without_command=True,
    epilog=example("headrace schedules", "headrace schedules preview --cron '0 9 * * MON' --tz Europe/Vienna"),
)
@as_json_option
@shared
@click.pass_context
def schedules(ctx: click.Context, as_json: bool) -> None:
    """Show, pause, run, create and delete schedules. Without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_schedules, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)


# -- reading


@schedules.command("list", epilog=example("headrace schedules list --json"))
@as_json_option
@shared
@click.pass_obj
def list_schedules(session: Session, as_json: bool) -> None:
    """List the schedules with their next runs, each in its time zone."""
    app = session.store()
    found = app.schedules.list()
    if as_json:
        print_json([_record(schedule) for schedule in found])
        return
    if found:
        now = datetime.now(UTC)
        print_table(_COLUMNS, [_row(schedule, now) for schedule in found])
    else:
        remark("there are no schedules; declare one with @app.cron or @app.every, or use `headrace schedules create`")
    for name in sorted(set(app.schedules.declared) - {schedule.id for schedule in found}):
        remark(f"note: the code declares {name}; the next worker to start stores it")


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
@as_json_option
@shared
@click.pass_obj
def show(session: Session, schedule_id: str, as_json: bool) -> None:
    """Show everything about one schedule, with its last runs."""
    app = session.store()
    schedule = app.schedules.get(schedule_id)
    runs = app.schedules.history(schedule_id, limit=_RUNS_SHOWN)
    if as_json:
        print_json({**_record(schedule), "runs": [_run_record(run) for run in runs]})
        return
    print_facts(_facts(schedule, app.services.parameter_names(schedule.task)))
    if runs:
        say()
        print_table(_RUN_COLUMNS, [_run_row(run) for run in runs])


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
@as_json_option
@shared
@click.pass_obj
def preview(
    session: Session,
    schedule_id: str | None,
    cron: str | None,
    tz: str | None,
    after: datetime | None,
    n: int,
    as_json: bool,
) -> None:
    """Show the next run times of a schedule or of a cron expression."""
    if (schedule_id is None) == (cron is None):
        raise click.UsageError("give the ID of a schedule, or an expression with --cron")
    app = session.store(may_create=cron is not None)
    timing = {name: value for name, value in (("cron", cron), ("tz", tz)) if value is not None}
    times = _with_usage_errors(lambda: app.schedules.preview(schedule_id, n=n, after=after, **timing))
    if as_json:
        print_json([time.astimezone(UTC) for time in times])
    elif not times:
        remark("no more runs")
    for time in () if as_json else times:
        say(_local(time))


# -- changing


@schedules.command("pause", epilog=example("headrace schedules pause nightly"))
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@as_json_option
@shared
@click.pass_obj
def pause(session: Session, ids: tuple[str, ...], as_json: bool) -> None:
    """Pause schedules. Jobs they have enqueued continue."""
    schedules = session.store().schedules
    known = [schedules.get(name).id for name in ids]  # refuse a wrong id before any change
    paused = [schedules.pause(name) for name in known]
    if as_json:
        print_json([_record(schedule) for schedule in paused])
    for schedule in () if as_json else paused:
        say(f"schedule {schedule.id} is paused")


@schedules.command("resume", epilog=example("headrace schedules resume nightly"))
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@as_json_option
@shared
@click.pass_obj
def resume(session: Session, ids: tuple[str, ...], as_json: bool) -> None:
    """Resume schedules from now on. Runs missed during the pause are not made up."""
    schedules = session.store().schedules
    known = [schedules.get(name).id for name in ids]
    resumed = [schedules.resume(name) for name in known]
    if as_json:
        print_json([_record(schedule) for schedule in resumed])
    for schedule in () if as_json else resumed:
        next_run = "has no run left" if schedule.next_run is None else f"runs next at {_local(schedule.next_run)}"
        say(f"schedule {schedule.id} {next_run}")


@schedules.command("run", epilog=example("headrace schedules run nightly"))
@click.argument("schedule_id", metavar="ID")
@as_json_option
@shared
@click.pass_obj
def run(session: Session, schedule_id: str, as_json: bool) -> None:
    """Enqueue the job of a schedule now and print its id. Its run times do not change."""
    job = session.store().schedules.run_now(schedule_id)
    if as_json:
        print_json(job_view.record(job))
    else:
        say(job.id)


@schedules.command("delete", epilog=example("headrace schedules delete nightly"))
@click.argument("schedule_id", metavar="ID")
@yes_option
@as_json_option
@shared
@click.pass_obj
def delete(session: Session, schedule_id: str, yes: bool, as_json: bool) -> None:
    """Delete a schedule and its history. Jobs it has enqueued stay."""
    app = session.store()
    schedule = app.schedules.get(schedule_id)
    if not yes:
        confirm(f"delete schedule {schedule_id} of task {schedule.task}")
    deleted = app.schedules.delete(schedule_id)
    if as_json:
        print_json({"schedule": schedule_id, "deleted": deleted})
    else:
        say(f"schedule {schedule_id} is deleted")
    if schedule.origin == "code":
        remark("note: the code declares it, so the next worker to start creates it again (pause it instead)")


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
@click.option("--cron", help="Cron expression of 5 or 6 fields, or @daily and the like.")
@click.option("--every", metavar="TIME", callback=duration, help="Interval: seconds or 10m, 2h, 3d.")
@click.option("--at", metavar="TIME", callback=moment, help="Once, at an ISO time (UTC).")
@click.option("--tz", metavar="ZONE", help="Time zone, such as Europe/Vienna; default UTC.")
@click.option("--start", metavar="TIME", callback=moment, help="Not before this ISO time (UTC).")
@click.option("--end", metavar="TIME", callback=moment, help="Not after this ISO time (UTC).")
@click.option("--limit", type=int, help="Maximum number of runs.")
@click.option("--jitter", metavar="TIME", callback=duration, help="Random delay of each run, up to this long.")
@click.option(
    "--catch-up", type=click.Choice(["none", "latest", "limited", "all"]), help="Which missed runs to make up."
)
@click.option("--overlap", type=click.Choice(["allow", "skip", "queue"]), help="When the previous job is unfinished.")
@click.option("--immediate", is_flag=True, default=None, help="Also enqueue its job once, now.")
@click.option("--queue", "-q", help="Queue; overrides the task's.")
@click.option("--priority", type=int, help="From -100 to 100; higher runs first.")
@as_json_option
@shared
@click.pass_obj
def create(
    session: Session, /, schedule_id: str, task: str, args: Any, kwargs: Any, as_json: bool, **options: Any
) -> None:
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
    if as_json:
        print_json(_record(created))
    else:
        say(f"schedule {created.id} runs next at {_local(created.next_run)}")


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
