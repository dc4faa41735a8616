"""Flows and dependencies in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.jobs.dependencies import Dependency, FlowSummary
from headrace.engines.redis import serialization
from headrace.engines.redis.database import RedisDatabase
from headrace.engines.redis.queries import RedisQueries, storable_ids
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value

_FLOW_SCAN_SIZE = 5000  # jobs whose states one script counts, beyond those of its last flow; about 5 ms
_edges, _flows = load("flows/list_dependencies"), load("flows/list_flows")


@timed_part
class RedisFlowStore:
    """Reads flows, dependencies and the results of parents."""

    def __init__(self, database: RedisDatabase, queries: RedisQueries) -> None:
        self._database = database
        self._queries = queries

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        args = storable_ids(ids)
        return serialization.edges(self._read(_edges, len(args), serialization.encode(args))) if args else []

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        args = storable_ids(ids)
        if limit <= 0 or (ids and not args) or not serialization.encodable(before or ""):
            return []
        summaries: list[FlowSummary] = []
        reached: str | bytes | None = before or ""
        while reached is not None and len(summaries) < limit:
            left = (limit - len(summaries), _FLOW_SCAN_SIZE)
            reached, *found = self._read(_flows, *left, reached, len(args), serialization.encode(args))
            summaries += serialization.flow_summaries(found)
        return summaries

    def _read(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)
