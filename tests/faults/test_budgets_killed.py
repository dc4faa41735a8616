"""kill -9 after a report: what was spent stays spent, in the job and in its flow, and the next attempt adds to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from headrace import group
from headrace.core.jobs.budgets import Spending
from tests.faults.test_kill import _app
from tests.support.waiting import PATIENCE, eventually


def test_reports_of_killed_attempts_count_once_each_in_the_job_and_in_its_flow(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        run = group(app.task_by_name("spend").using(budget=400).bind(str(tmp_path), 100), budget=1000).enqueue()
        [job] = run.jobs
        for attempt in (1, 2):
            worker = fleet.start()
            eventually((tmp_path / f"spent-{attempt}").exists)
            worker.kill()
            worker.wait()
            assert (job.refresh().cost, run.spending) == (100 * attempt, Spending(100 * attempt, 1000))
        (tmp_path / "go-3").touch()
        fleet.start()
        assert job.result(PATIENCE) == "attempt 3"
        assert (job.cost, run.spending) == (300, Spending(300, 1000))


def test_attempts_that_were_killed_use_up_the_budget(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        job = app.task_by_name("spend").using(budget=99).enqueue(str(tmp_path), 99)
        worker = fleet.start()
        eventually((tmp_path / "spent-1").exists)
        worker.kill()
        (tmp_path / "go-2").touch()
        fleet.start()
        assert job.wait(PATIENCE) == "failed"
        assert (job.reason, job.cost) == ("budget_exceeded", 198)
