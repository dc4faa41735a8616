"""How finished jobs leave a Redis store: told page by page, packed, and removed by id and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.core.damaged_records import read
from headrace.core.jobs.records import Lease
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.retention import FinishedJob, RetentionRun
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import load
from headrace.engines.redis.transfer import parcels
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.queries import RedisDatabase

_finished, _pack, _clear = load("finished"), load("pack_some"), load("clear")
_swept = msgspec.json.Decoder(RetentionRun)


@timed_part
class RedisRetentionStore:
    """Tells and removes."""

    def __init__(self, office: RedisDatabase) -> None:
        self._office = office

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
        self._office.prepare()
        if limit <= 0 or not serialization.encodable(queue):
            return []
        place = ("", "") if after is None else (after.finished_at, f"{after.seq:012d}")
        args = (queue, state.value, before, limit, "down" if newest else "up", *place)
        return serialization.finished.decode_all(self._office.wire.run(_finished, *args, repeat=args))

    def pack(self, ids: Sequence[str]) -> list[JobExport]:
        self._office.prepare()
        known = [job_id for job_id in dict.fromkeys(ids) if serialization.encodable(job_id)]
        if not known:
            return []
        return parcels(self._office.wire.run(_pack, *known, repeat=known), self._office.damaged.names)

    def clear(self, leases: Sequence[Lease]) -> list[str]:
        self._office.prepare()
        if not leases:
            return []
        names, versions = [lease.id for lease in leases], [lease.version for lease in leases]
        now = self._office.at(None)
        removed = self._office.wire.run(_clear, serialization.encode(names), serialization.encode(versions), now)
        return [names[place - 1] for place in removed]

    def last(self) -> RetentionRun | None:
        self._office.prepare()
        told = self._office.wire.ask("GET", f"{{{self._office.prefix}}}:swept")
        return read(_swept.decode, told) if told else None

    def record(self, swept: RetentionRun) -> None:
        self._office.prepare()
        self._office.wire.ask("SET", f"{{{self._office.prefix}}}:swept", msgspec.json.encode(swept))
