"""Many schedules, several processes, nobody leader: each occurrence is one job, none early, also through kill -9."""

from __future__ import annotations

import importlib
from collections import Counter
from statistics import median
from types import SimpleNamespace

import pytest

from headrace import Headrace
from tests.faults import worker_app as crew_app
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

SCHEDULES = 40
ROUNDS = 6
LATEST = 1.0  # seconds, for all of a usual round; a few hundredths where nothing else runs


def _app(url: str) -> Headrace:
    app: Headrace = importlib.reload(crew_app).app
    assert app.settings.url == url
    return app


def _signed_on(app: Headrace, workers: int) -> None:
    eventually(lambda: len(app.workers()) == workers, what=f"{workers} workers sign on")


def _create(app: Headrace) -> None:
    for n in range(SCHEDULES):
        app.schedules.create(f"s{n}", "touch", args=(n,), every=1, limit=ROUNDS, catch_up="all")


def _all_fired(app: Headrace) -> bool:
    return all(schedule.fired == ROUNDS for schedule in app.schedules.list())


def _check_each_occurrence(app: Headrace) -> list[float]:
    """Every occurrence is one job and one record; the seconds by which each was late."""
    jobs = {job.id: job for job in app.jobs.find(limit=10_000)}
    assert len(jobs) == SCHEDULES * ROUNDS
    times = Counter((job.metadata["schedule_id"], job.metadata["scheduled_for"]) for job in jobs.values())
    assert set(times.values()) == {1}
    late = []
    for schedule in app.schedules.list():
        runs = app.schedules.history(schedule.id)
        assert [run.status for run in runs] == ["enqueued"] * ROUNDS
        assert len({run.at for run in runs}) == ROUNDS
        late += [(jobs[str(run.job_id)].created_at - run.at).total_seconds() for run in runs]
    return late


@pytest.mark.timed
def test_several_processes_fire_many_schedules_each_occurrence_once_and_none_early(
    fleet: SimpleNamespace, url: str
) -> None:
    with _app(url) as app:
        for _ in range(3):
            fleet.start(concurrency=2)
        _signed_on(app, 3)
        _create(app)
        eventually(lambda: _all_fired(app), what="all occurrences are fired")
        late = _check_each_occurrence(app)
        assert min(late) >= 0, "early"
        worst = [max(late[round_::ROUNDS]) for round_ in range(ROUNDS)]
        assert median(worst) < LATEST  # of the rounds: the machine may pause in some of them
        eventually(lambda: app.jobs.count(state="completed") == SCHEDULES * ROUNDS, what="all have run")


def test_a_process_killed_while_it_fires_loses_no_occurrence_and_doubles_none(fleet: SimpleNamespace, url: str) -> None:
    with _app(url) as app:
        for _ in range(2):
            fleet.start(concurrency=2)
        _signed_on(app, 2)
        _create(app)
        for round_ in range(1, 4):
            eventually(lambda after=round_: app.schedules.get("s0").fired >= after, what="it fires")  # type: ignore[misc]
            fleet.processes[-1].kill()
            fleet.processes[-1].wait()
            fleet.start(concurrency=2)
        eventually(lambda: _all_fired(app), what="all occurrences are fired")
        assert min(_check_each_occurrence(app)) >= 0, "early"
