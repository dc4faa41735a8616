"""The timing of a schedule as users write it: names, bounds and texts. Times in seconds; unset means the default."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from headrace.core.fields import between, entry, fields_of
from headrace.core.schedules.dst import Gap, Overlap
from headrace.core.schedules.parse import LONGEST_DURATION
from headrace.core.schedules.schedule import MOST_FIRES, MOST_FIRES_AT_ONCE, SHORTEST_INTERVAL, CatchUp, RunOverlap

Interval = Annotated[float, between(SHORTEST_INTERVAL / 1000, LONGEST_DURATION / 1000)]
_Window = Annotated[float, between(0, LONGEST_DURATION / 1000)]
_UTC = " (UTC)."


class TimingFields(Struct, frozen=True, kw_only=True):
    """A timing; it has exactly one of cron, every and at."""

    cron: Annotated[
        str | UnsetType,
        entry("Cron expression of 5 or 6 fields, or @daily and the like.", label="Cron", hint="0 2 * * *"),
    ] = UNSET
    every: Annotated[
        Interval | UnsetType, entry("Interval", "TIME", "or every, seconds", "300", typed=": seconds or 10m, 2h, 3d.")
    ] = UNSET
    at: Annotated[datetime | UnsetType, entry("Once, at an ISO time", "TIME", "or once at, UTC", typed=_UTC)] = UNSET
    tz: Annotated[
        str | UnsetType, entry("Time zone, such as Europe/Vienna; default UTC.", "ZONE", "Time zone", "UTC")
    ] = UNSET
    start: Annotated[
        datetime | UnsetType | None, entry("Not before this ISO time", "TIME", "From, UTC", typed=_UTC)
    ] = UNSET
    end: Annotated[datetime | UnsetType | None, entry("Not after this ISO time", "TIME", "Until, UTC", typed=_UTC)] = (
        UNSET
    )
    limit: Annotated[
        Annotated[int, between(1, MOST_FIRES)] | UnsetType | None,
        entry("Maximum number of runs.", label="Maximum runs", hint="no limit"),
    ] = UNSET
    jitter: Annotated[
        _Window | UnsetType, entry("Random delay of each run, up to this long.", "TIME", "Jitter, seconds", "none")
    ] = UNSET
    dst_gap: Annotated[
        Gap | UnsetType, entry("What happens to a time that clocks skip.", label="A time that clocks skip")
    ] = UNSET
    dst_overlap: Annotated[
        Overlap | UnsetType, entry("When to run at a time that clocks repeat.", label="A time that clocks repeat")
    ] = UNSET
    catch_up: Annotated[CatchUp | UnsetType, entry("Which missed runs to make up.", label="Missed runs")] = UNSET
    catch_up_limit: Annotated[
        Annotated[int, between(1, MOST_FIRES_AT_ONCE)] | UnsetType,
        entry("How many missed runs a limited catch-up makes up.", label="of them at most", hint="10"),
    ] = UNSET
    catch_up_window: Annotated[
        _Window | UnsetType,
        entry(
            "The age of the oldest run that a limited catch-up makes up.", "TIME", "not older than, seconds", "86400"
        ),
    ] = UNSET
    overlap: Annotated[RunOverlap | UnsetType, entry("When the previous job is unfinished.", label="Overlap")] = UNSET


TIMING = fields_of(TimingFields)
