"""The archive of finished jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.jobs.records import Filter
from headrace.core.retention.archive import (
    ArchivePage,
    ArchiveRow,
    Durations,
    Interval,
    Key,
    PartitionChanges,
    PartitionRow,
)


class Archive(Protocol):
    """Finished jobs outside the job table, in partitions by the time of their end."""

    def add(self, rows: Sequence[ArchiveRow], interval: Interval, again: Collection[str] = ()) -> None:
        """Store the rows durably; a row that exists already is not stored twice.

        For jobs in `again`, rows with an earlier end are removed: the job had ended before, and ran again.
        """
        ...

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> ArchivePage:
        """Rows by ids, states, queue, task, tag, since and until (both of the end here); the newest end first."""
        ...

    def count(self, which: Filter) -> int:
        """How many rows match."""
        ...

    def durations(self, which: Filter) -> list[Durations]:
        """The durations of the matching jobs for each task, sorted by name."""
        ...

    def remove(self, keys: Sequence[Key]) -> int:
        """Remove exactly these rows; how many existed."""
        ...

    def partitions(self) -> list[PartitionRow]:
        """Every partition, the oldest first."""
        ...

    def update_partitions(self, now: int, interval: Interval | None, before: int | None) -> PartitionChanges:
        """Create the missing partitions for this time and the two after it, and drop those that ended before a time.

        Without an interval none is created, without `before` none is dropped.
        """
        ...
