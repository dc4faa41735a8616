"""Findings about schedules: those that can't fire, and those whose jobs no worker would run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from headrace.app.app import Headrace
from headrace.app.schedules.records import Schedule
from headrace.app.workers import WorkerInfo
from headrace.core.clock import to_datetime
from headrace.core.health.findings import Finding
from headrace.core.retention.staleness import format_duration

_OVERDUE = 60.0  # seconds; a worker is late by milliseconds


def findings(app: Headrace, alive: Sequence[WorkerInfo]) -> Iterator[Finding]:
    """Faults, and notes about paused, finished and undeclared schedules."""
    now = to_datetime(app.clock.now())
    assert now is not None
    for schedule in app.schedules.list():
        yield from _faults(schedule, alive, now)
        yield from _notes(schedule, app)


def _faults(schedule: Schedule, alive: Sequence[WorkerInfo], now: datetime) -> Iterator[Finding]:
    name = f"schedule {schedule.id!r}"
    if schedule.error:
        yield Finding(
            code="schedule_broken",
            sentence=f"{name} could not fire: {schedule.error}",
            advice="correct it with app.schedules.update(), or delete it",
        )
    if schedule.next_run is None:
        return
    if alive and not any(schedule.task in worker.tasks for worker in alive) and "." not in schedule.task:
        yield Finding(
            code="schedule_unknown_task",
            sentence=f"{name}: no live worker knows its task {schedule.task!r}",
            advice="deploy a worker that registers it",
        )
    late = (now - schedule.next_run - schedule.jitter).total_seconds()
    # A schedule that waits for its previous job may be late.
    if late > _OVERDUE and not schedule.error and schedule.overlap != "queue":
        due = f"{name} was due {format_duration(round((now - schedule.next_run).total_seconds()) * 1000)} ago"
        yield Finding(
            code="schedule_overdue",
            sentence=f"{due} and {'no worker fires it' if alive else 'no worker is alive to fire it'}",
            advice="see the log of a worker" if alive else "start one with `headrace worker`",
        )


def _notes(schedule: Schedule, app: Headrace) -> Iterator[Finding]:
    name = f"schedule {schedule.id!r}"
    if schedule.paused:
        yield Finding(
            code="schedule_paused",
            sentence=f"{name} is paused",
            advice=f"resume it with `headrace schedules resume {schedule.id}`",
            note=True,
        )
    elif schedule.is_over:
        yield Finding(
            code="schedule_over",
            sentence=f"{name} is finished after {schedule.fired} runs and will not fire again",
            advice=f"delete it with `headrace schedules delete {schedule.id}`",
            note=True,
        )
    elif schedule.origin == "code" and schedule.task in app.tasks and schedule.id not in app.schedules.declared:
        yield Finding(
            code="schedule_undeclared",
            sentence=f"{name} is no longer declared in this code and still fires",
            advice=f"delete it with `headrace schedules delete {schedule.id}`",
            note=True,
        )
