"""Sweeps and drops that are killed at any moment: a job is found once, live or archived, and the next one goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace import Headrace
from headrace.core.codec import codec
from headrace.core.jobs import outcomes
from headrace.core.jobs.records import ClaimRequest, Filter
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import row_of
from headrace.runtime.jobs.rows import as_row
from tests.faults.conftest import ROOT
from tests.support.builders import new_job
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

JOBS = 3_000
WEEK = 7 * 86_400_000


@pytest.fixture
def app(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    if url.startswith("redis"):
        monkeypatch.setenv("HEADRACE_ARCHIVE_URL", f"sqlite:///{tmp_path / 'archive.db'}")
    monkeypatch.setenv("HEADRACE_KEEP_COMPLETED", "0")
    monkeypatch.setenv("HEADRACE_ARCHIVE_KEEP", "none")
    with Headrace(url) as app:
        yield app


def complete_all(app: Headrace) -> set[str]:
    now = app.clock.now()
    names = [f"j{number}" for number in range(JOBS)]
    app.engine.insert([new_job(name, created_at=now, run_at=now) for name in names])
    while claims := app.engine.exchange([], ClaimRequest("w1", 1000, 600_000)).claims:
        done = [outcomes.succeed(claim, "1", codec.checksum("1"), app.clock.now()) for claim in claims]
        app.engine.exchange(done, None)
    return set(names)


def retention_store(what: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "tests.faults.retention_app", what]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE)


def kill_at_once(process: subprocess.Popen[bytes], after: float) -> bool:
    """Whether it was cut off in its middle."""
    with ExitStack() as at_end:
        at_end.callback(process.communicate)
        at_end.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after)
        cut_off = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return cut_off


def found(app: Headrace) -> tuple[list[str], list[str]]:
    live = [job.id for job in app.engine.queries.find(Filter(), 2 * JOBS).jobs]
    archived, cursor = [], None
    while True:
        page = app.jobs.find(archived=True, limit=1000, cursor=cursor)
        archived += [job.id for job in page]
        cursor = page.cursor
        if cursor is None:
            return live, archived


def test_a_killed_sweep_loses_nothing_and_the_next_one_goes_on(app: Headrace, chance: random.Random) -> None:
    names = complete_all(app)
    cut_off = 0
    for _ in range(6):
        cut_off += kill_at_once(retention_store("sweep"), chance.uniform(0, 0.12))
        live, archived = found(app)
        assert len(live) + len(archived) == JOBS, "lost, or found twice"
        assert {*live, *archived} == names
    assert cut_off, "it was never cut off in its middle"
    left = len(live)
    run = app.lifecycle.archive(dry_run=False)
    live, archived = found(app)
    assert (live, len(archived), set(archived)) == ([], JOBS, names)
    assert run.archived == left
    archive = app.services.archive
    assert archive is not None
    assert archive.count(Filter()) == JOBS
    assert app.jobs.get("j7").result(1) == 1


def test_sweeps_at_the_same_time_archive_each_job_once(app: Headrace) -> None:
    names = complete_all(app)
    processes = [retention_store("sweep") for _ in range(3)]
    for process in processes:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    live, archived = found(app)
    assert (live, len(archived), set(archived)) == ([], JOBS, names)


def test_a_killed_drop_leaves_whole_partitions_and_the_next_one_drops_the_rest(
    app: Headrace, chance: random.Random
) -> None:
    archive = app.services.archive
    assert archive is not None
    now = app.clock.now()
    for week in range(60, 0, -1):
        moment = now - week * WEEK
        rows = [as_row(new_job(f"w{week}-{number}", created_at=moment, run_at=moment)) for number in range(20)]
        done = [replace(row, state=State.COMPLETED, started_at=moment, finished_at=moment) for row in rows]
        archive.add([row_of(JobExport(row, [], [])) for row in done], "weekly")
    for _ in range(5):
        kill_at_once(retention_store("drop"), chance.uniform(0, 0.05))
        partitions = archive.partitions()
        assert {partition.jobs for partition in partitions} <= {20}
        assert archive.count(Filter()) == 20 * len(partitions)
    dropped = archive.update_partitions(now - 10 * WEEK, None, now - 10 * WEEK).dropped
    eventually(lambda: len(archive.partitions()) == 10)
    assert archive.count(Filter()) == 200
    assert archive.update_partitions(now - 10 * WEEK, None, now - 10 * WEEK).dropped == []
    assert dropped == sorted(dropped)
