"""The event log of a Redis store: a stream with an entry for each commit."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.events.event import page_of
from headrace.core.events.log import EventGroup, page, read, without
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_append, _trim = load("events/append_events"), load("events/trim_events")
_copy, _use_copy = load("events/copy_events"), load("events/use_events_copy")
_PAGES_PER_STEP = 200  # read or copied at once to erase events: a page may have thousands of them
_PAGES_BEHIND = 1000  # that may be appended until the copy takes the place of the stream
_COPY_TTL = 600  # seconds after which a copy is gone if its process was killed


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

    def erase(self, jobs: Collection[str]) -> int:
        # Entries of a stream can't be changed: a copy takes its place, unless another one was quicker.
        unwanted, erased = frozenset(jobs), 0
        while True:
            steps = [(count, bool(texts)) for _, count, texts in self._changes(unwanted)]
            erased = max(erased, sum(count for count, _ in steps))
            if not any(changes for _, changes in steps) or self._erase_in_copy(unwanted):
                return erased

    def _changes(self, unwanted: frozenset[str]) -> Iterator[tuple[str, int, list[str]]]:
        """For each step its last cursor, how many events change, and the cursors and texts of the pages with them."""
        first = "-"
        while entries := self._command("XRANGE", first, "+", "COUNT", _PAGES_PER_STEP):
            erased, texts, cursor = 0, list[str](), ""
            for entry in entries:
                cursor, text, only = _stored(entry)
                if (changed := without(text, only, unwanted)) is not None:
                    texts += (cursor, changed[0])
                    erased += changed[1]
            first = f"({cursor}"
            yield cursor, erased, texts

    def _erase_in_copy(self, unwanted: frozenset[str]) -> bool:
        """Erase in a copy of the stream, and use that; False if that has to begin anew."""
        connections, name = self._database.connections, secrets.token_hex(8)
        used = int(connections.command("GET", f"{{{self._database.prefix}}}:events_copies") or 0)
        for last, _, texts in self._changes(unwanted):
            args: tuple[str | int, ...] = (name, last, _COPY_TTL, *texts)
            connections.run(_copy, *args, repeat=args)
        swap: tuple[str | int, ...] = (name, used, _PAGES_BEHIND)
        return int(connections.run(_use_copy, *swap, repeat=swap)) == 1

    def _command(self, command: str, *values: str | int) -> Any:
        self._database.prepare()
        return self._database.connections.command(command, f"{{{self._database.prefix}}}:events", *values)


def _page(entry: Sequence[Any]) -> tuple[str, list[EventGroup]]:
    cursor, text, only = _stored(entry)
    return cursor, read(text, only)


def _stored(entry: Sequence[Any]) -> tuple[str, bytes, bytes | None]:
    """The cursor of an entry, its page and the jobs to which it applies, if not to all."""
    cursor, fields = entry
    entry_fields = dict(zip(fields[::2], fields[1::2], strict=True))
    return cursor.decode(), entry_fields[b"page"], entry_fields[b"only"] or None
