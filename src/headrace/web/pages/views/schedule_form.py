"""The timing of a schedule in forms: parse, format, preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.app.schedules.records import Schedule
from headrace.errors import HeadraceError, InvalidSchedule
from headrace.web.pages import formatting
from headrace.web.pages.request import PageRequest
from headrace.web.pages.views.enqueue import moment_of

TEXTS = ("cron", "tz", "catch_up", "overlap", "dst_gap", "dst_overlap")
MOMENTS = ("at", "start", "end")
_NUMBERS: Mapping[str, Callable[[str], int | float]] = {
    "every": float,
    "jitter": float,
    "limit": int,
    "catch_up_limit": int,
    "catch_up_window": float,
}
_MAX_SHOWN = 6


class SchedulePreview(Struct, frozen=True):
    """The next runs of a timing, or why it is invalid."""

    times: list[datetime]
    error: str = ""


def fields_of(field: Callable[[str], str | None]) -> dict[str, Any]:
    """The fields of a timing in a form or a query."""
    fields: dict[str, Any] = {name: text for name in TEXTS if (text := field(name)) is not None}
    for name in MOMENTS:
        if (text := field(name)) is not None:
            fields[name] = moment_of(name, text)
    for name, number in _NUMBERS.items():
        if (text := field(name)) is not None:
            try:
                fields[name] = number(text)
            except ValueError:
                raise InvalidSchedule(f"{name}: {text!r} is not a number") from None
    return fields


def preview_of(request: PageRequest) -> SchedulePreview | None:
    """The preview of the timing in the query, if there is one."""
    if request.query("try") is None:
        return None
    try:
        fields = fields_of(request.query)
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


def as_form(schedule: Schedule | None) -> dict[str, str]:
    """The fields for the form; times in UTC."""
    if schedule is None:
        return dict.fromkeys((*TEXTS, *MOMENTS, *_NUMBERS), "")
    form = {name: str(getattr(schedule, name) or "") for name in (*TEXTS, "limit", "catch_up_limit")}
    for name in MOMENTS:
        moment = getattr(schedule, name)
        form[name] = formatting.iso(moment)[:19] if moment else ""
    for name in ("every", "jitter", "catch_up_window"):
        length = getattr(schedule, name)
        form[name] = f"{length.total_seconds():g}" if length else ""
    return form
