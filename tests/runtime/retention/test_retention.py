"""Finished jobs are deleted by the time of their end, and a job shows when it last changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headrace import Headrace, InvalidJob, Job
from headrace.testing import VirtualClock, drain

pytestmark = pytest.mark.every_engine
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock) as app:
        app.task(name="ok")(lambda number=0: number)
        app.task(name="other")(lambda: None)
        yield app


def _ended(app: Headrace, clock: VirtualClock, hours: int) -> list[Job[object]]:
    """All enqueued at once, and ended one an hour."""
    jobs = [app.enqueue("ok", hour).refresh() for hour in range(hours)]
    for hour, job in enumerate(jobs):
        job.update(run_at=START + hour * HOUR)
    for _ in jobs:
        drain(app)
        clock.advance(HOUR.total_seconds())
    return jobs


def test_jobs_are_deleted_by_their_end_the_oldest_first(app: Headrace, clock: VirtualClock) -> None:
    jobs = _ended(app, clock, 4)
    app.enqueue("ok")
    assert app.jobs.delete(finished_before=START) == 0
    assert app.jobs.delete(state="completed", finished_before=START + 3 * HOUR, limit=2) == 2
    assert {job.id for job in app.jobs.find(state="completed")} == {jobs[2].id, jobs[3].id}
    assert app.jobs.delete(finished_before=START + 3 * HOUR) == 1
    assert [job.id for job in app.jobs.find(state="completed")] == [jobs[3].id]
    assert app.jobs.count(state="pending") == 1


def test_the_other_filters_count_as_well(app: Headrace, clock: VirtualClock) -> None:
    one, two = _ended(app, clock, 2)
    app.enqueue("other")
    drain(app)
    clock.advance(1)
    now = START + 3 * HOUR
    assert app.jobs.delete(finished_before=now, state=["failed", "cancelled"]) == 0
    assert app.jobs.delete(finished_before=now, queue="elsewhere") == 0
    assert app.jobs.delete(finished_before=now, ids=[two.id]) == 1
    assert app.jobs.delete(finished_before=now, task="other") == 1
    assert [job.id for job in app.jobs.find()] == [one.id]


def test_what_is_no_end_is_refused(app: Headrace) -> None:
    with pytest.raises(InvalidJob, match="only completed, failed and cancelled jobs have finished"):
        app.jobs.delete(state="pending", finished_before=START)
    with pytest.raises(InvalidJob, match=r"finished_before: .* has no time zone"):
        app.jobs.delete(finished_before=START.replace(tzinfo=None))
    with pytest.raises(InvalidJob, match="limit: expected a maximum number"):
        app.jobs.delete(state="pending", limit=0)


def test_a_limit_goes_for_every_way_to_delete(app: Headrace) -> None:
    jobs = [app.enqueue("ok") for _ in range(5)]
    assert app.jobs.delete(state="pending", limit=2) == 2
    assert app.jobs.delete(ids=[job.id for job in jobs[:3]], limit=1) == 1
    assert app.jobs.count() == 2


def test_a_job_shows_when_it_last_changed(app: Headrace, clock: VirtualClock) -> None:
    job = app.enqueue("ok")
    assert job.updated_at == START
    clock.advance(60)
    job.update(priority=3)
    assert job.refresh().updated_at == START + timedelta(seconds=60)
    clock.advance(60)
    drain(app)
    assert job.refresh().updated_at == job.finished_at == START + timedelta(seconds=120)
    clock.advance(60)
    job.retry()
    assert job.refresh().updated_at == START + timedelta(seconds=180)
    [listed] = app.jobs.find()
    assert listed.updated_at == START + timedelta(seconds=180)


def test_the_id_of_a_job_is_not_changed(app: Headrace) -> None:
    job = app.enqueue("ok")
    with pytest.raises(AttributeError):
        job.id = "another"  # type: ignore[misc]
    assert app.jobs.get(job.id) == job
