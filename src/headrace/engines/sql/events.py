"""The event log in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from headrace.core.events.event import page_of
from headrace.core.events.log import EventBatch, EventGroup, page, read, without
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.transaction import Database, Transaction

_PAGES_PER_STEP = 200  # read at once to erase events: a page may have thousands of them
_rows = msgspec.json.Decoder(list[tuple[str, str, str | None]])


@timed_part
class SqlEventStore:
    """Reads, appends and trims pages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, after: str | None, limit: int, *, newest_first: bool = False) -> list[tuple[str, list[EventGroup]]]:
        statement = "read_events_back" if newest_first else "read_events"
        cursor, place = ("0", None) if after is None else page_of(after)
        inside = int(place is not None)
        rows = self._database.read(lambda tx: tx.fetch(statement, after=cursor, inside=inside, limit=limit))
        return [(cursor, read(text, only)) for cursor, text, only in _rows.decode(rows)]

    def append(self, groups: Sequence[EventGroup]) -> None:
        if groups:
            self._database.write(lambda tx: append_events(tx, page(groups)))

    def trim(self, before: int, most: int, limit: int) -> int:
        return self._database.write(lambda tx: tx.run("trim_events", before=before, most=most, limit=limit))

    def erase(self, jobs: Collection[str]) -> int:
        unwanted, erased, after = frozenset(jobs), 0, "0"
        while rows := self._scan(after):
            found = [(cursor, without(text, only, unwanted)) for cursor, text, only in rows]
            changed = [(cursor, *page_and_count) for cursor, page_and_count in found if page_and_count is not None]
            if changed:
                self._database.write(partial(_correct, pages=changed))
            erased += sum(count for _, _, count in changed)
            after = rows[-1][0]
        return erased

    def _scan(self, after: str) -> list[tuple[str, str, str | None]]:
        rows = self._database.read(lambda tx: tx.fetch("scan_events", after=after, limit=_PAGES_PER_STEP))
        return _rows.decode(rows)


def _correct(tx: Transaction, pages: Sequence[tuple[str, str, int]]) -> None:
    for cursor, text, _ in pages:
        tx.run("correct_page", cursor=cursor, page=text)


def append_events(tx: Transaction, batch: EventBatch) -> None:
    """Append this page in the transaction."""
    tx.run("append_events", page=batch.text, size=batch.size, at=batch.at)


def append_move_events(tx: Transaction, type: str, seqs: Sequence[int], now: int) -> None:
    """Append the events of a move that has happened to these jobs, or is about to."""
    tx.run("append_move_events", type=type, seqs=as_json(seqs), now=now)


@contextmanager
def without_events(tx: Transaction) -> Iterator[None]:
    """Append no events for the history recorded inside: it happened before, in another store."""
    tx.run("mute_events")
    yield
    tx.run("unmute_events")  # not after an error: the transaction is rolled back
