"""Limits through kill -9: whoever dies gives its slots back, and nobody ever runs more than the rule allows."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from subprocess import Popen
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace, Job, State
from headrace.core.queues.rates import as_rate
from tests.faults import worker_app as crew_app
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

MOST, JOBS, KILLS, MOST_ATTEMPTS = 5, 20, 3, 6
BUDGET = as_rate("1000 units/h", 10_000)
# A start bears the time at which its worker asked for it. It may have had to wait until others had handed in what ended
# meanwhile, which takes milliseconds, and more on a busy machine; the runs that matter here are held for longer.
BLUR = 0.3


def _app(url: str) -> Headrace:
    """The workers' own app, here as the producer; read anew, so that it opens this test's store."""
    app: Headrace = importlib.reload(crew_app).app
    assert app.settings.url == url
    return app


def _pid(job: Job[Any]) -> int:
    """Of the worker that runs it, or ran it last: its id is made of the host, the pid and some letters."""
    return int(str(job.worker).rsplit("-", 2)[1])


def _running_for_real(app: Headrace, alive: list[Popen[bytes]], folders: dict[str, Path]) -> list[Job[Any]]:
    """The jobs that processes which live have begun. One that was only fetched is no loss if its worker is killed."""
    leased = sum(jobs for *_, jobs in app.engine.rule_store.limit_state(now=app.clock.now()).running)
    assert leased <= MOST, "more have begun than may run"
    pids = {process.pid for process in alive}
    running = [job for job in app.jobs.find(state="running") if _pid(job) in pids]
    return [job for job in running if (folders[job.id] / f"began-{job.attempt}").exists()]


def _let_go(folder: Path) -> None:
    for attempt in range(1, MOST_ATTEMPTS + 1):
        (folder / f"go-{attempt}").touch()


def _hold(app: Headrace, folder: Path, **options: Any) -> Job[Any]:
    folder.mkdir()
    return app.task_by_name("hold").using(retry=MOST_ATTEMPTS - 1, **options).enqueue(str(folder))


def _most_at_once(jobs: list[Job[Any]], died: dict[int, float]) -> int:
    """How many ran at the same moment by their histories; a run ends at the latest when its process was dead."""
    moments: list[tuple[float, int]] = []
    for job in jobs:
        end = float("inf")
        for entry in reversed(job.history()):
            if entry.event == "claim":
                pid = int(str(entry.worker).rsplit("-", 2)[1])
                began, ended = entry.at.timestamp(), min(end, died.get(pid, end)) - BLUR
                moments += [(began, 1), (ended, -1)] if began < ended else []
            end = entry.at.timestamp()
    inside = most = 0
    for _, change in sorted(moments):  # at the same moment, ends come first
        inside += change
        most = max(most, inside)
    return most


@pytest.mark.timed
def test_a_concurrency_holds_over_three_processes_that_are_killed_and_slots_return(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    died: dict[int, float] = {}
    with _app(url) as app:
        app.queue("default").configure(concurrency=MOST)
        folders = {_hold(app, tmp_path / f"job-{number}").id: tmp_path / f"job-{number}" for number in range(JOBS)}
        alive = [fleet.start(concurrency=4, lease=3, heartbeat=0.5) for _ in range(3)]
        for _ in range(KILLS):
            eventually(lambda: len(_running_for_real(app, alive, folders)) == MOST, what="all slots in use")
            running = _running_for_real(app, alive, folders)
            _let_go(folders[running[0].id])
            victim = next(process for process in alive if process.pid == _pid(running[-1]))
            victim.kill()
            victim.wait()
            died[victim.pid] = time.time()
            alive.remove(victim)
            alive.append(fleet.start(concurrency=4, lease=3, heartbeat=0.5))
        eventually(lambda: len(_running_for_real(app, alive, folders)) == MOST, what="the return of the slots")
        for folder in folders.values():
            _let_go(folder)
        eventually(lambda: app.jobs.count(state=State.COMPLETED) == JOBS, what="the end of all jobs")
        jobs = list(app.jobs.find(limit=JOBS))
        assert sum(job.row.crashes for job in jobs) >= KILLS, "no holder was killed"
        assert _most_at_once(jobs, died) <= MOST


@pytest.mark.timed
def test_the_key_of_a_killed_holder_is_free_for_the_next_and_never_held_twice(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        jobs = [_hold(app, tmp_path / f"job-{number}", concurrency_key="account-7") for number in range(4)]
        folders = {job.id: tmp_path / f"job-{number}" for number, job in enumerate(jobs)}
        alive = [fleet.start(concurrency=4, lease=3, heartbeat=0.5) for _ in range(2)]
        for _ in range(2):
            eventually(lambda: _running_for_real(app, alive, folders), what="a holder")
            [holder] = _running_for_real(app, alive, folders)
            assert sorted(job.refresh().state for job in jobs) == ["pending"] * 3 + ["running"]
            victim = next(process for process in alive if process.pid == _pid(holder))
            victim.kill()
            victim.wait()
            alive.remove(victim)
            alive.append(fleet.start(concurrency=4, lease=3, heartbeat=0.5))
        for folder in folders.values():
            _let_go(folder)
        assert [job.wait(PATIENCE) for job in jobs] == [State.COMPLETED] * 4
        assert sum(job.refresh().row.crashes for job in jobs) == 2


def test_a_rate_is_not_refilled_by_a_kill(fleet: SimpleNamespace, url: str, tmp_path: Path) -> None:
    with _app(url) as app:
        app.queue("default").configure(rate="1/h", burst=2)
        jobs = [_hold(app, tmp_path / f"job-{number}") for number in range(4)]
        first = fleet.start(lease=3, heartbeat=0.5)
        eventually(lambda: len(list(tmp_path.glob("job-*/began-1"))) == 2, what="the burst")
        first.kill()
        first.wait()
        second = fleet.start(lease=3, heartbeat=0.5)
        eventually(lambda: sum(job.refresh().row.crashes for job in jobs) == 2, what="the end of the killed runs")
        eventually(lambda: [worker.pid for worker in app.workers()] == [second.pid], what="the other worker alone")
        assert [job.refresh().state for job in jobs].count(State.RUNNING) == 0
        assert "starts 1/h" in jobs[-1].why()
        app.queue("default").configure(rate=None)
        for number in range(4):
            _let_go(tmp_path / f"job-{number}")
        assert [job.wait(PATIENCE) for job in jobs] == [State.COMPLETED] * 4


def _units_taken(app: Headrace) -> float:
    """The units of the queue's bucket that are not free."""
    [full_at] = app.engine.rule_store.limit_state({("queue", "default"): BUDGET}).full_at.get(("queue", "default"), [0])
    return max(full_at - 1000 * app.clock.now(), 0) / BUDGET.every


def test_a_killed_worker_keeps_the_units_it_was_charged_and_the_next_attempt_is_charged_once(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    """At most what its attempts were charged is counted, and none of it twice, however often workers are killed."""
    with _app(url) as app:
        app.queue("default").configure(rate="1000 units/h", burst=10_000)
        began = time.time()
        folder = tmp_path / "job"
        job = _hold(app, folder, cost=1000)
        for kill in range(2):
            process = fleet.start(concurrency=2, lease=3, heartbeat=0.5)
            eventually((folder / f"began-{kill + 1}").exists, what="the start of the job")
            assert _units_taken(app) <= 1000 * (kill + 1)
            process.kill()
            process.wait()
        fleet.start(concurrency=2, lease=3, heartbeat=0.5)
        _let_go(folder)
        assert job.wait(PATIENCE) == State.COMPLETED
        regained = (time.time() - began + BLUR) * 1000 / 3600
        assert 1000 * job.refresh().attempt - regained <= _units_taken(app) <= 1000 * job.refresh().attempt
