"""How long jobs may stay in a store, and those that stay long, each contract once, in sentences. See `protocol`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.retention.lifecycle import Kind, PolicyRow, StoredPolicy
from headrace.core.retention.staleness import AgeQuery, JobAgePage, StaleAction


class StalenessStore(Protocol):
    """The terms of tasks and queues, which no claim ever reads, and the jobs that are where they are for long."""

    def terms(self) -> list[PolicyRow]:
        """Every task and queue of which anything is said, by kind and name."""
        ...

    def declare_policy(self, rows: Sequence[PolicyRow]) -> None:
        """Store what code declares of these in place of what was declared before; what is ordered stays.

        Of the rows only what is declared counts. Nothing declared is stored as nothing.
        """
        ...

    def order_policy(self, kind: Kind, name: str, terms: StoredPolicy | None) -> None:
        """Store what an operator orders for this in place of what was ordered before; None for nothing."""
        ...

    def aged(self, watch: AgeQuery, limit: int, cursor: str | None = None) -> JobAgePage:
        """The next open jobs that may have stayed too long, of about `limit` that are looked at; see `core.staleness`.

        A walk from the first cursor to the last comes by every job that is in its state all the while. It may tell of
        jobs that have not stayed so long, but of each exactly since when it is there.
        """
        ...

    def mark_stale(self, judgments: Sequence[StaleAction], now: int | None = None) -> list[bool]:
        """Do to each job what is decided, all in one commit; for each whether something was written.

        A job that is not at the judgment's version any more is left alone. "dead" and "fail" apply STALE, as
        `staleness_timeout`, with a dead letter, in the place of one that is pending, or without one; a running attempt
        is fenced out at once. "review" files it in the job's history, once for each version, and changes nothing.
        While a notice hangs at the door, nothing is written.
        """
        ...
