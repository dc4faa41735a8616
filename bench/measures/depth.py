"""Whether a full store is as fast as an empty one."""

from __future__ import annotations

import functools
from pathlib import Path

from bench import draining
from bench.child import time_in_child
from bench.measure import Figure, Goal, Ground, Measure, Ratio, Readings
from bench.tasks import filled, open_subject

_WARM_UP = 1000
_BATCH = 500


def depth(ground: Ground) -> Readings:
    """Enqueue, claim and drain with few jobs in the store, with many waiting, and with many finished.

    A queue that slows down as it fills up can't recover from a backlog. Caches are warmed before the clock runs.
    The large stores are built once and serve all rounds, topped up where a measure has used them up.
    """
    readings: Readings = {}
    with ground.store() as shallow:
        stores = {
            "shallow": shallow,
            "deep": ground.kept("deep", functools.partial(_build_deep, ground)),
            "history": ground.kept("history", functools.partial(_build_history, ground)),
        }
        for place, path in stores.items():
            readings |= {f"{kind}, {place}": rate for kind, rate in _rates(ground, path).items()}
    return readings


def _rates(ground: Ground, path: Path) -> dict[str, float]:
    few = ground.sizes.shallow
    _top_up(ground, path, few)
    enqueue = time_in_child(ground, "producer", "single", path, ground.durability, few // 2).rate
    _top_up(ground, path, few + _WARM_UP)
    claim = time_in_child(ground, "bare", "drain", path, ground.durability, few, _BATCH, _WARM_UP).rate
    _top_up(ground, path, few + _WARM_UP)
    with draining.working(ground, path) as crew:
        warm = crew.wait_for(_WARM_UP)
        drain = crew.wait_for(few).rate_since(warm)
    return {"enqueue": enqueue, "claim": claim, "drain": drain}


def _top_up(ground: Ground, path: Path, jobs: int) -> None:
    """At least so many jobs waiting."""
    subject = open_subject(path, ground.durability)
    with subject.app:
        subject.fill(max(jobs - subject.app.queue("default").stats().pending, 0))


def _build_deep(ground: Ground, path: Path) -> None:
    filled(path, ground.durability, ground.sizes.deep, lambda subject: subject.noop)


def _build_history(ground: Ground, path: Path) -> None:
    _build_deep(ground, path)
    time_in_child(ground, "bare", "drain", path, ground.durability, ground.sizes.deep, _BATCH)


_KINDS = {"enqueue": "enqueue()", "claim": "bare claim and complete", "drain": "drain"}
_PLACES = {"shallow": "few jobs", "deep": "many waiting", "history": "many finished"}

MEASURE = Measure(
    "depth",
    depth,
    tuple(
        Figure(f"{kind}, {place}", f"{kind_title}, {place_title}")
        for kind, kind_title in _KINDS.items()
        for place, place_title in _PLACES.items()
    ),
    tuple(
        Ratio(f"{kind}, {place}", f"{kind}, shallow", f"{kind_title}, {_PLACES[place]} / few", Goal("at least", 0.8))
        for kind, kind_title in _KINDS.items()
        for place in ("deep", "history")
    ),
)
