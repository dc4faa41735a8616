"""The rates of one step: what a store of that size still does in a second."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sized

import msgspec

from bench import draining
from bench.board import Score
from bench.child import Child, time_in_child
from bench.ground import Ground, Store
from bench.scale.axes import Load
from bench.scale.processors import usage
from bench.scale.rates import Rates
from bench.tasks import open_subject

_PLENTY = "1000000/s"  # holds nothing back, so that the figure is the cost of asking
_URGENT = "urgent"
_SAMPLES, _WARM_UP = 40, 5
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.05
_ANSWERED_WITHIN = 60.0
_SIGNED_ON_WITHIN = 300.0  # dozens of processes start on few cores
_SETTLE = 3.0  # what a worker does once when it begins


def prepare(store: Store, load: Load) -> None:
    """Make the tables, and the rule that looks at keys."""
    subject = open_subject(store.url, store.durability)
    with subject.app:
        subject.finished()
        if load.keys:
            subject.app.queue("default").configure(key_rate=_PLENTY)


def fill(ground: Ground, store: Store, load: Load, jobs: int) -> float:
    """Enqueue so many jobs; the jobs a second."""
    if jobs <= 0:
        return 0.0
    return time_in_child(ground, store, "scaled", msgspec.json.encode(load).decode(), jobs).rate


def top_up(ground: Ground, store: Store, load: Load) -> None:
    """As many jobs waiting as the load begins with."""
    subject = open_subject(store.url, store.durability)
    with subject.app:
        waiting = sum(queue.pending for queue in subject.app.queues())
    fill(ground, store, load, load.base - waiting)


def probe(ground: Ground, store: Store, load: Load) -> Rates:
    """Enqueue, drain, and have a single job started, beside what is there."""
    ground.place.rest(store.url)
    began = usage()
    rates = {"enqueue": fill(ground, store, load, load.probe), "size": ground.place.size(store.url) / 1e6}
    rates |= _drain(ground, store, load) | {"p50": _p50(ground, store, load)}
    ended = usage()
    return rates | {"others": 100 * (ended - began).others} if began and ended else rates


def _drain(ground: Ground, store: Store, load: Load) -> Rates:
    """The rate after the warm-up, and how many cores the workers used of those there are."""
    with _crew(ground, store, load) as crew:
        warm, before = crew.wait_for(load.warm_up), usage()
        score = crew.wait_for(min(warm.total + load.probe - load.warm_up, load.base + load.probe))
        after = usage()
    if score.total == warm.total:  # so few jobs that they were done at the first look: from the beginning, then
        warm = Score(score.started, score.started, 0, ())
    busy = (score.used - warm.used) / max(1, score.seen - warm.seen)
    rates = {"drain": score.rate_since(warm), "cores": busy}
    if before and after:
        rates["cost"] = 1e6 * (after - before).ours / (score.total - warm.total)
    return rates


@contextlib.contextmanager
def _crew(ground: Ground, store: Store, load: Load) -> Iterator[draining.Crew]:
    """Workers that drain. Several begin together, when all are there: their start keeps the processors busy."""
    if load.processes == 1:
        with draining.working(ground, store, names=_names(load)) as crew:
            yield crew
        return
    subject = open_subject(store.url, store.durability)
    with subject.app:
        queue = subject.app.queue("default")
        queue.pause()
        with draining.working(ground, store, load.processes, names=_names(load)) as crew:
            _wait_until_all_signed_on(subject.app.workers, load.processes)
            time.sleep(_SETTLE)
            queue.resume()
            yield crew


def _p50(ground: Ground, store: Store, load: Load) -> float:
    """Milliseconds from enqueue() to the start, in a queue of which all these workers are idle."""
    subject = open_subject(store.url, store.durability)
    with _idle(ground, store, load) as workers, subject.app:
        _wait_until_all_signed_on(subject.app.workers, len(workers))
        stamp, ballast = subject.stamp.using(queue=_URGENT), load.ballast
        pauses, sent = random.Random(20), []
        for _ in range(_WARM_UP + _SAMPLES):
            time.sleep(pauses.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
            before = time.time_ns()
            sent.append((before, stamp.enqueue(ballast)))
        delays = [(job.result(timeout=_ANSWERED_WITHIN) - before) / 1e6 for before, job in sent[_WARM_UP:]]
    return statistics.median(delays)


@contextlib.contextmanager
def _idle(ground: Ground, store: Store, load: Load) -> Iterator[list[Child]]:
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(Child(ground, store, "worker", "serve", draining.CONCURRENCY, _names(load), _URGENT))
            for _ in range(load.processes)
        ]
        for worker in workers:
            worker.wait_until_ready()
        yield workers
        for worker in workers:
            worker.terminate()


def _wait_until_all_signed_on(workers: Callable[[], Sized], count: int) -> None:
    deadline = time.monotonic() + _SIGNED_ON_WITHIN
    while len(workers()) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {len(workers())} of {count} workers have signed on")
        time.sleep(0.2)


def _names(load: Load) -> int:
    return load.names if load.names > 1 else 0
