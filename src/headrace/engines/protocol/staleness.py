"""Lifecycle policies of tasks and queues, and the jobs that have stayed long in their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.retention.lifecycle import Kind, PolicyRow, StoredPolicy
from headrace.core.retention.staleness import AgeQuery, JobAgePage, StaleAction


class StalenessStore(Protocol):
    """Lifecycle policies, which no claim ever reads, and jobs by their age in a state."""

    def policies(self) -> list[PolicyRow]:
        """The policies of all tasks and queues that have any, by kind and name."""
        ...

    def declare_policy(self, rows: Sequence[PolicyRow]) -> None:
        """Replace the policies that the code declares for these tasks and queues; an operator's policies stay.

        Only the declared part of each row counts. An empty declaration is stored as none.
        """
        ...

    def override_policy(self, kind: Kind, name: str, policy: StoredPolicy | None) -> None:
        """Replace an operator's policy of this task or queue; None removes it."""
        ...

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
