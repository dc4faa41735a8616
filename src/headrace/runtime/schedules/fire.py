"""Fires due schedules: makes their jobs. Any worker may fire at any time; the version decides which one did.

This module decides what a schedule's job looks like and what happens to an occurrence that can't run. `scheduler`
decides when to look; `core.schedules.schedule` which times are due.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import structs

from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.damaged_records import DAMAGE
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.core.schedules.records import Occurrence, ScheduleFire, ScheduleRow
from headrace.core.schedules.schedule import GRACE, Due, Timing, due, due_at, occurrence_id
from headrace.core.tasks.trace_context import decoded
from headrace.core.text import why
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable

log = logging.getLogger("headrace.schedules")

BATCH = 100
_RETRY_MS = 60_000  # ms until a failed schedule is tried again
_RECHECK_MS = 1_000  # ms until a schedule that waits for its last job checks again

_timing = msgspec.json.Decoder(Timing)
_call = msgspec.json.Decoder(NewJob)


class Fired(NamedTuple):
    """How many schedules were due, and how many of these were not fired by another worker first."""

    seen: int
    won: int


def timing_of(row: ScheduleRow) -> Timing:
    return _timing.decode(row.timing)


def call_of(row: ScheduleRow) -> NewJob:
    return _call.decode(row.call)


def fire_due(engine: Engine, limit: int = BATCH) -> Fired:
    """Fire at most `limit` schedules that are due by the store's clock."""
    now = engine.clock.now()
    # In order of id, so that two workers that fire the same schedules can't deadlock.
    rows = sorted(engine.schedule_store.due(limit, now).rows, key=lambda row: row.id)
    if not rows:
        return Fired(0, 0)
    busy = _unfinished(engine, rows)
    firings = [_firing(row, now, row.last_job in busy) for row in rows]
    won = _commit(engine, rows, firings, now)
    for row, firing, applied in zip(rows, firings, won, strict=True):
        if applied and firing.jobs and timing_of(row).at is not None:
            # Its only run is over, unless an operator gave it a new time just now.
            engine.schedule_store.delete(row.id, row.version + 1)
    return Fired(len(rows), sum(won))


def job_for(row: ScheduleRow, occurrence: int, now: int, job_id: str | None = None) -> NewJob:
    """The job of one occurrence. The call's times are relative to the moment of firing."""
    call = call_of(row)
    run_at = now + call.run_at - call.created_at
    return structs.replace(
        call,
        id=job_id or occurrence_id(row.id, occurrence),
        state=State.SCHEDULED if run_at > now else State.PENDING,
        rank=-run_at if call.rank < 0 else run_at,
        created_at=now,
        run_at=run_at,
        expires_at=None if call.expires_at is None else now + call.expires_at - call.created_at,
        metadata=_metadata(call, row.id, occurrence),
        version=now,  # a deleted schedule of this name may have used the id before
    )


def _metadata(call: NewJob, schedule_id: str, occurrence: int) -> str:
    moment = to_datetime(occurrence)
    assert moment is not None
    return codec.encode({**decoded(call.metadata), "schedule_id": schedule_id, "scheduled_for": moment.isoformat()})


# -- one due schedule


def _firing(row: ScheduleRow, now: int, busy: bool) -> ScheduleFire:
    try:
        return _planned(row, timing_of(row), now, busy)
    except Exception as error:  # an error of one schedule must not block the others
        return _failed(row, error, now)


