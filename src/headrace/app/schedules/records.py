"""Schedules as users see them, and the conversion of a timing and a call to a stored row and back.

`core.schedules.schedule` decides when a schedule fires; `app.schedules` changes stored rows.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct, structs

from headrace.core.clock import to_datetime
from headrace.core.damaged_records import DAMAGE
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.core.schedules.records import Occurrence, Origin, ScheduleRow, Status
from headrace.core.schedules.schedule import Timing, due_at, next_after
from headrace.core.schedules.zones import zone
from headrace.core.text import why
from headrace.errors import HeadraceError, InvalidSchedule
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import JobServices
from headrace.runtime.schedules.fire import call_of, timing_of

_TIME_FIELDS = ("cron", "every", "at", "tz", "start", "end", "dst_gap", "dst_overlap")


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule as of its reading. Times are in its own zone.

    `next_run` is None while it is paused, and when it will not fire again. `args` and `kwargs` are redacted by
    the task's `redact`. `error` is the reason why it could not fire the last time.
    """

    id: str
    task: str
    queue: str
    priority: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    cron: str | None
    every: timedelta | None
    at: datetime | None
    tz: str
    start: datetime | None
    end: datetime | None
    limit: int | None
    jitter: timedelta
    dst_gap: str
    dst_overlap: str
    catch_up: str
    catch_up_limit: int
    catch_up_window: timedelta
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

    @property
    def is_over(self) -> bool:
        """Whether it will never fire again: its end, its limit or its only time has passed."""
        return not self.paused and self.next_run is None


class ScheduleRun(Struct, frozen=True, kw_only=True):
    """The result of one occurrence of a schedule: enqueued, skipped or error.

    `skipped` is more than one if several older occurrences were skipped together.
    """

    at: datetime
    recorded_at: datetime
    status: Status
    job_id: str | None
    detail: str | None
    skipped: int


# -- for users


def as_schedule(row: ScheduleRow, services: JobServices) -> Schedule:
    """The schedule for users. A damaged row is shown with its damage as the error."""
    timing, failure = Timing(), row.error
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    priority = 0
    try:
        timing, template = timing_of(row), call_of(row)
        priority = template.priority
        args, kwargs = Job[Any](services, template).redacted_call()
    except (*DAMAGE, HeadraceError) as error:
        failure = why(error)
    known = {**structs.asdict(timing), **_times(timing)}
    return Schedule(
        id=row.id,
        task=row.task,
        queue=row.queue,
        priority=priority,
        args=args,
        kwargs=kwargs,
        paused=row.paused,
        next_run=None if row.due_at is None else in_zone(row.occurrence, timing.tz),
        last_run=in_zone(row.last_fired, timing.tz),
        last_job=row.last_job,
        fired=row.fired,
        origin=row.origin,
        created_at=local(row.created_at, timing.tz),
        updated_at=local(row.updated_at, timing.tz),
        error=failure,
        **known,
    )


def as_given(timing: Timing) -> dict[str, Any]:
    """The arguments of `timing()` that make this timing, without those that are None."""
    fields = {**structs.asdict(timing), **_times(timing)}
    return {name: value for name, value in fields.items() if value is not None}


def as_run(occurrence: Occurrence, tz: str) -> ScheduleRun:
    return ScheduleRun(
        at=local(occurrence.at, tz),
        recorded_at=local(occurrence.recorded_at, tz),
        status=occurrence.status,
        job_id=occurrence.job_id,
        detail=occurrence.detail,
        skipped=occurrence.skipped or int(occurrence.status == "skipped"),
    )


def _times(timing: Timing) -> dict[str, Any]:
    return {
        "every": None if timing.every is None else timedelta(milliseconds=timing.every),
        "jitter": timedelta(milliseconds=timing.jitter),
        "catch_up_window": timedelta(milliseconds=timing.catch_up_window),
        **{name: in_zone(getattr(timing, name), timing.tz) for name in ("at", "start", "end")},
    }


def in_zone(ms: int | None, tz: str) -> datetime | None:
    return None if ms is None else local(ms, tz)


def local(ms: int, tz: str) -> datetime:
    """The time in this zone; in UTC if this system does not know the zone."""
    moment = to_datetime(ms)
    assert moment is not None
    try:
        return moment.astimezone(zone(tz))
    except InvalidSchedule:
        return moment


# -- for the store


def as_template(draft: NewJob) -> NewJob:
    """The job without the fields that differ between runs; its times are relative to the firing."""
    return structs.replace(
        draft,
        id="",
        state=State.PENDING,
        rank=-1 if draft.rank < 0 else 0,
        created_at=0,
        run_at=draft.run_at - draft.created_at,
        expires_at=None if draft.expires_at is None else draft.expires_at - draft.created_at,
        version=1,
    )


def new_row(
    schedule_id: str, timing: Timing, template: NewJob, origin: Origin, now: int, declared: str | None = None
) -> ScheduleRow:
    """A schedule that begins now."""
    blank = ScheduleRow(
        schedule_id,
        now,  # its first version: a schedule that is created again must not have a version of its predecessor
        "",
        "",
        False,
        None,
        None,
        0,
        None,
        None,
        now,
        now,
        origin,
        timing="",
        call="",
        declared=declared,
    )
    return rescheduled(called(blank, template), timing, now)


def called(row: ScheduleRow, template: NewJob) -> ScheduleRow:
    """The schedule with this job template."""
    return structs.replace(row, task=template.task, queue=template.queue, call=msgspec.json.encode(template).decode())


def retimed(row: ScheduleRow, timing: Timing, now: int) -> ScheduleRow:
    """The schedule with another timing. The next run is computed again if the times differ, or if it had none."""
    if row.occurrence is None or _stored_times(row) != _times_of(timing):
        return rescheduled(row, timing, now)
    used_up = timing.limit is not None and row.fired >= timing.limit
    return _with_next(row, timing, None if used_up else row.occurrence)


def rescheduled(row: ScheduleRow, timing: Timing, now: int) -> ScheduleRow:
    """The schedule with its next run after now; missed runs are dropped."""
    used_up = timing.limit is not None and row.fired >= timing.limit
    return _with_next(row, timing, None if used_up else next_after(timing, now, row.created_at))


def _with_next(row: ScheduleRow, timing: Timing, occurrence: int | None) -> ScheduleRow:
    never = row.paused or occurrence is None
    return structs.replace(
        row,
        timing=msgspec.json.encode(timing).decode(),
        occurrence=occurrence,
        due_at=None if never or occurrence is None else due_at(timing, row.id, occurrence),
        error=None,
    )


def _stored_times(row: ScheduleRow) -> tuple[Any, ...] | None:
    try:
        return _times_of(timing_of(row))
    except DAMAGE:
        return None


def _times_of(timing: Timing) -> tuple[Any, ...]:
    return tuple(getattr(timing, name) for name in _TIME_FIELDS)


def digest(timing: Timing, template: NewJob) -> str:
    """A hash that changes with the declaration. Unset fields do not count, so that a headrace with more fields still
    recognizes it."""
    used = {name: value for name, value in structs.asdict(template).items() if value is not None}
    text = msgspec.json.encode([timing, used], order="sorted")
    return hashlib.blake2b(text, digest_size=16).hexdigest()
