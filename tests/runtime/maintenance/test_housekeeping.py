"""Housekeeping by workers: each kind can be switched off, and none delays the jobs."""

from __future__ import annotations

import pytest

from headrace import Headrace, current_job
from headrace.core.health.findings import GONE, MAINTENANCE_KINDS
from headrace.core.jobs.records import JobUpdate
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError, InvalidJob
from headrace.runtime.maintenance.housekeeping import HistoryTrim, Housekeeping
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from tests.support.builders import new_job, worker_row
from tests.support.waiting import PATIENCE, eventually


def test_a_worker_trims_the_logs_and_the_histories_of_its_jobs(url: str) -> None:
    with Headrace(url, log_limit=30, history_limit=20, heartbeat=2.0) as app:

        @app.task
        def talk() -> None:
            for number in range(100):
                current_job().log(str(number))

        with app.worker():
            job = talk.enqueue()
            job.result(PATIENCE)
        for number in range(40):
            job.retry()
            job.update(priority=number)
            job.cancel()
        assert len(app.engine.queries.details(job.id).history) > 100
        with app.worker():  # it looks through what is there as soon as it begins
            eventually(lambda: len(app.engine.queries.details(job.id).history) == 20, "a short history")
            eventually(lambda: len(job.logs()) == 30, "a short log")
        assert job.state == "cancelled"


def test_workers_that_are_gone_are_forgotten_unless_that_is_switched_off(app: Headrace) -> None:
    long_ago = app.clock.now() - GONE - 60_000
    app.engine.renew(worker_row("ghost", seen_at=long_ago), [], 0)
    with app.worker(maintenance=["checkpoint"]) as worker:
        assert worker.id in {info.id for info in app.workers()}
        Housekeeping(app.engine, Settings(maintenance=())).do()
        assert "ghost" in {info.id for info in app.workers()}
    with app.worker():
        eventually(lambda: "ghost" not in {info.id for info in app.workers()}, "the ghost is gone")


@pytest.mark.engines("sqlite")
def test_the_maintenance_tasks_follow_the_settings(app: Headrace) -> None:
    def kinds(**settings: object) -> list[str]:
        tasks = maintenance_tasks_of(app.engine, Settings(**settings))  # type: ignore[arg-type]
        return [type(task).__name__ for task in tasks]

    assert kinds().count("HistoryTrim") == 2
    assert kinds(history_limit=None).count("HistoryTrim") == 1
    assert kinds(history_limit=None, log_limit=None).count("HistoryTrim") == 0


def test_a_cap_comes_at_once_while_there_is_more_and_then_rests(app: Headrace) -> None:
    app.engine.insert([new_job(f"job-{n}") for n in range(3)])
    maintenance_task = HistoryTrim(app.engine, "logs", 20)
    assert maintenance_task.do() > 1


def test_no_history_is_trimmed_while_the_store_is_closed(app: Headrace) -> None:
    app.engine.insert([new_job("job")])
    for _ in range(30):
        app.engine.queries.update("job", JobUpdate(priority=1))
    app.engine.transfer.set_status(StoreStatus("arriving", "elsewhere", 1))
    maintenance_task = HistoryTrim(app.engine, "history", 20)
    assert maintenance_task.do() > 0
    assert len(app.engine.queries.details("job").history) == 30
    app.engine.transfer.set_status(None)
    maintenance_task.do()
    assert len(app.engine.queries.details("job").history) == 20


@pytest.mark.engines("sqlite")
def test_what_to_do_is_a_setting(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert app.settings.maintenance == MAINTENANCE_KINDS
    monkeypatch.setenv("HEADRACE_MAINTENANCE", "checkpoint, workers")
    assert Headrace("memory://").settings.maintenance == ("checkpoint", "workers")
    monkeypatch.setenv("HEADRACE_MAINTENANCE", "none")
    monkeypatch.setenv("HEADRACE_LOG_LIMIT", "none")
    settings = Headrace("memory://").settings
    assert (settings.maintenance, settings.log_limit, settings.history_limit) == ((), None, 1000)
    with pytest.raises(ConfigError, match=r"maintenance.*use one of checkpoint, vacuum"):
        Headrace("memory://", maintenance=["polish"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="history_limit: 5 must be at least 20"):
        Headrace("memory://", history_limit=5)
    with pytest.raises(ConfigError, match="max_size"):
        Headrace("memory://", max_size=0)


@pytest.mark.engines("sqlite")
def test_what_can_not_be_meant_is_refused_by_its_name(app: Headrace) -> None:
    with pytest.raises(ConfigError, match=r"path: expected the path of a file, got b'x'"):
        app.admin.backup(b"x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'banana' can't be repaired; repairable are orphan_history, "):
        app.admin.repair(["banana"])
    with pytest.raises(ConfigError, match=r"'orphan_log' can't be repaired \(did you mean 'orphan_logs'\?\)"):
        app.admin.repair(["orphan_log"], dry_run=True)
    for find in (app.jobs.find, app.jobs.count):
        with pytest.raises(InvalidJob, match="archived: expected True or False, got 'yes'"):
            find(archived="yes")  # type: ignore[arg-type]
