"""The list of schedules with next runs and errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.app.schedules.records import Schedule
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View
from headrace.web.pages.views.schedule_form import in_words

_NEVER = datetime.max.replace(tzinfo=UTC)
_MOST = 100  # rows of the list; a filter finds the others
KINDS = ("on", "paused", "over", "can’t fire")


def show(visit: PageRequest) -> Mapping[str, Any]:
    every = visit.app.schedules.list()
    text, kind = (visit.asked("q") or "").casefold(), visit.asked("kind")
    found = [
        one for one in every if text in f"{one.id} {one.task}".casefold() and (kind is None or kind_of(one) == kind)
    ]
    return {
        "schedules": sorted(found, key=_soonest)[:_MOST],
        "found": len(found),
        "all": len(every),
        "count": {name: sum(kind_of(one) == name for one in every) for name in KINDS},
        "kind": kind,
        "words": {one.id: in_words(one) for one in found},
        "topics": ("schedule", "job"),
    }


def kind_of(schedule: Schedule) -> str:
    if schedule.error:
        return "can’t fire"
    return "paused" if schedule.paused else "over" if schedule.is_over else "on"


def _soonest(schedule: Schedule) -> tuple[bool, datetime, str]:
    return not schedule.error, schedule.next_run or _NEVER, schedule.id


VIEWS = [
    View(path="/schedules", template="schedules.html", show=show, label="Schedules", icon="schedules", key="s"),
]
