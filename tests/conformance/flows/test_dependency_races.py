"""Jobs that wait for jobs, while several act at the same moment on engines of their own."""

from __future__ import annotations

import pytest

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import NOW, claim, claim_one, fail, new_job, row, settle, states, succeed, together
from tests.support.engines import StoreUnderTest

ROUNDS = 12


@pytest.fixture
def engines(store: StoreUnderTest) -> list[Engine]:
    return [store.open() for _ in range(4)]


def test_of_parents_that_end_at_one_moment_one_is_the_last(engines: list[Engine]) -> None:
    """Each of them, seen alone, leaves another one open: nobody would let the child run."""
    for turn in range(ROUNDS):
        parents = [f"p{turn}-{n}" for n in range(len(engines))]
        child = f"c{turn}"
        jobs = [*map(new_job, parents), new_job(child, state=State.WAITING)]
        engines[0].insert(jobs, edges=[Dependency(parent, child) for parent in parents], now=NOW)
        claims = claim(engines[0])
        assert {found.id for found in claims} == set(parents)
        together(len(engines), lambda n: settle(engines[n], succeed(claims[n])))  # noqa: B023
        assert claim_one(engines[0]).id == child
        assert (
            len([entry for entry in engines[0].queries.details(child).history if entry.event == Trigger.UNBLOCK]) == 1
        )


def test_a_child_that_is_added_while_its_parent_ends_is_never_forgotten(engines: list[Engine]) -> None:
    for turn in range(ROUNDS):
        parent = f"p{turn}"
        engines[0].insert([new_job(parent)], now=NOW)
        held = claim_one(engines[0])

        def act(n: int, turn: int = turn, parent: str = parent) -> object:
            if n == 0:
                return settle(engines[0], succeed(held))  # noqa: B023
            child = new_job(f"c{turn}-{n}", state=State.WAITING)
            engines[n].insert([child], edges=[Dependency(parent, child.id)], now=NOW)
            return None

        together(len(engines), act)
        assert {found.id for found in claim(engines[0])} == {f"c{turn}-{n}" for n in (1, 2, 3)}


def test_a_job_and_the_last_one_that_it_waits_for_end_at_one_moment(engines: list[Engine]) -> None:
    """The success of the one must not count the other as open and then be forgotten by it."""
    for turn in range(2 * ROUNDS):
        outer, inner = f"outer{turn}", f"inner{turn}"
        engines[0].insert([new_job(outer)], now=NOW)
        held = claim_one(engines[0])
        engines[0].insert([new_job(inner)], edges=[Dependency(inner, outer)], now=NOW)
        claims = [held, claim_one(engines[0])]
        together(2, lambda n: settle(engines[n], succeed(claims[n])))  # noqa: B023
        assert states(engines[0])[outer] is states(engines[0])[inner] is State.COMPLETED


def test_a_parent_and_an_operator_agree_on_the_end_of_a_child(engines: list[Engine]) -> None:
    for turn in range(ROUNDS):
        parent, child, grandchild = f"p{turn}", f"c{turn}", f"g{turn}"
        jobs = [new_job(parent), new_job(child, state=State.WAITING), new_job(grandchild, state=State.WAITING)]
        engines[0].insert(jobs, edges=[Dependency(parent, child), Dependency(child, grandchild)], now=NOW)
        held = claim_one(engines[0])

        def act(n: int, child: str = child) -> object:
            if n == 0:
                return settle(engines[0], fail(held))  # noqa: B023
            return engines[n].queries.move(Filter(ids=(child,)), Trigger.CANCEL, 1, now=NOW)

        together(2, act)
        assert states(engines[0])[grandchild] is State.CANCELLED
        assert row(engines[0], child).state is State.CANCELLED
        ends = [entry for entry in engines[0].queries.details(child).history if entry.target == State.CANCELLED]
        assert len(ends) == 1
