"""A headrace worker that drains a store and reports what that took: `drainer JOBS`.

Where metrics are kept, what the jobs told is counted before the clock stops: whatever metrics cost is in the figure,
and not left for later.
"""

from __future__ import annotations

import sys
import time

from bench.stage import report_time_of, store
from bench.tasks import open_subject
from headrace import Headrace

_CONCURRENCY = 4
_LOOK = 0.002


def drain(app: Headrace, jobs: int) -> int:
    with app.worker(concurrency=_CONCURRENCY) as worker:
        while worker.completed < jobs:
            time.sleep(_LOOK)
    _count(app)
    return jobs


def _count(app: Headrace) -> None:
    if app.settings.metrics:
        app.metrics.value("throughput", window=10)


def main(jobs: str) -> None:
    with open_subject(*store()).app as app:
        _count(app)  # what was told of the enqueuing is not part of it
        report_time_of(lambda: drain(app, int(jobs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
