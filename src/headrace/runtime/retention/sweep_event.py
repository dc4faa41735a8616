"""Reports a retention run: a record in the store, and an event that metrics use."""

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
    """Record what a run has done so far. No other worker need begin one for `leave_for` milliseconds."""
    now = engine.clock.now()
    run = RetentionRun(
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
    # A full store accepts no write, and making room in it is the purpose of this run.
    with contextlib.suppress(EngineUnavailable):
        engine.retention_store.record(run)


def tell_sweep(engine: Engine, settings: Settings, tally: RetentionCounts, took: int, error: str | None = None) -> None:
    """Emit the archive.swept or archive.failed event, if anything was done; `took` is in milliseconds."""
    counts: dict[str, int | str] = {
        "archived": tally.archived,
        "deleted": tally.deleted,
        "dead_letters": tally.dead_letters,
        "dead_letters_expired": tally.expired,
        "partitions_created": len(tally.prepared),
        "partitions_detached": len(tally.dropped),
        "partition_failures": tally.unprepared,
    }
    data = {name: count for name, count in counts.items() if count}
    if error is not None:
        data["error"] = error
    if not data or not settings.events:
        return
    kind = "archive.swept" if error is None else "archive.failed"
    with contextlib.suppress(EngineUnavailable):
        engine.events.append([EventGroup(kind, engine.clock.now(), runs=[max(took, 0)], data=[data])])
