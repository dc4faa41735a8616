"""Reports a retention run: a record in the store, and an event that metrics use."""

from __future__ import annotations

import contextlib

from headrace.core.events.log import EventGroup
from headrace.core.retention.archive import partition_of
from headrace.core.retention.retention import RetentionRun
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.retention.last_run import store_last_run
from headrace.runtime.retention.removal import RetentionCounts

_MAX_ERROR_CHARS = 500


def error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]


def record_run(
    engine: Engine,
    settings: Settings,
    counts: RetentionCounts,
    began: int,
    leave_for: int = 0,
    error: str | None = None,
) -> None:
    """Record what a run has done so far. No other worker need begin one for `leave_for` milliseconds."""
    now = engine.clock.now()
    run = RetentionRun(
        at=now,
        duration=now - began,
        archived=counts.archived,
        deleted=counts.deleted,
        dead_letters=counts.dead_letters,
        partition=partition_of(now, settings.archive_partition),
        dropped=counts.dropped,
        until=now + leave_for,
        error=error,
    )
    # A full store accepts no write, and this run may be there to empty it.
    with contextlib.suppress(EngineUnavailable):
        store_last_run(engine.document_store, run)


def emit_run(engine: Engine, settings: Settings, counts: RetentionCounts, took: int, error: str | None = None) -> None:
    """Emit the archive.swept or archive.failed event, if anything was done; `took` is in milliseconds."""
    named: dict[str, int | str] = {
        "archived": counts.archived,
        "deleted": counts.deleted,
        "dead_letters": counts.dead_letters,
        "dead_letters_expired": counts.expired,
        "partitions_created": len(counts.prepared),
        "partitions_detached": len(counts.dropped),
        "partition_failures": counts.unprepared,
    }
    data = {name: count for name, count in named.items() if count}
    if error is not None:
        data["error"] = error
    if not data or not settings.events:
        return
    kind = "archive.swept" if error is None else "archive.failed"
    with contextlib.suppress(EngineUnavailable):
        engine.events.append([EventGroup(kind, engine.clock.now(), runs=[max(took, 0)], data=[data])])
