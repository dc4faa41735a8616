"""How long a job waits for an idle worker."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.child import Child
from bench.draining import CONCURRENCY
from bench.measure import Figure, Goal, Ground, Measure, Readings
from bench.peer import open_peer
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
    return _headrace(ground) | _huey(ground)


def _headrace(ground: Ground) -> Readings:
    with ground.store() as path, Child(ground, "worker", "serve", path, ground.durability, CONCURRENCY) as child:
        child.wait_until_ready()
        subject = open_subject(path, ground.durability)
        with subject.app:
            wait_for_worker(subject, child)
            delays = _delays(ground, subject.stamp.enqueue, lambda job: job.result(timeout=_ANSWERED_WITHIN))
        child.terminate()
    return {"p50": _percentile(delays, 50), "p90": _percentile(delays, 90), "p99": _percentile(delays, 99)}


def _huey(ground: Ground) -> Readings:
    with ground.store() as path, Child(ground, "huey_side", "serve", path, ground.durability) as child:
        child.wait_until_ready()
        with open_peer(path, ground.durability) as peer:
            delays = _delays(ground, peer.stamp, lambda result: result.get(blocking=True, timeout=_ANSWERED_WITHIN))
        child.terminate()
    return {"huey p50": _percentile(delays, 50), "huey p99": _percentile(delays, 99)}


def wait_for_worker(subject: Subject, child: Child) -> None:
    """Until the worker has signed on."""
    deadline = time.monotonic() + _SIGNED_ON_WITHIN
    while not subject.app.workers():
        child.check()
        if time.monotonic() > deadline:
            raise child.failure("did not sign on")
        time.sleep(0.02)


def _delays(ground: Ground, enqueue: Callable[[], Any], result_of: Callable[[Any], int]) -> list[float]:
    """Milliseconds from enqueue to start. Results are read at the end: waiting for them would disturb."""
    pauses = random.Random(20)
    sent = []
    for _ in range(_WARM_UP + ground.sizes.samples):
        time.sleep(pauses.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
        before = time.time_ns()
        sent.append((before, enqueue()))
    return [(result_of(job) - before) / 1e6 for before, job in sent[_WARM_UP:]]


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


MEASURE = Measure(
    "latency",
    latency,
    (
        Figure("p50", "enqueue to start, p50", "ms", Goal("at most", 2)),
        Figure("p90", "enqueue to start, p90", "ms"),
        Figure("p99", "enqueue to start, p99", "ms", Goal("at most", 10)),
        Figure("huey p50", "huey, p50", "ms"),
        Figure("huey p99", "huey, p99", "ms"),
    ),
)
