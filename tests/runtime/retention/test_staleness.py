"""Jobs that stay too long: found, reported, ended or left for review; by hand and by any worker."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headrace import Headrace, JobFailed, Lifecycle
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.core.retention.staleness import AgeQuery, JobAgePage
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from headrace.runtime.retention.staleness import StaleCheck, StaleScan, apply
from tests.support.builders import new_job
from tests.support.gates import Gate, through
from tests.support.waiting import PATIENCE, eventually

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.fixture
def now(app: Headrace) -> int:
    return app.clock.now()


def old(now: int, job_id: str, ago: int, **more: Any) -> NewJob:
    """A job that was submitted, and due, so long ago."""
    return new_job(job_id, created_at=now - ago, run_at=now - ago, **{"task": "send", "queue": "mail", **more})


@pytest.fixture
def stock(app: Headrace, now: int) -> None:
    """Three that are stale, one nearly, one fresh; one of them by the terms of its task."""
    app.lifecycle.configure(task="strict", max_pending=600)
    app.engine.insert(
        [
            old(now, "old", 3 * DAY),
            old(now, "waits", 2 * HOUR, state=State.WAITING),
            old(now, "strict", HOUR, task="strict"),
            old(now, "nearly", 20 * HOUR),
            old(now, "fresh", MINUTE),
        ]
    )


def states(app: Headrace) -> dict[str, str]:
    return {job.id: str(job.state) for job in app.jobs.find()}


def test_a_dry_run_is_the_default_and_changes_nothing(app: Headrace, stock: None) -> None:
    before = {row.id: row for row in app.engine.queries.get(["old", "waits", "strict", "nearly", "fresh"])}
    found = app.lifecycle.detect_stale()
    assert [(one.id, one.state, one.action, one.applied) for one in found] == [
        ("strict", "pending", "dead", False),
        ("old", "pending", "review", False),
        ("waits", "waiting", "review", False),
    ]
    assert (found[0].task, found[0].queue, found[0].by, found[0].threshold) == ("strict", "mail", "state", 600)
    assert 3600 <= found[0].lasted < 3700
    assert {row.id: row for row in app.engine.queries.get(list(before))} == before
    assert all(app.engine.queries.details(job_id).history == [] for job_id in before)
    assert app.dead.count() == 0


def test_the_terms_of_a_task_hold_before_a_worker_has_started(app: Headrace, now: int) -> None:
    app.task(name="strict", lifecycle=Lifecycle(max_pending=600))(lambda: None)
    app.engine.insert([old(now, "strict", HOUR, task="strict"), old(now, "other", HOUR)])
    assert [one.id for one in app.lifecycle.detect_stale()] == ["strict"]


def test_the_real_run_does_what_the_dry_run_listed(app: Headrace, stock: None) -> None:
    found = app.lifecycle.detect_stale(warnings=True)
    done = app.lifecycle.detect_stale(dry_run=False, warnings=True, batch_size=1)
    assert [(one.id, one.action, one.is_stale) for one in done] == [(one.id, one.action, one.is_stale) for one in found]
    assert [(one.id, one.applied) for one in done] == [
        ("strict", True),
        ("old", True),
        ("waits", True),
        ("nearly", False),
    ]
    assert states(app) == {
        "old": "pending",
        "waits": "waiting",
        "strict": "failed",
        "nearly": "pending",
        "fresh": "pending",
    }
    [dead_letter] = app.dead.list()
    assert (dead_letter.job_id, dead_letter.reason, dead_letter.original_state) == (
        "strict",
        "staleness_timeout",
        "pending",
    )
    entry = app.jobs.get("old").history()[-1]
    assert (entry.event, entry.from_state, entry.to_state) == ("review", "pending", "pending")
    assert "pending for 3 d" in (entry.message or "")
    again = app.lifecycle.detect_stale(dry_run=False)
    assert [one.id for one in again] == ["old", "waits"]
    assert len(app.engine.queries.details("old").history) == 1, "it is filed once"


def test_only_jobs_of_a_task_or_queue_are_searched_up_to_the_limit(app: Headrace, stock: None) -> None:
    assert [one.id for one in app.lifecycle.detect_stale(task="strict")] == ["strict"]
    assert app.lifecycle.detect_stale(queue="other", dry_run=False) == []
    assert [one.id for one in app.lifecycle.detect_stale(limit=2)] == ["strict", "old"], "the stalest"
    assert [one.id for one in app.lifecycle.detect_stale(limit=1, dry_run=False)] == ["strict"]
    assert states(app)["old"] == "pending"


def test_a_job_that_moved_on_since_it_was_seen_is_left_alone(app: Headrace, stock: None) -> None:
    scan = StaleScan(app.engine, app.settings)
    found = {finding.job.id: finding for finding in scan.next_findings()}
    app.jobs.get("strict").update(priority=5)
    assert apply(app.engine, [found["strict"], found["old"]]) == [False, True]
    assert states(app)["strict"] == "pending"


def test_from_stale_to_a_dead_letter_and_back_to_the_front_of_its_queue(app: Headrace, stock: None) -> None:
    app.lifecycle.detect_stale(dry_run=False)
    [dead_letter] = app.dead.list(reason="staleness_timeout")
    assert app.dead.requeue(dead_letter.id, by="ops").requeued
    job = app.jobs.get("strict")
    assert (job.state, job.priority, job.attempt) == ("pending", 10, 0)
    assert app.lifecycle.detect_stale(task="strict") == [], "its time begins anew"
    assert [entry.event for entry in job.history()] == ["submit", "stale", "revive"]
    assert job.history()[-1].from_state == "failed"


def test_a_wait_for_the_result_ends_with_the_error(app: Headrace, stock: None) -> None:
    app.lifecycle.detect_stale(dry_run=False)
    with pytest.raises(JobFailed, match="job strict failed: staleness_timeout"):
        app.jobs.get("strict").result(timeout=PATIENCE)


def test_a_running_job_that_is_stale_is_fenced_and_its_worker_goes_on(app: Headrace) -> None:
    gate = Gate()
    task = app.task(name="slow", lifecycle=Lifecycle(max_running=0.001, on_stale="fail"))(through("thread", gate))
    other = app.task(name="other")(lambda: 7)
    with app.worker(concurrency=2) as worker:
        job = task.enqueue()
        gate.wait_until_reached()
        eventually(lambda: app.lifecycle.detect_stale(dry_run=False), "a stale job")
        assert job.refresh().state == "failed"
        gate.open()
        assert other.enqueue().result(timeout=PATIENCE) == 7
        eventually(lambda: worker.describe().running == 0)
    assert job.refresh().state == "failed"
    assert job.reason == "staleness_timeout"


def test_why_names_stale_and_nearly_stale_jobs(app: Headrace, stock: None) -> None:
    assert "It is stale: pending for 3 d, at most 1 d; its policy leaves it for review." in app.jobs.get("old").why()
    assert "the next check makes it a dead letter." in app.jobs.get("strict").why()
    assert "It is nearly stale: pending for 20 h, at most 1 d." in app.jobs.get("nearly").why()
    assert "stale" not in app.jobs.get("fresh").why()


def test_ages_show_how_long_jobs_are_in_their_state(app: Headrace, stock: None) -> None:
    waiting, pending = sorted(app.lifecycle.ages(), key=lambda ages: ages.jobs)
    assert (waiting.state, waiting.queue, waiting.jobs, waiting.over_an_hour) == ("waiting", "mail", 1, 1)
    assert (pending.state, pending.jobs, pending.over_a_day) == ("pending", 4, 1)
    assert pending.stalest == ("old", "nearly", "strict", "fresh")
    assert pending.longest > pending.average > 3600


def test_ten_thousand_stale_jobs_are_found_in_a_few_questions(
    app: Headrace, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in range(0, 10_000, 2000):
        app.engine.insert([old(now, f"j{number}", 3 * DAY) for number in range(first, first + 2000)])
    queries = list[int]()
    aged = app.engine.staleness_store.by_age

    def note(which: AgeQuery, limit: int, cursor: str | None = None) -> JobAgePage:
        queries.append(limit)
        return aged(which, limit, cursor)

    monkeypatch.setattr(app.engine.staleness_store, "by_age", note)
    assert len(app.lifecycle.detect_stale()) == 10_000
    assert len(queries) <= 10
    assert max(queries) <= 2000  # and none of them keeps others from the store for long


# -- by a worker


def test_a_worker_looks_by_itself(app: Headrace, stock: None, caplog: pytest.LogCaptureFixture) -> None:
    app.queue("mail").pause()
    with caplog.at_level(logging.INFO, "headrace.maintenance"), app.worker(stale_check=0.1):
        eventually(lambda: states(app)["strict"] == "failed")
        eventually(lambda: app.engine.queries.details("waits").history)
        eventually(lambda: any("3 stale jobs: 1 dead letters" in line for line in caplog.messages))
    assert states(app)["old"] == "pending"


@pytest.mark.parametrize("off", [0, None])
def test_it_can_be_switched_off(app: Headrace, off: float | None) -> None:
    def kinds(settings: Settings) -> list[type]:
        return [type(maintenance_task) for maintenance_task in maintenance_tasks_of(app.engine, settings)]

    assert StaleCheck in kinds(Settings())
    assert StaleCheck not in kinds(Settings(stale_check=off))


def one_scan(maintenance_task: StaleCheck) -> list[float]:
    """The answers of the maintenance task from a scan's beginning to its end."""
    pauses = []
    for _ in range(1000):
        pauses.append(maintenance_task.do())
        if pauses[-1]:
            return pauses
    raise AssertionError("the scan has no end")


