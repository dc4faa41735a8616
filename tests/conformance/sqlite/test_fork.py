"""SQLite and fork: its bookkeeping of locks is the process's own, and a child inherits it without the locks."""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.sqlite_file.database import _forks
from tests.support.builders import (
    NOW,
    kinds,
    new_job,
    states,
)
from tests.support.processes import Child
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.parametrize("ending", ["parent closes", "third comes and goes"])
def test_nothing_a_child_stores_is_lost_when_its_parent_leaves(folder: Path, ending: str) -> None:
    path = folder / "q.db"
    engine = SqliteEngine(path)
    engine.insert([new_job("before")], now=NOW)

    def act(pipe: Connection) -> object:
        engine.insert([new_job("early")], now=NOW)
        pipe.send("stored")
        pipe.recv()
        return kinds(engine.insert([new_job("late")], now=NOW))

    child = Child(act)
    assert child.hear() == "stored"
    engine.close()
    if ending == "third comes and goes":
        third = SqliteEngine(path)
        third.insert([new_job("third")], now=NOW)
        third.close()
    child.pipe.send("go on")
    answer = child.hear()
    child.end()
    looking = SqliteEngine(path)
    found = set(states(looking))
    looking.close()
    assert answer == ["new"]
    assert {"before", "early", "late"} <= found


def test_a_fork_while_another_thread_writes_leaves_the_child_able_to_write(folder: Path) -> None:
    engine = SqliteEngine(folder / "q.db")
    engine.store._lock_timeout = 1.0  # so that a child without hope gives up soon
    engine.insert([new_job("before")], now=NOW)
    inside, forked = threading.Event(), threading.Event()

    def write() -> None:
        with engine.store.writing() as db:
            db.execute("UPDATE headrace_jobs SET version = version + 1")
            inside.set()
            forked.wait(0.2)  # a fork that waits for this transaction ends the wait by letting it run out

    writer = threading.Thread(target=write)
    writer.start()
    inside.wait()
    child = Child(lambda _: kinds(engine.insert([new_job("child")], now=NOW)))
    forked.set()
    writer.join()
    answer = child.hear()
    child.end()
    found = set(states(engine))
    engine.close()
    assert answer == ["new"]
    assert found == {"before", "child"}


@pytest.mark.slow
def test_threads_that_fork_at_once_neither_hang_nor_leave_a_store_halted(folder: Path) -> None:
    engines = [SqliteEngine(folder / f"q{number}.db", durability="off") for number in range(3)]
    for engine in engines:
        engine.insert([new_job("before")], now=NOW)
    codes: list[int] = []

    def fork_often() -> None:
        for _ in range(40):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        forkers = [threading.Thread(target=fork_often, daemon=True) for _ in range(4)]
        for forker in forkers:
            forker.start()
        for forker in forkers:
            forker.join(PATIENCE)
    finally:
        sys.setswitchinterval(before)
    assert not any(forker.is_alive() for forker in forkers)
    assert codes == [0] * 160
    for engine in engines:
        assert kinds(engine.insert([new_job("after")], now=NOW)) == ["new"]
        engine.close()


def test_a_fork_inside_the_hooks_of_a_fork_sets_nothing_going_too_early(folder: Path) -> None:
    engine = SqliteEngine(folder / "q.db")
    engine.insert([new_job("before")], now=NOW)
    _forks.before()
    child = Child(lambda _: kinds(engine.insert([new_job("child")], now=NOW)))
    assert child.hear() == ["new"]
    child.end()
    seen: list[bool] = []
    looking = threading.Thread(target=lambda: seen.append(engine.store._lock.acquire(blocking=False)))
    looking.start()
    looking.join()
    _forks.after_in_parent()
    assert seen == [False]  # the outer fork still holds it
    assert set(states(engine)) == {"before", "child"}
    engine.close()
