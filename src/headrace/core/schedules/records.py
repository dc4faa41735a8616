"""The records of schedules for the engine protocol. They hold values; `schedule` has the rules."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from headrace.core.jobs.records import NewJob

Origin = Literal["code", "api"]
Status = Literal["enqueued", "skipped", "error"]


class ScheduleRow(Struct, frozen=True, array_like=True):
    """A schedule as stored. Every change names the expected version and increments it.

    `occurrence` is the next time it fires, by its timing; `due_at` is when that is checked, which may be later by some
    jitter, and None while the schedule is paused or will never fire again. `timing` is a Timing and `call` a NewJob,
    both in JSON: each job is made from `call`. `declared` is the last declaration in code, which distinguishes a
    changed declaration from an operator's change.
    """

    id: str
    version: int
    task: str
    queue: str
    paused: bool
    occurrence: int | None
    due_at: int | None
    fired: int
    last_fired: int | None
    last_job: str | None
    created_at: int
    updated_at: int
    origin: Origin
    timing: str
    call: str
    declared: str | None = None
    error: str | None = None


def damaged(schedule_id: str, stored: str) -> ScheduleRow:
    """A placeholder for a schedule that no longer decodes: it can be listed and deleted, and never fires."""
    times: dict[str, None] = dict.fromkeys(("occurrence", "due_at", "last_fired", "last_job"))
    text = "its record can't be read: delete it, and create it again"
    return ScheduleRow(
        id=schedule_id,
        version=1,
        task="",
        queue="",
        paused=False,
        fired=0,
        created_at=0,
        updated_at=0,
        origin="api",
        timing=stored,
        call="",
        error=text,
        **times,
    )


class Occurrence(Struct, frozen=True, array_like=True):
    """The result of one occurrence of a schedule, or of several that were skipped together (`skipped` of them).

    Each schedule keeps its newest 1000.
    """

    schedule: str
    at: int
    recorded_at: int
    status: Status
    job_id: str | None = None
    detail: str | None = None
    skipped: int = 0


class DueSchedules(NamedTuple):
    """Schedules that are due, and when the first of all schedules is; None if none ever is."""

    rows: list[ScheduleRow]
    next_at: int | None


class ScheduleFire(Struct, frozen=True):
    """The new row of a schedule, with the version it expects, and the jobs and occurrences of the same commit.

    A job whose id is taken is not stored again. A full queue raises QueueFull.
    """

    row: ScheduleRow
    jobs: tuple[NewJob, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()
