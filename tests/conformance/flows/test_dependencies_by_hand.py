"""What an operator may do to jobs that wait for jobs, what is told of flows, and that both can be carried elsewhere."""

from __future__ import annotations

import random

import pytest

from headrace.core.jobs.dependencies import HELD, PARENT_FAILED, Dependency, FlowRow, FlowSummary, Policy
from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.records import Filter, Outcome
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.errors import QueueFull, StoreMoved
from tests.conformance.flows.dependency_builders import cancel, child, plant_chain, the
from tests.support.builders import (
    EVERYTHING,
    NOW,
    SECOND,
    claim,
    claim_one,
    fail,
    ids,
    new_job,
    row,
    settle,
    states,
    submit_and_claim,
    succeed,
    want,
)


def revive(engine: Engine, *job_ids: str, now: int = NOW) -> list[str]:
    return engine.queries.move(the(*job_ids), Trigger.REVIVE, 10, now=now)


# -- revive


def test_a_revived_parent_takes_back_what_only_its_end_had_cancelled(engine: Engine) -> None:
    plant_chain(engine, "a", "b", "c")
    settle(engine, fail(claim_one(engine)))
    versions = {name: row(engine, name).version for name in "bc"}
    assert revive(engine, "a", now=NOW + SECOND) == ["a"]
    assert states(engine) == {"a": State.PENDING, "b": State.WAITING, "c": State.WAITING}
    for name, parent in (("b", "a"), ("c", "b")):
        found, entry = row(engine, name), engine.queries.history(name)[-1]
        assert (found.finished_at, found.reason, found.version) == (None, None, versions[name] + 1)
        assert (entry.event, entry.source, entry.target) == (Trigger.REVIVE, "cancelled", "waiting")
        assert entry.detail == f"its parent {parent} is to run again"
    assert all(edge.blocks for edge in engine.queries.edges(["b"]))
    done: list[Outcome] = []
    for name in "abc":
        claims = engine.exchange(done, want(), now=NOW + SECOND).claims
        assert ids(claims) == [name]
        done = [succeed(claims[0])]


def test_who_lost_another_parent_stays_cancelled(engine: Engine) -> None:
    edges = [Dependency("a", "c"), Dependency("b", "c"), Dependency("c", "d")]
    engine.insert_graph([new_job("a"), new_job("b"), child("c"), child("d")], edges, now=NOW)
    settle(engine, *map(fail, claim(engine)))
    revive(engine, "a")
    assert states(engine) == {
        "a": State.PENDING,
        "b": State.FAILED,
        "c": State.CANCELLED,
        "d": State.CANCELLED,
    }
    revive(engine, "b")
    assert states(engine) == {"a": State.PENDING, "b": State.PENDING, "c": State.WAITING, "d": State.WAITING}


def test_who_was_cancelled_by_hand_stays_cancelled(engine: Engine) -> None:
    plant_chain(engine, "a", "b")
    cancel(engine, "b")
    cancel(engine, "a")
    revive(engine, "a")
    assert states(engine) == {"a": State.PENDING, "b": State.CANCELLED}


def test_jobs_that_meet_again_all_come_back(engine: Engine) -> None:
    edges = [Dependency("a", "b"), Dependency("b", "c"), Dependency("a", "c")]
    engine.insert_graph([new_job("a"), child("b"), child("c")], edges, now=NOW)
    settle(engine, fail(claim_one(engine)))
    revive(engine, "a")
    assert states(engine) == {"a": State.PENDING, "b": State.WAITING, "c": State.WAITING}
    settle(engine, succeed(claim_one(engine)))
    settle(engine, succeed(claim_one(engine)))
    assert ids(claim(engine)) == ["c"]


def test_a_held_child_is_held_no_more(engine: Engine) -> None:
    plant_chain(engine, "a", "b", policy="hold")
    settle(engine, fail(claim_one(engine)))
    assert row(engine, "b").reason == HELD
    revive(engine, "a")
    assert (row(engine, "b").state, row(engine, "b").reason) == (State.WAITING, None)
    settle(engine, succeed(claim_one(engine)))
    assert (row(engine, "b").state, row(engine, "b").reason) == (State.PENDING, None)


def test_a_child_that_waits_for_others_as_well_waits_for_the_revived_one_again(engine: Engine) -> None:
    engine.insert_graph([new_job("a"), new_job("b"), child("c")], [Dependency("a", "c"), Dependency("b", "c")], now=NOW)
    settle(engine, succeed(claim_one(engine)))
    revive(engine, "a")
    assert engine.queries.edges(["c"]) == [Dependency("a", "c"), Dependency("b", "c")]
    for claimed in claim(engine):
        assert row(engine, "c").state is State.WAITING
        settle(engine, succeed(claimed))
    assert row(engine, "c").state is State.PENDING


