"""The archive of finished jobs, and the retention that moves them there or deletes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import ArchivePage, ArchiveRow, Durations, Interval, Key, PartitionRow
from headrace.core.retention.retention import FinishedJob, RetentionRun


class Archive(Protocol):
    """Finished jobs outside the job table, in partitions by the time of their end."""

    def add(self, rows: Sequence[ArchiveRow], interval: Interval, again: Collection[str] = ()) -> None:
        """Store the rows durably; a row that exists already is not stored twice.

        For jobs in `again`, rows with an earlier end are removed: the job had ended before, and ran again.
        """
        ...

    def get(self, ids: Sequence[str]) -> list[ArchiveRow]:
        """The rows of these ids, for each the one that ended last, in no particular order."""
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

    def prepare(self, now: int, interval: Interval) -> list[str]:
        """Create the missing partitions for this time and the two after it; the names of new ones.

        A partition that cannot be created is logged and reported by `Maintenance.inspect`. Its rows are stored all the
        same, and move into it when a later call can create it.
        """
        ...

    def failures(self) -> list[str]:
        """The partitions that could not be created since the last call; each is reported once until it is created."""
        ...

    def drop(self, before: int) -> list[str]:
        """Remove every partition whose jobs all ended before this time, each in one step; their names."""
        ...


class RetentionStore(Protocol):
    """Reads and deletes finished jobs. It decides nothing about their dependents."""

    def finished(
        self,
        queue: str,
        state: State,
        before: int,
        limit: int,
        after: FinishedJob | None = None,
        *,
        newest: bool = False,
    ) -> list[FinishedJob]:
        """Finished jobs of the queue and state that ended before a time, the oldest first or the newest first.

        Pages continue after `after`, which need not exist any more. Jobs that must stay are marked as `held`: jobs with
        a pending dead letter, an open child or an open job in their flow. Jobs that would run again with a
        dead-lettered job are held, too: its parents, the jobs cancelled with it, and its flow.
        """
        ...

    def export_jobs(self, ids: Sequence[str]) -> list[JobExport]:
        """The jobs of these ids that exist, with their complete history."""
        ...

    def delete(self, leases: Sequence[Lease]) -> list[str]:
        """Delete the jobs that are finished, at exactly this version and not held, with everything that is their own.

        Returns the ids of the deleted jobs. While a store status is set, none is deleted.
        """
        ...

    def last(self) -> RetentionRun | None:
        """The last recorded retention run."""
        ...

    def record(self, retention_run: RetentionRun) -> None:
        """Store a retention run in place of the last one."""
        ...
