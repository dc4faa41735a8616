"""Schedules: create, list, change, pause and run them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field, structs

from headrace.app.jobs.records import JobRecord, lowered, record_of
from headrace.app.parts import declared_task
from headrace.app.schedules.records import Schedule, ScheduleRun
from headrace.core.schedules.records import Origin
from headrace.core.schedules.timing_fields import Interval, TimingFields
from headrace.core.tasks.option_fields import JobPriority, JobTimeout, Metadata, Queue, Tags, TaskName
from headrace.runtime.jobs.task import Call
from headrace.web.api.resources.new_job import NewRetry, options_of
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Limit, decoded, given_fields
from headrace.web.api.values import RetryLimit
from headrace.web.problems import Refused
from headrace.web.security.middleware import RequestContext

table = Table("schedules", "Schedules, which enqueue jobs at their times.")
_NEW = {"id": "nightly", "task": "reports.build", "cron": "0 2 * * *", "tz": "Europe/Vienna"}


class ScheduleRecord(Struct, frozen=True, kw_only=True):
    """A schedule. Durations are seconds; `next_run` is null while it is paused and when it will not fire again."""

    id: str
    task: str
    queue: str
    priority: int
    args: list[Any]
    kwargs: dict[str, Any]
    cron: str | None
    every: float | None
    at: datetime | None
    tz: str
    start: datetime | None
    end: datetime | None
    limit: int | None
    jitter: float
    dst_gap: str
    dst_overlap: str
    catch_up: str
    catch_up_limit: int
    catch_up_window: float
    overlap: str
    paused: bool
    next_run: datetime | None
    last_run: datetime | None
    last_job: str | None
    fired: int
    origin: Origin
    created_at: datetime
    updated_at: datetime
    error: str | None


class ScheduleChange(TimingFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change; a timing has exactly one of cron, every (seconds) and at."""

    task: TaskName | UnsetType = UNSET
    args: list[Any] | UnsetType = UNSET
    kwargs: dict[str, Any] | UnsetType = UNSET
    queue: Queue = UNSET
    priority: JobPriority = UNSET