def test_a_child_that_went_on_is_left_alone(engine: Engine) -> None:
    plant_chain(engine, "a", "b")
    taken = engine.exchange([succeed(claim_one(engine))], want(), now=NOW).claims
    before = row(engine, "b")
    revive(engine, "a")
    assert row(engine, "b") == before
    assert settle(engine, succeed(taken[0])) == []
    assert row(engine, "b").state is State.COMPLETED


def test_a_revived_child_waits_for_parents_that_are_open(engine: Engine) -> None:
    plant_chain(engine, "a", "b")
    cancel(engine, "b")
    revive(engine, "b")
    assert (row(engine, "b").state, engine.queries.history("b")[-1].target) == (State.WAITING, "waiting")
    settle(engine, succeed(claim_one(engine)))
    assert ids(claim(engine)) == ["b"]


def test_a_revived_child_waits_for_a_parent_whose_own_run_alone_is_over(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    engine.insert_graph(
        [new_job("part"), child("after")], [Dependency("part", "main"), Dependency("main", "after")], now=NOW
    )
    settle(engine, succeed(main))
    cancel(engine, "after")
    revive(engine, "after")
    assert row(engine, "after").state is State.WAITING


@pytest.mark.parametrize("policy", ["cancel", "hold"])
def test_a_revived_child_does_not_wait_for_parents_that_have_ended(engine: Engine, policy: Policy) -> None:
    engine.insert_graph(
        [new_job("a"), child("b"), child("c")], [Dependency("a", "b", policy), Dependency("b", "c")], now=NOW
    )
    settle(engine, fail(claim_one(engine)))
    if policy == "hold":
        cancel(engine, "b")
    assert revive(engine, "b") == ["b"]
    assert states(engine) == {"a": State.FAILED, "b": State.PENDING, "c": State.WAITING}
    settle(engine, succeed(claim_one(engine)))
    assert states(engine) == {"a": State.FAILED, "b": State.COMPLETED, "c": State.PENDING}


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_all_of_a_flow_can_be_revived_at_once(engine: Engine, order: tuple[str, ...]) -> None:
    plant_chain(engine, "a", "b", "c")
    settle(engine, fail(claim_one(engine)))
    assert sorted(revive(engine, *order)) == ["a", "b", "c"]
    assert states(engine) == {"a": State.PENDING, "b": State.WAITING, "c": State.WAITING}


def test_a_job_that_was_cancelled_with_its_run_behind_it_runs_again(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    engine.insert_graph([new_job("part")], [Dependency("part", "main")], now=NOW)
    settle(engine, succeed(main))
    settle(engine, fail(claim_one(engine)))
    assert row(engine, "main").state is State.CANCELLED
    revive(engine, "part")
    assert (row(engine, "main").state, row(engine, "main").finished_at) == (State.WAITING, None)
    settle(engine, succeed(claim_one(engine)))
    assert row(engine, "main").state is State.PENDING


# -- promote now


def test_a_promoted_job_runs_without_those_it_waits_for(engine: Engine) -> None:
    plant_chain(engine, "a", "b", "c")
    assert engine.queries.move(the("b"), Trigger.PROMOTE_NOW, 1, now=NOW) == ["b"]
    assert [(edge.parent, edge.child) for edge in engine.queries.edges(["b"])] == [("a", "b"), ("b", "c")]
    by_name = {claimed.id: claimed for claimed in claim(engine)}
    assert sorted(by_name) == ["a", "b"]
    settle(engine, succeed(by_name["b"]))
    assert states(engine) == {"a": State.RUNNING, "b": State.COMPLETED, "c": State.PENDING}
    settle(engine, fail(by_name["a"]))
    assert states(engine) == {"a": State.FAILED, "b": State.COMPLETED, "c": State.PENDING}


def test_a_held_job_can_be_promoted_and_ends(engine: Engine) -> None:
    engine.insert_graph(
        [new_job("a"), child("b"), child("c")], [Dependency("a", "b", "hold"), Dependency("b", "c")], now=NOW
    )
    settle(engine, fail(claim_one(engine)))
    engine.queries.move(the("b"), Trigger.PROMOTE_NOW, 1, now=NOW)
    settle(engine, succeed(claim_one(engine)))
    assert (row(engine, "b").state, row(engine, "c").state) == (State.COMPLETED, State.PENDING)


def test_a_job_whose_run_is_over_can_not_be_promoted(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    engine.insert_graph(
        [new_job("part"), child("other")], [Dependency("part", "main"), Dependency("part", "other")], now=NOW
    )
    settle(engine, succeed(main))
    before = row(engine, "main")
    assert engine.queries.move(the("main"), Trigger.PROMOTE_NOW, 1, now=NOW) == []
    assert engine.queries.move(EVERYTHING, Trigger.PROMOTE_NOW, 1, now=NOW) == ["other"]
    assert row(engine, "main") == before


# -- delete


@pytest.mark.parametrize("ended", [False, True])
def test_a_deleted_job_takes_its_bonds_with_it(engine: Engine, ended: bool) -> None:
    edges = [Dependency("a", "b", "hold"), Dependency("b", "c", "run"), Dependency("b", "d")]
    engine.insert_graph([new_job("a"), *map(child, "bcd")], edges, now=NOW)
    if ended:
        settle(engine, fail(claim_one(engine)))
    assert engine.queries.move(the("b"), Trigger.DELETE, 1, now=NOW) == ["b"]
    assert engine.queries.edges(["a", "b", "c", "d"]) == []
    assert (row(engine, "c").state, row(engine, "d").state) == (State.PENDING, State.CANCELLED)
    assert row(engine, "d").reason == PARENT_FAILED


def test_what_was_decided_before_is_not_decided_again_by_a_delete(engine: Engine) -> None:
    engine.insert_graph(
        [new_job("a"), new_job("b"), child("c")], [Dependency("a", "c", "hold"), Dependency("b", "c")], now=NOW
    )
    settle(engine, fail(claim_one(engine)))
    engine.queries.move(the("a"), Trigger.DELETE, 1, now=NOW)
    assert (row(engine, "c").state, row(engine, "c").reason) == (State.WAITING, HELD)
    settle(engine, succeed(claim_one(engine)))
    assert (row(engine, "c").state, row(engine, "c").reason) == (State.WAITING, HELD)


def test_a_number_of_jobs_that_wait_for_each_other_is_deleted_at_once(engine: Engine) -> None:
    plant_chain(engine, "a", "b", "c", "d")
    assert sorted(engine.queries.move(the("a", "b", "c"), Trigger.DELETE, 9, now=NOW)) == ["a", "b", "c"]
    assert (states(engine), engine.queries.edges(["d"])) == ({"d": State.CANCELLED}, [])


# -- flows


def plant_flow(engine: Engine, flow: str, *names: str, at: int = NOW) -> FlowRow:
    told = FlowRow(flow, f"the {flow}", at)
    first, *others = names
    jobs = [new_job(first, flow=flow), *(child(name, flow=flow) for name in others)]
    engine.insert_graph(jobs, [Dependency(first, name) for name in others], told, now=at)
    return told


def test_flows_are_told_newest_first_with_their_jobs(engine: Engine) -> None:
    one, two, three = (plant_flow(engine, f"f{number}", f"a{number}", f"b{number}") for number in (1, 2, 3))
    settle(engine, succeed(claim_one(engine)))
    open_ones = {"pending": 1, "waiting": 1}
    tallies = [
        FlowSummary(three, open_ones),
        FlowSummary(two, open_ones),
        FlowSummary(one, {"completed": 1, "pending": 1}),
    ]
    assert engine.queries.flows(9) == tallies
    assert engine.queries.flows(2) == tallies[:2]
    assert engine.queries.flows(9, before="f3") == tallies[1:]
    assert engine.queries.flows(9, ids=["f1", "nowhere", "f3"]) == [tallies[0], tallies[2]]
    assert engine.queries.flows(9, ids=["nowhere"]) == []


def test_jobs_are_found_by_their_flow(engine: Engine) -> None:
    plant_flow(engine, "f", "a", "b")
    engine.insert([new_job("other")], now=NOW)
    assert [job.id for job in engine.queries.find(Filter(flow="f"), 9).jobs] == ["b", "a"]
    assert [(job.id, job.flow) for job in engine.queries.get(["other"])] == [("other", None)]
    assert {job.flow for job in engine.queries.get(["a", "b"])} == {"f"}
    assert engine.queries.count(Filter(flow="f")) == 2
    assert engine.queries.count(Filter(flow="f", states=(State.WAITING,))) == 1
    assert engine.queries.count(Filter(flow="nowhere")) == 0
    assert sorted(engine.queries.move(Filter(flow="f"), Trigger.CANCEL, 9, now=NOW)) == ["a", "b"]
    assert row(engine, "other").state is State.PENDING


def test_a_flow_disappears_with_the_last_of_its_jobs(engine: Engine) -> None:
    plant_flow(engine, "f", "a", "b")
    engine.queries.move(the("b"), Trigger.DELETE, 1, now=NOW)
    assert [tally.jobs for tally in engine.queries.flows(9)] == [{"pending": 1}]
    engine.queries.move(the("a"), Trigger.DELETE, 1, now=NOW)
    assert (engine.queries.flows(9), engine.queries.find(Filter(flow="f"), 9).jobs) == ([], [])


# -- the door and the room


def test_a_full_queue_takes_nothing_of_a_plant(engine: Engine) -> None:
    engine.queries.set_queue_rules("small", QueueRules(max_length=1))
    with pytest.raises(QueueFull):
        engine.insert_graph([new_job("a", queue="small"), child("b", queue="small")], [Dependency("a", "b")], now=NOW)
    assert (states(engine), engine.queries.edges(["a"])) == ({}, [])


def test_a_store_that_has_moved_takes_nothing_of_a_plant(engine: Engine) -> None:
    engine.transfer.set_status(StoreStatus("moved", "elsewhere", NOW))
    with pytest.raises(StoreMoved):
        plant_flow(engine, "f", "a", "b")
    assert (states(engine), engine.queries.flows(9)) == ({}, [])


# -- to another store


def carried(engine: Engine) -> list[tuple[object, ...]]:
    found = engine.queries.find(EVERYTHING, 99).jobs
    return [(job.id, job.state, job.version, job.flow, bool(job.has_dependencies)) for job in found]


def test_bonds_and_flows_are_carried_as_they_are(engine: Engine) -> None:
    plant_flow(engine, "f", "a", "b")
    engine.insert_graph(
        [new_job("x"), child("y", flow="f")], [Dependency("x", "b", "hold"), Dependency("b", "y", "run")], now=NOW
    )
    settle(engine, succeed(claim_one(engine)))
    job_exports, edges = engine.transfer.export_jobs(0, 100), engine.queries.edges(["a", "b", "x", "y"])
    flows = engine.queries.flows(9)
    before = carried(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 99, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 99, now=NOW)
    assert (engine.queries.flows(9), engine.queries.edges(["a", "b", "x", "y"])) == ([], [])
    assert engine.transfer.import_jobs(job_exports) == 4
    for _ in range(2):
        engine.transfer.import_flows([tally.flow for tally in flows])
        engine.transfer.import_edges([*edges, Dependency("a", "nowhere")])
    after = [
        (job.id, job.state, job.version, job.flow, bool(job.has_dependencies))
        for job in engine.queries.get(["a", "b", "x", "y"])
    ]
    assert sorted(after) == sorted(before)
    assert (engine.queries.flows(9), engine.queries.edges(["a", "b", "x", "y"])) == (flows, edges)
    settle(engine, succeed(claim_one(engine)))
    assert row(engine, "b").state is State.PENDING


# -- whatever comes


@pytest.mark.parametrize("seed", range(8))
def test_nothing_waits_for_ever_in_any_graph(engine: Engine, seed: int) -> None:
    """Random graphs, random ends; what has to become of each job is told by its parents alone."""
    chance = random.Random(seed)
    names = [f"n{number:02}" for number in range(40)]
    edges = {
        (parent, name): Dependency(parent, name, chance.choice(["cancel", "cancel", "run", "hold"]))
        for number, name in enumerate(names)
        for parent in chance.sample(names[:number], min(number, chance.randint(0, 3)))
    }
    children = {edge.child for edge in edges.values()}
    fate = {name: chance.choice([State.COMPLETED, State.COMPLETED, State.COMPLETED, State.FAILED]) for name in names}
    jobs = [child(name) if name in children else new_job(name) for name in names]
    engine.insert_graph(jobs, list(edges.values()), now=NOW)
    began: list[str] = []
    done: list[Outcome] = []
    while claims := engine.exchange(done, want(chance.randint(1, 5)), now=NOW).claims:
        began += ids(claims)
        done = [succeed(claimed) if fate[claimed.id] is State.COMPLETED else fail(claimed) for claimed in claims]
    expected: dict[str, State] = {}
    for name in names:
        lost = [edge.policy for edge in edges.values() if edge.child == name and _is_lost(expected[edge.parent])]
        held = any(expected[edge.parent] is State.WAITING for edge in edges.values() if edge.child == name)
        if "cancel" in lost:
            expected[name] = State.CANCELLED
        elif "hold" in lost or held:
            expected[name] = State.WAITING
        else:
            expected[name] = fate[name]
    assert states(engine) == expected
    place = {name: number for number, name in enumerate(began)}
    assert all(place[parent] < place[name] for parent, name in edges if parent in place and name in place)
    while waiting := engine.queries.find(Filter(states=(State.WAITING,)), 99).jobs:  # a person lets go on what is held
        held_ones = [job.id for job in waiting if job.reason == HELD]
        assert engine.queries.move(the(*held_ones), Trigger.PROMOTE_NOW, 99, now=NOW), "these wait for ever"
        while claims := claim(engine):
            settle(engine, *map(succeed, claims))
    assert set(states(engine).values()) <= FINAL


def _is_lost(state: State) -> bool:
    return state in (State.FAILED, State.CANCELLED)
