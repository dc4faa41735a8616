"""Copies the contents of a store to another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import DeadLetterRow, QueueRow
from headrace.core.jobs.transfer import JobExport, StoreStatus


class Transfer(Protocol):
    """Copies the contents of a store to another one, of any engine."""

    def store_status(self) -> StoreStatus | None:
        """The store status, None if the store is in use."""
        ...

    def set_status(self, store_status: StoreStatus | None) -> None:
        """Set or clear the store status.

        On return the status holds for every process, and no insert that began before is still running.
        """
        ...

    def replace_status(self, before: StoreStatus | None, store_status: StoreStatus | None) -> bool:
        """Replace the store status if it equals `before`; whether it did. Of several concurrent calls one succeeds."""
        ...

    def export_jobs(self, after: int, limit: int) -> list[JobExport]:
        """The next jobs in the order of submission, after the `seq` `after`."""
        ...

    def import_jobs(self, job_exports: Sequence[JobExport], origin: str | None = None) -> int:
        """Store the jobs as they are, in this order after the existing ones; how many ids were new.

        A job whose id exists is not changed. The sender's `seq` is not kept. With an `origin`, the store status must
        say that jobs arrive from there; otherwise this raises CopyFinished, because copied jobs may have run and been
        deleted since. A store that has moved raises StoreMoved.
        """
        ...

    def export_dead_letters(self, after: str, limit: int) -> list[DeadLetterRow]:
        """The next dead letters by id, after the id `after`."""
        ...

    def import_dead_letters(self, records: Sequence[DeadLetterRow], origin: str | None = None) -> int:
        """Store the dead letters whose id does not exist yet; how many. The `origin` is as in `import_jobs`."""
        ...

    def import_queues(self, queues: Sequence[QueueRow]) -> None:
        """Store queues with their settings, over existing ones of the same names."""
        ...

    def import_flows(self, flows: Sequence[FlowRow]) -> None:
        """Store flows that do not exist yet. Dependencies follow by `import_edges`, after all jobs."""
        ...

    def import_edges(self, edges: Sequence[Dependency]) -> None:
        """Store missing dependencies between existing jobs, as they are. No dependency is decided."""
        ...
