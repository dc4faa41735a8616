"""`app.events`: streams of events, and event handlers."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, TypeVar

from headrace.app.events.webhooks import Webhooks
from headrace.core.clock import instant_ms, to_datetime
from headrace.core.events.event import Event, EventFilter, event_filter, page_of
from headrace.core.tasks.options import check_name
from headrace.core.text import short
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, InvalidJob
from headrace.runtime.event_log import last_cursor
from headrace.runtime.events.follow import EventReader, afollow, follow
from headrace.runtime.events.handlers import EventHandlers, Subscription
from headrace.runtime.jobs.async_twin import in_thread

H = TypeVar("H", bound=Callable[[Event], Any])


class EventStream:
    """The events of a store from all processes, in commit order."""

    def __init__(self, engine: Callable[[], Engine], webhooks: Webhooks) -> None:
        self._engine = engine
        self._webhooks = webhooks
        self._subscriptions: dict[str, Subscription] = {}

    def __call__(
        self,
        since: str | datetime | None = None,
        *,
        types: str | Iterable[str] = (),
        queue: str | None = None,
        task: str | None = None,
        follow: bool = True,
    ) -> Iterator[Event]:
        """Events after a cursor or since a time, then live ones; without either, from now on.

        `types` may be patterns such as "job.*". Without `follow` it ends with the newest one, and
        starts by default with the oldest that is kept.
        """
        follower, after = self._follower(since, event_filter(types, queue, task), follow)
        return _from(after, _follow(follower, self._engine() if follow else None))

    async def follow_async(
        self,
        since: str | datetime | None = None,
        *,
        types: str | Iterable[str] = (),
        queue: str | None = None,
        task: str | None = None,
        follow: bool = True,
    ) -> AsyncIterator[Event]:
        """The same for `async for`."""
        follower, after = await in_thread(self._follower, since, event_filter(types, queue, task), follow)
        async for event in afollow(follower, self._engine() if follow else None):
            if after is None or event.at >= after:
                yield event

    def last(self) -> str:
        """The cursor after the newest event."""
        return last_cursor(self._engine().events)

    # -- handlers

    def on(
        self,
        types: Iterable[str],
        name: str | None = None,
        everywhere: bool = False,
        *,
        queue: str | None = None,
        task: str | None = None,
    ) -> Callable[[H], H]:
        """Register the decorated function as a handler of these events."""
        wanted = event_filter(types, queue, task)

        def subscribe(handler: H) -> H:
            if not callable(handler):
                raise ConfigError(f"@app.on: {handler!r} is not a function")
            handler_name = (
                name or f"{handler.__module__}.{getattr(handler, '__qualname__', type(handler).__qualname__)}"
            )
            known = self._subscriptions.get(check_name("name", handler_name))
            if known is not None and known.handler is not handler and not _is_same(known.handler, handler):
                raise ConfigError(f"two handlers of events are called {handler_name!r}; give one of them another name")
            self._subscriptions[handler_name] = Subscription(handler_name, handler, wanted, everywhere)
            return handler

        return subscribe

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Call handlers in a thread of this process inside the `with`."""
        listener = self.listener(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}")
        listener.start()
        try:
            yield
        finally:
            listener.stop()

    def listener(self, worker_id: str, *, finish: bool = False) -> EventHandlers:
        """The service that calls the handlers for this worker; with `finish`, up to the last event."""
        engine = self._engine()
        subscriptions = [*self._subscriptions.values(), self._webhooks.subscription]
        return EventHandlers(engine, engine.clock, worker_id, subscriptions, finish=finish)

    def _follower(self, since: Any, wanted: EventFilter, follow: bool) -> tuple[EventReader, datetime | None]:
        events = self._engine().events
        if since is None:
            return EventReader(events, wanted, last_cursor(events) if follow else None), None
        if isinstance(since, datetime):
            if since.tzinfo is None:
                raise InvalidJob(f"since: {since!r} has no time zone; use datetime.now(UTC) or the like", value=since)
            return EventReader(events, wanted, None), to_datetime(instant_ms(since))
        if not isinstance(since, str):
            raise InvalidJob(f"since: expected the cursor of an event or a time, got {short(since)}", value=since)
        page_of(since)
        return EventReader(events, wanted, since), None


_follow = follow  # the name is also that of an option


def _from(after: datetime | None, events: Iterator[Event]) -> Iterator[Event]:
    return events if after is None else (event for event in events if event.at >= after)


def _is_same(one: Any, other: Any) -> bool:
    """Whether both are the same code in a reloaded module."""
    first, second = (getattr(each, "__code__", None) for each in (one, other))
    if first is None or second is None:
        return False
    return (first.co_filename, first.co_firstlineno) == (second.co_filename, second.co_firstlineno)
