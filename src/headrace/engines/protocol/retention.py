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

        Pages continue after `after`, which need not exist any more.
        """
        ...

    def delete(self, leases: Sequence[Lease]) -> list[str]:
        """Delete the jobs that are finished, at exactly this version and not held, with everything that is their own.

        Returns the ids of the deleted jobs: none while a store status is set.
        """
        ...


class StalenessStore(Protocol):
    """Open jobs by their age in a state; see `core.retention.staleness`."""

    def by_age(self, query: AgeQuery, limit: int, cursor: str | None = None) -> JobAgePage:
        """The next open jobs that may have stayed too long, among about `limit` jobs read.

        A scan from the first cursor to the last visits every job that stays in its state meanwhile.
        """
        ...

    def mark_stale(self, actions: Sequence[StaleAction], now: int | None = None) -> list[bool]:
        """Apply each action to its job, if that is at the action's version, all in one commit.

        Returns for each whether something was written: nothing is while a store status is set.
        """
        ...
