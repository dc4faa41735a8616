"""An erasure that is killed at any moment: the same call again leaves nothing of the person, and all of the others."""

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
from headrace.app.admin.erasure import KIND
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import row_of
from headrace.runtime.jobs.rows import as_row
from tests.faults.conftest import ROOT
from tests.support.builders import fail, log, new_job, only
from tests.support.raw_contents import places_of

pytestmark = pytest.mark.slow

JOBS = 600
MARK = "ann@example.com"


@pytest.fixture
def app(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    if url.startswith("redis"):
        monkeypatch.setenv("HEADRACE_ARCHIVE_URL", f"sqlite:///{tmp_path / 'archive.db'}")
    with Headrace(url) as app:
        yield app


def store_jobs(app: Headrace, prefix: str, text: str, tag: str) -> None:
    """Jobs that wait, jobs with a log, an error and a dead letter, and archived jobs."""
    now = app.clock.now()
    jobs = [
        new_job(
            f"{prefix}{number}:{text}",
            queue=prefix,
            tags=(tag,),
            payload=f'[["{text}"],{{}}]',
            created_at=now,
            run_at=now,
        )
        for number in range(JOBS)
    ]
    app.engine.insert(jobs)
    claims = app.engine.exchange([], only(prefix, JOBS // 3)).claims
    app.engine.exchange([], None, [log(claim, text, at=now) for claim in claims])
    app.engine.exchange([replace(fail(claim, at=now), error_message=text) for claim in claims], None)
    done = [
        replace(as_row(job), id=f"archived-{job.id}", state=State.COMPLETED, started_at=now, finished_at=now)
        for job in jobs[: JOBS // 3]
    ]
    assert app.services.archive is not None
    app.services.archive.add([row_of(JobExport(row, [], [])) for row in done], "weekly")


def is_killed_in_the_middle(after: float) -> bool:
    """Erase in another process, and kill it: whether that cut it off."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "tests.faults.retention_app", "erase"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE)
    with ExitStack() as at_end:
        at_end.callback(process.communicate)
        at_end.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after)
        is_cut_off = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return is_cut_off


def test_what_a_killed_erasure_left_the_next_one_erases(app: Headrace, url: str, chance: random.Random) -> None:
    store_jobs(app, "a", MARK, "user:42")
    store_jobs(app, "b", "bob@example.com", "user:7")
    before = app.jobs.count(tag="user:7"), app.engine.dead_letters.stats(), places_of("bob@example.com", url)
    cut_off = sum(is_killed_in_the_middle(chance.uniform(0.05, 0.5)) for _ in range(4))
    assert cut_off, "it was never cut off in its middle"
    app.admin.erase(tag="user:42", by="dan")
    assert places_of(MARK, url) == []
    archive = app.services.archive
    assert archive is not None
    assert archive.count(Filter(tag="user:42")) == 0
    assert app.engine.document_store.get(KIND) == []
    # What others stored is as it was.
    [left] = app.engine.dead_letters.stats()
    assert left.count == before[1][0].count // 2
    assert (app.jobs.count(tag="user:7"), places_of("bob@example.com", url)) == (before[0], before[2])
    assert archive.count(Filter(tag="user:7")) == JOBS // 3
    assert app.audit.list(1)[0].outcome == "done"