def test_a_batch_is_a_hundred_and_more_follow_at_once(app: Headrace, now: int) -> None:
    app.lifecycle.configure(queue="mail", max_pending=600)
    app.engine.insert([old(now, f"j{number}", HOUR) for number in range(250)])
    maintenance_task = StaleCheck(app.engine, app.settings, 300.0)
    assert 0 <= maintenance_task.do() <= 60, "the first time not all workers at once"
    assert maintenance_task.do() == 0.0
    assert app.dead.count() == 0
    for done in (100, 200):
        assert maintenance_task.do() == 0.0
        assert app.dead.count() == done
    assert one_scan(maintenance_task)[-1] == 300.0
    assert app.dead.count() == 250


def test_an_error_ends_neither_the_task_nor_its_findings(
    app: Headrace, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.lifecycle.configure(queue="mail", max_pending=600)
    app.engine.insert([old(now, "job", HOUR)])
    maintenance_task = StaleCheck(app.engine, app.settings, 300.0)
    maintenance_task.do(), maintenance_task.do()
    with monkeypatch.context() as broken:
        broken.setattr(type(app.engine.staleness_store), "mark_stale", _refuse)
        with pytest.raises(RuntimeError, match="no"):
            maintenance_task.do()
    assert one_scan(maintenance_task)[-1] == 300.0
    assert states(app) == {"job": "failed"}


def _refuse(*_: object, **__: object) -> list[bool]:
    raise RuntimeError("no")


def test_two_workers_at_once_end_each_job_once(app: Headrace, stock: None) -> None:
    first, second = StaleScan(app.engine, app.settings), StaleScan(app.engine, app.settings)
    seen = [finding for finding in first.next_findings() if finding.is_stale]
    also = [finding for finding in second.next_findings() if finding.is_stale]
    assert apply(app.engine, seen) == [True, True, True]
    assert apply(app.engine, also) == [False, False, False]
    assert app.dead.count() == 1


def test_the_query_has_no_state_without_a_threshold(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[AgeQuery] = []
    engine: Engine = app.engine
    aged = engine.staleness_store.by_age

    def listen_in(query: AgeQuery, limit: int, cursor: str | None) -> JobAgePage:
        queries.append(query)
        return aged(query, limit, cursor)

    monkeypatch.setattr(engine.staleness_store, "by_age", listen_in)
    off = {f"stale_{state}": None for state in ("scheduled", "waiting", "pending", "retrying")}
    StaleScan(engine, Settings(**off)).next_findings()  # type: ignore[arg-type]
    assert queries == [AgeQuery({}, None)]
