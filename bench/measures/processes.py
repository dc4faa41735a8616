"""Whether more worker processes get more done."""

from __future__ import annotations

from bench import draining
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings


def processes(ground: Ground) -> Readings:
    """The same drain by one, two and four worker processes on one store.

    Throughput should rise until the engine is the limit, more processes than cores should not hurt much, and none
    should starve: the share is that of the process which got the fewest jobs, with 1 for an even split.
    """
    readings: Readings = {}
    for count in (1, 2, 4):
        with ground.store() as store:
            draining.fill(store, ground.sizes.jobs, lambda subject: subject.noop)
            score = draining.drain(ground, store, ground.sizes.jobs, processes=count)
        readings[f"{count}"] = score.rate
        readings[f"share of {count}"] = min(score.completed) * count / score.total
    return readings


MEASURE = Measure(
    "processes",
    processes,
    (
        Figure("1", "one process, concurrency 4"),
        Figure("2", "two processes"),
        Figure("4", "four processes"),
        Figure("share of 2", "smallest share of two", "×"),
        Figure("share of 4", "smallest share of four", "×"),
    ),
    (
        Ratio("2", "1", "two / one", Goal("at least", 1)),
        Ratio("4", "1", "four / one", Goal("at least", 1)),
    ),
)
