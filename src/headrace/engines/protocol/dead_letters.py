"""The dead letters of a store."""

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
    """Records of jobs that failed for good. They outlive their jobs; each job has at most one pending record."""

    def get(self, ids: Sequence[str] = (), *, job_ids: Sequence[str] = ()) -> list[DeadLetterRow]:
        """Those of these records that exist, and the newest of each of these jobs that has any; in no order."""
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
        """The records of these statuses grouped by fingerprint, the biggest group first."""
        ...

    def stats(self) -> list[DeadLetterStats]:
        """The number of records for each reason and status that has any."""
        ...

    def add(
        self, request: NewDeadLetter, by: str | None = None, note: str | None = None, now: int | None = None
    ) -> Added:
        """Open a record of this job by hand; the result.

        A job that has not started fails, and so do its dependents; a failed or cancelled job is not changed.
        """
        ...

    def requeue(
        self,
        requests: Sequence[RequeueRequest],
        by: str | None = None,
        note: str | None = None,
        detail: str | None = None,
        now: int | None = None,
    ) -> list[Requeued]:
        """Run the jobs of pending records again, all in one commit; the result of each order.

        The job is revived with a higher priority. Its record is resolved as requeued, with one requeue more. A deleted
        job is inserted anew. A record that was requeued as often as the order allows becomes permanently failed
        instead. `detail` goes into the job's history.
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
        """Resolve pending records with this status; the ids of those that were pending."""
        ...

    def note(self, dead_letter_id: str, text: str, by: str | None = None, now: int | None = None) -> bool:
        """Add a note to a record of any status; False if it does not exist."""
        ...

    def purge(self, statuses: Collection[Status], before: int, limit: int) -> int:
        """Delete at most `limit` records of these statuses that were resolved, or else opened, before; how many."""
        ...

    def remove(self, ids: Sequence[str]) -> list[str]:
        """Delete these records, whatever their status; the ids of those that existed, in no particular order."""
        ...
