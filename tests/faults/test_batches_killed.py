"""kill -9 while a batch runs: each of its jobs runs again, and each is settled once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace import Headrace
from tests.faults.test_kill import _app
from tests.support.waiting import PATIENCE, eventually


def test_jobs_of_a_killed_batch_run_again_and_are_settled_once(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    with _app(url) as app:
        gather = app.task_by_name("gather")
        jobs = app.enqueue_many([gather.bind(f"{tmp_path} {n}") for n in range(50)])
        first = fleet.start(concurrency=3)
        eventually((tmp_path / "traces").exists, "the batch runs")
        held = app.enqueue("gather", f"{tmp_path} held")
        eventually(lambda: held.refresh().state == "running", "another batch has begun or gathers")
        first.kill()
        first.wait()
        (tmp_path / "hold").unlink()
        fleet.start(concurrency=2)
        for n, job in enumerate(jobs):
            assert job.result(PATIENCE) == f"{tmp_path} {n} {job.id}"
            events = Counter(str(entry.event) for entry in job.history())
            assert (job.attempt, events["lease_expired"], events["succeed"]) == (2, 1, 1)
        assert held.wait(PATIENCE) == "completed"


def _has_completed(app: Headrace, jobs: int) -> bool:
    return app.jobs.count(state="completed") >= jobs


@pytest.mark.parametrize("jobs", [500, pytest.param(5_000, marks=pytest.mark.slow)])
def test_a_storm_of_kills_settles_each_job_of_every_batch_once(
    fleet: SimpleNamespace, url: str, tmp_path: Path, jobs: int
) -> None:
    with _app(url) as app:
        gather = app.task_by_name("gather")
        stored = app.enqueue_many([gather.bind(f"{tmp_path} {n}") for n in range(jobs)])
        for kill in range(1, 4):
            worker = fleet.start(concurrency=3)
            eventually(partial(_has_completed, app, kill * jobs // 5), "some are done")
            worker.kill()
            worker.wait()
        fleet.start(concurrency=3)
        eventually(partial(_has_completed, app, jobs), "all are done")
        for n, job in enumerate(stored):
            assert job.result(PATIENCE) == f"{tmp_path} {n} {job.id}"
            assert job.attempt == job.refresh().row.crashes + 1, "every attempt but the last one is explained by a kill"
            events = [str(entry.event) for entry in job.history()]
            assert events.count("succeed") == (1 if events else 0)
