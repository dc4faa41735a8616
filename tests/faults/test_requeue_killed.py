"""A requeue of many that is killed at any moment: no record is resolved without its job, no job comes back twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace import Headrace
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs import outcomes
from headrace.core.jobs.records import ClaimRequest, ErrorInfo, Filter
from headrace.core.jobs.states import State, Trigger
from tests.faults.conftest import ROOT
from tests.support.builders import new_job
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

JOBS = 4_000
REQUEUED = DeadLetterFilter(statuses=("requeued",))


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with Headrace(url) as app:
        now = app.clock.now()
        jobs = [new_job(f"j{number}", created_at=now, run_at=now, max_attempts=1) for number in range(JOBS)]
        app.engine.insert(jobs)
        error = ErrorInfo("ConnectionError", "away")
        while claims := app.engine.exchange([], ClaimRequest("w1", 1000, 600_000)).claims:
            failed = [outcomes.fail(claim, "attempts_used_up", error, 1, app.clock.now()) for claim in claims]
            app.engine.exchange(failed, None)
        assert app.dead.count() == JOBS
        yield app


def requeue(url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "--url", url, "dead", "requeue", "--all", "--yes", "--json"]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.DEVNULL, stderr=None
    )


def check_each_record_with_its_job(app: Headrace) -> None:
    jobs = {row.id: row for row in app.engine.queries.find(Filter(), JOBS + 1).jobs}
    dead_letters = app.engine.dead_letters.find(DeadLetterFilter(), 2 * JOBS)
    assert (len(jobs), len(dead_letters)) == (JOBS, JOBS)
    seen = Counter(
        (dead_letter.status, dead_letter.requeues, jobs[dead_letter.job_id].state) for dead_letter in dead_letters
    )
    assert set(seen) <= {("pending", 0, State.FAILED), ("requeued", 1, State.PENDING)}


def test_a_killed_requeue_leaves_whole_records_and_the_next_one_does_the_rest(
    app: Headrace, url: str, chance: random.Random
) -> None:
    cut_off = 0
    for _ in range(4):
        before = app.engine.dead_letters.count(REQUEUED)
        with ExitStack() as at_end:
            process = requeue(url)
            at_end.callback(process.wait)
            at_end.callback(process.kill)
            eventually(lambda: app.engine.dead_letters.count(REQUEUED) > before or process.poll() is not None)  # noqa: B023
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        cut_off += app.dead.count() > 0
        check_each_record_with_its_job(app)
    assert cut_off, "it was never cut off in its middle"
    assert requeue(url).wait(PATIENCE) == 0
    check_each_record_with_its_job(app)
    assert app.engine.dead_letters.count(REQUEUED) == JOBS
    revivals = [entry.event for entry in app.engine.queries.details("j7").history].count(Trigger.REVIVE)
    assert revivals == 1


def test_requeues_at_the_same_time_bring_each_job_back_once(app: Headrace, url: str) -> None:
    for process in [requeue(url) for _ in range(3)]:
        assert process.wait(PATIENCE) == 0
    check_each_record_with_its_job(app)
    assert app.engine.dead_letters.count(REQUEUED) == JOBS
