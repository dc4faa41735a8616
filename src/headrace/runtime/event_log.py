"""Where the event log ends."""

from __future__ import annotations

from headrace.engines.protocol.events import EventStore

_NOTHING = "0"  # before the first page


def last_cursor(events: EventStore) -> str:
    """The cursor of the newest page that a reader gets; "0" if there never was one."""
    return next((cursor for cursor, _ in events.read(None, 1, newest_first=True)), _NOTHING)
