"""Fencing races acted out: two engines on one store, each step of the unlucky order written down."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import permutations

import pytest

from headrace.core.jobs.records import Claim, Filter, JobUpdate, Outcome
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    claim,
    claim_one,
    fail,
    give_up,
    ids,
    kinds,
    lease_of,
    new_job,
    release,
    retry,
    row,
    settle,
    snooze,
    states,
    submit_and_claim,
    succeed,
    worker_row,
)
from tests.support.engines import StoreUnderTest

RAN_OUT = NOW + LEASE


@pytest.fixture
def other(store: StoreUnderTest, engine: Engine) -> Engine:
    """A second engine on the store of `engine`."""
    return store.open()


LATE: dict[str, Callable[[Claim], Outcome]] = {
    "performer": lambda claimed: succeed(claimed, result='"late"'),
    "failure": fail,
    "retry": lambda claimed: retry(claimed, RAN_OUT),
    "snooze": lambda claimed: snooze(claimed, RAN_OUT),
    "release": release,
    "give up": give_up,
}
every_late_outcome = pytest.mark.parametrize("late", LATE.values(), ids=LATE)


# -- a worker that slept past its lease


@every_late_outcome
def test_a_stale_outcome_while_the_next_worker_runs_the_job(
    engine: Engine, other: Engine, late: Callable[[Claim], Outcome]
) -> None:
    old = submit_and_claim(engine, worker="old")
    other.reap(10, now=RAN_OUT)
    new = claim_one(other, worker="new", now=RAN_OUT)
    before = row(other)
    assert settle(engine, late(old), now=RAN_OUT) == [late(old)]
    assert row(other) == before
    assert settle(other, succeed(new, result='"new"'), now=RAN_OUT) == []
    assert (row(engine).state, row(engine).result) == (State.COMPLETED, '"new"')


@every_late_outcome
def test_a_stale_outcome_after_the_next_worker_finished_the_job(
    engine: Engine, other: Engine, late: Callable[[Claim], Outcome]
) -> None:
    old = submit_and_claim(engine, worker="old")
    other.reap(10, now=RAN_OUT)
    settle(other, succeed(claim_one(other, worker="new", now=RAN_OUT), result='"new"'), now=RAN_OUT)
    before = row(other)
    assert settle(engine, late(old), now=RAN_OUT) == [late(old)]
    assert row(engine) == before


@every_late_outcome
def test_a_worker_that_is_late_but_was_not_reaped_may_still_settle(
    engine: Engine, other: Engine, late: Callable[[Claim], Outcome]
) -> None:
    """The version alone decides: nobody else has the job, so its work need not be done twice."""
    claimed = submit_and_claim(engine)
    assert settle(engine, late(claimed), now=RAN_OUT + 1) == []
    assert other.reap(10, now=RAN_OUT + 1) == []
    assert row(other).state is late(claimed).state


def test_a_worker_does_not_settle_its_own_earlier_claim_of_the_same_job(engine: Engine, other: Engine) -> None:
    first = submit_and_claim(engine)
    other.reap(10, now=RAN_OUT)
    second = claim_one(engine, now=RAN_OUT)
    assert first.version != second.version
    assert settle(engine, succeed(first, result='"first"'), succeed(second, result='"second"')) == [
        succeed(first, result='"first"')
    ]
    assert row(engine).result == '"second"'


# -- two that want the same job, in every order


def acts_on(engine: Engine, other: Engine, claimed: Claim) -> dict[str, Callable[[], bool]]:
    """Ways to end a running job; each tells whether it was the one that did."""
    return {
        "settle": lambda: not settle(engine, succeed(claimed), now=RAN_OUT),
        "fail": lambda: not settle(engine, fail(claimed), now=RAN_OUT),
        "reap": lambda: bool(other.reap(10, now=RAN_OUT)),
        "reap again": lambda: bool(engine.reap(10, now=RAN_OUT)),
        "cancel": lambda: bool(other.queries.move(Filter(ids=("job",)), Trigger.CANCEL, 1, now=RAN_OUT)),
    }


PAIRS = list(permutations(("settle", "fail", "reap", "reap again", "cancel"), 2))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_that_end_an_attempt_exactly_one_does(
    store: StoreUnderTest, engine: Engine, other: Engine, first: str, second: str
) -> None:
    claimed = submit_and_claim(engine, max_attempts=1)  # so that reaping is final as well
    acts = acts_on(engine, other, claimed)
    assert acts[first]()
    ended = row(engine)
    assert ended.state in FINAL
    assert not acts[second]()
    assert row(other) == ended
    assert ended.version == claimed.version + 1
    if store.has("dead_letters"):
        assert len(store.dead_letters()) == (ended.state is State.FAILED)


def test_two_reapers_spend_one_attempt(engine: Engine, other: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(10)], now=NOW)
    claim(engine)
    reaped = [job.id for reaper in (engine, other, engine) for job in reaper.reap(6, now=RAN_OUT)]
    assert sorted(reaped) == [f"j{number}" for number in range(10)]
    assert {job.attempt for job in engine.queries.find(EVERYTHING, 10).jobs} == {1}
    assert {job.crashes for job in engine.queries.find(EVERYTHING, 10).jobs} == {1}


def test_a_renewal_just_before_the_reaper_saves_the_job(engine: Engine, other: Engine) -> None:
    claimed = submit_and_claim(engine)
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=RAN_OUT - 1).lost == frozenset()
    assert other.reap(10, now=RAN_OUT) == []
    assert settle(engine, succeed(claimed), now=RAN_OUT) == []


def test_a_renewal_just_after_the_reaper_does_not_bring_it_back(engine: Engine, other: Engine) -> None:
    claimed = submit_and_claim(engine)
    other.reap(10, now=RAN_OUT)
    assert engine.renew(worker_row(), [lease_of(claimed)], LEASE, now=RAN_OUT).lost == {lease_of(claimed)}
    assert row(other).state is State.PENDING


def test_a_cancelled_and_revived_job_refuses_the_worker_it_was_taken_from(engine: Engine, other: Engine) -> None:
    claimed = submit_and_claim(engine)
    other.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    other.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    assert settle(engine, succeed(claimed)) == [succeed(claimed)]
    assert row(engine).state is State.PENDING


def test_an_operators_change_and_a_claim_do_not_both_win(engine: Engine, other: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    assert other.queries.update("job", JobUpdate(queue="slow"), now=NOW)
    claimed = claim_one(engine)
    assert claimed.queue == "slow"
    assert not other.queries.update("job", JobUpdate(queue="fast"), now=NOW)


def test_a_worker_of_a_deleted_job_cannot_settle_a_new_job_of_the_same_id(engine: Engine, other: Engine) -> None:
    old = submit_and_claim(engine, worker="old")
    other.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    other.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    new = submit_and_claim(other, worker="new", version=NOW)
    refused = settle(engine, succeed(old, result='"of the old job"'))
    assert [outcome.id for outcome in refused] == ["job"]
    assert settle(other, succeed(new)) == []


# -- at the same moment


def run_together(acts: list[Callable[[], None]]) -> None:
    """Run each in a thread, from one start signal; raise what they raise."""
    start = threading.Barrier(len(acts))
    errors: list[BaseException] = []

    def run(act: Callable[[], None]) -> None:
        try:
            start.wait()
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def drainer(engine: Engine, worker: str, size: int, taken: list[str]) -> Callable[[], None]:
    def drain() -> None:
        while claims := claim(engine, size, worker=worker):
            taken.extend(ids(claims))

    return drain


@pytest.mark.parametrize("engines", ["one engine", "two engines"])
def test_threads_that_claim_at_once_take_each_job_exactly_once(store: StoreUnderTest, engines: str) -> None:
    first = store.open()
    second = first if engines == "one engine" else store.open()
    first.insert([new_job(f"j{number}") for number in range(2000)], now=NOW)
    taken: list[list[str]] = [[], [], []]
    run_together([drainer(engine, f"w{n}", 7, taken[n]) for n, engine in enumerate((first, second, first))])
    everything = [job_id for part in taken for job_id in part]
    assert len(everything) == 2000
    assert set(everything) == {f"j{number}" for number in range(2000)}
    assert {(job.attempt, job.version) for job in first.queries.find(EVERYTHING, 5000).jobs} == {(1, 2)}


@pytest.mark.needs("processes")
def test_processes_that_claim_at_once_take_each_job_exactly_once(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(2000)], now=NOW)
    actors = [store.send("drain", f"w{number}", 7) for number in range(2)]
    assert [actor.hear() for actor in actors] == ["ready", "ready"]
    for actor in actors:
        actor.go()
    taken = [actor.hear() for actor in actors]
    assert sorted(taken[0] + taken[1]) == sorted(f"j{number}" for number in range(2000))


def test_threads_that_insert_the_same_ids_at_once_agree_on_who_was_first(engine: Engine, other: Engine) -> None:
    answers: list[list[bool]] = [[], []]

    def submit(which: int, target: Engine) -> Callable[[], None]:
        def insert_all() -> None:
            for start in range(0, 300, 10):
                batch = [new_job(f"j{number}", payload=f"[{which}]") for number in range(start, start + 10)]
                answers[which] += [kind == "new" for kind in kinds(target.insert(batch, now=NOW))]

        return insert_all

    run_together([submit(0, engine), submit(1, other)])
    assert [one != two for one, two in zip(*answers, strict=True)] == [True] * 300
    winners = {f"j{number}": f"[{int(answers[1][number])}]" for number in range(300)}
    assert {job.id: job.payload for job in engine.queries.find(EVERYTHING, 1000).jobs} == winners


def test_reapers_settlers_and_an_operator_at_once_end_every_attempt_once(engine: Engine, other: Engine) -> None:
    engine.insert([new_job(f"j{number:03}", max_attempts=1) for number in range(400)], now=NOW)
    claims = claim(engine, 400)
    settled: list[str] = []
    reaped: list[str] = []
    cancelled: list[str] = []

    def settle_all() -> None:
        for claimed in claims:
            if not settle(engine, succeed(claimed), now=RAN_OUT):
                settled.append(claimed.id)

    def reap_all() -> None:
        for _ in range(40):
            reaped.extend(job.id for job in other.reap(5, now=RAN_OUT))

    def cancel_some() -> None:
        for number in range(399, 0, -4):
            cancelled.extend(other.queries.move(Filter(ids=(f"j{number:03}",)), Trigger.CANCEL, 1, now=RAN_OUT))

    run_together([settle_all, reap_all, cancel_some])
    assert sorted(settled + reaped + cancelled) == [f"j{number:03}" for number in range(400)]
    found = states(engine)
    assert {found[job_id] for job_id in settled} <= {State.COMPLETED}
    assert {found[job_id] for job_id in reaped} <= {State.FAILED}
    assert {found[job_id] for job_id in cancelled} <= {State.CANCELLED}
    assert {job.version for job in engine.queries.find(EVERYTHING, 1000).jobs} == {3}


def test_readers_never_see_half_a_commit(engine: Engine, other: Engine) -> None:
    """A batch is one commit: whoever counts, counts whole batches."""
    done = threading.Event()
    seen: set[int] = set()

    def write() -> None:
        try:
            for batch in range(60):
                engine.insert([new_job(f"{batch}-{number}") for number in range(25)], now=NOW)
        finally:
            done.set()

    def count() -> None:
        while not done.is_set():
            seen.add(other.queries.count(EVERYTHING).jobs % 25)

    run_together([write, count])
    assert seen <= {0}
    assert other.queries.count(EVERYTHING).jobs == 60 * 25
