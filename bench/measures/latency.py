"""How long a job waits for an idle worker."""

from __future__ import annotations

import random
import statistics
import time

from bench import racing
from bench.child import Child
from bench.draining import CONCURRENCY, prepare
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.peers import Peer
from bench.tasks import Subject, open_subject

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
_SIGNED_ON_WITHIN = 30.0
_WARM_UP = 5
_ANSWERED_WITHIN = 30.0


def latency(ground: Ground) -> Readings:
    """From just before enqueue() in one process to the first line of the task in another, idle one.

    It holds the commit, the wake-up, the claim and the start. Pauses between the jobs are random, so that no timer
    of the worker can be in step with them.
    """
    delays = _headrace(ground)
    readings = {f"p{percent}": _percentile(delays, percent) for percent in (50, 90, 99)}
    return readings | racing.ask_each(ground, lambda peer: _peer(ground, peer))


def _peer(ground: Ground, peer: Peer) -> Readings:
    delays = racing.delays(ground, peer, ground.sizes.samples // 3)
    return {f"{peer.title} p{percent}": _percentile(delays, percent) for percent in (50, 99)}


def _headrace(ground: Ground) -> list[float]:
    with ground.store() as store:
        prepare(store)
        with Child(ground, store, "worker", "serve", CONCURRENCY, 0) as child:
            child.wait_until_ready()
            subject = open_subject(store.url, store.durability)
            with subject.app:
                wait_for_worker(subject, child)
                delays = _delays(ground, subject)
            child.terminate()
    return delays


def wait_for_worker(subject: Subject, child: Child) -> None:
    """Until the worker has signed on."""
    deadline = time.monotonic() + _SIGNED_ON_WITHIN
    while not subject.app.workers():
        child.check()
        if time.monotonic() > deadline:
            raise child.failure("did not sign on")
        time.sleep(0.02)


def _delays(ground: Ground, subject: Subject) -> list[float]:
    """Milliseconds from enqueue to start. Results are read at the end: waiting for them would disturb."""
    pauses = random.Random(20)
    sent = []
    for _ in range(_WARM_UP + ground.sizes.samples):
        time.sleep(pauses.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
        before = time.time_ns()
        sent.append((before, subject.stamp.enqueue()))
    return [(job.result(timeout=_ANSWERED_WITHIN) - before) / 1e6 for before, job in sent[_WARM_UP:]]


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def measure(candidates: tuple[Peer, ...]) -> Measure:
    """The measure beside these."""
    return Measure(
        "latency",
        latency,
        (
            Figure("p50", "enqueue to start, p50", "ms", Goal("at most", 2)),
            Figure("p90", "enqueue to start, p90", "ms"),
            Figure("p99", "enqueue to start, p99", "ms", Goal("at most", 10)),
            *(
                Figure(f"{peer.title} p{percent}", f"{peer.title}, p{percent}", "ms")
                for peer in candidates
                for percent in (50, 99)
            ),
        ),
        tuple(Ratio("p50", f"{peer.title} p50", f"headrace / {peer.title}, p50") for peer in candidates),
    )
