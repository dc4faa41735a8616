"""Follows the events of a store from a cursor on, by small regular reads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from headrace.core.events.event import Event, EventFilter
from headrace.core.events.log import events_of
from headrace.engines.protocol.events import EventStore
from headrace.errors import EngineUnavailable
from headrace.runtime.jobs.async_twin import in_thread

log = logging.getLogger("headrace.events")

POLL = 0.15
_OUTAGE = 1.0
_PAGES_PER_READ = 100


class EventReader:
    """A position in the event stream, and a filter. `cursor` is behind all returned events.

    The filter may change: it is read each time after events were read. So a filter that was set before an event
    happened applies to it.
    """

    def __init__(
        self,
        events: EventStore,
        wanted: EventFilter,
        cursor: str | None,
        current_filter: Callable[[], EventFilter | None] | None = None,
    ) -> None:
        self._events = events
        self._current_filter = current_filter or (lambda: wanted)
        self.cursor = cursor
        self.is_at_end = False

    def more(self, pages: int = _PAGES_PER_READ) -> list[Event]:
        """The next matching events; there may be none among many others."""
        read = self._events.read(self.cursor, pages)
        wanted = self._current_filter() if read else None
        selected = [] if wanted is None else read
        found = [
            event for place, groups in selected for event in events_of(place, groups, self.cursor, wanted)
        ]  # with the old cursor: it may be inside the first page
        self.is_at_end = len(read) < pages
        if read:
            self.cursor = read[-1][0]
        return found


def follow(follower: EventReader, forever: bool) -> Iterator[Event]:
    """Events as they come; up to the newest one unless `forever` is set."""
    while True:
        pause = 0.0
        try:
            yield from follower.more()
        except EngineUnavailable as error:
            if not forever:
                raise
            pause = _log_outage(error)
        if follower.is_at_end and not pause:
            if not forever:
                return
            pause = POLL
        if pause:
            time.sleep(pause)


async def afollow(follower: EventReader, forever: bool) -> AsyncIterator[Event]:
    """The same without blocking the event loop."""
    while True:
        pause, found = 0.0, list[Any]()
        try:
            found = await in_thread(follower.more)
        except EngineUnavailable as error:
            if not forever:
                raise
            pause = _log_outage(error)
        for event in found:
            yield event
        if follower.is_at_end and not pause:
            if not forever:
                return
            pause = POLL
        if pause:
            await asyncio.sleep(pause)


def _log_outage(error: EngineUnavailable) -> float:
    log.warning("the store is not available: %s; following its events again as soon as it is", error)
    return _OUTAGE
