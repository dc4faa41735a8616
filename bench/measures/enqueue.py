"""How fast jobs are stored."""

from __future__ import annotations

from bench.child import time_in_child
from bench.measure import Figure, Goal, Ground, Measure, Ratio, Readings

_BATCH = 1000


def enqueue(ground: Ground) -> Readings:
    """Durable enqueues, in the four ways a program may call: it is what a web request waits for.

    The bare engine stores finished records, so the ratio to it shows what checking, encoding and the handle cost.
    No worker listens; what its bell adds to an enqueue is part of the latency. huey is measured twice: with the
    durability of this run, and as it comes, which is a sync to the disk for each commit.
    """
    sizes = ground.sizes
    return {
        "single": _rate(ground, "producer", "single", sizes.singles),
        "bare single": _rate(ground, "bare", "insert", sizes.singles, 1),
        "huey single": _rate(ground, "huey_side", "enqueue", sizes.singles // 2),
        "huey as it comes": _rate(ground, "huey_side", "enqueue", sizes.singles // 4, durability="full"),
        "threads": _rate(ground, "producer", "threads", sizes.singles),
        "tasks": _rate(ground, "producer", "tasks", sizes.singles),
        "many": _rate(ground, "producer", "many", sizes.bulk),
        "bare many": _rate(ground, "bare", "insert", sizes.bulk, _BATCH),
    }


def _rate(ground: Ground, program: str, way: str, jobs: int, *more: int, durability: str | None = None) -> float:
    with ground.store() as path:
        return time_in_child(ground, program, way, path, durability or ground.durability, jobs, *more).rate


MEASURE = Measure(
    "enqueue",
    enqueue,
    (
        Figure("single", "enqueue(), one thread"),
        Figure("bare single", "bare engine, one job a commit"),
        Figure("huey single", "huey, same durability"),
        Figure("huey as it comes", "huey, as it comes"),
        Figure("threads", "enqueue(), 8 threads"),
        Figure("tasks", "aenqueue(), 64 asyncio tasks"),
        Figure("many", "enqueue_many(), batches of 1000"),
        Figure("bare many", "bare engine, batches of 1000"),
    ),
    (
        Ratio("single", "bare single", "enqueue() / bare engine"),
        Ratio("single", "huey single", "enqueue() / huey, same durability", Goal("at least", 3)),
        Ratio("single", "huey as it comes", "enqueue() / huey, as it comes"),
        Ratio("many", "bare many", "enqueue_many() / bare engine", Goal("at least", 0.5)),
    ),
)
