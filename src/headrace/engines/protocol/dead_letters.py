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

    def find(
        self, which: DeadLetterFilter, limit: int, beyond: str | None = None, *, oldest_first: bool = False
    ) -> list[DeadLetterRow]:
        """Matching records by their ids, which is the order of entry, the newest first unless `oldest_first`.

        With `beyond`, those that follow the record of this id in that order.
        """
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
        """Run the jobs of pending records again, all in one commit; the result of each request.

        A note goes to the records, `detail` into the history of the jobs.
        """
        ...

    def update(
        self,
        ids: Sequence[str],
        status: Status | None,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> list[str]:
        """Give pending records this status, with a note; without a status, only add the note, to records of any.

        Returns the ids of the changed records.
        """
        ...

    def delete(self, which: DeadLetterFilter, limit: int) -> int:
        """Delete at most `limit` matching records; how many there were. Their jobs do not change."""
        ...
