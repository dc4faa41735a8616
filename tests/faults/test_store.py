"""A store that fails: full disks, torn logs, lost replies, clocks that jump, processes stopped while they write."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace, State
from headrace.core.jobs.records import ClaimRequest, ExchangeResult, Filter, JobNote, Outcome
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.testing import VirtualClock
from tests.faults.conftest import ROOT, stop
from tests.support.waiting import PATIENCE


def _engine(app: Headrace) -> SqliteEngine:
    assert isinstance(app.engine, SqliteEngine)
    return app.engine


def test_a_full_disk_refuses_jobs_and_loses_none(url: str) -> None:
    with Headrace(url) as app:

        @app.task
        def keep(text: str) -> int:
            return len(text)

        stored = [keep.enqueue("x" * 1000)]
        writer = _engine(app).store._open_writer()
        [pages] = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count={pages + 20}")

        def fill_up() -> None:
            for _ in range(1000):
                stored.append(keep.enqueue("x" * 1000))

        with pytest.raises(EngineUnavailable, match="disk is full"):
            fill_up()
        assert app.jobs.count() == len(stored)
        assert {job.id for job in app.jobs.find(limit=1000)} == {job.id for job in stored}

        with app.worker():  # it has no room to write, and outlives that
            writer.execute("PRAGMA max_page_count=1000000")
            assert [job.result(PATIENCE) for job in stored] == [1000] * len(stored)


@pytest.mark.slow
def test_every_prefix_of_the_log_opens_to_a_consistent_queue(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with Headrace(f"sqlite:///{path}") as app:

        @app.task(retry=0)
        def maybe(n: int) -> int:
            if n % 5 == 0:
                raise OSError("every fifth")
            return n

        writer = _engine(app).store._open_writer()
        app.engine.prepare()  # type: ignore[attr-defined]
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        writer.execute("PRAGMA wal_autocheckpoint=0")
        jobs = [maybe.enqueue(n) for n in range(40)]
        with app.worker(concurrency=2, prefetch=0):
            for job in jobs:
                job.wait(PATIENCE)
        shutil.copy(path, tmp_path / "base.db")
        log = Path(f"{path}-wal").read_bytes()

    rng = random.Random(7)
    whole_frames = range(32, len(log), 4096 + 24)
    cuts = [0, 31, len(log), *rng.sample(list(whole_frames), 25), *(rng.randrange(len(log)) for _ in range(15))]
    for number, cut in enumerate(cuts):
        copy = tmp_path / f"copy-{number}.db"
        shutil.copy(tmp_path / "base.db", copy)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        _assert_consistent(copy)


def _assert_consistent(path: Path) -> None:
    with Headrace(f"sqlite:///{path}") as app:
        rows = app.engine.queries.find(Filter(), 1000).jobs
        for row in rows:
            assert (row.state is State.RUNNING) == (row.lease_until is not None)
            assert (row.finished_at is not None) == (row.state in ("completed", "failed", "cancelled"))
        db = sqlite3.connect(path)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        failed = sum(row.state is State.FAILED for row in rows)
        dead = db.execute("SELECT count(*) FROM headrace_dead_letters WHERE status = 'pending'").fetchone()[0]
        filed = db.execute("SELECT count(*) FROM headrace_history WHERE event = 'fail'").fetchone()[0]
        assert failed == dead == filed, "a failure, its dead letter and its history are one commit"
        db.close()


class _Flaky:
    """Loses some of the store's replies: half of them before the commit, half after it."""

    def __init__(self, engine: Any, seed: int) -> None:
        self._exchange = engine.exchange
        self._rng = random.Random(seed)
        self.lost = 0

    def __call__(
        self, outcomes: Sequence[Outcome], want: ClaimRequest | None, notes: Sequence[JobNote] = (), **rest: Any
    ) -> ExchangeResult:
        luck = self._rng.random()
        if luck < 0.1:
            self.lost += 1
            raise EngineUnavailable("lost before the commit")
        answer: ExchangeResult = self._exchange(outcomes, want, notes, **rest)
        if luck < 0.2:
            self.lost += 1
            raise EngineUnavailable("lost after the commit")
        return answer


