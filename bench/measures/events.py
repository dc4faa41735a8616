"""What it costs that a store tells what happens in it."""

from __future__ import annotations

import statistics
from collections import defaultdict

from bench import draining
from bench.child import Timed, time_in_child
from bench.ground import Ground, Telling
from bench.measure import Figure, Goal, Measure, Ratio, Readings

_WAYS: tuple[Telling, ...] = ("nothing", "events", "metrics")
_TURNS = 5


def events(ground: Ground) -> Readings:
    """Drain stores that tell nothing, events, and events with metrics; and enqueue single jobs there.

    They take turns, each way at each place of the order, and what is compared are the medians: a slow moment of the
    machine falls on all of them alike. The processor time of the worker hardly changes with what else is going on; that
    of a server is in the rate alone. The time that metrics take to be counted is within both.
    """
    read: defaultdict[str, list[float]] = defaultdict(list)
    for turn in range(_TURNS):
        for place in range(len(_WAYS)):
            tells = _WAYS[(turn + place) % len(_WAYS)]
            drained = _drain(ground, tells)
            read[tells].append(drained.rate)
            read[f"{tells} effort"].append(drained.effort)
            if tells != "metrics":  # nobody counts while there is no worker
                enqueued = _enqueue(ground, tells)
                read[f"{tells} single"].append(1e6 / enqueued.rate)
                read[f"{tells} single effort"].append(enqueued.effort)
    return {name: statistics.median(values) for name, values in read.items()}


def _drain(ground: Ground, tells: Telling) -> Timed:
    jobs = ground.sizes.jobs // 2
    with ground.store(tells) as store:
        draining.fill(store, jobs, lambda subject: subject.noop)
        return time_in_child(ground, store, "drainer", jobs)


def _enqueue(ground: Ground, tells: Telling) -> Timed:
    with ground.store(tells) as store:
        return time_in_child(ground, store, "producer", "single", ground.sizes.singles // 4)


MEASURE = Measure(
    "events",
    events,
    (
        Figure("nothing", "drain, events off"),
        Figure("events", "drain, events on"),
        Figure("metrics", "drain, events and metrics on"),
        Figure("nothing effort", "processor time a job, events off", "µs"),
        Figure("events effort", "processor time a job, events on", "µs"),
        Figure("metrics effort", "processor time a job, events and metrics on", "µs"),
        Figure("nothing single", "one enqueue(), events off", "µs"),
        Figure("events single", "one enqueue(), events on", "µs"),
    ),
    (
        Ratio("events", "nothing", "drain, events on / off", Goal("at least", 0.95)),
        Ratio("metrics", "nothing", "drain, events and metrics on / off", Goal("at least", 0.9)),
        Ratio("events effort", "nothing effort", "processor time of a drain, events on / off", Goal("at most", 1.06)),
        Ratio("metrics effort", "nothing effort", "the same with metrics", Goal("at most", 1.12)),
        Ratio("events single effort", "nothing single effort", "processor time of enqueue(), events on / off"),
    ),
)
