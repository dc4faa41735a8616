"""Tells what a walk over finished jobs has done: a record in the store, and an event that metrics are made of."""

from __future__ import annotations

import contextlib

from headrace.core.events.log import EventGroup
from headrace.core.retention.archive import partition_of
from headrace.core.retention.retention import RetentionRun
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.retention.removal import RetentionCounts

_LONGEST_ERROR = 500


def error_in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]


def record_sweep(
    engine: Engine, settings: Settings, tally: RetentionCounts, began: int, leave_for: int = 0, error: str | None = None
) -> None:
    """Keep what a walk has done until now. Nobody else need begin one for `leave_for` milliseconds."""
    now = engine.clock.now()
    told = RetentionRun(
        at=now,
        duration=now - began,
        archived=tally.archived,
        deleted=tally.deleted,
        dead_letters=tally.dead_letters,
        partition=partition_of(now, settings.archive_partition),
        dropped=tally.dropped,
        until=now + leave_for,
        error=error,
    )
    # A store that is full takes no word any more, and to make room in it is just what we are about.
    with contextlib.suppress(EngineUnavailable):
        engine.retention_store.record(told)


def tell_sweep(engine: Engine, settings: Settings, tally: RetentionCounts, took: int, error: str | None = None) -> None:
    """Tell it, if there is anything to tell; `took` is in milliseconds."""
    told: dict[str, int | str] = {
        "archived": tally.archived,
        "deleted": tally.deleted,
        "dead_letters": tally.dead_letters,
        "dead_letters_expired": tally.expired,
        "partitions_created": len(tally.prepared),
        "partitions_detached": len(tally.dropped),
        "partition_failures": tally.unprepared,
    }
    data = {name: count for name, count in told.items() if count}
    if error is not None:
        data["error"] = error
    if not data or not settings.events:
        return
    kind = "archive.swept" if error is None else "archive.failed"
    with contextlib.suppress(EngineUnavailable):
        engine.events.tell([EventGroup(kind, engine.clock.now(), runs=[max(took, 0)], data=[data])])
