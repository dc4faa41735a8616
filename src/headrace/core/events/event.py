"""The public event record, all event types, and filters for them.

A cursor is the page of an event and, unless it is the last one there, a dot and its position on the page. So a reader
can continue behind any single event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.core.tasks.options import check_queue, check_task_name
from headrace.core.text import nearest, short
from headrace.errors import InvalidJob

TYPES = (
    *("job.enqueued", "job.scheduled", "job.promoted", "job.started", "job.progress", "job.log", "job.stream"),
    *(
        "job.completed",
        "job.attempt_failed",
        "job.failed",
        "job.retry_scheduled",
        "job.cancelled",
        "job.stalled",
        "job.stale",
    ),
    *("job.released", "job.updated", "job.lease_lost", "job.removed", "job.dependencies_met"),
    *("queue.paused", "queue.resumed", "worker.started", "worker.stopped", "worker.lost", "worker.error"),
    "worker.drained",
    *("schedule.fired", "schedule.skipped", "dead.entered", "dead.resolved", "alert.raised", "alert.cleared"),
    *("archive.swept", "archive.failed", "stale.checked", "stale.failed"),
)
_KINDS = tuple(dict.fromkeys(name.partition(".")[0] for name in TYPES))
_MAX_CURSOR_NUMBER = 2**63 - 1  # of any store: a greater number is an error there
_CURSOR = re.compile(r"([0-9]{1,20}(?:-[0-9]{1,20})?)(?:\.([0-9]{1,9}))?", re.ASCII)


class Event(Struct, frozen=True):
    """Something that happened, as stored. `cursor` is where to continue behind it."""

    cursor: str
    type: str
    at: datetime
    job_id: str | None = None
    task: str | None = None
    queue: str | None = None
    worker: str | None = None
    attempt: int | None = None
    data: dict[str, Any] = {}


class EventFilter(Struct, frozen=True):
    """A filter for events: of these types (none: all of them), of this queue, of this task."""

    types: frozenset[str] = frozenset()
    queue: str | None = None
    task: str | None = None

    def covers(self, type: str, queue: str | None, task: str | None) -> bool:
        return (
            (not self.types or type in self.types)
            and (self.queue is None or self.queue == queue)
            and (self.task is None or self.task == task)
        )


def event_filter(types: str | Iterable[str] = (), queue: str | None = None, task: str | None = None) -> EventFilter:
    """The filter for these types, where `job.*` is every type that begins so and `*` is every type."""
    if not isinstance(types, Iterable):
        raise InvalidJob(f"types: expected names of types, such as job.failed, got {short(types)}", value=types)
    named = [types] if isinstance(types, str) else list(types)
    if queue is not None:
        check_queue("queue", queue)
    if task is not None:
        check_task_name(task)
    return EventFilter(frozenset(name for pattern in named for name in _named_by(pattern)), queue, task)


def _named_by(pattern: Any) -> tuple[str, ...]:
    if pattern in TYPES:
        return (pattern,)
    if pattern == "*":
        return TYPES
    if isinstance(pattern, str) and pattern.endswith(".*") and pattern[:-2] in _KINDS:
        return tuple(name for name in TYPES if name.startswith(pattern[:-1]))
    near = nearest(pattern, TYPES) if isinstance(pattern, str) else None
    hint = f"did you mean {near}?" if near else f"types are {', '.join(TYPES)}, and patterns like job.*"
    raise InvalidJob(f"there is no event type {short(pattern)}; {hint}", field="types", value=pattern)


def page_of(cursor: Any) -> tuple[str, int | None]:
    """The page of a cursor, and its position there; None if it is behind all of the page."""
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if match is None or any(int(part) > _MAX_CURSOR_NUMBER for part in match[1].split("-")):
        raise InvalidJob(f"cursor: {short(cursor)} is not the cursor of an event", value=cursor)
    return match[1], None if match[2] is None else int(match[2])
