"""What a store has told."""

from __future__ import annotations

from headrace.core.events.event import Event
from headrace.core.events.log import events_of
from headrace.engines.protocol.engine import Engine


def read_events(engine: Engine, after: str | None = None) -> list[Event]:
    """Everything behind the cursor. On PostgreSQL it may be held back while somebody else on the server writes."""
    events: list[Event] = []
    while pages := engine.events.read(after, 50):
        for cursor, groups in pages:
            events += events_of(cursor, groups, after)
        after = pages[-1][0]
    return events


def types_after(engine: Engine, cursor: str | None = None) -> list[str]:
    """The types of what was told since."""
    return [event.type for event in read_events(engine, cursor)]
