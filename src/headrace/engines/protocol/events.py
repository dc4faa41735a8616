"""What a store tells of all that happens in it: the contract, in sentences. See `core.pages` for how it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.events.log import EventGroup


class EventStore(Protocol):
    """The events of a store, page by page, in one order for everybody.

    A page is stored in the same commit as what it tells, so there is neither one without the other. The exceptions are
    `job.started`, `job.progress` and `job.log`: a worker tells them with its next turn, a quarter of a second later at
    most, and one that is killed in that moment tells them never.
    """

    def read(self, after: str | None, limit: int) -> list[tuple[str, list[EventGroup]]]:
        """The next `limit` pages behind this cursor (None: from the oldest kept), oldest first, each with its own.

        A cursor inside a page brings that page once more: see `core.pages.events_of`. A page that was read is never
        followed by one that belongs before it. On PostgreSQL that means that a page is held back while a transaction
        that began to write before it is open, anywhere on the server.
        """
        ...

    def last(self) -> str:
        """The cursor of the newest page that `read` would bring; "0" if there never was one."""
        ...

    def tell(self, groups: Sequence[EventGroup]) -> None:
        """Store a page with these groups by itself."""
        ...

    def trim(self, before: int, most: int, limit: int) -> int:
        """Forget at most `limit` pages, the oldest first, that are from before this time or beyond that many events.

        A page is beyond if none of its events is among the newest `most`. It answers with how many pages went.
        The newest page stays, so that a cursor never stands for two.
        """
        ...