def _planned(row: ScheduleRow, timing: Timing, now: int, busy: bool) -> ScheduleFire:
    if row.occurrence is None:
        return ScheduleFire(structs.replace(row, due_at=None))
    if busy and timing.overlap == "queue":
        return ScheduleFire(structs.replace(row, due_at=now + _RECHECK_MS))
    found = due(
        _uncounted(_without_misses(timing, row, now), row), row.id, row.occurrence, now, row.fired, row.created_at
    )
    fire = found.fire if timing.overlap == "allow" else found.fire[-1:] if not busy else []
    crowded = [one for one in found.fire if one not in fire]
    jobs = tuple(job_for(row, occurrence, now) for occurrence in fire)
    used_up = timing.limit is not None and row.fired + len(jobs) >= timing.limit
    following = None if used_up else found.next_occurrence
    after = structs.replace(
        row,
        occurrence=following,
        due_at=None if following is None else due_at(timing, row.id, following),
        fired=row.fired + len(jobs),
        last_fired=now if jobs else row.last_fired,
        last_job=jobs[-1].id if jobs else row.last_job,
        error=None,
    )
    enqueued = [Occurrence(row.id, at, now, "enqueued", job.id) for at, job in zip(fire, jobs, strict=True)]
    occurrences = [*_missed(row, timing, found, now), *_crowded_out(row, crowded, busy, now), *enqueued]
    return ScheduleFire(after, jobs, tuple(sorted(occurrences, key=lambda one: one.at)))


def _without_misses(timing: Timing, row: ScheduleRow, now: int) -> Timing:
    """An occurrence that waited for the job before it was not missed, however late it is."""
    waited = timing.overlap == "queue" and timing.catch_up == "none" and now - (row.due_at or 0) <= GRACE
    return structs.replace(timing, catch_up="latest") if waited else timing


def _uncounted(timing: Timing, row: ScheduleRow) -> Timing:
    """The timing without its limit if runs may replace each other: only fired ones count for the limit."""
    counts = timing.overlap == "allow" or timing.limit is None or row.fired >= timing.limit
    return timing if counts else structs.replace(timing, limit=None)


def _missed(row: ScheduleRow, timing: Timing, found: Due, now: int) -> list[Occurrence]:
    detail = f"missed, and not caught up because of catch_up={timing.catch_up!r}"
    occurrences = [Occurrence(row.id, at, now, "skipped", None, detail) for at in found.skip]
    if found.skipped_more and row.occurrence is not None:
        more = Occurrence(row.id, row.occurrence, now, "skipped", None, detail, found.skipped_more)
        return [more, *occurrences]
    return occurrences


def _crowded_out(row: ScheduleRow, crowded: Sequence[int], busy: bool, now: int) -> list[Occurrence]:
    detail = f"job {row.last_job} is not finished" if busy else "a newer run was due at the same time"
    return [Occurrence(row.id, at, now, "skipped", row.last_job if busy else None, detail) for at in crowded]


def _failed(row: ScheduleRow, error: Exception, now: int) -> ScheduleFire:
    """The occurrence stays due; after the schedule is fixed, nothing else has to be done."""
    message = why(error)
    log.error("schedule %s can't fire: %s; trying again in a minute", row.id, message)
    occurrence = Occurrence(row.id, row.occurrence or now, now, "error", None, message)
    return ScheduleFire(structs.replace(row, due_at=now + _RETRY_MS, error=message), (), (occurrence,))


# -- the store


def _unfinished(engine: Engine, rows: Sequence[ScheduleRow]) -> set[str]:
    """The last jobs of these schedules that have not finished, where that matters."""
    candidates = {row.last_job for row in rows if row.last_job is not None and _checks_overlap(row)}
    return candidates - engine.queries.finished(candidates) if candidates else set()


def _checks_overlap(row: ScheduleRow) -> bool:
    try:
        return timing_of(row).overlap != "allow"
    except DAMAGE:
        return False


def _commit(engine: Engine, rows: Sequence[ScheduleRow], firings: Sequence[ScheduleFire], now: int) -> list[bool]:
    """All in one commit or, if the store refuses one of them (its queue may be full), one by one."""
    try:
        return engine.schedule_store.fire(firings, now)
    except EngineUnavailable:
        raise
    except Exception as error:
        if len(rows) == 1:
            return engine.schedule_store.fire([_failed(rows[0], error, now)], now)
    return [_commit(engine, [row], [firing], now)[0] for row, firing in zip(rows, firings, strict=True)]
