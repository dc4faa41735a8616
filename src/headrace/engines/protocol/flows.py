"""Flows and dependencies. Inserting, settling and moving jobs keeps them; see `JobEngine.insert`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.jobs.dependencies import Dependency, FlowSummary


class FlowStore(Protocol):
    """Reads what jobs wait for."""

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        """Every dependency of these jobs, as parent or as child, sorted by submission of child and parent."""
        ...

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        """Flows, newest first; with `before` those older than this id, with `ids` only these."""
        ...
