"""plant, and what the end of a job means to those that wait for it: decided in the commit in which it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.jobs.dependencies import HELD, PARENT_FAILED, PARENTS_COMPLETED, POLICIES, Dependency, Policy
from headrace.core.jobs.records import HistoryRow, NewJob, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.conformance.flows.dependency_builders import cancel, child, plant_chain, spawning, the
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    LEASE,
    NOTHING,
    NOW,
    SECOND,
    claim,
    claim_one,
    fail,
    give_up,
    ids,
    new_job,
    only,
    retry,
    row,
    settle,
    states,
    submit_and_claim,
    succeed,
    want,
)


def blocks(engine: Engine, job_id: str) -> dict[str, bool]:
    """Whether each parent of the job still blocks it."""
    return {edge.parent: edge.blocks for edge in engine.flow_store.edges([job_id]) if edge.child == job_id}


def last_entry(engine: Engine, job_id: str) -> HistoryRow:
    return engine.queries.details(job_id).history[-1]


# -- storing


def test_what_is_planted_waits_and_is_claimed_by_nobody(engine: Engine) -> None:
    engine.insert(
        [new_job("a"), child("b"), child("c")], edges=[Dependency("a", "b"), Dependency("b", "c", "hold")], now=NOW
    )
    assert states(engine) == {"a": State.PENDING, "b": State.WAITING, "c": State.WAITING}
    assert engine.flow_store.edges(["b"]) == [Dependency("a", "b"), Dependency("b", "c", "hold")]
    assert engine.flow_store.edges(["c", "a", "nowhere"]) == [Dependency("a", "b"), Dependency("b", "c", "hold")]
    assert engine.flow_store.edges([]) == []
    assert [bool(row(engine, name).has_dependencies) for name in "abc"] == [True, True, False]
    assert ids(claim(engine)) == ["a"]


def test_bonds_are_told_by_the_order_of_submission_of_child_and_parent(engine: Engine) -> None:
    jobs = [new_job("z"), new_job("a"), child("y"), child("b")]
    engine.insert(
        jobs,
        edges=[Dependency("a", "b"), Dependency("a", "y", "run"), Dependency("z", "b"), Dependency("z", "y")],
        now=NOW,
    )
    told = [(edge.parent, edge.child) for edge in engine.flow_store.edges(["a", "z"])]
    assert told == [("z", "y"), ("a", "y"), ("z", "b"), ("a", "b")]


def test_a_bond_may_be_to_jobs_that_are_there(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("d", priority=-1)], now=NOW)
    engine.insert([child("b")], edges=[Dependency("a", "b"), Dependency("b", "d")], now=NOW)
    assert states(engine) == {"a": State.PENDING, "b": State.WAITING, "d": State.WAITING}
    assert [bool(row(engine, name).has_dependencies) for name in "abd"] == [True, True, True]


@pytest.mark.parametrize("state", [State.PENDING, State.SCHEDULED, State.RETRYING])
def test_a_child_that_is_there_and_has_not_started_goes_back_to_waiting(engine: Engine, state: State) -> None:
    if state is State.RETRYING:
        settle(engine, retry(submit_and_claim(engine, "old"), LATER))
    else:
        engine.insert([new_job("old", run_at=LATER if state is State.SCHEDULED else NOW)], now=NOW)
    before = row(engine, "old")
    engine.insert([new_job("a")], edges=[Dependency("a", "old")], now=NOW)
    after, entry = row(engine, "old"), last_entry(engine, "old")
    assert (after.state, after.version, after.run_at) == (State.WAITING, before.version + 1, before.run_at)
    assert (entry.event, entry.source, entry.target) == (Trigger.UPDATE, state, State.WAITING)
    assert "waits for a job that was added" in (entry.detail or "")
    settle(engine, succeed(claim_one(engine)))
    assert row(engine, "old").state is (State.PENDING if state is State.PENDING else State.SCHEDULED)


def test_a_second_plant_gives_a_waiting_child_one_more_parent(engine: Engine) -> None:
    engine.insert([new_job("a"), child("c")], edges=[Dependency("a", "c")], now=NOW)
    engine.insert([new_job("b")], edges=[Dependency("b", "c")], now=NOW)
    settle(engine, succeed(claim_one(engine)))
    assert (row(engine, "c").state, blocks(engine, "c")) == (State.WAITING, {"a": False, "b": True})
    settle(engine, succeed(claim_one(engine)))
    assert row(engine, "c").state is State.PENDING


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        ([Dependency("a", "b"), Dependency("nowhere", "b")], "nowhere"),
        ([Dependency("a", "b"), Dependency("a", "nowhere")], "nowhere"),
        ([Dependency("a", "b"), Dependency("a", "over")], "over"),
        ([Dependency("a", "b"), Dependency("b", "a")], "a -> b -> a|b -> a -> b"),
        ([Dependency("a", "a")], "a -> a"),
        ([Dependency("a", "b"), Dependency("b", "first"), Dependency("last", "a")], "first -> middle -> last"),
        ([Dependency("last", "first")], "last -> first|first -> middle -> last -> first"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_stored(engine: Engine, edges: list[Dependency], told: str) -> None:
    settle(engine, succeed(submit_and_claim(engine, "over")))
    plant_chain(engine, "first", "middle", "last")
    before = engine.queries.find(EVERYTHING, 100).jobs, engine.flow_store.edges(["first", "middle", "last"])
    with pytest.raises(Exception, match=told) as caught:
        engine.insert([new_job("a"), child("b")], edges=edges, now=NOW)
    assert type(caught.value).__name__ == "InvalidJob"
    assert (engine.queries.find(EVERYTHING, 100).jobs, engine.flow_store.edges(["first", "middle", "last"])) == before
    assert engine.flow_store.edges(["a", "b", "over"]) == []


def test_jobs_that_only_meet_again_are_no_circle(engine: Engine) -> None:
    plant_chain(engine, "first", "last")
    engine.insert(
        [child("a"), child("b")],
        edges=[Dependency("first", "a"), Dependency("a", "b"), Dependency("b", "last")],
        now=NOW,
    )
    assert row(engine, "last").state is State.WAITING


def test_a_taken_id_is_refused_but_a_repetition_is_not(engine: Engine) -> None:
    jobs, edges = [new_job("a", checksum=1), child("b", checksum=2)], [Dependency("a", "b")]
    engine.insert(jobs, edges=edges, now=NOW)
    settle(engine, succeed(claim_one(engine)))
    before = engine.queries.find(EVERYTHING, 9).jobs
    engine.insert(jobs, edges=edges, now=NOW + SECOND)
    assert engine.queries.find(EVERYTHING, 9).jobs == before
    assert engine.flow_store.edges(["a"]) == [Dependency("a", "b", blocks=False)]
    others = ([new_job("a", checksum=3), child("b", checksum=2)], [*jobs, new_job("c")], [new_job("c"), jobs[0]])
    for taken in others:
        with pytest.raises(Exception, match=r"a|b") as caught:
            engine.insert(taken, all_or_nothing=True, now=NOW)
        assert type(caught.value).__name__ == "DuplicateJob"
    assert engine.queries.find(EVERYTHING, 9).jobs == before


# -- the end of a parent


def lapse(engine: Engine) -> None:
    engine.exchange([], NOTHING, now=LATER)


def lose_its_worker(engine: Engine) -> None:
    (taken,) = claim(engine, 1)
    assert [job.id for job in engine.reap(10, now=NOW + LEASE + 1)] == [taken.id]


ENDS: dict[str, Callable[[Engine], object]] = {
    "completed": lambda engine: settle(engine, succeed(claim_one(engine))),
    "failed": lambda engine: settle(engine, fail(claim_one(engine))),
    "gave up": lambda engine: settle(engine, give_up(claim_one(engine))),
    "cancelled": lambda engine: cancel(engine, "parent"),
    "cancelled while it ran": lambda engine: [claim_one(engine), cancel(engine, "parent")],
    "expired": lapse,
    "deleted": lambda engine: engine.queries.move(the("parent"), Trigger.DELETE, 1, now=NOW),
    "worker lost": lose_its_worker,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("end", ENDS)
def test_every_end_of_a_parent_is_decided(engine: Engine, end: str, policy: Policy) -> None:
    parent = new_job("parent", max_attempts=1, expires_at=LATER if end == "expired" else None)
    engine.insert([parent, child("child")], edges=[Dependency("parent", "child", policy)], now=NOW)
    ENDS[end](engine)
    found = row(engine, "child")
    entries = engine.queries.details("child").history
    if end == "completed" and policy == "only":
        assert (found.state, found.reason, found.version) == (State.CANCELLED, PARENTS_COMPLETED, 2)
        assert found.finished_at is not None
        assert (entries[0].event, entries[0].source, entries[0].target) == (Trigger.CANCEL, "waiting", "cancelled")
        assert entries[0].detail == "all jobs it waited for completed"
    elif end == "completed" or policy in ("run", "only"):
        assert (found.state, found.reason, found.version) == (State.PENDING, None, 2)
        assert (entries[0].event, entries[0].source, entries[0].target) == (Trigger.UNBLOCK, "waiting", "pending")
        assert "waited for have ended" in (entries[0].detail or "")
    elif policy == "cancel":
        assert (found.state, found.reason, found.version) == (State.CANCELLED, PARENT_FAILED, 2)
        assert found.finished_at is not None
        assert (entries[0].event, entries[0].source, entries[0].target) == (Trigger.CANCEL, "waiting", "cancelled")
        assert "its parent parent (work)" in (entries[0].detail or "")
    else:
        assert (found.state, found.reason, found.version, entries) == (State.WAITING, HELD, 1, [])
    still = {} if end == "deleted" else {"parent": end != "completed" and policy not in ("run", "only")}
    assert blocks(engine, "child") == still


def test_a_child_can_be_claimed_in_the_exchange_that_ends_its_parent(engine: Engine) -> None:
    plant_chain(engine, "a", "b")
    done = succeed(claim_one(engine))
    assert ids(engine.exchange([done], want(), now=NOW).claims) == ["b"]


def test_a_child_waits_for_the_last_of_its_parents(engine: Engine) -> None:
    jobs = [new_job(name) for name in "abc"]
    engine.insert([*jobs, child("d")], edges=[Dependency(name, "d") for name in "abc"], now=NOW)
    first, *others = [succeed(claimed) for claimed in claim(engine)]
    settle(engine, first)
    assert (row(engine, "d").state, blocks(engine, "d")) == (State.WAITING, {"a": False, "b": True, "c": True})
    settle(engine, *others)
    assert (row(engine, "d").state, row(engine, "d").version) == (State.PENDING, 2)


def test_one_of_several_parents_that_fails_is_enough(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b"), child("c")], edges=[Dependency("a", "c"), Dependency("b", "c")], now=NOW)
    one, other = claim(engine)
    settle(engine, fail(one), succeed(other))
    assert (row(engine, "c").state, row(engine, "c").version) == (State.CANCELLED, 2)
    assert blocks(engine, "c") == {"a": True, "b": False}


@pytest.mark.parametrize("ends", ["ccc", "fcc", "ccf", "fff"])
def test_a_job_to_run_only_after_a_failure_waits_for_all_parents(engine: Engine, ends: str) -> None:
    jobs = [new_job(name) for name in "abc"]
    edges = [Dependency(name, "d", "only") for name in "abc"] + [Dependency("d", "e")]
    engine.insert([*jobs, child("d"), child("e")], edges=edges, now=NOW)
    for claimed, end in zip(claim(engine), ends, strict=True):
        assert row(engine, "d").state is State.WAITING
        settle(engine, succeed(claimed) if end == "c" else fail(claimed))
    found = {name: (row(engine, name).state, row(engine, name).reason) for name in "de"}
    if ends == "ccc":
        gone = State.CANCELLED
        assert found == {"d": (gone, PARENTS_COMPLETED), "e": (gone, PARENT_FAILED)}
    else:
        assert found == {"d": (State.PENDING, None), "e": (State.WAITING, None)}


def test_a_retried_job_is_waited_for_by_a_job_to_run_only_after_its_failure(engine: Engine) -> None:
    engine.insert(
        [new_job("a"), new_job("b"), child("c")],
        edges=[Dependency("a", "c", "only"), Dependency("b", "c", "run")],
        now=NOW,
    )
    claims = {one.id: one for one in claim(engine)}
    settle(engine, fail(claims["a"]))
    engine.queries.move(the("a"), Trigger.REVIVE, 1, now=NOW)
    settle(engine, succeed(claims["b"]))
    assert row(engine, "c").state is State.WAITING
    settle(engine, succeed(claim_one(engine)))
    assert (row(engine, "c").state, row(engine, "c").reason) == (State.CANCELLED, PARENTS_COMPLETED)


def test_a_child_that_is_not_due_yet_is_scheduled(engine: Engine) -> None:
    engine.insert([new_job("a"), child("b", run_at=LATER)], edges=[Dependency("a", "b")], now=NOW)
    turn = engine.exchange([succeed(claim_one(engine))], want(), now=NOW)
    assert (turn.claims, turn.next_at, row(engine, "b").state) == ([], LATER, State.SCHEDULED)
    assert ids(claim(engine, now=LATER)) == ["b"]


def test_what_ends_by_the_end_of_another_ends_others(engine: Engine) -> None:
    edges = [
        Dependency("a", "b"),
        Dependency("b", "c"),
        Dependency("c", "d", "run"),
        Dependency("c", "e", "hold"),
        Dependency("a", "d"),
    ]
    engine.insert([new_job("a"), *map(child, "bcde")], edges=edges, now=NOW)
    settle(engine, fail(claim_one(engine)))
    found = {job.id: (job.state, job.reason) for job in engine.queries.get(["b", "c", "d", "e"])}
    gone = (State.CANCELLED, PARENT_FAILED)
    assert found == {"b": gone, "c": gone, "d": gone, "e": (State.WAITING, HELD)}
    assert "its parent b (work) was cancelled" in (last_entry(engine, "c").detail or "")


def test_children_that_are_not_waiting_are_left_alone(engine: Engine) -> None:
    submit_and_claim(engine, "running")
    edges = [Dependency("a", "running"), Dependency("a", "cancelled"), Dependency("a", "promoted")]
    engine.insert([new_job("a", priority=9), child("cancelled"), child("promoted")], edges=edges, now=NOW)
    engine.queries.move(the("cancelled"), Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(the("promoted"), Trigger.PROMOTE_NOW, 1, now=NOW)
    before = [row(engine, name) for name in ("running", "cancelled", "promoted")]
    settle(engine, succeed(claim_one(engine)))
    assert [row(engine, name) for name in ("running", "cancelled", "promoted")] == before
    assert not any(edge.blocks for edge in engine.flow_store.edges(["a"]))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("end", [succeed, fail, give_up])
def test_a_parent_that_has_ended_before_is_decided_at_once(
    engine: Engine, end: Callable[[Any], Outcome], policy: Policy
) -> None:
    settle(engine, end(submit_and_claim(engine, "a")))
    jobs: list[NewJob] = [child("b"), child("c", run_at=LATER), child("d")]
    engine.insert(
        jobs, edges=[Dependency("a", "b", policy), Dependency("a", "c", policy), Dependency("b", "d")], now=NOW
    )
    freed, gone, held = [State.PENDING, State.SCHEDULED], [State.CANCELLED] * 2, [State.WAITING] * 2
    runs = policy != "only" if end is succeed else policy in ("run", "only")
    expected = freed if runs else held if policy == "hold" else gone
    assert [row(engine, name).state for name in "bc"] == expected
    assert row(engine, "d").state is (State.CANCELLED if expected == gone else State.WAITING)


# -- a job that waits for others after its own run


def test_a_success_waits_for_what_was_added_under_the_job(engine: Engine) -> None:
    claimed = submit_and_claim(engine, "main")
    engine.insert(
        [new_job("part"), child("after")], edges=[Dependency("part", "main"), Dependency("main", "after")], now=NOW
    )
    assert row(engine, "main").state is State.RUNNING
    done = succeed(claimed, at=NOW + SECOND)
    assert settle(engine, done, now=NOW + SECOND) == []
    found, entry = row(engine, "main"), last_entry(engine, "main")
    assert (found.state, found.result, found.result_checksum) == (State.WAITING, '"done"', 9)
    assert (found.finished_at, found.worker, found.lease_until) == (NOW + SECOND, "w1", None)
    assert (entry.event, entry.source, entry.target, entry.version) == ("succeed", "running", "waiting", found.version)
    assert "waits for 1 job" in (entry.detail or "")
    assert settle(engine, done) == [done]
    assert engine.queries.finished(["main"]) == set()
    (part,) = claim(engine, now=NOW + SECOND)
    settle(engine, succeed(part, at=NOW + HOUR), now=NOW + HOUR)
    after = row(engine, "main")
    assert (after.state, after.finished_at, after.version) == (State.COMPLETED, NOW + HOUR, found.version + 1)
    assert (after.result, last_entry(engine, "main").target) == ('"done"', "completed")
    assert row(engine, "after").state is State.PENDING


@pytest.mark.parametrize("first", ["the job", "the part"])
def test_a_part_that_fails_takes_the_job_with_it_whoever_was_first(engine: Engine, first: str) -> None:
    main = submit_and_claim(engine, "main")
    engine.insert(
        [new_job("part"), child("after")], edges=[Dependency("part", "main"), Dependency("main", "after")], now=NOW
    )
    part = claim_one(engine)
    for outcome in [succeed(main), fail(part)] if first == "the job" else [fail(part), succeed(main)]:
        assert settle(engine, outcome) == []
    assert {name: row(engine, name).state for name in ("main", "after")} == dict.fromkeys(
        ("main", "after"), State.CANCELLED
    )
    assert row(engine, "main").reason == PARENT_FAILED


def test_a_part_that_ended_well_before_the_job_did_delays_nothing(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    engine.insert([new_job("part")], edges=[Dependency("part", "main")], now=NOW)
    settle(engine, succeed(claim_one(engine)))
    settle(engine, succeed(main))
    assert states(engine) == dict.fromkeys(("main", "part"), State.COMPLETED)


def test_a_retry_of_a_job_with_parts_runs_again_and_then_waits(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    engine.insert([new_job("part", queue="other")], edges=[Dependency("part", "main")], now=NOW)
    settle(engine, retry(main, NOW))
    (again,) = engine.exchange([], only("default"), now=NOW).claims
    settle(engine, succeed(again))
    assert row(engine, "main").state is State.WAITING


def test_what_a_success_left_behind_is_stored_with_it(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    outcome = spawning(
        main,
        [new_job("x"), child("y")],
        [Dependency("x", "y"), Dependency("x", "main"), Dependency("y", "main", "run")],
    )
    taken = engine.exchange([outcome], want(), now=NOW).claims
    assert states(engine) == {"main": State.WAITING, "x": State.RUNNING, "y": State.WAITING}
    taken = engine.exchange([succeed(taken[0])], want(), now=NOW).claims
    assert ids(taken) == ["y"]
    settle(engine, fail(taken[0]))
    assert row(engine, "main").state is State.COMPLETED


def test_what_nobody_waits_for_is_left_behind_by_a_job_that_completes(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    settle(engine, spawning(main, [new_job("x"), child("y")], [Dependency("main", "y")]))
    assert states(engine) == {"main": State.COMPLETED, "x": State.PENDING, "y": State.PENDING}


def test_a_refused_success_leaves_nothing_behind(engine: Engine) -> None:
    main = submit_and_claim(engine, "main")
    engine.queries.move(the("main"), Trigger.CANCEL, 1, now=NOW)
    outcome = spawning(main, [new_job("x")], [Dependency("x", "main")])
    assert settle(engine, outcome) == [outcome]
    assert (states(engine), engine.flow_store.edges(["main"])) == ({"main": State.CANCELLED}, [])


# -- at size


@pytest.mark.slow
def test_ten_thousand_parents_of_one_child(engine: Engine) -> None:
    names = [f"p{number}" for number in range(10_000)]
    engine.insert([*map(new_job, names), child("last")], edges=[Dependency(name, "last") for name in names], now=NOW)
    done: list[Outcome] = []
    for _ in range(4):
        assert row(engine, "last").state is State.WAITING
        claims = engine.exchange(done, want(2500), now=NOW).claims
        done = [succeed(claimed) for claimed in claims]
        assert len(done) == 2500
    answer = engine.exchange(done, want(), now=NOW)
    if not answer.claims:  # it was settled beside the claim, which is told to come again at once
        assert answer.next_at == NOW
        answer = engine.exchange([], want(), now=NOW)
    assert ids(answer.claims) == ["last"]
    assert len(engine.flow_store.edges(["last"])) == 10_000


@pytest.mark.slow
@pytest.mark.parametrize("end", [succeed, fail])
def test_ten_thousand_children_of_one_parent(engine: Engine, end: Callable[[Any], Outcome]) -> None:
    names = [f"c{number}" for number in range(10_000)]
    edges = [*(Dependency("first", name) for name in names), *(Dependency(name, "last") for name in names)]
    engine.insert([new_job("first"), *map(child, names), child("last")], edges=edges, now=NOW)
    settle(engine, end(claim_one(engine)))
    target = State.PENDING if end is succeed else State.CANCELLED
    assert {job.state for job in engine.queries.get(names)} == {target}
    assert row(engine, "last").state is (State.WAITING if end is succeed else State.CANCELLED)


@pytest.mark.slow_on("postgres")
def test_a_chain_of_a_thousand_falls_to_its_end(engine: Engine) -> None:
    names = [f"n{number:03}" for number in range(1000)]
    plant_chain(engine, *names)
    cancel(engine, names[0])
    assert set(states(engine).values()) == {State.CANCELLED}
