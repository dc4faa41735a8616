"""Deleting jobs over REST by finish time and limit; schedules that also run at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.core.clock import to_datetime
from headrace.testing import VirtualClock, drain
from tests.surfaces.rest.kit import Api


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace("memory://", clock=clock) as app:
        app.task(name="add")(lambda: None)
        yield app


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None), headers={"x-requested-with": "x"})


def test_jobs_are_deleted_by_finish_time_oldest_first(app: Headrace, api: Api, clock: VirtualClock) -> None:
    jobs = []
    for _ in range(4):
        jobs.append(app.task_by_name("add").enqueue())
        drain(app)
        clock.advance(60)
    pending = app.task_by_name("add").enqueue()
    moment = to_datetime(clock.now() - 90_000)
    assert moment is not None
    before = {"finished_before": moment.isoformat()}
    assert api.ask("POST", "/jobs/delete", json=before | {"limit": 1}) == {"changed": 1, "dry_run": False}
    assert {job.id for job in app.jobs.find()} == {pending.id, *(job.id for job in jobs[1:])}
    assert api.ask("POST", "/jobs/delete", json=before)["changed"] == 2
    assert {job.id for job in app.jobs.find()} == {pending.id, jobs[3].id}
    kind, detail = api.refused("POST", "/jobs/delete", 422, json=before | {"dry_run": True})
    assert (kind, detail.partition(":")[0]) == ("invalid-job", "dry_run")


def test_a_limit_alone_is_not_a_filter(app: Headrace, api: Api) -> None:
    for _ in range(3):
        app.task_by_name("add").enqueue()
    assert "at least one filter" in api.refused("POST", "/jobs/delete", 422, json={"limit": 1})[1]
    some = {"queue": "default", "limit": 2}
    assert api.ask("POST", "/jobs/delete", json=some | {"dry_run": True}) == {"changed": 2, "dry_run": True}
    assert api.ask("POST", "/jobs/delete", json=some)["changed"] == 2
    assert app.jobs.count() == 1


def test_a_schedule_may_run_at_once_as_well(app: Headrace, api: Api) -> None:
    body = {"id": "tick", "task": "add", "every": 3600}
    api.ask("POST", "/schedules", 201, json=body)
    assert app.jobs.count() == 0
    api.ask("POST", "/schedules", 201, json=body | {"id": "now", "immediate": True})
    assert app.jobs.count() == 1
