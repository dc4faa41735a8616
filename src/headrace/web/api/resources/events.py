"""Events as they happen."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from headrace.core.events.event import Event, interest, page_of
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Cursor
from headrace.web.security.middleware import RequestContext
from headrace.web.sse import EachEvent, Stream

table = Table("events", "Events as they happen, and what happened lately.")


class EventQuery(Struct, frozen=True, kw_only=True):
    """Which events: of these types (`job.completed`, `job.*`), of a queue, of a task; `since` is a cursor."""

    types: Annotated[list[str], Meta(max_length=50)] = []
    queue: str | None = None
    task: str | None = None
    since: Cursor | None = None


@table.get("/events", streams=Event)
def stream(visit: RequestContext, query: EventQuery) -> Stream:
    """Listen to events as server-sent events.

    Each has its cursor as `id`, its type as `event` and itself as `data`. Who was cut off goes on with `Last-Event-ID`,
    which a browser sends by itself; the first time, `since` does the same, and without either the stream begins now, as
    it does behind a cursor that the store has not come to yet: that is one of another store. A comment comes when
    nothing was told for 15 seconds, and `trouble` when the store does not answer. Who does not take what is sent is
    dropped.
    """
    if query.since is not None:
        page_of(query.since)  # or InvalidJob
    wanted = interest(query.types, query.queue, query.task)
    return Stream(visit.lives, EachEvent(wanted), query.since)
