"""An app with a spool goes on enqueuing while its server is away. The servers are real, and are really stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import DuplicateJob, EngineUnavailable, Headrace, JobFailed, QueueFull
from tests.runtime.worker.test_fork import in_child
from tests.support import servers
from tests.support.command_line import Shell
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.engines("redis", "postgres"), pytest.mark.slow_on("postgres")]
ROOT = Path(__file__).parents[3]
_STARTERS: dict[str, Callable[[], Any]] = {
    "postgres": lambda: servers.PostgresServer(durable=False).start(),
    "redis": lambda: servers.RedisServer().start(),
}
_started: dict[str, Any] = {}


class Outage:
    """A server that the test can take away, and a name in it that no other test uses."""

    def __init__(self, kind: str) -> None:
        if kind not in _started:
            _started[kind] = _STARTERS[kind]()
        self._server = _started[kind]
        parameter = "schema" if kind == "postgres" else "prefix"
        self.url = servers._with(self._server.url, **{parameter: servers._new_name()})
        self._is_up = True
        with Headrace(self.url) as once:
            once.queues()  # makes the tables

    def begin(self) -> None:
        self._server.stop()
        self._is_up = False

    def end(self) -> None:
        if not self._is_up:
            self._server.start()
            self._is_up = True


@pytest.fixture
def outage(engine_name: str) -> Iterator[Outage]:
    outage = Outage(engine_name)
    yield outage
    outage.end()


@pytest.fixture
def app(outage: Outage, folder: Path) -> Iterator[Headrace]:
    with spooling(outage, folder) as app:
        yield app


def spooling(outage: Outage, folder: Path, **settings: Any) -> Headrace:
    app = Headrace(outage.url, spool=str(folder / "spool.db"), **settings)
    app.task(name="double")(lambda n: 2 * n)
    return app


def double(app: Headrace, *numbers: int, **options: Any) -> list[Any]:
    return [app.tasks["double"].using(**options).enqueue(n) for n in numbers]


def forwarded(app: Headrace) -> None:
    eventually(lambda: not app.spooled(), "that everything is forwarded")


def answers(app: Headrace) -> None:
    """The forwarder tries a server that came back only after a pause."""

    def ping() -> bool:
        with contextlib.suppress(EngineUnavailable):
            app.engine.queries.rules()
            return True
        return False

    eventually(ping, "that the server answers")


def in_order(app: Headrace) -> list[int]:
    """The numbers of the jobs as they arrived."""
    arrived = sorted(app.jobs.find(limit=10_000), key=lambda job: job.row.seq)
    return [job.args[0] for job in arrived]


def test_a_server_that_is_away_from_the_start(app: Headrace, outage: Outage) -> None:
    outage.begin()
    [job] = double(app, 21)
    assert (job.spooled, job.state, job.args, job.attempt) == (True, "pending", (21,), 0)
    assert job.refresh().spooled
    assert app.spooled() == 1
    assert app.jobs.get(job.id).spooled
    assert (job.logs(), job.errors, [entry.event for entry in job.history()]) == ([], [], ["submit"])
    assert "the server is unavailable" in job.why()
    assert "0 jobs are in front of it; it is forwarded when the server returns" in job.why()
    outage.end()
    answers(app)
    with app.worker():
        assert job.result(PATIENCE) == 42
    assert not job.spooled
    assert app.spooled() == 0


def test_without_a_spool_it_fails_fast(outage: Outage) -> None:
    outage.begin()
    with Headrace(outage.url) as app, pytest.raises(EngineUnavailable):
        app.enqueue("x")


def test_order_holds_across_the_gap(app: Headrace, outage: Outage) -> None:
    before = double(app, 0, 1)
    assert not any(job.spooled for job in before)
    outage.begin()
    double(app, 2, 3)
    app.enqueue_many([app.tasks["double"].bind(n) for n in range(4, 1500)])
    assert app.spooled() == 1498
    outage.end()
    more = 1500
    while app.spooled():
        double(app, more)  # while the others are on their way
        more += 1
    double(app, more)
    assert in_order(app) == list(range(more + 1))


def test_a_worker_goes_on_through_the_outage(app: Headrace, outage: Outage) -> None:
    with app.worker(concurrency=2):
        [first] = double(app, 1)
        assert first.result(PATIENCE) == 2
        outage.begin()
        jobs = double(app, 2, 3)
        outage.end()
        assert [job.result(PATIENCE) for job in jobs] == [4, 6]


def test_coroutines_spool_and_wait_as_well(app: Headrace, outage: Outage) -> None:
    outage.begin()

    async def main() -> list[int]:
        task = app.tasks["double"]
        jobs = await asyncio.gather(*(task.aenqueue(n) for n in range(50)))
        jobs += await app.aenqueue_many([task.bind(n) for n in range(50, 60)])
        assert all(job.spooled for job in jobs)
        assert await app.aspooled() == 60
        with pytest.raises(TimeoutError, match="It waits in the spool"):
            await jobs[0].aresult(0.05)
        results = asyncio.gather(*jobs)
        await asyncio.to_thread(outage.end)
        async with asyncio.timeout(PATIENCE):
            return await results

    with _worker_later(app):
        assert asyncio.run(main()) == [2 * n for n in range(60)]


class _worker_later:  # noqa: N801  (reads as a function)
    """A worker can't sign on while the server is away: another process would come up later as well."""

    def __init__(self, app: Headrace) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, app.settings.url, str(app.settings.spool)], env=_environment()
        )

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


