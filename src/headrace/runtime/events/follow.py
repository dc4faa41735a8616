"""Follows the events of a store from a cursor on: reads when the store's bell rings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, nullcontext

from headrace.core.events.event import Event, EventFilter
from headrace.core.events.log import events_of
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.events import EventStore
from headrace.errors import EngineUnavailable
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.process.outage_log import outage_log

POLL = 0.15
_LOOK_ANYWAY = 5.0  # PostgreSQL shows the events behind a long transaction of others later than it rings
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


class EventBell:
    """Says when to read the events again: after a ring, and else after some seconds."""

    def __init__(self, engine: Engine) -> None:
        self._bell: Bell = engine.listen("events")
        self._look_at = time.monotonic() + _LOOK_ANYWAY

    def is_due(self, wait: float = 0.0) -> bool:
        """Whether to read now; waits for a ring at most so many seconds."""
        is_rung = self._bell.wait(wait)
        if not is_rung and time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + _LOOK_ANYWAY
        return True

    def close(self) -> None:
        self._bell.close()


def follow(follower: EventReader, engine: Engine | None) -> Iterator[Event]:
    """Events as they come, woken by this engine; without one, up to the newest event."""
    with closing(EventBell(engine)) if engine else nullcontext() as bell:
        while True:
            try:
                found = follower.more()
            except EngineUnavailable as error:
                if engine is None:
                    raise
                time.sleep(wait_after(engine, error))
                continue
            is_back(engine)
            yield from found
            if follower.is_at_end:
                if bell is None:
                    return
                time.sleep(POLL)  # a busy store rings all the time
                while not bell.is_due(_LOOK_ANYWAY):
                    pass


async def afollow(follower: EventReader, engine: Engine | None) -> AsyncIterator[Event]:
    """The same without blocking the event loop."""
    with closing(await in_thread(EventBell, engine)) if engine else nullcontext() as bell:
        while True:
            try:
                found = await in_thread(follower.more)
            except EngineUnavailable as error:
                if engine is None:
                    raise
                await asyncio.sleep(wait_after(engine, error))
                continue
            is_back(engine)
            for event in found:
                yield event
            if follower.is_at_end:
                if bell is None:
                    return
                is_due = False
                while not is_due:
                    await asyncio.sleep(POLL)
                    is_due = await in_thread(bell.is_due)


def wait_after(engine: Engine, error: EngineUnavailable) -> float:
    outage_log(engine).failed(error, "following its events again as soon as it is")
    return _OUTAGE


def is_back(engine: Engine | None) -> None:
    if engine is not None:
        outage_log(engine).worked()
