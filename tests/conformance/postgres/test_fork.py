"""PostgreSQL and fork: a connection belongs to the process that opened it, and no other says a word on it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe

import pytest

from headrace.engines.postgres.connections import Connection
from headrace.engines.postgres.engine import PostgresEngine
from tests.conformance.postgres.test_server import backend, idle
from tests.support.builders import (
    NOW,
    claim,
    ids,
    kinds,
    new_job,
    states,
)
from tests.support.engines import StoreUnderTest
from tests.support.processes import ROOT, Child
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.engines("postgres"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


@pytest.fixture
def engine(store: StoreUnderTest) -> Iterator[PostgresEngine]:
    """An engine with an idle connection."""
    made = PostgresEngine(store.address)
    made.insert([new_job("before")], now=NOW)
    yield made
    made.close()


def use(engine: PostgresEngine) -> list[str]:
    engine.insert([new_job("child")], now=NOW)
    return sorted(states(engine))


def test_a_child_has_connections_of_its_own_and_the_parents_outlive_it(engine: PostgresEngine) -> None:
    ours = engine.server.run(backend)

    def act(_: Pipe) -> object:
        use(engine)
        engine.close()
        return engine.server.run(backend)

    child = Child(act)
    theirs = child.hear()
    child.end()
    assert isinstance(theirs, int), theirs
    assert theirs != ours
    assert engine.server.run(backend) == ours
    assert sorted(states(engine)) == ["before", "child"]


def test_a_child_that_closes_the_engine_first_thing_leaves_the_parents_connections_open(engine: PostgresEngine) -> None:
    ours = engine.server.run(backend)
    bell = engine.listen("work")

    def act(_: Pipe) -> object:
        engine.close()
        return use(engine)

    child = Child(act)
    assert child.hear() == ["before", "child"]
    child.end()
    assert engine.server.run(backend) == ours
    assert bell.wait(PATIENCE), "and it has heard the child"
    bell.close()


def test_a_child_throws_nothing_away_that_is_its_parents(engine: PostgresEngine) -> None:
    ours = engine.server.run(backend)
    bell = engine.listen("work")

    def act(_: Pipe) -> object:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            use(engine)
            gc.collect()
        return [str(warning.message) for warning in told]

    child = Child(act)
    assert child.hear() == []
    child.end()
    assert engine.server.run(backend) == ours
    bell.close()


SCRIPT = """
import os, sys
from headrace.engines.postgres.engine import PostgresEngine
from tests.support.builders import NOW, new_job

engine = PostgresEngine(sys.argv[1])
engine.insert([new_job("parent")], now=NOW)
bell = engine.listen("work")
backend = lambda db: db.info.backend_pid
ours = engine.server.run(backend)
child = os.fork()
if not child:
    if sys.argv[2] == "uses it":
        engine.insert([new_job("child")], now=NOW)
        engine.close()
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, engine.server.run(backend) == ours, bell.wait(0.0 if sys.argv[2] == "just ends" else 30))
engine.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("act", "heard"), [("just ends", False), ("uses it", True)])
def test_a_child_that_ends_in_order_clears_up_only_what_is_its_own(
    store: StoreUnderTest, act: str, heard: bool
) -> None:
    """The interpreter of the child throws away everything, with every warning there is."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SCRIPT, store.address, act],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == f"0 True {heard}\n", done.stderr
    assert "Warning" not in done.stderr


def test_a_fork_while_every_lock_is_held_leaves_the_child_able_to_work(engine: PostgresEngine) -> None:
    """As other threads of the parent may hold them at that moment."""
    with engine.server._lock, engine.server._breaker._lock, engine._server_bells._lock:
        child = Child(lambda _: (use(engine), engine.listen("work").wait(0)))
    assert child.hear() == (["before", "child"], False)
    child.end()


def test_a_fork_while_all_connections_are_busy_leaves_the_child_able_to_work(engine: PostgresEngine) -> None:
    count = engine.address.connections
    inside, leave = threading.Barrier(count + 1), threading.Event()

    def hold(db: Connection) -> bool:
        db.execute("SELECT 1")
        inside.wait(PATIENCE)
        return leave.wait(PATIENCE)

    holders = [threading.Thread(target=engine.server.transact, args=(hold,)) for _ in range(count)]
    for holder in holders:
        holder.start()
    inside.wait(PATIENCE)
    child = Child(lambda _: use(engine))
    answer = child.hear()
    child.end()
    leave.set()
    for holder in holders:
        holder.join(PATIENCE)
    assert answer == ["before", "child"]
    assert len(idle(engine.server)) == count, "and none of them was harmed"
    assert sorted(ids(claim(engine))) == ["before", "child"]


def test_a_child_can_not_hang_up_for_its_parent(engine: PostgresEngine) -> None:
    (ours,) = idle(engine.server)
    child = Child(lambda _: engine.server.disconnect(ours))
    assert child.hear() is None
    child.end()
    assert engine.server.run(lambda db: db) is ours


class Left(BaseException):
    """The child leaves."""


def test_a_child_that_is_forked_in_the_middle_of_a_transaction_leaves_it_to_the_parent(engine: PostgresEngine) -> None:
    """It goes back through the same code as its parent, with a connection that is not its own."""
    ours: list[int] = []
    codes: list[int] = []

    def act(db: Connection) -> str:
        db.execute(f"DELETE FROM {engine.address.schema}.headrace_jobs")
        ours.append(backend(db))
        child = os.fork()
        if not child:
            raise Left
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return "committed"

    def use_it_as_a_child() -> int:
        try:
            return 0 if engine.server.run(backend) != ours[0] and use(engine) == ["before", "child"] else 1
        except BaseException:
            return 2

    try:
        answer = engine.server.transact(act)
    except Left:
        os._exit(use_it_as_a_child())
    assert (answer, codes) == ("committed", [0])
    assert sorted(states(engine)) == ["child"]
    assert engine.server.run(backend) == ours[0]


def test_bells_of_parent_and_child_are_rung_by_each_other(engine: PostgresEngine) -> None:
    bell = engine.listen("done")

    def act(pipe: Pipe) -> object:
        mine = engine.listen("orders")
        pipe.send("listening")
        heard = mine.wait(PATIENCE)
        mine.close()
        engine.ring("done")
        return heard

    child = Child(act)
    assert child.hear() == "listening"
    assert not bell.wait(0)
    engine.ring("orders")
    assert child.hear() is True
    assert bell.wait(PATIENCE)
    child.end()
    bell.close()


def test_children_of_a_child_work_too(engine: PostgresEngine) -> None:
    def act(_: Pipe) -> object:
        engine.insert([new_job("child")], now=NOW)
        grandchild = Child(lambda _: kinds(engine.insert([new_job("grandchild")], now=NOW)))
        answer = grandchild.hear()
        grandchild.end()
        return answer, sorted(states(engine))

    child = Child(act)
    assert child.hear() == (["new"], ["before", "child", "grandchild"])
    child.end()


def test_many_threads_of_a_child_begin_at_once_with_no_connection_of_the_parent(engine: PostgresEngine) -> None:
    for _ in range(3):  # something to take by mistake
        engine.server.run(lambda _: engine.server.run(backend))
    parents = {backend(each) for each in idle(engine.server)}
    assert parents

    def act(_: Pipe) -> object:
        start = threading.Barrier(8)
        used: list[int] = []

        def work() -> None:
            start.wait()
            used.append(engine.server.transact(backend))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        return len(used), parents & set(used)

    child = Child(act)
    assert child.hear() == (8, set())
    child.end()
