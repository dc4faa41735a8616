"""Whoever spools or forwards is killed at any moment, while the server comes and goes: no job is lost, none runs twice.

Run as a program, this file is one of those who are killed: see `PARTS`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from headrace import Headrace, Job
from headrace.runtime.spool.file import SpoolFile
from headrace.runtime.spool.forwarder import Forwarder
from tests.faults.conftest import ROOT
from tests.support import servers
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.engines("postgres", "redis"), pytest.mark.slow]
SECONDS = 6.0


# -- those who are killed


def produce(url: str, spool: str, name: str) -> None:
    """Enqueue for ever, one by one and several at once, and write down what was accepted."""
    app = Headrace(url, spool=spool)
    accepted = os.open(f"accepted-{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    number = 0
    while True:
        many = 1 if random.random() < 0.8 else random.randint(2, 30)
        calls = [{"task": "note", "args": (name, number + n)} for n in range(many)]
        jobs = app.enqueue_many(calls) if many > 1 else [app.enqueue("note", name, number)]
        number += many
        os.write(accepted, "".join(f"{job.id}\n" for job in jobs).encode())


def die_when_spooling(url: str, spool: str, name: str) -> None:
    """The job is written, the mark is set, and the commit never comes."""
    set_mark = SpoolFile._set_mark

    def set_mark_and_die(file: SpoolFile) -> None:
        set_mark(file)
        die()

    SpoolFile._set_mark = set_mark_and_die  # type: ignore[method-assign, assignment]
    Headrace(url, spool=spool).enqueue("note", name, 0)


def die_before_removing(url: str, spool: str, name: str) -> None:
    """The server has accepted the jobs, and the spool does not know yet."""
    SpoolFile.remove = die  # type: ignore[method-assign]
    Headrace(url, spool=spool)
    time.sleep(60)


def die_before_sending(url: str, spool: str, name: str) -> None:
    """It has the turn to forward, and the jobs in its hands."""
    Forwarder._forward = die  # type: ignore[method-assign]
    Headrace(url, spool=spool)
    time.sleep(60)


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody outlives that")


PARTS = {part.__name__: part for part in (produce, die_when_spooling, die_before_removing, die_before_sending)}


# -- where it happens


class Place:
    """A server to take away, a spool, and the processes at it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.server = servers.PostgresServer() if kind == "postgres" else servers.RedisServer()
        # A Redis that is killed may lose its last second, as our documentation says.
        self._ways_to_go: tuple[servers.Mode, ...] = ("fast", "immediate") if kind == "postgres" else ("fast",)
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._born = 0
        self.server.start()
        with Headrace(self.server.url) as app:
            app.queues()  # makes the tables

    def open(self) -> Headrace:
        return Headrace(self.server.url, spool=str(self._folder / "spool.db"))

    def start(self, part: str) -> subprocess.Popen[bytes]:
        name = f"{part}-{self._born}"
        self._born += 1
        command = [sys.executable, "-m", "tests.faults.test_spool_killed", part, self.server.url, "spool.db", name]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self._folder / "said").open("ab") as said:
            process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, cwd=self._folder, stderr=said)
        self._processes[name] = process
        return process

    def replace_one(self, chance: random.Random) -> None:
        """Kill a producer that has begun, at whatever it does, and start another."""
        begun = [name for name in self._processes if (self._folder / f"accepted-{name}").exists()]
        if begun:
            self._kill(chance.choice(begun))
            self.start("produce")

    def kill_all(self) -> None:
        for name in list(self._processes):
            self._kill(name)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def stop_server(self, chance: random.Random) -> None:
        self.server.stop(chance.choice(self._ways_to_go))

    def accepted(self) -> set[str]:
        return {line for path in self._folder.glob("accepted-*") for line in path.read_text().split()}

    def close(self) -> None:
        self.kill_all()
        self.server.close()


@pytest.fixture
def place(engine_name: str, tmp_path: Path) -> Iterator[Place]:
    place = Place(engine_name, tmp_path)
    yield place
    place.close()


def test_whoever_is_killed_while_the_server_comes_and_goes_loses_nothing(place: Place, chance: random.Random) -> None:
    for _ in range(3):
        place.start("produce")
    is_up, change_at = True, 0.0
    end = time.monotonic() + SECONDS
    while (now := time.monotonic()) < end:
        if now >= change_at:
            if is_up:
                place.stop_server(chance)
            else:
                place.server.start()
            is_up, change_at = not is_up, time.monotonic() + chance.uniform(0.2, 1.2)
        time.sleep(chance.uniform(0.05, 0.4))
        place.replace_one(chance)
    eventually(lambda: len(place.accepted()) > 100, what="that jobs were accepted")
    place.kill_all()
    if not is_up:
        place.server.start()
    with place.open() as app:
        ensure_all_arrive(app, place.accepted())
        ensure_each_runs_once(app)


@pytest.mark.parametrize("part", ["die_before_removing", "die_before_sending"])
def test_a_forwarder_that_is_killed_is_followed_by_another(place: Place, part: str) -> None:
    place.server.stop()
    with place.open() as app:
        task = app.task_by_name("note")
        jobs = [(task.using(job_id=f"mine-{n}") if n % 2 else task).enqueue("mine", n) for n in range(700)]
        assert app.spooled() == 700
    place.server.start()
    assert place.start(part).wait(PATIENCE) == -signal.SIGKILL
    with place.open() as app:
        ensure_all_arrive(app, [job.id for job in jobs])
        ensure_each_runs_once(app)


def test_a_producer_that_is_killed_before_its_commit_leaves_nothing_in_the_way(place: Place) -> None:
    place.server.stop()
    assert place.start("die_when_spooling").wait(PATIENCE) == -signal.SIGKILL
    place.server.start()
    with place.open() as app:
        eventually(lambda: not app.enqueue("note", "mine", 0).spooled, what="that the spool is not in use")
        assert all(job.args[0] == "mine" for job in app.jobs.find())


def ensure_all_arrive(app: Headrace, ids: Collection[str]) -> None:
    """Each of these, in the order of whoever enqueued it, and none of them dropped or refused."""
    eventually(lambda: not app.spooled(), what="that everything is forwarded")
    jobs = every_job(app)
    assert set(ids) <= {job.id for job in jobs}
    numbers: dict[str, list[int]] = {}
    for job in sorted(jobs, key=lambda job: job.row.seq):
        name, number = job.args
        numbers.setdefault(name, []).append(number)
    for name, found in numbers.items():
        assert found == list(range(len(found))), f"the jobs of {name} arrived out of order, or with a gap"
    assert app.spool is not None
    stats = app.spool.stats()
    assert (stats.refused, stats.duplicates) == (0, 0)


def every_job(app: Headrace) -> list[Job[Any]]:
    page = app.jobs.find(limit=10_000)
    jobs = list(page)
    while page.cursor:
        page = app.jobs.find(limit=10_000, cursor=page.cursor)
        jobs += page
    return jobs


def ensure_each_runs_once(app: Headrace) -> None:
    runs: Counter[tuple[str, int]] = Counter()

    @app.task
    def note(name: str, number: int) -> None:
        runs[name, number] += 1

    count = app.jobs.count()
    with app.worker(concurrency=2):
        eventually(lambda: app.jobs.count(state="completed") == count, what="that all jobs ran")
    assert len(runs) == count
    assert set(runs.values()) == {1}


if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
