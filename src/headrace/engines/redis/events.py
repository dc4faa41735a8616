"""The event log of a Redis store: a stream with an entry for each commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.events.event import page_of
from headrace.core.events.log import EventGroup, page, read
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_append, _trim = load("events/append_events"), load("events/trim_events")


@timed_part
class RedisEventStore:
    """Reads, appends and trims pages."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def read(self, after: str | None, limit: int, *, newest_first: bool = False) -> list[tuple[str, list[EventGroup]]]:
        cursor, place = ("0", None) if after is None else page_of(after)
        first = cursor if place is not None else f"({cursor}"
        way = ("XREVRANGE", "+", first) if newest_first else ("XRANGE", first, "+")
        return [_page(entry) for entry in self._command(*way, "COUNT", limit)]

    def append(self, groups: Sequence[EventGroup]) -> None:
        if groups:
            self._database.prepare()
            batch = page(groups)
            self._database.connections.run(_append, batch.text, batch.size, batch.at)

    def trim(self, before: int, most: int, limit: int) -> int:
        self._database.prepare()
        return int(self._database.connections.run(_trim, before, most, limit))

    def _command(self, command: str, *values: str | int) -> Any:
        self._database.prepare()
        return self._database.connections.command(command, f"{{{self._database.prefix}}}:events", *values)


def _page(entry: Sequence[Any]) -> tuple[str, list[EventGroup]]:
    cursor, fields = entry
    entry_fields = dict(zip(fields[::2], fields[1::2], strict=True))
    return cursor.decode(), read(entry_fields[b"page"], entry_fields[b"only"] or None)
