"""Maintenance of a store.

Changes are made in short commits: no claim waits longer than a moment, except where an operation says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from headrace.core.health.findings import (
    Effort,
    Finding,
    MaintenanceKind,
    MaintenanceResult,
    RecordKind,
    StoragePart,
    StoreFacts,
    TrimResult,
)
from headrace.engines.protocol.core import Queries
from headrace.engines.protocol.dead_letters import DeadLetterStore
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

    @property
    def dead_letters(self) -> DeadLetterStore: ...


class Maintenance(Protocol):
    """Checks, repairs and compacts a store. Any process may run it at any time, also several at once."""

    def inspect(self, now: int | None = None) -> list[Finding]:
        """Problems of the store, its server and its contents. Changes nothing."""
        ...

    def repair(self, codes: Collection[str], limit: int, now: int | None = None) -> dict[str, int]:
        """Repair at most about `limit` of each of these findings; how many of each. Nothing else is touched."""
        ...

    def facts(self, now: int | None = None) -> StoreFacts:
        """The size of the store, how long its writers wait for each other, and facts for operators.

        Cheap enough for frequent calls.
        """
        ...

    def storage(self, pattern: str, limit: int) -> list[StoragePart]:
        """At most `limit` tables, by name, or keys, in the server's order, that match the pattern (`*`, `?`, `[...]`).

        It blocks no operation and reads no value.
        """
        ...

    def maintain(
        self, kinds: Collection[MaintenanceKind], effort: Effort = "due", now: int | None = None
    ) -> MaintenanceResult:
        """Do one small piece of these tasks if any is due, or all of them at once.

        With the effort "full" all unused space is freed; writers of a file may have to wait for that.
        """
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

    def restore(self, path: Path, copy: Callable[[], object], *, replace: bool = False) -> None:
        """Take the contents of the SQLite file at `path`: a file in one commit, any other store by calling `copy`.

        With `replace` such a store first deletes everything but its archive.
        """
        ...
