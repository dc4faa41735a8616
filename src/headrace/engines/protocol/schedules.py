"""The schedules of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.schedules.records import DueSchedules, Occurrence, ScheduleFire, ScheduleRow


class ScheduleStore(Protocol):
    """The schedules of a store. Any process may fire them at any time; a version decides which one succeeds."""

    def get(self, ids: Sequence[str] | None = None) -> list[ScheduleRow]:
        """Every schedule, or those of these ids that exist, by id."""
        ...

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        """Store the schedule; False if it is at another version than the row's or, when `new`, exists already.

        A new schedule keeps the row's version; otherwise the version increases by one.
        """
        ...

    def delete(self, schedule_id: str, version: int | None = None) -> bool:
        """Delete the schedule and its occurrences; False if it does not exist, or not at this version."""
        ...

    def due(self, limit: int, now: int | None = None) -> DueSchedules:
        """Schedules whose `due_at` has come, the earliest first, and when the first of all is due.

        While a store status is set, there is only the time.
        """
        ...

    def fire(self, firings: Sequence[ScheduleFire], now: int | None = None) -> list[bool]:
        """Store schedules with their jobs and occurrences in one commit and wake workers; whether each was stored.

        A schedule at another version than its row's is skipped, with its jobs and occurrences.
        """
        ...

    def occurrences(self, schedule_id: str, limit: int = 100) -> list[Occurrence]:
        """The results of its last times, the newest first."""
        ...
