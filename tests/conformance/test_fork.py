"""After a fork the child may use the engine it inherited, and neither side harms the other."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

import pytest

from headrace.core.jobs.states import State
from headrace.engines.protocol.engine import Engine
from tests.support.builders import NOW, claim, ids, new_job, settle, states, succeed
from tests.support.processes import Child
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_parent_and_child_work_on_one_store(engine: Engine) -> None:
    engine.insert([new_job("before")], now=NOW)

    def act(_: Connection) -> object:
        engine.insert([new_job("child", queue="new here")], now=NOW)
        return sorted(states(engine))

    child = Child(act)
    assert child.hear() == ["before", "child"]
    child.end()
    engine.insert([new_job("parent")], now=NOW)
    assert sorted(ids(claim(engine))) == ["before", "child", "parent"]


def test_parent_and_child_never_claim_the_same_job(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(300)], now=NOW)

    def drain(worker: str) -> list[str]:
        taken: list[str] = []
        while claims := claim(engine, 3, worker=worker):
            taken += ids(claims)
        return taken

    child = Child(lambda _: drain("child"))
    mine = drain("parent")
    theirs = child.hear()
    child.end()
    assert isinstance(theirs, list), theirs
    assert sorted(mine + theirs) == sorted(f"j{number}" for number in range(300))


def test_a_child_may_settle_what_its_parent_claimed(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    (claimed,) = claim(engine)
    child = Child(lambda _: settle(engine, succeed(claimed)))
    assert child.hear() == []
    child.end()
    assert states(engine) == {"job": State.COMPLETED}
    assert settle(engine, succeed(claimed)) == [succeed(claimed)]


def test_a_child_rings_its_parent(engine: Engine) -> None:
    engine.ring("work")
    bell = engine.listen("work")
    child = Child(lambda _: engine.ring("work"))
    assert bell.wait(PATIENCE)
    child.hear()
    child.end()
    bell.close()
