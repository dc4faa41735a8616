"""How soon those who listen hear of a job that completed."""

from __future__ import annotations

import time

from bench import draining
from bench.child import Child, free_port
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Readings
from bench.tasks import open_subject

_LISTENERS = (160, 20, 20)  # to one queue, to everything, and those that take nothing
_A_SECOND = 5000
_TICK = 0.1
_SECONDS = 6


def live(ground: Ground) -> Readings:
    """Two hundred listen to one web process while jobs go through a worker at 5,000 a second.

    Twenty of them listen to everything, and twenty more take nothing of what they are sent. The figure is how old the
    event of a completed job is when one of the others has it.
    """
    port = free_port()
    with ground.store() as store:
        draining.prepare(store)
        with Child(ground, store, "web", port) as web:
            web.wait_until_ready()
            with (
                Child(ground, store, "listeners", port, *_LISTENERS) as listeners,
                draining.working(ground, store) as worker_state,
            ):
                listeners.wait_until_ready()
                _feed(store, 1)
                worker_state.wait_for(_A_SECOND)
                listeners.go()
                rate = _feed(store, _SECONDS)
                worker_state.wait_for(_A_SECOND * (_SECONDS + 1))
                listeners.stop_waiting()
                told = listeners.answer()
    return {"rate": rate, "longest": told.seconds * 1000, "p99": told.processor * 1000}


def _feed(store: Store, seconds: int) -> float:
    """Enqueue at an even pace, one job of each batch into a queue of its own; how many a second that were."""
    subject = open_subject(store.url, store.durability)
    with subject.app as app:
        began, batch = time.monotonic(), int(_A_SECOND * _TICK)
        for number in range(1, int(seconds / _TICK) + 1):
            calls = [subject.noop.bind(each) for each in range(batch - 1)]
            app.enqueue_many([*calls, subject.noop.using(queue="probe").bind(0)])
            time.sleep(max(began + number * _TICK - time.monotonic(), 0))
        return _A_SECOND * seconds / (time.monotonic() - began)


MEASURE = Measure(
    "live",
    live,
    (
        Figure("rate", "jobs that came meanwhile"),
        Figure("p99", "age of an event when a listener has it, p99", "ms", Goal("at most", 1000)),
        Figure("longest", "the oldest", "ms", Goal("at most", 1000)),
    ),
)
