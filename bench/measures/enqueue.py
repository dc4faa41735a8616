"""How fast jobs are stored."""

from __future__ import annotations

from bench import racing
from bench.child import time_in_child
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.peers import Peer

_BATCH = 1000


def enqueue(ground: Ground) -> Readings:
    """Durable enqueues, in the four ways a program may call: it is what a web request waits for.

    The bare engine stores finished records, so the ratio to it shows what checking, encoding and the handle cost.
    No worker listens; what its bell adds to an enqueue is part of the latency. A peer stores one job after the other.
    """
    sizes = ground.sizes
    readings = {
        "single": _rate(ground, "producer", "single", sizes.singles),
        "bare single": _rate(ground, "bare", "insert", sizes.singles, 1),
    }
    # Next to ours: where each commit waits for the disk, the disk's mood decides, and it changes by the minute.
    readings |= racing.ask_each(
        ground, lambda peer: {peer.title: racing.enqueue(ground, peer, sizes.singles // 4).rate}
    )
    readings |= {
        "threads": _rate(ground, "producer", "threads", sizes.singles),
        "tasks": _rate(ground, "producer", "tasks", sizes.singles),
        "many": _rate(ground, "producer", "many", sizes.bulk),
        "bare many": _rate(ground, "bare", "insert", sizes.bulk, _BATCH),
    }
    if rivals := ground.rivals():
        readings["best"] = max(readings[peer.title] for peer in rivals)
    return readings


def _rate(ground: Ground, program: str, way: str, jobs: int, *more: int) -> float:
    with ground.store() as store:
        return time_in_child(ground, store, program, way, jobs, *more).rate


def measure(candidates: tuple[Peer, ...]) -> Measure:
    """The measure beside these."""
    return Measure(
        "enqueue",
        enqueue,
        (
            Figure("single", "enqueue(), one thread"),
            Figure("bare single", "bare engine, one job a commit"),
            Figure("threads", "enqueue(), 8 threads"),
            Figure("tasks", "aenqueue(), 64 asyncio tasks"),
            Figure("many", "enqueue_many(), batches of 1000"),
            Figure("bare many", "bare engine, batches of 1000"),
            *(Figure(peer.title, f"{peer.title}, one at a time") for peer in candidates),
        ),
        (
            Ratio("single", "bare single", "enqueue() / bare engine"),
            Ratio("single", "best", "enqueue() / best peer", Goal("at least", 3)),
            *(Ratio("single", peer.title, f"enqueue() / {peer.title}") for peer in candidates),
            Ratio("many", "bare many", "enqueue_many() / bare engine", Goal("at least", 0.5)),
        ),
    )
