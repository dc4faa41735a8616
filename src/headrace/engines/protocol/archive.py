"""Where finished jobs go: what sweeps them up, and the archive that holds them, each contract once. See `protocol`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import ArchivePage, ArchiveRow, Durations, Interval, Key, PartitionRow
from headrace.core.retention.retention import FinishedJob, RetentionRun


class Archive(Protocol):
    """Finished jobs that are no longer among the others, in partitions by the time of their end."""

    def add(self, rows: Sequence[ArchiveRow], interval: Interval, again: Collection[str] = ()) -> None:
        """Store the rows, safe from a crash when this returns; a row that is there is stored once.

        Of jobs with an id of `again`, rows with an earlier end go as well: the job was over before, and ran again.
        """
        ...

    def get(self, ids: Sequence[str]) -> list[ArchiveRow]:
        """The rows of these ids, of each the one that ended last, in no particular order."""
        ...

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> ArchivePage:
        """Rows by ids, states, queue, task, tag, since and until, which mean the end here; the newest end first."""
        ...

    def count(self, which: Filter) -> int:
        """How many rows match."""
        ...

    def durations(self, which: Filter) -> list[Durations]:
        """How long the matching jobs ran, for each task, by name."""
        ...

    def remove(self, keys: Sequence[Key]) -> int:
        """Remove these very rows; how many there were."""
        ...

    def partitions(self) -> list[PartitionRow]:
        """Every partition, the oldest first."""
        ...

    def prepare(self, now: int, interval: Interval) -> list[str]:
        """Make the partitions of this time and of the two after it, where they are missing; the names of new ones.

        One that can't be made is logged and told by `Engine.check`; rows for it land all the same, and move into it
        when a later call can make it.
        """
        ...

    def failures(self) -> list[str]:
        """The partitions that could not be made since this was last asked; each is told once until it is made."""
        ...

    def drop(self, before: int) -> list[str]:
        """Remove every partition whose jobs all ended before this time, each at once; their names."""
        ...


class RetentionStore(Protocol):
    """What a store tells of finished jobs, and how they leave it. Nothing here decides anything over their kin."""

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

        The next ones follow `after`, which need not be there any more. Jobs that have to stay, because a dead letter
        of theirs is pending, a child is open or a job of their flow is, are told as `held`; so are those that would run
        with a job whose dead letter is pending: its parents, what was cancelled with it, and its flow.
        """
        ...

    def pack(self, ids: Sequence[str]) -> list[JobExport]:
        """The jobs of these ids with everything that was filed about them, those that are gone left out."""
        ...

    def clear(self, leases: Sequence[Lease]) -> list[str]:
        """Remove the jobs that are over, at this very version and not held, with everything that is their own.

        The answer are the ids of those that were removed. While a notice hangs at the door, none is.
        """
        ...

    def last(self) -> RetentionRun | None:
        """What was last recorded."""
        ...

    def record(self, retention_run: RetentionRun) -> None:
        """Keep what a sweep has done, in the place of what was recorded before."""
        ...
