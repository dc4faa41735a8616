"""Flows and dependencies in a SQL database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.jobs.dependencies import Dependency, FlowSummary
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.transaction import Database, Transaction

_edges = Rows(Dependency)


@timed_part
class SqlFlowStore:
    """Reads flows and dependencies."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        return _edges.decode(self._fetch("edges", ids=as_json(ids)))

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        found = self._fetch("flows", limit=limit, before=before, ids=as_json(ids))
        return msgspec.json.decode(found, type=list[FlowSummary])

    def _fetch(self, statement: str, **values: Any) -> Any:
        def read(tx: Transaction) -> Any:
            return tx.fetch(statement, **values)

        return self._database.read(read)
