"""The schedules in Redis: stored, found when due, and fired once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from headrace.core.damaged_records import read
from headrace.core.events.log import fired, page
from headrace.core.schedules.records import DueSchedules, Occurrence, ScheduleFire, ScheduleRow, damaged
from headrace.engines.redis import serialization
from headrace.engines.redis.insert import raise_refusal
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.database import RedisDatabase

_put, _drop, _due, _fire = (
    load("schedules/put_schedule"),
    load("schedules/delete_schedule"),
    load("schedules/due_schedules"),
    load("schedules/fire_schedules"),
)


@timed_part
class RedisScheduleStore:
    """Reads schedules and fires them."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def get(self, ids: Sequence[str] | None = None) -> list[ScheduleRow]:
        self._database.prepare()
        if ids is None:
            known = self._database.connections.command("HGETALL", self._key("schedules"))
            found = list(zip(known[::2], known[1::2], strict=True))
        else:
            named = [each.encode() for each in {*ids} if serialization.encodable(each)]
            values = self._database.connections.command("HMGET", self._key("schedules"), *named) if named else []
            found = [each for each in zip(named, values, strict=True) if each[1] is not None]
        return sorted((_schedule(*each) for each in found), key=lambda row: row.id)

    def put(self, row: ScheduleRow, *, new: bool = False) -> bool:
        self._database.prepare()
        stored = (row.id, "", _due_at(row), serialization.encode(row)) if new else _next_version(row)
        return bool(self._database.connections.run(_put, 0, *stored, repeat=(1, *stored)))

    def delete(self, schedule_id: str, version: int | None = None) -> bool:
        self._database.prepare()
        expected = "" if version is None else version
        return serialization.encodable(schedule_id) and bool(
            self._database.connections.run(_drop, schedule_id, expected)
        )

    def due(self, limit: int, now: int | None = None) -> DueSchedules:
        self._database.prepare()
        rows = self._due(limit, self._database.at(now)) if limit > 0 else []
        first = self._database.connections.command("ZRANGE", self._key("schedules_due"), 0, 0, "WITHSCORES")
        return DueSchedules(rows, int(float(first[1])) if first else None)

    def _due(self, limit: int, now: int) -> list[ScheduleRow]:
        due: list[ScheduleRow] = []
        for schedule_id, found in zip(
            *self._database.connections.run(_due, now, limit, repeat=(now, limit)), strict=True
        ):
            row = None if found is None else read(serialization.schedule.decode, found)
            if row is None:  # it is gone, or damaged, and will not fire
                self._database.connections.command("ZREM", self._key("schedules_due"), schedule_id)
            else:
                due.append(row)
        return due

    def fire(self, firings: Sequence[ScheduleFire], now: int | None = None) -> list[bool]:
        self._database.prepare()
        if not firings:
            return []
        call = (self._database.at(now), secrets.randbits(50))
        batch = [part for firing in firings for part in _args_of(firing)]
        answer = self._database.connections.run(_fire, *call, 0, *batch, repeat=(*call, 1, *batch))
        if answer and isinstance(answer[0], bytes):
            raise_refusal(*answer)
        applied = set(answer)
        return [position in applied for position in range(1, len(firings) + 1)]

    def occurrences(self, schedule_id: str, limit: int = 100) -> list[Occurrence]:
        self._database.prepare()
        if limit <= 0 or not serialization.encodable(schedule_id):
            return []
        found = self._database.connections.command("LRANGE", self._key(f"occurrences:{schedule_id}"), 0, limit - 1)
        return [serialization.occurrence.decode(entry) for entry in found]

    def _key(self, name: str) -> str:
        return f"{{{self._database.prefix}}}:{name}"


def _schedule(schedule_id: bytes, stored: bytes) -> ScheduleRow:
    row = read(serialization.schedule.decode, stored)
    return row or damaged(serialization.text(schedule_id), serialization.text(stored))


def _due_at(row: ScheduleRow) -> int | str:
    return "" if row.due_at is None or row.paused else row.due_at


def _next_version(row: ScheduleRow) -> tuple[Value, ...]:
    return row.id, row.version, _due_at(row), serialization.encode(structs.replace(row, version=row.version + 1))


def _args_of(firing: ScheduleFire) -> list[Value]:
    ids = serialization.encode([job.id for job in firing.jobs])
    jobs = (len(firing.jobs), ids, serialization.encode_batch(firing.jobs))
    batch = page(fired(firing.row, firing.occurrences))
    events = (batch.text, batch.size, batch.at) if firing.occurrences else ("", 0, 0)
    occurrences = map(serialization.encode, firing.occurrences)
    return [*_next_version(firing.row), *jobs, *events, len(firing.occurrences), *occurrences]
