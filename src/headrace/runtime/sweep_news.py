"""Tells what a walk over finished jobs has done, as an event of the store; metrics of the archive are made of these."""

from __future__ import annotations

import contextlib

from headrace.core.pages import Group
from headrace.core.settings import Settings
from headrace.engines.protocol import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.departures import Tally


def tell_sweep(engine: Engine, settings: Settings, tally: Tally, took: int, error: str | None = None) -> None:
    """Tell it, if there is anything to tell; `took` is in milliseconds.

    A store that is full takes no word any more, and to make room in it is just what a walk is about.
    """
    told: dict[str, int | str] = {
        "archived": tally.archived,
        "deleted": tally.deleted,
        "dead_letters": tally.letters,
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
        engine.events.tell([Group(kind, engine.clock.now(), runs=[max(took, 0)], data=[data])])
