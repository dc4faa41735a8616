"""What the doctor finds about schedules: those that can't fire, and those whose jobs nobody would run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from headrace.app.app import Headrace
from headrace.app.schedule_records import Schedule
from headrace.app.workers import WorkerInfo
from headrace.cli.show import ago

_OVERDUE = 60.0  # seconds; a worker is late by milliseconds


def look_at_schedules(app: Headrace, findings: list[str], remarks: list[str]) -> None:
    """Add what is wrong, and what an operator may have forgotten."""
    alive = [worker for worker in app.workers() if not worker.silent]
    for schedule in app.schedules.list():
        findings += _wrong_with(schedule, alive)
        remarks += _to_know_of(schedule, app)


def _wrong_with(schedule: Schedule, alive: list[WorkerInfo]) -> Iterator[str]:
    name = f"schedule {schedule.id!r}"
    if schedule.error:
        yield f"{name} could not fire: {schedule.error}; mend it with app.schedules.update(), or delete it"
    if schedule.next_run is None:
        return
    if alive and not any(schedule.task in worker.tasks for worker in alive) and "." not in schedule.task:
        yield f"{name}: no live worker knows its task {schedule.task!r}; deploy one that registers it"
    now = datetime.now(UTC)
    late = (now - schedule.next_run - schedule.jitter).total_seconds()
    # One that waits for its last job may be as late as that takes.
    if late > _OVERDUE and not schedule.error and schedule.overlap != "queue":
        who = "no worker fires it" if alive else "no worker is alive to fire it; start one with `headrace worker`"
        yield f"{name} was due {ago(schedule.next_run, now)} ago and {who}"


def _to_know_of(schedule: Schedule, app: Headrace) -> Iterator[str]:
    name = f"schedule {schedule.id!r}"
    if schedule.paused:
        yield f"{name} is paused; let it go on with `headrace schedules resume {schedule.id}`"
    elif schedule.is_over:
        yield f"{name} is over after {schedule.fired} runs and will not fire again"
    elif schedule.origin == "code" and schedule.task in app.tasks and schedule.id not in app.schedules.declared:
        yield (
            f"{name} is no longer declared in this code and goes on firing; end it with "
            f"`headrace schedules delete {schedule.id}`"
        )
