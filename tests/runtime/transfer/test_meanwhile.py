"""Moving to another store: what workers and producers do meanwhile is neither lost nor done twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.app.transfer.move import CopyStep, StoreCopy, reopen
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import Act, UniqueCondition, UniqueInsert, UniqueRule
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError
from tests.runtime.transfer.kit import JOBS, cut_off, move
from tests.runtime.transfer.store_contents import HOUR, claim_from, contents, fill, without_nul
from tests.support.builders import (
    fail,
    insert_unique,
    lease_of,
    log,
    new_job,
    only,
    progress,
    row,
    rows,
    states,
    succeed,
    want,
    worker_row,
)
from tests.support.cases import PAIRS
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

# -- running jobs


def test_running_jobs_may_end_before_they_are_copied(source: Engine, target: Engine) -> None:
    source.insert([new_job("job", queue="mail")])
    [claim] = claim_from(source, "mail")
    left = []

    def settle(step: CopyStep) -> None:
        if step.stage == "waiting":
            left.append(step.total - step.done)
            if len(left) == 1:
                source.exchange([succeed(claim)], None)

    made = StoreCopy(source, target, progress=settle)
    assert made.run(60).running == []
    assert left == [1, 0]
    assert states(target) == {"job": State.COMPLETED}


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_still_runs_is_taken_from_its_worker_and_what_that_brings_later_is_refused(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    names = ["finished late", "failed late", "renewed", "last time"]
    source.insert([new_job(name, queue="mail", max_attempts=1 if name == "last time" else 3) for name in names])
    claims = {claim.id: claim for claim in claim_from(source, "mail", 4)}
    made = StoreCopy(source, target)
    orders = source.listen("commands")
    assert sorted(made.run(0).running) == sorted(names)
    assert orders.wait(PATIENCE), "the workers are woken at once"
    orders.close()
    left = contents(source)
    late = [succeed(claims["finished late"]), fail(claims["failed late"]), succeed(claims["last time"])]
    notes = [log(claims["finished late"], "I go on"), progress(claims["finished late"], "1")]
    assert {outcome.id for outcome in source.exchange(late, None, notes).refused} == {outcome.id for outcome in late}
    leases = [lease_of(claims["renewed"])]
    assert source.renew(worker_row("old"), leases, 5_000_000).lost == frozenset(leases)
    assert contents(target) == left
    assert [(p.job, p.logs, p.steps) for p in contents(source)] == [(p.job, p.logs, p.steps) for p in left]
    assert made.verify().differences == []
    made.open()
    assert {job.id: (job.state, job.attempt, job.crashes) for job in rows(target).values()} == {
        **dict.fromkeys(names, (State.PENDING, 1, 1)),
        "last time": (State.FAILED, 1, 1),
    }


def test_nothing_is_taken_from_the_workers_of_a_store_that_was_brought_back_into_use(
    source: Engine, target: Engine
) -> None:
    source.insert([new_job("job", queue="mail")])
    [claim] = claim_from(source, "mail")

    def give_up(step: CopyStep) -> None:
        if step.stage == "waiting":
            reopen(source)

    with pytest.raises(ConfigError, match="was reopened"):
        StoreCopy(source, target, progress=give_up).run(0)
    assert source.exchange([succeed(claim)], None).refused == []


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_children_wait_at_the_target_as_they_did_however_late_their_parent_ends_at_the_source(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    """Bonds are read last: a parent that ended since would bring some that do not bind any more."""
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.insert([new_job("parent", queue="mail")])
    [held] = claim_from(source, "mail")
    source.insert([new_job("child", state=State.WAITING)], edges=[Dependency("parent", "child")])

    def end_late(step: CopyStep) -> None:
        if step.stage == "copying":
            source.exchange([succeed(held)], None)

    made = StoreCopy(source, target, progress=end_late)
    made.run(0)
    assert made.verify().differences == []
    made.open()
    [again] = target.exchange([], want()).claims
    assert again.id == "parent"
    target.exchange([fail(again)], None)
    assert states(target) == {"parent": "failed", "child": "cancelled"}


def test_a_transfer_does_not_wait_for_jobs_of_a_dead_worker(source: Engine, target: Engine) -> None:
    past = source.clock.now() - HOUR
    source.insert([new_job("job", queue="mail")], now=past)
    assert source.exchange([], only("mail"), now=past).claims
    made = StoreCopy(source, target)
    assert made.run(3600).running == []
    assert states(target) == {"job": State.PENDING}
    assert row(target).crashes == 1


# -- life at the target meanwhile


def test_jobs_submitted_at_the_target_meanwhile_are_no_difference(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    producer = 0

    def produce(step: CopyStep) -> None:
        nonlocal producer
        if step.stage == "copying":
            producer += 1
            target.insert([new_job(f"new-{producer}-{part}") for part in range(20)])

    made = StoreCopy(source, target, progress=produce)
    made.run(0)
    assert producer > 1
    assert made.verify().differences == []
    copied_jobs = [job_export for job_export in contents(target) if not job_export.job.id.startswith("new-")]
    assert copied_jobs == without_nul(contents(source))


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_new_jobs_mean_to_those_that_arrived_is_no_difference(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    now = source.clock.now()
    source.insert(
        [new_job(name, unique_key=name, created_at=now, run_at=now) for name in ("replaced", "later", "parent")]
    )
    cut_off(source, target, 3)
    acts: dict[str, Act] = {"replaced": "replace", "later": "reschedule"}
    for name, act in acts.items():
        newer = new_job("new", unique_key=name, payload="[2]", created_at=now + 5, run_at=now + HOUR)
        [result] = insert_unique(target, [UniqueInsert(newer, UniqueRule((UniqueCondition((State.PENDING,)),), act))])
        assert result.id == name
    target.insert([new_job("child", state=State.WAITING)], edges=[Dependency("parent", "child")])
    move(source, target)
    assert states(target) == {
        "replaced": State.SCHEDULED, "later": State.SCHEDULED, "parent": State.PENDING, "child": State.WAITING
    }  # fmt: skip
    assert row(target, "replaced").payload == "[2]"
    [claim] = target.exchange([], want()).claims
    target.exchange([succeed(claim)], None)
    assert states(target)["child"] == State.PENDING


def test_an_id_that_was_reused_at_the_target_meanwhile_is_reported(source: Engine, target: Engine) -> None:
    past = source.clock.now() - HOUR
    source.insert([new_job(name, created_at=past, run_at=past) for name in ("a", "daily", "z")], now=past)
    target.transfer.set_status(StoreStatus("arriving", source.url, 0))
    target.insert([new_job("daily", created_at=past + HOUR, run_at=past + HOUR)])
    made = StoreCopy(source, target)
    copied = made.run(0)
    assert (copied.jobs, copied.known) == (2, 1)
    result = made.verify()
    assert (result.differences, result.taken) == ([], {"daily"})
    assert row(target, "daily").created_at == past + HOUR


def test_time_that_passes_meanwhile_is_no_difference(source: Engine, target: Engine) -> None:
    now = source.clock.now()
    source.insert([new_job("due", queue="mail", created_at=now, run_at=now + HOUR)], now=now)
    source.insert([new_job("lapsed", queue="mail", created_at=now, run_at=now, expires_at=now + HOUR)], now=now)
    made = StoreCopy(source, target)
    made.run(0)
    made.open()
    target.exchange([], only("no such queue"), now=now + HOUR)
    assert states(target) == {"due": State.PENDING, "lapsed": State.CANCELLED}
    assert made.verify().differences == []
