"""Copies the contents of a store to another one.

Records are copied as they are, and nothing is decided by them. Jobs follow the existing ones in their order and do not
keep their `seq`. Queues replace the settings of existing ones. Dependencies need both of their jobs. Occurrences come
the oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.schedules.records import Occurrence

Record = JobExport | DeadLetterRow | QueueRow | FlowRow | Dependency | Occurrence


class Transfer(Protocol):
    """Copies the contents of a store to another one, of any engine."""

    def store_status(self) -> StoreStatus | None:
        """The store status, None if the store is in use."""
        ...

    def set_status(self, store_status: StoreStatus | None, *, expected: StoreStatus | UnsetType | None = UNSET) -> bool:
        """Set or clear the store status, if it equals `expected` or that is unset; whether it did.

        On return the status holds for every process, no insert that began before is still running, and of concurrent
        calls that expect the same status one has succeeded.
        """
        ...

    def export_jobs(self, after: int = 0, limit: int = 1000, *, ids: Sequence[str] | None = None) -> list[JobExport]:
        """The next jobs in the order of submission after the `seq` `after`, or those of these ids that exist.

        Each has its complete history.
        """
        ...

    def import_records(self, records: Sequence[Record], origin: str | None = None) -> int:
        """Store records of one type as they are, unless they exist; how many jobs or dead letters were new.

        Jobs and dead letters with an `origin` raise CopyFinished unless the store status says that they arrive from
        there; other jobs raise StoreMoved if the store has moved.
        """
        ...
