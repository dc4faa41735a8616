"""Events of the store as server-sent events."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from headrace.core.events.event import Event, event_filter, page_of
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Cursor
from headrace.web.security.middleware import RequestContext
from headrace.web.sse import EachEvent, Stream

table = Table("events", "Events of the store, live and recent.")


class EventQuery(Struct, frozen=True, kw_only=True):
    """Filters: types (`job.completed`, `job.*`), a queue, a task; `since` is a cursor."""

    types: Annotated[list[str], Meta(max_length=50)] = []
    queue: str | None = None
    task: str | None = None
    since: Cursor | None = None


@table.get("/events", streams=Event)
def stream(context: RequestContext, query: EventQuery) -> Stream:
    """Stream events as server-sent events.

    Each event has its cursor as `id`, its type as `event` and its JSON as `data`. After a disconnect, a client
    continues with `Last-Event-ID`, which browsers send by themselves; on the first request, `since` does the same.
    Without either, or with a cursor ahead of the store (it belongs to another store), the stream starts now. A comment
    is sent after 15 seconds without an event, and the event `trouble` while the store is unavailable. The server drops
    a client that reads too slowly.
    """
    if query.since is not None:
        page_of(query.since)  # raises InvalidJob for a bad cursor
    wanted = event_filter(query.types, query.queue, query.task)
    return Stream(context.live_feeds, EachEvent(wanted), query.since)
