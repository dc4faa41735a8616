"""The list of schedules with next runs and errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.app.schedules.records import Schedule
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View
from headrace.web.pages.views.schedule_form import timing_text

_NEVER = datetime.max.replace(tzinfo=UTC)
_MAX_SHOWN = 100  # rows of the list; a filter finds the others
KINDS = ("on", "paused", "over", "can’t fire")


def show(request: PageRequest) -> Mapping[str, Any]:
    all_schedules = request.app.schedules.list()
    text, kind = (request.query("q") or "").casefold(), request.query("kind")
    found = [
        schedule
        for schedule in all_schedules
        if text in f"{schedule.id} {schedule.task}".casefold() and (kind is None or kind_of(schedule) == kind)
    ]
    return {
        "schedules": sorted(found, key=_by_next_run)[:_MAX_SHOWN],
        "found": len(found),
        "all": len(all_schedules),
        "count": {name: sum(kind_of(schedule) == name for schedule in all_schedules) for name in KINDS},
        "kind": kind,
        "timings": {schedule.id: timing_text(schedule) for schedule in found},
        "topics": ("schedule", "job"),
    }


def kind_of(schedule: Schedule) -> str:
    if schedule.error:
        return "can’t fire"
    return "paused" if schedule.paused else "over" if schedule.is_over else "on"


def _by_next_run(schedule: Schedule) -> tuple[bool, datetime, str]:
    return not schedule.error, schedule.next_run or _NEVER, schedule.id


VIEWS = [
    View(
        path="/schedules", template="schedules/schedules.html", show=show, label="Schedules", icon="schedules", key="s"
    ),
]
