"""A worker is not handed jobs of tasks that it does not know; whoever knows them finds them as they were."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from headrace.core.jobs.known_tasks import KnownTasks
from headrace.core.jobs.queue_rules import Strategy, TaskRules
from headrace.core.jobs.records import Claim, ClaimRequest
from headrace.core.jobs.states import State
from headrace.engines.protocol.engine import Engine
from tests.conformance.events.reading import read_events
from tests.support.builders import (
    LEASE,
    NOW,
    give_up,
    ids,
    keyed,
    needing,
    new_job,
    numbered,
    row,
    rows,
    settle,
    succeed,
    want,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE


def ignorant(engine: Engine, *unknown: str, limit: int = 100, **more: Any) -> list[Claim]:
    return engine.exchange([], ClaimRequest("w1", limit, LEASE, known=all_but(*unknown), **more), now=NOW).claims


def all_but(*unknown: str) -> KnownTasks:
    return KnownTasks(lambda task: task not in unknown)


def knowing(engine: Engine, limit: int = 100, **more: Any) -> list[Claim]:
    return engine.exchange([], ClaimRequest("w2", limit, LEASE, **more), now=NOW).claims


def test_jobs_of_an_unknown_task_are_passed_over_and_stay_as_they_are(engine: Engine) -> None:
    engine.insert([new_job("a", task="new"), new_job("b", task="old"), new_job("c", task="new")], now=NOW)
    before = row(engine, "a")
    assert ids(ignorant(engine, "new", "other")) == ["b"]
    after = row(engine, "a")
    assert (after.state, after.version, after.attempt, after.worker) == (State.PENDING, before.version, 0, None)
    assert ignorant(engine, "new") == []
    assert ids(knowing(engine)) == ["a", "c"]


@pytest.mark.parametrize("strategy", [None, "priority", "fifo", "lifo", "fresh_first"])
def test_in_any_order_only_known_ones_are_claimed(engine: Engine, strategy: Strategy | None) -> None:
    jobs = [new_job(f"j{n}", task="new" if n % 2 else "old", priority=n % 3) for n in range(12)]
    engine.insert(jobs, now=NOW)
    assert {claim.task for claim in ignorant(engine, "new", strategy=strategy)} == {"old"}
    assert {claim.task for claim in knowing(engine, strategy=strategy)} == {"new"}


def test_the_most_urgent_one_goes_first_for_who_knows_it(engine: Engine) -> None:
    engine.insert([new_job("low", task="new"), new_job("plain", task="old", priority=3)], now=NOW)
    assert ids(ignorant(engine, "new")) == ["plain"]
    engine.insert([new_job("high", task="new", priority=9), new_job("middle", task="old", priority=5)], now=NOW)
    assert ids(knowing(engine)) == ["high", "middle", "low"]


@pytest.mark.needs("queue_rules")
def test_keys_and_needs_hold_as_before(engine: Engine) -> None:
    engine.insert(
        [keyed("k1", "k", task="new"), keyed("k2", "k", task="new"), needing("n", "gpu", task="new")], now=NOW
    )
    assert ignorant(engine, "new", capabilities=("gpu",)) == []
    [first] = knowing(engine)
    assert first.id == "k1"
    assert settle(engine, succeed(first)) == []
    assert sorted(ids(knowing(engine, capabilities=("gpu",)))) == ["k2", "n"]


@pytest.mark.needs("queue_rules")
def test_the_rules_of_a_task_hold_beside(engine: Engine) -> None:
    engine.rule_store.set_rules("new", TaskRules(concurrency=1))
    engine.insert(numbered(3, task="new"), now=NOW)
    assert ignorant(engine, "new") == []
    assert len(knowing(engine)) == 1


def test_known_jobs_are_found_behind_thousands_of_unknown_ones(engine: Engine) -> None:
    engine.insert([*numbered(3000, task="new"), new_job("known", task="old")], now=NOW)
    found: list[Claim] = []
    claims = 0
    while not found and claims < 10:
        found, claims = ignorant(engine, "new", limit=5), claims + 1
    assert ids(found) == ["known"]
    assert len(knowing(engine, limit=1000)) == 1000


def test_a_queue_is_claimed_from_in_the_usual_way_when_they_are_gone(engine: Engine) -> None:
    engine.insert([new_job("a", task="new")], now=NOW)
    assert ignorant(engine, "new") == []
    [claimed] = knowing(engine)
    assert settle(engine, give_up(claimed)) == []
    engine.insert(numbered(5, task="old"), now=NOW)
    assert ids(ignorant(engine)) == [job.id for job in numbered(5)]


# -- the first claim that meets one is no exception


def only_known(*names: str) -> KnownTasks:
    return KnownTasks(lambda task: task in names)


def never_started(engine: Engine, job_id: str) -> bool:
    """Whether nothing tells that it was ever claimed."""
    job = row(engine, job_id)
    claimed = (job.version, job.attempt, job.worker, job.started_at, job.lease_until)
    return (
        job.state is State.PENDING
        and claimed == (1, 0, None, None, None)
        and not engine.queries.details(job_id).history
    )


@pytest.mark.needs("events")
def test_the_first_job_of_an_unknown_task_is_not_claimed_either(engine: Engine) -> None:
    engine.insert([new_job("new", task="new")], now=NOW)
    before = read_events(engine)
    known = only_known("old")
    answer = engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW)
    assert (answer.claims, answer.next_at) == ([], None)
    assert never_started(engine, "new")
    assert read_events(engine) == before
    assert known.unknown == {"new"}
    assert not known.undecided


def test_known_jobs_behind_several_unknown_tasks_are_claimed_in_the_same_exchange(engine: Engine) -> None:
    strangers = [new_job(f"s{n}", task=f"new{n}") for n in range(30)]
    engine.insert([*strangers, new_job("a", task="old"), *numbered(3, task="new1"), new_job("b", task="old")], now=NOW)
    assert ids(engine.exchange([], ClaimRequest("w1", 2, LEASE, known=only_known("old")), now=NOW).claims) == ["a", "b"]
    assert all(never_started(engine, job.id) for job in strangers)


def test_a_known_job_is_found_behind_a_whole_queue_of_unknown_ones(engine: Engine) -> None:
    engine.insert([*numbered(500, task="new"), new_job("known", task="old")], now=NOW)
    assert ids(engine.exchange([], ClaimRequest("w1", 1, LEASE, known=only_known("old")), now=NOW).claims) == ["known"]
    others = [job for job in rows(engine).values() if job.id != "known"]
    assert {(job.state, job.version, job.attempt) for job in others} == {(State.PENDING, 1, 0)}


def test_what_is_settled_and_claimed_in_one_exchange_is_both_done(engine: Engine) -> None:
    engine.insert([new_job("first", task="old")], now=NOW)
    known = only_known("old")
    [first] = engine.exchange([], ClaimRequest("w1", 1, LEASE, known=known), now=NOW).claims
    engine.insert([new_job("new", task="new"), new_job("second", task="old")], now=NOW)
    answer = engine.exchange([succeed(first)], ClaimRequest("w1", 5, LEASE, known=known), now=NOW)
    assert (answer.refused, ids(answer.claims)) == ([], ["second"])
    assert row(engine, "first").state is State.COMPLETED
    assert never_started(engine, "new")


def test_other_queues_give_their_jobs_beside_one_with_unknown_tasks(engine: Engine) -> None:
    jobs = [
        new_job("a1", queue="a", task="old"),
        new_job("a2", queue="a", task="new"),
        new_job("a3", queue="a", task="old"),
    ]
    engine.insert([*jobs, *numbered(3, queue="b", task="old")], now=NOW)
    asked = structs.replace(want(10, shares=(("a", 1), ("b", 1))), known=only_known("old"))
    claims = engine.exchange([], asked, now=NOW).claims
    assert sorted(ids(claims)) == ["a1", "a3", "j0000", "j0001", "j0002"]
    assert [row(engine, claim.id).version for claim in claims] == [claim.version for claim in claims]
    assert never_started(engine, "a2")


@pytest.mark.needs("queue_rules")
def test_in_lanes_and_under_rules_the_first_one_is_not_claimed_either(engine: Engine) -> None:
    engine.rule_store.set_rules("old", TaskRules(concurrency=5))
    engine.insert([keyed("k", "k", task="new"), new_job("n", task="new"), keyed("o", "o", task="old")], now=NOW)
    assert ids(engine.exchange([], ClaimRequest("w1", 10, LEASE, known=only_known("old")), now=NOW).claims) == ["o"]
    assert never_started(engine, "k")
    assert never_started(engine, "n")


def test_one_that_another_worker_has_put_aside_is_not_claimed_either(engine: Engine) -> None:
    engine.insert([new_job("a", task="new"), new_job("b", task="old")], now=NOW)
    assert ids(engine.exchange([], ClaimRequest("w1", 10, LEASE, known=only_known("old")), now=NOW).claims) == ["b"]
    engine.insert([new_job("c", task="old")], now=NOW)
    assert ids(engine.exchange([], ClaimRequest("w2", 10, LEASE, known=only_known("old")), now=NOW).claims) == ["c"]
    assert never_started(engine, "a")
    assert ids(engine.exchange([], ClaimRequest("w3", 10, LEASE, known=only_known("new")), now=NOW).claims) == ["a"]


def test_known_jobs_keep_their_order_where_no_unknown_one_waits(engine: Engine) -> None:
    known = only_known("one", "two")
    engine.insert([new_job("new", task="new", queue="other")], now=NOW)
    assert engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW).claims == []
    engine.insert([new_job(f"j{n}", task="one" if n < 6 else "two") for n in range(9)], now=NOW)
    taken = [ids(engine.exchange([], ClaimRequest("w1", 3, LEASE, known=known), now=NOW).claims) for _ in range(3)]
    assert taken == [["j0", "j1", "j2"], ["j3", "j4", "j5"], ["j6", "j7", "j8"]]
    assert {row(engine, f"j{n}").lane for n in range(9)} == {""}


# -- a task of which only an import can tell


@pytest.mark.needs("queue_rules")
@pytest.mark.parametrize("rules", [None, TaskRules(concurrency=9)])
def test_while_a_task_is_undecided_its_queue_gives_nothing_and_nothing_changes(
    engine: Engine, rules: TaskRules | None
) -> None:
    if rules is not None:
        engine.rule_store.set_rules("old", rules)
    decided: dict[str, bool] = {"old": True}
    known = KnownTasks(decided.get)
    engine.insert([new_job("a", task="jobs.run"), new_job("b", task="old")], now=NOW)
    answer = engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW)
    assert (answer.claims, answer.next_at) == ([], NOW), "who claims is to decide and to come again"
    assert known.undecided == {"jobs.run"}
    assert never_started(engine, "a")
    assert never_started(engine, "b")
    assert row(engine, "a").lane == "", "it is not put aside before that is certain"
    known.undecided.clear()
    decided["jobs.run"] = True
    assert sorted(ids(engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW).claims)) == ["a", "b"]


def test_a_name_inside_of_a_known_one_is_another_task(engine: Engine) -> None:
    engine.insert(
        [new_job("a", task="mail.send_all"), new_job("b", task="send"), new_job("c", task="mail.send")], now=NOW
    )
    known = only_known("mail.send_all")
    for _ in range(2):
        engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW)
    assert {job.id for job in rows(engine).values() if job.state is State.RUNNING} == {"a"}


def test_a_task_that_is_learnt_later_is_claimed_from_then_on(engine: Engine) -> None:
    names = {"old"}
    known = KnownTasks(lambda task: task in names)
    engine.insert([new_job("a", task="new")], now=NOW)
    assert engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW).claims == []
    names.add("new")
    assert ids(engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW).claims) == ["a"]
    known.forget("new")
    names.remove("new")
    engine.insert([new_job("b", task="new")], now=NOW)
    assert engine.exchange([], ClaimRequest("w1", 10, LEASE, known=known), now=NOW).claims == []


@pytest.mark.engines("postgres")
def test_a_claim_that_locked_unknown_jobs_rings_for_workers_that_skipped_them(store: StoreUnderTest) -> None:
    """Only here a claim locks what it reads."""
    old, new = store.open(), store.open()
    work, marker = new.listen("work"), new.listen("orders")
    old.insert([new_job("job", task="new")], now=NOW)
    old.ring("orders")
    assert marker.wait(PATIENCE), "whatever rang before has been heard"
    while work.wait(0):
        pass
    assert ignorant(old, "new") == []
    assert work.wait(PATIENCE)
    assert ignorant(old, "new") == []
    old.ring("orders")
    assert marker.wait(PATIENCE)
    assert not work.wait(0), "a job is met once: later claims do not ring"
    work.close()
    marker.close()
