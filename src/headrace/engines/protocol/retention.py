"""Finished jobs that retention removes, and open jobs that stay too long in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.jobs.records import Lease
from headrace.core.jobs.states import State
from headrace.core.retention.retention import FinishedJob
from headrace.core.retention.staleness import AgeQuery, JobAgePage, StaleAction


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

    def delete(self, leases: Sequence[Lease]) -> list[str]:
        """Delete the jobs that are finished, at exactly this version and not held, with everything that is their own.

        Returns the ids of the deleted jobs. While a store status is set, none is deleted.
        """
        ...


class StalenessStore(Protocol):
    """Open jobs by their age in a state."""

    def by_age(self, query: AgeQuery, limit: int, cursor: str | None = None) -> JobAgePage:
        """The next open jobs that may have stayed too long, among about `limit` jobs read.

        See `core.retention.staleness`. A scan from the first cursor to the last visits every job that stays in its
        state meanwhile. It may include jobs that have not stayed so long; the time since when a job is in its state is
        always exact.
        """
        ...

    def mark_stale(self, actions: Sequence[StaleAction], now: int | None = None) -> list[bool]:
        """Apply each decision, all in one commit; for each, whether something was written.

        A job at another version than the decision's is not changed. "dead" and "fail" apply STALE with the reason
        `staleness_timeout`; "dead" also opens a dead letter, in place of a pending one. A running attempt loses its
        lease at once. "review" only adds a history entry, once for each version. While a store status is set, nothing
        is written.
        """
        ...