_WORKER = """
import sys, time
from headrace import EngineUnavailable, Headrace

app = Headrace(sys.argv[1], spool=sys.argv[2])
app.task(name="double")(lambda n: 2 * n)
while True:
    try:
        app.run_worker()
    except EngineUnavailable:
        time.sleep(0.05)
"""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def test_many_jobs_are_spooled_all_or_not_at_all(outage: Outage, folder: Path) -> None:
    with spooling(outage, folder, spool_limit=10) as app:
        outage.begin()
        task = app.tasks["double"]
        double(app, 0, job_id="mine")
        with pytest.raises(DuplicateJob, match="mine"):
            double(app, 1, job_id="mine")
        with pytest.raises(DuplicateJob, match="mine"):
            app.enqueue_many([task.bind(1), task.using(job_id="mine").bind(2)])
        with pytest.raises(QueueFull, match="limited to 10 jobs; 1 wait"):
            app.enqueue_many([task.bind(n) for n in range(10)])
        assert app.spooled() == 1
        app.enqueue_many([task.bind(n) for n in range(1, 10)])
        with pytest.raises(QueueFull):
            double(app, 10)
        outage.end()
        forwarded(app)
        assert in_order(app) == list(range(10))


def test_an_id_that_the_server_knows_is_found_out_when_it_returns(
    app: Headrace, outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    double(app, 1, job_id="mine")
    outage.begin()
    [job] = double(app, 2, job_id="mine")
    double(app, 3)
    with caplog.at_level(logging.WARNING):
        outage.end()
        forwarded(app)
    assert job.refresh().args == (1,), "the first job has the id"
    assert in_order(app) == [1, 3]
    assert app.spool is not None
    assert app.spool.stats().duplicates == 1
    assert "job mine (double) is dropped" in caplog.text


def test_times_are_those_of_the_submission(app: Headrace, outage: Outage) -> None:
    outage.begin()
    soon = datetime.now(UTC) + timedelta(hours=1)
    [at], [late], [lapsing] = double(app, 1, run_at=soon), double(app, 2, delay=0.01), double(app, 3, expires=0.01)
    assert (at.state, late.state, lapsing.state) == ("scheduled", "scheduled", "pending")
    kept = {job.id: (job.created_at, job.run_at, job.expires_at) for job in (at, late, lapsing)}
    # Jobs become due, or expire, while the server is unavailable.
    eventually(lambda: datetime.now(UTC) > max(late.run_at, lapsing.expires_at), "that time has passed")
    outage.end()
    forwarded(app)
    assert {job.id: (job.refresh().created_at, job.run_at, job.expires_at) for job in (at, late, lapsing)} == kept
    assert abs(at.run_at - soon) <= timedelta(milliseconds=1)
    with app.worker():
        assert late.result(PATIENCE) == 4
        assert lapsing.wait(PATIENCE) == "cancelled"
    assert at.refresh().state == "scheduled"


def test_a_job_can_be_changed_when_it_has_arrived_and_not_before(
    app: Headrace, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage.begin()
    [job] = double(app, 1)
    for act in (job.cancel, job.delete, job.promote, job.retry, lambda: job.update(priority=3)):
        with pytest.raises(EngineUnavailable):
            act()
    assert app.spool is not None
    insert = app.engine.insert

    def away(*_: Any, **__: Any) -> list[bool]:
        raise EngineUnavailable("not for you")

    monkeypatch.setattr(app.engine, "insert", away)  # the rest of the server is there again
    outage.end()
    answers(app)
    for act in (job.cancel, job.delete, lambda: job.update(priority=3)):
        with pytest.raises(EngineUnavailable, match="still waits in the spool"):
            act()
    assert job.refresh().spooled
    monkeypatch.setattr(app.engine, "insert", insert)
    forwarded(app)
    assert job.cancel()
    assert (job.state, job.spooled) == ("cancelled", False)


@pytest.mark.slow
def test_a_job_that_the_server_refuses_is_reported_as_failed(
    app: Headrace, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = app.engine.insert

    def picky(jobs: Any, **options: Any) -> Any:
        if threading.current_thread().name == "headrace-spool" and any(new.id == "bad" for new in jobs):
            raise ValueError("not this one")
        return insert(jobs, **options)

    # Before the outage: a call that is being repeated when the server returns is refused, too.
    monkeypatch.setattr(app.engine, "insert", picky)
    outage.begin()
    [bad], [good] = double(app, 1, job_id="bad"), double(app, 2)
    outage.end()
    forwarded(app)
    assert good.refresh().state == "pending"
    assert (bad.refresh().state, bad.spooled) == ("failed", False)
    with pytest.raises(JobFailed, match="refused when it was forwarded: ValueError: not this one"):
        bad.result(PATIENCE)
    assert "It is over: failed (refused when it was forwarded" in bad.why()


def test_what_a_process_leaves_behind_is_forwarded_by_the_next(outage: Outage, folder: Path) -> None:
    outage.begin()
    with spooling(outage, folder) as app:
        [job] = double(app, 1)
    with spooling(outage, folder) as app:
        double(app, 2)
        assert app.spooled() == 2
    outage.end()
    with spooling(outage, folder) as app:
        forwarded(app)
        assert in_order(app) == [1, 2]
        assert not app.jobs.get(job.id).spooled


_PRODUCER = """
import sys
from headrace import Headrace

number, count = int(sys.argv[3]), int(sys.argv[4])
with Headrace(sys.argv[1], spool=sys.argv[2]) as app:
    for n in range(count):
        assert app.enqueue("double", number * 1000 + n).spooled
"""


@pytest.mark.slow
def test_several_processes_share_a_spool(app: Headrace, outage: Outage, folder: Path) -> None:
    outage.begin()
    command = [sys.executable, "-c", _PRODUCER, outage.url, str(folder / "spool.db")]
    processes = [subprocess.Popen([*command, str(n), "50"], env=_environment()) for n in range(3)]
    double(app, *range(9000, 9050))
    assert [process.wait(PATIENCE) for process in processes] == [0, 0, 0]
    assert app.spooled() == 200
    outage.end()
    forwarded(app)
    found = in_order(app)
    assert sorted(found) == [first + n for first in (0, 1000, 2000, 9000) for n in range(50)]
    for first in (0, 1000, 2000, 9000):
        own = [n for n in found if first <= n < first + 50]
        assert own == sorted(own), "the jobs of each are in its order"


@pytest.mark.slow
def test_a_worker_process_forwards_what_others_left(outage: Outage, folder: Path) -> None:
    outage.begin()
    with spooling(outage, folder) as app:
        [job] = double(app, 4)
    outage.end()
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKER, outage.url, str(folder / "spool.db")], env=_environment()
    )
    try:
        with Headrace(outage.url) as looking:
            eventually(lambda: looking.jobs.count(ids=[job.id], state="completed"), "that a worker ran it")
    finally:
        process.kill()
        process.wait()


def test_a_worker_forwards_what_others_leave_while_it_runs(app: Headrace, outage: Outage, folder: Path) -> None:
    with app.worker():
        assert double(app, 1)[0].result(PATIENCE) == 2
        outage.begin()
        with spooling(outage, folder) as script:
            [job] = double(script, 2)
        outage.end()
        answers(app)
        assert app.jobs.get(job.id).result(PATIENCE) == 4


def test_a_forked_child_spools_and_leaves_its_parents_forwarder_alone(app: Headrace, outage: Outage) -> None:
    outage.begin()
    double(app, 0)  # the parent's thread is there from now on

    def child() -> None:
        for n in range(1, 20):
            assert double(app, n)[0].spooled
        app.close()

    assert in_child(child) == 0
    double(app, 20)
    assert app.spooled() == 21
    outage.end()
    forwarded(app)
    assert in_order(app) == list(range(21))


def test_a_child_can_forward_what_its_parent_spooled(app: Headrace, outage: Outage) -> None:
    outage.begin()
    [job] = double(app, 5)
    assert app.spool is not None
    app.spool.pause()  # as a parent that ends would

    outage.end()

    def child() -> None:
        answers(app)
        with app.worker():
            assert job.result(PATIENCE) == 10
        app.close()

    assert app.spooled() == 1
    assert in_child(child) == 0
    assert app.spooled() == 0
    assert job.refresh().state == "completed"


def test_the_doctor_reports_waiting_jobs(outage: Outage, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", outage.url)
    monkeypatch.setenv("HEADRACE_SPOOL", "spool.db")
    well = shell("doctor", "--json").json
    assert well["spool"]["waiting"] == 0
    assert not any("spool" in finding for finding in (*well["findings"], *well["remarks"]))
    assert list(shell.folder.iterdir()) == []
    outage.begin()
    with Headrace() as app:
        app.enqueue("x")
        app.enqueue("y")
    ran = shell("doctor")
    assert ran.code == 1
    assert "2 jobs wait in the spool since 20" in ran.out
    assert "2 of 100000, since 20" in ran.out
    report = shell("doctor", "--json").json
    assert report["spool"]["waiting"] == 2
    assert report["spool"]["error"] in report["findings"][-1]
    outage.end()
    with Headrace() as app:
        forwarded(app)
    assert shell("doctor", "--json").json["spool"]["waiting"] == 0


def test_what_waits_in_the_spool_of_an_app_with_keys_is_encrypted(outage: Outage, folder: Path) -> None:
    key = f"k:{'A' * 43}="
    outage.begin()
    with spooling(outage, folder, encryption_keys=[key]) as app:
        job = app.enqueue("echo", "n33dle")
        assert job.spooled
        assert job.args == app.jobs.get(job.id).args == ("n33dle",)
        app.task(name="echo")(lambda text: text)
        spool = b"".join(path.read_bytes() for path in folder.glob("spool.db*") if path.is_file())
        assert b"$sealed" in spool
        assert b"n33dle" not in spool
        outage.end()
        forwarded(app)
        with app.worker():
            assert job.result(PATIENCE) == "n33dle"


def test_a_person_is_erased_from_the_spool(app: Headrace, outage: Outage) -> None:
    outage.begin()
    double(app, 4242, tags=("user:42",))
    double(app, 1, 2)
    spool = app.services._spool
    assert spool is not None
    assert spool.erase(lambda job: "4242" in job.payload, dry_run=True) == 1
    assert app.spooled() == 3
    assert spool.erase(lambda job: "4242" in job.payload) == 1
    assert app.spooled() == 2
    outage.end()
    forwarded(app)
    assert sorted(job.args for job in app.jobs.find()) == [(1,), (2,)]


def test_a_large_payload_waits_in_its_file_while_its_job_waits_in_the_spool(outage: Outage, folder: Path) -> None:
    large = "x" * 5000
    given: dict[str, Any] = {
        "spool": str(folder / "s.db"),
        "payload_store": f"{folder}/payloads",
        "payload_threshold": 1024,
    }
    with Headrace(outage.url, **given) as app:
        echo = app.task(name="echo")(lambda text: text)
        echo.enqueue(large)
        outage.begin()
        job = echo.enqueue(large)
        assert job.spooled
        assert len([*(folder / "payloads").rglob("*.call.*")]) == 2
        assert job.args == (large,)
    with Headrace(outage.url, **given) as later:
        early = later.enqueue("echo", large)
        assert early.row.payload.startswith('{"args"'), "it does not know its folder yet"
        outage.end()
        later.task(name="echo")(lambda text: text)
        with later.worker():
            assert later.jobs.get(job.id).result(PATIENCE) == early.result(PATIENCE) == large
