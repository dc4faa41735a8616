"""Retention in Redis: lists finished jobs page by page, exports them, and deletes them by id and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.jobs.records import Lease
from headrace.core.jobs.states import State
from headrace.core.retention.retention import FinishedJob
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_list_finished, _delete_finished = load("retention/list_finished"), load("retention/delete_finished")


@timed_part
class RedisRetentionStore:
    """Lists and deletes finished jobs."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def finished(
        self,
        queue: str,
        state: State,
        before: int,
        limit: int,
        after: FinishedJob | None = None,
        *,
        newest: bool = False,
    ) -> list[FinishedJob]:
        self._database.prepare()
        if limit <= 0 or not serialization.encodable(queue):
            return []
        place = ("", "") if after is None else (after.finished_at, f"{after.seq:012d}")
        args = (queue, state.value, before, limit, "down" if newest else "up", *place)
        return serialization.finished.decode_all(self._database.connections.run(_list_finished, *args, repeat=args))

    def delete(self, leases: Sequence[Lease]) -> list[str]:
        self._database.prepare()
        if not leases:
            return []
        names, versions = [lease.id for lease in leases], [lease.version for lease in leases]
        now = self._database.at(None)
        removed = self._database.connections.run(
            _delete_finished, serialization.encode(names), serialization.encode(versions), now
        )
        return [names[place - 1] for place in removed]