class NewSchedule(TimingFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new schedule: a call, a timing with exactly one of cron, every (seconds) and at, and options of its jobs."""

    id: TaskName
    task: TaskName
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    immediate: bool | UnsetType = UNSET
    queue: Queue = UNSET
    priority: JobPriority = UNSET
    timeout: JobTimeout = UNSET
    tags: Tags = UNSET
    metadata: Metadata = UNSET
    retry: RetryLimit | NewRetry | UnsetType = UNSET


class ScheduleQuery(Struct, frozen=True):
    """Filters."""

    task: str | None = None
    paused: bool | None = None


class PreviewQuery(Struct, frozen=True, kw_only=True):
    """The number of run times, and the start."""

    n: Limit = 5
    after: datetime | None = None


class TimingPreviewQuery(Struct, frozen=True, kw_only=True):
    """A timing to preview: the number of run times, and the start."""

    cron: str | None = None
    every: Interval | None = None
    tz: str | None = None
    n: Limit = 5
    after: datetime | None = None


class RunsQuery(Struct, frozen=True):
    """The number of runs to return."""

    limit: Limit = 100


@table.get("/schedules")
def find(context: RequestContext, query: ScheduleQuery) -> list[ScheduleRecord]:
    """List the schedules by id; filter by task or by paused."""
    return [_record(schedule) for schedule in context.app.schedules.list(task=query.task, paused=query.paused)]


@table.post("/schedules", status=201, example=_NEW)
def create(context: RequestContext, body: NewSchedule) -> ScheduleRecord:
    """Create a schedule."""
    _refuse_duplicate(context, body.id)
    options = options_of(body)
    options.pop("id")
    created = context.app.schedules.create(
        body.id, body.task, args=decoded(body.args), kwargs=decoded(body.kwargs), **options
    )
    return _record(created)


@table.get("/schedule-preview")
def preview_of(context: RequestContext, query: TimingPreviewQuery) -> list[datetime]:
    """Return the next run times of a timing, to test an expression."""
    fields = {name: value for name, value in given_fields(query, exclude=("n", "after")).items() if value is not None}
    return context.app.schedules.preview(n=query.n, after=query.after, **fields)


@table.get("/schedules/{schedule_id}/preview")
def preview(context: RequestContext, schedule_id: str, query: PreviewQuery) -> list[datetime]:
    """Return the next run times of a schedule."""
    _find(context, schedule_id)
    return context.app.schedules.preview(schedule_id, n=query.n, after=query.after)


@table.get("/schedules/{schedule_id}/history")
def history(context: RequestContext, schedule_id: str, query: RunsQuery) -> list[ScheduleRun]:
    """Return the last runs of a schedule, newest first."""
    _find(context, schedule_id)
    return context.app.schedules.history(schedule_id, limit=query.limit)


@table.post("/schedules/{schedule_id}/pause")
def pause(context: RequestContext, schedule_id: str) -> ScheduleRecord:
    """Pause a schedule."""
    _find(context, schedule_id)
    return _record(context.app.schedules.pause(schedule_id))


@table.post("/schedules/{schedule_id}/resume")
def resume(context: RequestContext, schedule_id: str) -> ScheduleRecord:
    """Resume a schedule. Runs missed during the pause are not made up."""
    _find(context, schedule_id)
    return _record(context.app.schedules.resume(schedule_id))


@table.post("/schedules/{schedule_id}/run-now", status=201)
def run_now(context: RequestContext, schedule_id: str) -> JobRecord:
    """Enqueue the job of a schedule now, paused or not."""
    _find(context, schedule_id)
    return record_of(context.app.schedules.run_now(schedule_id))


@table.get("/schedules/{schedule_id}")
def get(context: RequestContext, schedule_id: str) -> ScheduleRecord:
    """Return one schedule."""
    return _record(_find(context, schedule_id))


@table.patch("/schedules/{schedule_id}", example={"cron": "30 2 * * *"})
def update(context: RequestContext, schedule_id: str, body: ScheduleChange) -> ScheduleRecord:
    """Change the timing, the call, the queue or the priority of a schedule."""
    _find(context, schedule_id)
    changes = {**given_fields(body, exclude=("task", "args", "kwargs")), **_arguments(body)}
    return _record(context.app.schedules.update(schedule_id, call=_call(context, body), **changes))


@table.delete("/schedules/{schedule_id}")
def delete(context: RequestContext, schedule_id: str) -> None:
    """Delete a schedule and its history. The next worker creates a schedule declared in code again."""
    _find(context, schedule_id)
    context.app.schedules.delete(schedule_id)


def _arguments(body: ScheduleChange) -> dict[str, Any]:
    """The changed call: new arguments, or another task with its arguments."""
    if body.task is not UNSET:
        return {}
    return {name: decoded(value) for name, value in given_fields(body).items() if name in ("args", "kwargs")}


def _call(context: RequestContext, body: ScheduleChange) -> Call[Any] | None:
    if body.task is UNSET:
        return None
    args, kwargs = (decoded(body.args) if body.args else []), (decoded(body.kwargs) if body.kwargs else {})
    return declared_task(context.app, body.task).bind(*args, **kwargs)


def _find(context: RequestContext, schedule_id: str) -> Schedule:
    return context.app.schedules.get(schedule_id)


def _refuse_duplicate(context: RequestContext, schedule_id: str) -> None:
    if any(schedule.id == schedule_id for schedule in context.app.schedules.list()):
        raise Refused(409, "duplicate-schedule", f"schedule {schedule_id!r} exists already")


def _record(schedule: Schedule) -> ScheduleRecord:
    fields = structs.asdict(schedule)
    fields |= {"args": lowered(schedule.args), "kwargs": lowered(schedule.kwargs)}
    for name in ("every", "jitter", "catch_up_window"):
        fields[name] = None if fields[name] is None else fields[name].total_seconds()
    return ScheduleRecord(**fields)
