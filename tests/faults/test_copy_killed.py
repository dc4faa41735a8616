"""`headrace copy` cut off at any moment: the next run goes on, and in the end nothing is lost, doubled or out of order.

Real processes between real stores. Whatever the moment, the new store does not start before all is there.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headrace.app.transfer.move import CopyStep, StoreCopy
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable, StoreMoved
from tests.faults.conftest import ROOT
from tests.runtime.transfer.store_contents import contents, dead_letters, fill, without_nul
from tests.support.builders import new_job, want
from tests.support.engines import KINDS, StoreUnderTest
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

JOBS = 5_000
# The first engine with each of the others, both ways.
FIRST = next(iter(KINDS))
PAIRS = [(a, b) for a in KINDS for b in KINDS if FIRST in (a, b) and (a != b or len(KINDS) == 1)]


class Course:
    """A copy that is started again and again."""

    def __init__(self, source: StoreUnderTest, target: StoreUnderTest, kinds: tuple[str, str]) -> None:
        self.source, self.target = source.open(), target.open()
        addresses = zip(kinds, (source.address, target.address), strict=True)
        self.urls = [KINDS[kind].url(address) for kind, address in addresses]
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "copy", *self.urls, "--wait", "0"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def course_of(tmp_path: Path) -> Iterator[Callable[[str, str], Course]]:
    with ExitStack() as at_end:

        def make(kind: str, other_kind: str) -> Course:
            stores = []
            for name, made in (("source", kind), ("target", other_kind)):
                (tmp_path / name).mkdir()
                stores.append(StoreUnderTest(made, tmp_path / name, at_end))
            course = Course(stores[0], stores[1], (kind, other_kind))
            at_end.callback(course.end)
            return course

        yield make


def kill_when(process: subprocess.Popen[str], reached: Callable[[], object], what: str) -> bool:
    """Wait until the copy has come so far, and kill it there; False if it was over before, on a machine that stalls."""
    eventually(lambda: reached() or process.poll() is not None, what=what)
    process.kill()
    out, _ = process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0), out
    return process.returncode != 0


def is_closed(engine: Engine) -> bool:
    with pytest.raises(StoreMoved):
        engine.insert([new_job("too late")])
    return True


def assert_same(course: Course, before: list[JobExport]) -> None:
    """The target is as the source, where nothing has changed but for what ran: that was taken from its worker."""
    after = contents(course.source)
    assert contents(course.target) == without_nul(after)
    ran = {job_export.job.id for job_export in before if job_export.job.state is State.RUNNING}
    assert ran
    assert [p for p in after if p.job.id not in ran] == [p for p in before if p.job.id not in ran]
    assert {p.job.crashes for p in after if p.job.id in ran} == {1}


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_a_copy_killed_at_each_step_ends_as_if_nothing_had_happened(
    course_of: Callable[[str, str], Course], kind: str, other_kind: str
) -> None:
    course = course_of(kind, other_kind)
    source, target = course.source, course.target
    fill(source, JOBS)
    before = contents(source)
    source.migrate()
    target.migrate()

    def carried() -> int:
        return target.queries.count(Filter()).jobs

    assert kill_when(course.start(), lambda: target.transfer.store_status() is not None, "the notice at the target")
    assert kill_when(course.start(), lambda: carried() > 0, "the first page")
    assert is_closed(source)
    there = carried()
    assert there < JOBS
    if kill_when(course.start(), lambda: carried() > min(there + 500, JOBS - 1), "some more pages"):
        assert target.exchange([], want()).claims == [], "workers wait until all is there"
    if kill_when(course.start(), lambda: carried() >= JOBS, "all jobs"):
        store_status = target.transfer.store_status()
        assert store_status is None or store_status.kind == "arriving"

    out, _ = (last := course.start()).communicate(timeout=PATIENCE)
    assert last.returncode == 0, out
    assert_same(course, before)
    assert dead_letters(target) == dead_letters(source)
    assert target.queries.rules().queues == source.queries.rules().queues
    assert sorted(target.queries.queue_counts(), key=str) == sorted(source.queries.queue_counts(), key=str)
    assert target.transfer.store_status() is None
    assert is_closed(source)
    assert target.exchange([], want()).claims


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sqlite"])
def test_a_server_that_is_away_for_a_while_costs_nothing(course_of: Callable[[str, str], Course], kind: str) -> None:
    course = course_of(FIRST, kind)
    source, target = course.source, course.target
    fill(source, 1_000)
    target.migrate()
    with Proxy(urlsplit(course.urls[1]).port or 0) as proxy:

        def go_away(step: CopyStep) -> None:
            if step.stage == "copying" and step.done > 300:
                proxy.refuse()
                proxy.cut()

        def attempt(progress: Callable[[CopyStep], None]) -> None:
            engine = KINDS[kind].open(proxy.through(course.urls[1]))
            try:
                move = StoreCopy(source, engine, progress=progress)
                move.run(0)
                assert move.verify().differences == []
                move.open()
            finally:
                engine.close()

        with pytest.raises(EngineUnavailable):
            attempt(go_away)
        there = target.queries.count(Filter()).jobs
        assert 300 < there < 1_000
        proxy.accept_again()
        attempt(lambda step: None)
    assert contents(target) == without_nul(contents(source))
    assert target.transfer.store_status() is None


def test_a_copy_killed_at_random_moments_ends_as_if_nothing_had_happened(
    course_of: Callable[[str, str], Course], chance: random.Random
) -> None:
    course = course_of(FIRST, next(reversed(KINDS)))
    fill(course.source, JOBS)
    before = contents(course.source)
    kills = 0
    deadline = time.monotonic() + 300
    while True:
        assert time.monotonic() < deadline, f"{kills} kills, and no end"
        process = course.start()
        try:
            # The more it was killed the longer it may live: it has to come to its end at last.
            out, _ = process.communicate(timeout=chance.uniform(0.1, 0.5) + kills * 0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        else:
            break
    assert process.returncode == 0, out
    assert kills >= 2, "it was never killed"
    assert_same(course, before)
    assert course.target.transfer.store_status() is None
