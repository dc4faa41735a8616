"""Beat's schedules as declared schedules of headrace: `crontab(...)`, intervals, and the entries of `beat_schedule`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from headrace import Headrace
from headrace.contrib.celery.exceptions import CeleryError, refuse
from headrace.core.text import short


class crontab(Struct, frozen=True):  # noqa: N801 - the name that Celery gave it
    """Celery's crontab: each field is a number, a text such as "*/15" or "mon-fri", or a list of numbers."""

    minute: Any = "*"
    hour: Any = "*"
    day_of_week: Any = "*"
    day_of_month: Any = "*"
    month_of_year: Any = "*"

    @property
    def expression(self) -> str:
        """The same as a cron expression."""
        days = (_field(self.day_of_month), _field(self.day_of_week))
        if "*" not in days:
            raise CeleryError(
                "crontab: with day_of_month and day_of_week, Celery runs where both match and cron where one of them "
                'does; use one of them, with `MON#1` or `L`, such as @app.headrace.cron("0 9 * * MON#1")'
            )
        return " ".join([_field(self.minute), _field(self.hour), days[0], _field(self.month_of_year), days[1]])


class schedule(Struct, frozen=True):  # noqa: N801 - as above
    """Celery's schedule(run_every): an interval in seconds, or a timedelta."""

    run_every: float | timedelta
    relative: bool = False


def solar(*_: Any, **__: Any) -> None:
    """Refused: headrace knows no sunrise."""
    raise refuse("solar", "headrace has no solar schedules; compute the time and use apply_async(eta=...)")


def timing(when: Any) -> dict[str, Any]:
    """The `cron` or `every` of a schedule of headrace for one of Celery's."""
    if isinstance(when, crontab):
        return {"cron": when.expression}
    if isinstance(when, schedule):
        when = when.run_every
    if isinstance(when, int | float | timedelta) and not isinstance(when, bool):
        return {"every": when}
    raise CeleryError(
        f"schedule: expected crontab(...), a number of seconds or a timedelta, got {short(when)}; import crontab from "
        "headrace.contrib.celery"
    )


class BeatEntry(Struct, frozen=True):
    """A checked entry of `beat_schedule`."""

    name: str
    task: str
    when: dict[str, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any]


def entry(name: str, given: Any) -> BeatEntry:
    """An entry of `beat_schedule`, checked."""
    if not isinstance(given, Mapping) or not isinstance(given.get("task"), str) or "schedule" not in given:
        raise CeleryError(
            f"beat_schedule[{name!r}]: expected a dict with `task`, the name, and `schedule`, got {short(given)}"
        )
    args, kwargs = tuple(given.get("args") or ()), dict(given.get("kwargs") or {})
    return BeatEntry(name, given["task"], timing(given["schedule"]), args, kwargs, dict(given.get("options") or {}))


def declare(app: Headrace, beat_entry: BeatEntry, options: dict[str, Any], zone: str) -> None:
    """Declare the entry as a schedule; workers store it when they start."""
    how: dict[str, Any] = {**options, "args": beat_entry.args, "kwargs": beat_entry.kwargs}
    name = "-".join(beat_entry.name.split())
    # A copy of the task: an entry may be declared again with another time.
    task = app.task_by_name(beat_entry.task).using()
    if "cron" in beat_entry.when:
        app.cron(beat_entry.when["cron"], name=name, tz=zone, **how)(task)
    else:
        app.every(beat_entry.when["every"], name=name, **how)(task)


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(" ", "") or "*"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Iterable):
        return ",".join(_field(one) for one in sorted(value, key=str))
    raise CeleryError(f"crontab: expected a number, a text such as '*/15' or a list of numbers, got {short(value)}")
