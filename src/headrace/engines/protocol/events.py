"""The event log of a store. See `core.events.log` for its format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.events.log import EventGroup


class EventStore(Protocol):
    """The events of a store, page by page, in one order for all readers.

    A page is stored in the same commit as the changes it reports. The exceptions are `job.started`, `job.progress`,
    `job.log` and `job.stream`: a worker sends them with its next exchange, at most a quarter of a second later. If the
    worker is killed before that, they are lost.

    `core.events.log.events_of` reads the events behind a cursor from a page. On PostgreSQL a page is held back while an
    older writing transaction is open, anywhere on the server, so that none appears before one that was read.
    """

    def read(self, after: str | None, limit: int, *, newest_first: bool = False) -> list[tuple[str, list[EventGroup]]]:
        """At most `limit` pages after this cursor (None: of all kept), each with its cursor, from either end.

        A cursor inside a page returns that page again, and no page appears later before one that was read.
        """
        ...

    def append(self, groups: Sequence[EventGroup]) -> None:
        """Append a page with these groups in a commit of its own."""
        ...

    def trim(self, before: int, most: int, limit: int) -> int:
        """Delete at most `limit` of the oldest pages: from before this time, or with none of the newest `most` events.

        Returns the number of deleted pages; the newest page always stays, so that no cursor is used twice.
        """
        ...

    def erase(self, jobs: Collection[str]) -> int:
        """Remove the ids of these jobs, and the data of their events, from every page; how many events had them.

        The events stay in their places, with type, queue, task, worker and times; a second call finds none.
        """
        ...
