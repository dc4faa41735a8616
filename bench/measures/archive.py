"""Whether finished jobs leave the store without being felt."""

from __future__ import annotations

import time

from bench import draining, history
from bench.child import Child
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.tasks import open_subject
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State

_PAUSE = 0.01
_WARM_UP = 2000
_RIPE = 8 * 86_400_000  # completed jobs stay for a week
_CYCLES = 5
_SETTLED = 3
_SLOWEST = 100  # jobs a second
_SOME = 500  # pages of events


def archive(ground: Ground) -> Readings:
    """Drain a store of many finished jobs, once when they are to stay and once when they are to leave meanwhile.

    One worker does both, the draining and, beside it, the sweep. Another process claims jobs of its own every few
    milliseconds and notes how long the slowest claim took, from the first of the drain to the last of the sweep. Then
    jobs come and leave in cycles, and the store is to be as large after the last one as after the third: what an index
    of PostgreSQL has freed can be used again one or two vacuums later.
    """
    return {**_drain(ground, "quiet", 0), **_drain(ground, "sweeping", _RIPE), **_cycles(ground)}


def _drain(ground: Ground, name: str, age: int) -> Readings:
    sizes = ground.sizes
    with ground.store() as store:
        history.build(ground, store, sizes.history, age)
        draining.fill(store, sizes.jobs + _WARM_UP, lambda subject: subject.noop)
        ground.place.rest(store.url)
        with Child(ground, store, "prober", _PAUSE) as prober:
            prober.wait_until_ready()
            with draining.working(ground, store) as worker_state:
                warm = worker_state.wait_for(_WARM_UP)
                prober.go()
                rate = worker_state.wait_for(sizes.jobs).rate_since(warm)
                readings = {f"{name} drain": rate}
                if age:
                    readings["sweep"] = _rate_of_sweep(store, sizes.history)
            prober.stop_waiting()
            told = prober.answer()
        return readings | {f"{name} longest": told.seconds * 1000, f"{name} p99": told.processor * 1000}


def _rate_of_sweep(store: Store, jobs: int) -> float:
    """Wait until all have left, and how many did in a second from now on."""
    with open_subject(store.url, store.durability).app as app:
        before = app.engine.clock.now() - _RIPE + 86_400_000
        which = Filter(queue="default", states=(State.COMPLETED,), until=before)
        left, began = app.engine.queries.count(which).jobs, time.monotonic()
        # Whether one is left is asked of an index; to count them again and again would take a processor of its own.
        while app.engine.retention_store.finished("default", State.COMPLETED, before, 1):
            if time.monotonic() > began + 60 + jobs / _SLOWEST:
                raise TimeoutError(
                    f"{app.engine.queries.count(which).jobs} of {jobs} finished jobs have not left the store"
                )
            time.sleep(0.2)
        return left / max(time.monotonic() - began, 0.001)


def _cycles(ground: Ground) -> Readings:
    """How large the store is after each of several cycles in which jobs come and leave."""
    sizes: list[int] = []
    with ground.store() as store:
        for _ in range(_CYCLES):
            history.build(ground, store, ground.sizes.jobs, _RIPE)
            with open_subject(store.url, store.durability).app as app:
                gone = app.lifecycle.archive(dry_run=False)
                assert gone.archived + gone.deleted >= ground.sizes.jobs
                # Events are kept by their number and age, whatever jobs come and go: they are not what is looked at.
                while app.engine.events.trim(app.engine.clock.now() + 1, 0, _SOME) == _SOME:
                    pass
            ground.place.rest(store.url)
            with open_subject(store.url, store.durability).app as app:
                archived = sum(one.bytes for one in app.lifecycle.partitions()) if ground.engine == "postgres" else 0
                sizes.append(int(app.engine.maintenance.facts().details["size"]) - archived)
    return {"growth": sizes[-1] / max(sizes[_SETTLED - 1], 1)}


MEASURE = Measure(
    "archive",
    archive,
    (
        Figure("quiet drain", "drain beside many finished jobs"),
        Figure("sweeping drain", "drain while they leave for the archive"),
        Figure("sweep", "finished jobs that leave, by one worker"),
        Figure("quiet longest", "longest claim of another process, drain alone", "ms"),
        Figure("sweeping longest", "longest claim of another process, while they leave", "ms", Goal("at most", 100)),
        Figure("quiet p99", "p99 of these claims, drain alone", "ms"),
        Figure("sweeping p99", "p99 of these claims, while they leave", "ms"),
        Figure("growth", f"size of the store after {_CYCLES} cycles / after {_SETTLED}", "", Goal("at most", 1.2)),
    ),
    (Ratio("sweeping drain", "quiet drain", "drain while they leave / alone", Goal("at least", 0.8)),),
)
