"""Folding that is killed at any moment: no event is counted twice, and none is left out."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from headrace import Headrace
from headrace.core.events.log import EventGroup
from headrace.core.metrics.buckets import EVER, HOUR, MINUTE, TEN_SECONDS
from headrace.core.metrics.cells import total
from headrace.runtime.metrics.queries import jobs_in
from headrace.runtime.metrics.rollup import Rollup
from tests.faults.conftest import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
PAGES, JOBS = 600, 7
FOLD = """
import sys
from headrace import Headrace
from headrace.runtime.metrics.rollup import Rollup

app = Headrace(sys.argv[1])
folder = Rollup(app.engine, app.settings)
while True:
    folder._pages = 1  # small pieces, so that there is much to be cut off
    folder.fold()
"""


def folding(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", FOLD, url], env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def completed(app: Headrace) -> list[int]:
    now = app.clock.now()
    return [
        total(
            cell
            for _, cells in jobs_in(app.engine.document_store, width, now - 3_600_000, now)
            for cell in cells.values()
        ).completed
        for width in (TEN_SECONDS, MINUTE, HOUR, EVER)
    ]


def test_whoever_is_killed_each_event_counts_once(url: str, chance: random.Random) -> None:
    with Headrace(url) as app:
        jobs = [str(number) for number in range(JOBS)]
        for number in range(PAGES):
            group = EventGroup("job.completed", app.clock.now(), f"q{number % 3}", "work", "w1", jobs, runs=[5] * JOBS)
            app.engine.events.append([group])
        cut_off = 0
        for _ in range(2):
            before = completed(app)[-1]
            process = folding(url)
            try:
                eventually(lambda: completed(app)[-1] > before)  # noqa: B023
                time.sleep(chance.uniform(0, 0.03))
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
            assert len(set(completed(app))) == 1, "a piece is in all buckets or in none"
            cut_off += completed(app)[-1] < PAGES * JOBS
        assert cut_off, "it was never cut off in its middle"
        folder = Rollup(app.engine, app.settings)
        while folder.fold():
            pass
        assert completed(app) == [PAGES * JOBS] * 4
