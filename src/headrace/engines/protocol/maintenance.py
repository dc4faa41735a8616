"""Maintenance of a store.

Changes are made in short commits: no claim waits longer than a moment, except where an operation says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from headrace.core.health.findings import Finding, MaintenanceKind, RecordKind, StoragePart, StoreLoad, TrimResult
from headrace.engines.protocol.core import Queries
from headrace.engines.protocol.documents import DocumentStore
from headrace.engines.protocol.flows import FlowStore
from headrace.engines.protocol.queue_rules import RuleStore
from headrace.engines.protocol.retention import StalenessStore
from headrace.engines.protocol.schedules import ScheduleStore
from headrace.engines.protocol.transfer import Transfer


class StoreView(Protocol):
    """The readable parts of a store, or of its snapshot: the source of transfers and backups."""

    @property
    def queries(self) -> Queries: ...

    @property
    def flow_store(self) -> FlowStore: ...

    @property
    def rule_store(self) -> RuleStore: ...

    @property
    def schedule_store(self) -> ScheduleStore: ...

    @property
    def transfer(self) -> Transfer: ...

    @property
    def staleness_store(self) -> StalenessStore: ...

    @property
    def document_store(self) -> DocumentStore: ...


class Maintenance(Protocol):
    """Checks, repairs and compacts a store. Any process may run it at any time, also several at once."""

    def inspect(self, now: int | None = None) -> list[Finding]:
        """Problems of the store, its server and its contents. Changes nothing."""
        ...

    def repair(self, codes: Collection[str], limit: int, now: int | None = None) -> dict[str, int]:
        """Repair at most about `limit` of each of these findings; how many of each. Nothing else is touched."""
        ...

    def facts(self) -> dict[str, str | int]:
        """Facts for operators: file, sizes, versions, settings."""
        ...

    def schema(self) -> tuple[int, int]:
        """The version of the store's tables and the one this headrace works with."""
        ...

    def store_load(self, now: int | None = None) -> StoreLoad:
        """The size of the store and how long its writers wait for each other. Cheap enough for frequent calls."""
        ...

    def storage(self, pattern: str, limit: int) -> list[StoragePart]:
        """At most `limit` tables or keys whose names match the pattern (`*`, `?`, `[...]`). It blocks no operation.

        Tables are sorted by name; keys come in the server's order. No value is read.
        """
        ...

    def checkpoint(self) -> dict[str, int]:
        """Write the write-ahead log into the file and truncate it: its bytes before and after; empty for a server."""
        ...

    def optimize(self, *, full: bool = False) -> dict[str, int]:
        """Update statistics and free unused space: the bytes before and after.

        With `full` all unused space is freed; writers of a file may have to wait for that.
        """
        ...

    def maintain(self, kinds: Collection[MaintenanceKind], now: int | None = None) -> bool:
        """Do one small piece of these maintenance tasks, if any is due; whether there is more."""
        ...

    def trim_history(self, what: RecordKind, most: int, after: int, limit: int) -> TrimResult:
        """Check the next `limit` entries or jobs from `after` on, and trim each job to `most` entries.

        The first ten and the newest stay; of the others the oldest go first, errors last.
        """
        ...

    def backup(
        self, path: Path, copy: Callable[[StoreView], object], progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Write a snapshot of the store into a new SQLite file, while the store is in use.

        A store that is no file calls `copy` with a view of that moment (Redis: each job at a moment of its own; no job
        that existed at the beginning is missing).
        """
        ...

    def restore(self, path: Path, copy: Callable[[], object]) -> None:
        """Take the contents of the SQLite file at `path`: a file in one commit, any other store by calling `copy`."""
        ...

    def clear(self) -> None:
        """Delete everything: jobs and what belongs to them, queues, rules, schedules, dead letters."""
        ...
