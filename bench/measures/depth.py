"""Whether a full store is as fast as an empty one."""

from __future__ import annotations

from collections.abc import Callable

from bench import draining, history
from bench.child import time_in_child
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.tasks import open_subject

_WARM_UP = 1000
_BATCH = 500


def depth(ground: Ground) -> Readings:
    """Enqueue, claim and drain with few jobs in the store, with many waiting, and with many finished.

    A queue that slows down as it fills up can't recover from a backlog. Caches are warmed before the clock runs.
    The large stores are built once and serve all rounds, topped up where a measure has used them up. What is compared
    is measured one right after the other.
    """
    sizes = ground.sizes
    readings: Readings = {}
    with ground.store() as shallow:
        stores = {
            "shallow": shallow,
            "deep": ground.kept("deep", lambda store: draining.fill(store, sizes.deep, lambda subject: subject.noop)),
            "history": ground.kept("history", lambda store: history.build(ground, store, sizes.history)),
        }
        for kind, rate in _RATES.items():
            for store in stores.values():
                _top_up(store, sizes.shallow + _WARM_UP)
            for place, store in stores.items():
                ground.place.rest(store.url)
                readings[f"{kind}, {place}"] = rate(ground, store)
    return readings


def _enqueue(ground: Ground, store: Store) -> float:
    return time_in_child(ground, store, "producer", "single", ground.sizes.shallow // 2).rate


def _claim(ground: Ground, store: Store) -> float:
    return time_in_child(ground, store, "bare", "drain", ground.sizes.shallow, _BATCH, _WARM_UP).rate


def _drain(ground: Ground, store: Store) -> float:
    with draining.working(ground, store) as worker_state:
        warm = worker_state.wait_for(_WARM_UP)
        return worker_state.wait_for(ground.sizes.shallow).rate_since(warm)


_RATES: dict[str, Callable[[Ground, Store], float]] = {"enqueue": _enqueue, "claim": _claim, "drain": _drain}


def _top_up(store: Store, jobs: int) -> None:
    """At least so many jobs waiting."""
    subject = open_subject(store.url, store.durability)
    with subject.app:
        subject.fill(max(jobs - subject.app.queue("default").stats().pending, 0))


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
