"""How long it takes to find jobs that stay too long, and to do something about them."""

from __future__ import annotations

import time

from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Readings
from bench.tasks import open_subject

_JOBS = 10_000
_SHORT = 0.001  # seconds, after which a pending job is stale


def stale(ground: Ground) -> Readings:
    """Look at ten thousand pending jobs that are all stale: a dry run, and then the real one, which ends them all."""
    readings: Readings = {}
    with ground.store() as store:
        subject = open_subject(store.url, store.durability)
        with subject.app as app:
            subject.fill(_JOBS)
            app.lifecycle.configure(queue="default", max_pending=_SHORT, on_stale="fail")
            for name, dry_run in (("look", True), ("apply", False)):
                began = time.perf_counter()
                found = app.lifecycle.detect_stale(dry_run=dry_run)
                readings[name] = 1000 * (time.perf_counter() - began)
                assert sum(job.applied is not dry_run for job in found) == _JOBS
    return readings


MEASURE = Measure(
    "stale",
    stale,
    (
        Figure("look", "find 10,000 stale jobs", "ms", Goal("at most", 5000)),
        Figure("apply", "find them and end them", "ms"),
    ),
)
