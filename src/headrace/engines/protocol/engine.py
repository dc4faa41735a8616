"""The engine interface: the core, and a part for each subject that goes beyond running jobs."""

from __future__ import annotations

from typing import Protocol

from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.core import JobEngine
from headrace.engines.protocol.events import EventStore
from headrace.engines.protocol.joined import JoinedWrites
from headrace.engines.protocol.maintenance import Maintenance, StoreView
from headrace.engines.protocol.retention import RetentionStore


class Engine(JobEngine, StoreView, Protocol):
    """A store: the core and all parts."""

    @property
    def retention_store(self) -> RetentionStore: ...

    @property
    def archive(self) -> Archive | None:
        """The store's own archive; None where finished jobs can only be archived in another store."""
        ...

    @property
    def maintenance(self) -> Maintenance: ...

    @property
    def events(self) -> EventStore: ...

    @property
    def joined(self) -> JoinedWrites:
        """Writes in a caller's own transaction; UnsupportedByEngine where the store has no transactions."""
        ...
