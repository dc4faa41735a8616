"""Every measure, in the order it is taken and printed."""

from __future__ import annotations

from bench.measure import Measure
from bench.measures import (
    archive,
    browser,
    depth,
    drain,
    enqueue,
    events,
    find,
    idle,
    imports,
    latency,
    limits,
    live,
    pages,
    peers,
    processes,
    recent,
    stale,
)
from bench.peers import Peer
from bench.places import Engine

NAMES = (
    *("enqueue", "drain", "peers", "processes", "latency", "idle"),
    *("depth", "limits", "find", "pages", "browser", "archive", "recent", "stale", "events", "live", "imports"),
)


def measures_of(engine: Engine, candidates: tuple[Peer, ...]) -> list[Measure]:
    """The measures of an engine, with a row for each of these peers where they take part."""
    return [
        enqueue.measure(candidates),
        drain.MEASURE,
        peers.measure(engine, candidates),
        processes.MEASURE,
        latency.measure(candidates),
        idle.MEASURE,
        depth.MEASURE,
        limits.MEASURE,
        find.MEASURE,
        pages.MEASURE,
        browser.MEASURE,
        archive.MEASURE,
        recent.MEASURE,
        stale.MEASURE,
        events.MEASURE,
        live.MEASURE,
        imports.measure(candidates),
    ]
