"""Schedules of a store."""

from __future__ import annotations

from headrace.core.schedules.records import ScheduleRow
from headrace.engines.protocol.schedules import ScheduleStore


def stored_schedule(store: ScheduleStore, schedule_id: str) -> ScheduleRow | None:
    """The schedule of this id, None if there is none."""
    found = store.get([schedule_id])
    return found[0] if found else None
