"""The desk of dead letters as a store keeps it, each contract once, in sentences. See `protocol`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.dead_letters.records import (
    Added,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterStats,
    NewDeadLetter,
    Requeued,
    RequeueRequest,
    Status,
)
from headrace.core.jobs.records import DeadLetterRow


class DeadLetterStore(Protocol):
    """Records of jobs that failed for good. They outlive their jobs; one of each job may be pending."""

    def get(self, ids: Sequence[str]) -> list[DeadLetterRow]:
        """The records that exist of these, in no particular order."""
        ...

    def latest(self, job_ids: Sequence[str]) -> list[DeadLetterRow]:
        """The newest record of each of these jobs that has any, in no particular order."""
        ...

    def find(self, which: DeadLetterFilter, limit: int, before: str | None = None) -> list[DeadLetterRow]:
        """Matching records, newest first; with `before`, those older than the record of this id."""
        ...

    def oldest(self, status: Status, limit: int) -> list[str]:
        """The ids of the first records of this status, in the order of their entry."""
        ...

    def count(self, which: DeadLetterFilter) -> int:
        """How many records match."""
        ...

    def groups(self, statuses: Collection[Status], limit: int) -> list[DeadLetterGroup]:
        """The records of these statuses by their fingerprints, the biggest group first."""
        ...

    def tallies(self) -> list[DeadLetterStats]:
        """How many records there are, for each reason and status that has any."""
        ...

    def add(
        self, order: NewDeadLetter, by: str | None = None, note: str | None = None, now: int | None = None
    ) -> Added:
        """Open a record of this job by hand; what became of it.

        A job that has not started fails by it, with what waits for it; a failed or a cancelled one stays as it is.
        """
        ...

    def requeue(
        self,
        orders: Sequence[RequeueRequest],
        by: str | None = None,
        note: str | None = None,
        detail: str | None = None,
        now: int | None = None,
    ) -> list[Requeued]:
        """Run the jobs of pending records again, all in one commit; what became of each order.

        The job is revived with a higher priority, and its record resolved as requeued with one requeue more. A job that
        is gone is stored anew. A record whose job was requeued as often as the order allows ends as permanently failed
        instead. `detail` is what the job's history says of it.
        """
        ...

    def resolve(
        self,
        ids: Sequence[str],
        status: Status,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> list[str]:
        """End pending records with this status; the ids of those that were pending."""
        ...

    def note(self, letter_id: str, text: str, by: str | None = None, now: int | None = None) -> bool:
        """Add a note to a record of any status; False if it is not there."""
        ...

    def purge(self, statuses: Collection[Status], before: int, limit: int) -> int:
        """Remove at most `limit` records of these statuses that were resolved, or else entered, before; how many."""
        ...

    def remove(self, ids: Sequence[str]) -> list[str]:
        """Forget these records, whatever their status; the ids of those that were there, in no particular order."""
        ...
