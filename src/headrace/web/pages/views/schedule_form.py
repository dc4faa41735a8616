"""The timing of a schedule in forms: parse, format, preview."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from headrace.app.schedules.records import Schedule
from headrace.core.schedules.timing_fields import TIMING
from headrace.errors import HeadraceError
from headrace.web.pages import formatting
from headrace.web.pages.forms import FormField, form_fields, form_values
from headrace.web.pages.request import PageRequest

_MAX_SHOWN = 6


class SchedulePreview(Struct, frozen=True):
    """The next runs of a timing, or why it is invalid."""

    times: list[datetime]
    error: str = ""


def preview_of(request: PageRequest) -> SchedulePreview | None:
    """The preview of the timing in the query, if there is one."""
    if request.query("try") is None:
        return None
    try:
        fields = form_values(request.http.query_params, TIMING)
        if not fields.keys() & {"cron", "every", "at"}:
            return SchedulePreview([])
        return SchedulePreview(request.app.schedules.preview(n=_MAX_SHOWN, **fields))
    except HeadraceError as error:
        return SchedulePreview([], str(error))


def timing_text(schedule: Schedule) -> str:
    if schedule.cron is not None:
        return schedule.cron
    if schedule.every is not None:
        return f"every {formatting.span(schedule.every.total_seconds())}"
    return "once" if schedule.at is not None else "unreadable"


def as_form(schedule: Schedule | None) -> dict[str, FormField]:
    """The fields for the form; times in UTC."""
    values: dict[str, Any] = {"catch_up": "limited"} if schedule is None else structs.asdict(schedule)
    values["jitter"] = values.get("jitter") or None
    return {one.name: one for one in form_fields(TIMING, values)}
