"""A backup while one process enqueues and another works: it is whole, has all that was accepted, and can be worked on.

And backups and restores that are killed: there is never half a file, and never half a store in use.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace import Headrace
from headrace.app.admin import backups
from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import FINAL
from tests.faults.conftest import ROOT
from tests.runtime.transfer.store_contents import contents, fill
from tests.support.builders import succeed, want
from tests.support.engines import KINDS
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a Python module as a process."""
    with ExitStack() as at_end:

        def start_one(*arguments: str) -> subprocess.Popen[str]:
            path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env={**os.environ, "PYTHONPATH": path},
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stderr is not None
            at_end.callback(process.stderr.close)
            at_end.callback(process.wait)
            at_end.callback(process.kill)
            return process

        yield start_one


@pytest.fixture
def spare_url(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """Another empty store of the same engine."""
    (tmp_path / "spare").mkdir()
    kind = KINDS[engine_name]
    address = kind.create(tmp_path / "spare")
    yield kind.url(address)
    kind.discard(address)


def finish(process: subprocess.Popen[str]) -> None:
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told


def whole_lines(path: Path) -> list[str]:
    """The ids that were written down; the last one may be half a line."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def test_a_backup_under_load_restores_to_a_queue_in_which_every_accepted_job_is(
    url: str, spare_url: str, fleet: SimpleNamespace, start: Start, tmp_path: Path
) -> None:
    told, copy = tmp_path / "told", tmp_path / "copy.db"
    producer = start("tests.faults.producer", str(told))
    eventually(lambda: len(whole_lines(told)) > 50)
    fleet.start(concurrency=2)
    with Headrace(url) as app:
        app.queue("aside").pause()  # however fast the worker is, something waits when the backup is taken
        aside = [app.task_by_name("nobody").using(queue="aside").enqueue().id for _ in range(10)]
        eventually(lambda: app.jobs.count(state="completed") > 50 and len(whole_lines(told)) > 1500)
        accepted = whole_lines(told)
        finish(start("headrace", "--url", url, "backup", str(copy)))
        eventually(lambda: len(whole_lines(told)) > len(accepted) + 50, what="the producer went on")
    producer.kill()
    for process in fleet.processes:
        process.kill()
        process.wait()

    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        stored = {row[0] for row in db.execute("SELECT id FROM headrace_jobs")}
    assert {*accepted, *aside} - stored == set()

    with Headrace(spare_url) as app:
        done = app.admin.restore(copy)
        assert done.jobs == len(stored)
        wrong = [finding for finding in app.admin.check(deep=True) if finding.code != "fsync" and not finding.note]
        assert wrong == []
        app.queue("aside").resume()
        engine, ran = app.engine, 0
        while claims := engine.exchange([], want(500, lease=600_000), now=engine.clock.now()).claims:
            ran += len(claims)
            engine.exchange([succeed(claim, at=engine.clock.now()) for claim in claims], None)
        assert ran >= len(aside)
        ended = {row.id: row.state for row in rows_of(app)}
        assert set(ended) == stored
        assert set(ended.values()) <= FINAL, "nothing waits for what will never come"


def rows_of(app: Headrace) -> list[JobRow]:
    found: list[JobRow] = []
    cursor = None
    while True:
        page = app.engine.queries.find(Filter(), 1000, cursor)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def test_a_killed_backup_leaves_no_file_of_its_name(
    url: str, start: Start, tmp_path: Path, chance: random.Random
) -> None:
    with Headrace(url) as app:
        fill(app.engine, 3000)
        before = contents(app.engine)
    (tmp_path / "shelf").mkdir()
    copy = tmp_path / "shelf" / "copy.db"
    for _ in range(4):
        process = start("headrace", "--url", url, "backup", str(copy), "--overwrite")
        eventually(lambda: any((tmp_path / "shelf").glob(".copy.db.*/part.db")) or process.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not copy.exists() or backups.examine(copy) == 3000
    finish(start("headrace", "--url", url, "backup", str(copy), "--overwrite"))
    assert backups.examine(copy) == 3000
    with Headrace(url) as app:
        assert contents(app.engine) == before


def test_a_killed_restore_is_gone_on_with_and_nobody_works_on_half_a_store(
    url: str, spare_url: str, start: Start, tmp_path: Path, chance: random.Random
) -> None:
    copy = tmp_path / "copy.db"
    with Headrace(url) as app:
        fill(app.engine, 3000, lease=600_000)
        app.admin.backup(copy)
        expected = {row.id for row in app.engine.queries.find(Filter(), 5000).jobs}
    with Headrace(spare_url) as app:
        app.admin.migrate()
        for _ in range(4):
            process = start("headrace", "restore", str(copy), spare_url)
            eventually(lambda: app.jobs.count() > 0 or process.poll() is not None)  # noqa: B023
            time.sleep(chance.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            process.wait()
            there = app.jobs.count()
            assert there in (0, 3000) or app.engine.exchange([], want(1)).claims == []
            if there == 3000 and app.engine.transfer.store_status() is None:
                break
        else:
            finish(start("headrace", "restore", str(copy), spare_url))
        assert {row.id for row in app.engine.queries.find(Filter(), 5000).jobs} == expected
        assert app.engine.transfer.store_status() is None