def test_lost_replies_lose_no_job_and_accept_no_result_twice(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Headrace(url, lease=1, heartbeat=0.3, max_crashes=None) as app:

        @app.task(retry=20)
        def double(n: int) -> int:
            return 2 * n

        jobs = app.enqueue_many([double.bind(n) for n in range(300)])
        flaky = _Flaky(app.engine, seed=11)
        monkeypatch.setattr(app.engine, "exchange", flaky)
        monkeypatch.setattr("headrace.runtime.worker.worker.OUTAGE_LONGEST", 0.2)
        with app.worker(concurrency=4, prefetch=10), app.worker(concurrency=4, prefetch=10):
            assert [job.result(PATIENCE) for job in jobs] == [2 * n for n in range(300)]
        assert flaky.lost > 0
        for job in jobs:
            assert sum(entry.event == "succeed" for entry in job.history()) == 1
            assert job.refresh().row.lease_until is None


@pytest.mark.slow
def test_a_clock_that_jumps_forward_costs_an_attempt_but_no_job(url: str) -> None:
    clock = VirtualClock()
    with Headrace(url, clock=clock, lease=30, heartbeat=0.2) as app:
        began, go = threading.Semaphore(0), threading.Event()

        @app.task
        def hold() -> str:
            began.release()
            assert go.wait(PATIENCE)
            return "done"

        with app.worker(concurrency=1), app.worker(concurrency=1):
            job = hold.enqueue()
            assert began.acquire(timeout=PATIENCE)
            clock.advance(3600)
            assert began.acquire(timeout=PATIENCE), "after the jump the lease is over, and the other worker takes it"
            go.set()
            assert job.result(PATIENCE) == "done"
        events = [entry.event.value for entry in job.history()]
        assert events.count("succeed") == 1
        assert job.refresh().attempt == 2


def test_a_clock_that_jumps_back_delays_nothing_that_was_due(url: str) -> None:
    clock = VirtualClock()
    with Headrace(url, clock=clock) as app:

        @app.task
        def note() -> str:
            return "done"

        before = [note.enqueue() for _ in range(5)]
        clock.set(datetime.now(UTC) - timedelta(hours=1))
        after = [note.enqueue() for _ in range(5)]
        with app.worker():
            assert [job.result(PATIENCE) for job in (*before, *after)] == ["done"] * 10


def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 100)
    with pytest.raises(EngineUnavailable, match="not an SQLite database"):
        Headrace(f"sqlite:///{path}").enqueue("anything")
    assert path.read_text() == "Dear reader, " * 100


def test_a_path_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineUnavailable, match="file"):
        Headrace(f"sqlite:///{tmp_path}/file/jobs.db").enqueue("anything")


_WRITER = """
import sys, time
from headrace import Headrace
app = Headrace(sys.argv[1])
app.enqueue("first")
with app.engine.store.writing() as db:
    db.execute("UPDATE headrace_queues SET paused = paused")
    print("holding", flush=True)
    time.sleep(60)
"""


def test_a_process_stopped_while_it_writes_makes_others_fail_not_hang(url: str) -> None:
    with _python(_WRITER, url) as process, _killing(process):
        assert process.stdout is not None
        assert process.stdout.readline() == b"holding\n"
        stop(process)
        with Headrace(url) as app:
            _engine(app).store._lock_timeout = 0.5
            _engine(app).store._turnstile._timeout = 0.5
            with pytest.raises(EngineUnavailable, match="locked"):
                app.enqueue("second")
            process.kill()
            process.wait()
            app.enqueue("third")
            assert [job.task for job in app.jobs.find()] == ["third", "first"]


@contextlib.contextmanager
def _killing(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()


_PRODUCER = """
import sys
from headrace import Headrace
app = Headrace(sys.argv[1])
while True:
    print(app.enqueue("anything").id, flush=True)
"""


def test_what_enqueue_returned_survives_the_producers_death(url: str) -> None:
    lines: list[str] = []
    for _ in range(3):
        with _python(_PRODUCER, url) as process:
            assert process.stdout is not None
            lines += [process.stdout.readline().decode().strip() for _ in range(50)]
            process.kill()
            lines += [line.decode().strip() for line in process.stdout if line.endswith(b"\n")]
    with Headrace(url) as app:
        stored = {row.id for row in app.engine.queries.get(lines)}
        assert stored == set(lines)
        assert len(lines) >= 150


def _python(code: str, url: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, env=environment)


def test_full_durability_reaches_the_pragma(tmp_path: Path) -> None:
    with Headrace(f"sqlite:///{tmp_path}/jobs.db", durability="full") as app:
        app.enqueue("anything")
        assert _engine(app).store._open_writer().execute("PRAGMA synchronous").fetchone() == (2,)
