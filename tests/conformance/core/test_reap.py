"""reap: jobs of workers that died or fell silent come back, once, and no live worker loses any."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.dead_letters.records import DeadLetterFilter, snapshot_of
from headrace.core.jobs.fingerprint import fingerprint_of_lost
from headrace.core.jobs.records import Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.conformance.flows.dependency_builders import plant_chain
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    claim,
    claim_one,
    ids,
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


# -- leases that ran out


def test_a_job_whose_lease_ran_out_is_pending_again_with_its_attempt_spent(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    (reaped,) = engine.reap(10, now=RAN_OUT)
    assert (reaped.id, reaped.queue, reaped.state, reaped.worker) == ("job", "default", State.PENDING, "w1")
    stored = row(engine)
    assert (stored.state, stored.attempt, stored.crashes, stored.releases) == (State.PENDING, 1, 1, 0)
    assert (stored.version, stored.lease_until, stored.worker) == (claimed.version + 1, None, None)
    assert (stored.finished_at, stored.reason) == (None, None)


def test_a_reaped_job_can_be_claimed_at_once(engine: Engine) -> None:
    submit_and_claim(engine)
    engine.reap(10, now=RAN_OUT)
    claimed = claim_one(engine, now=RAN_OUT)
    assert (claimed.id, claimed.attempt, claimed.crashes) == ("job", 2, 1)


def test_a_recovery_is_filed_with_the_worker_that_was_lost(engine: Engine) -> None:
    claimed = submit_and_claim(engine, worker="w9")
    engine.reap(10, now=RAN_OUT)
    (entry,) = engine.queries.details("job").history
    assert (entry.event, entry.source, entry.target) == (Trigger.LEASE_EXPIRED, State.RUNNING, State.PENDING)
    assert (entry.at, entry.version, entry.attempt, entry.worker) == (RAN_OUT, claimed.version + 1, 1, "w9")
    assert entry.started_at == NOW
    assert entry.error_type == "WorkerLost"
    assert "w9" in (entry.error_message or "")


@pytest.mark.needs("dead_letters")
def test_a_job_without_attempts_left_fails_as_worker_lost(store: StoreUnderTest) -> None:
    engine = store.open()
    submit_and_claim(engine, max_attempts=1, payload='["x"]')
    (reaped,) = engine.reap(10, now=RAN_OUT)
    assert reaped.state is State.FAILED
    stored = row(engine)
    assert (stored.state, stored.reason, stored.finished_at) == (State.FAILED, "worker_lost", RAN_OUT)
    assert (stored.crashes, stored.worker, stored.lease_until) == (1, "w1", None)
    (dead_letter,) = store.dead_letters()
    assert (dead_letter.job_id, dead_letter.reason, dead_letter.status) == ("job", "worker_lost", "pending")
    assert dead_letter.snapshot["payload"] == '["x"]'
    assert engine.queries.details("job").history[0].target == State.FAILED


def test_a_job_that_keeps_killing_its_worker_is_given_up_after_its_attempts(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=3)], now=NOW)
    seen = []
    for turn in range(1, 4):
        claim_one(engine, now=NOW + turn * HOUR)
        seen += [job.state for job in engine.reap(10, now=NOW + turn * HOUR + LEASE)]
    assert seen == [State.PENDING, State.PENDING, State.FAILED]
    assert (row(engine).crashes, row(engine).attempt) == (3, 3)
    assert claim(engine, now=NOW + 9 * HOUR) == []


def crash(engine: Engine, turn: int, max_crashes: int | None = 3) -> State:
    """Let another worker take the job and be lost under it."""
    claim_one(engine, now=NOW + turn * HOUR, worker=f"w{turn}")
    (reaped,) = engine.reap(10, max_crashes, now=NOW + turn * HOUR + LEASE)
    return reaped.state


@pytest.mark.needs("dead_letters")
def test_a_job_under_which_worker_after_worker_dies_is_quarantined_whatever_attempts_are_left(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=50)], now=NOW)
    assert [crash(engine, turn) for turn in (1, 2, 3)] == [State.PENDING, State.PENDING, State.FAILED]
    stored = row(engine)
    assert (stored.reason, stored.crashes, stored.attempt, stored.worker) == ("crash_loop", 3, 3, "w3")
    assert stored.finished_at == NOW + 3 * HOUR + LEASE
    assert [entry.target for entry in engine.queries.details("job").history] == ["pending", "pending", "failed"]
    (dead_letter,) = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert (dead_letter.reason, dead_letter.status) == ("crash_loop", "pending")
    assert dead_letter.fingerprint == fingerprint_of_lost("work", "crash_loop")
    snapshot = snapshot_of(dead_letter)
    assert snapshot.crashes == [(NOW + turn * HOUR + LEASE, f"w{turn}") for turn in (1, 2, 3)]
    assert snapshot.error_message == "3 times its worker died or let its lease run out: w1, w2, w3"
    assert snapshot.error_type == "WorkerLost"


@pytest.mark.needs("dead_letters")
@pytest.mark.parametrize("come_back", [retry, snooze, release])
def test_a_run_that_came_back_begins_the_count_anew(engine: Engine, come_back: Callable[..., Outcome]) -> None:
    engine.insert([new_job("job", max_attempts=50)], now=NOW)
    assert [crash(engine, turn) for turn in (1, 2)] == [State.PENDING, State.PENDING]
    held = claim_one(engine, now=NOW + 3 * HOUR)
    when = () if come_back is release else (NOW + 3 * HOUR,)
    assert settle(engine, come_back(held, *when, at=NOW + 3 * HOUR)) == []
    if come_back is release:  # it was given back unrun, which tells nothing
        assert crash(engine, 4) is State.FAILED
        return
    assert row(engine).crashes == 0
    assert [crash(engine, turn) for turn in (4, 5, 6)] == [State.PENDING, State.PENDING, State.FAILED]
    (dead_letter,) = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert [worker for _, worker in snapshot_of(dead_letter).crashes] == ["w4", "w5", "w6"]


@pytest.mark.needs("dead_letters")
def test_a_job_that_has_no_attempt_left_before_that_is_lost_as_ever(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=2)], now=NOW)
    assert [crash(engine, turn) for turn in (1, 2)] == [State.PENDING, State.FAILED]
    assert row(engine).reason == "worker_lost"
    (dead_letter,) = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert (dead_letter.reason, snapshot_of(dead_letter).crashes) == ("worker_lost", [])


def test_without_a_limit_only_attempts_count(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=50)], now=NOW)
    assert {crash(engine, turn, None) for turn in range(1, 8)} == {State.PENDING}


@pytest.mark.needs("dead_letters")
def test_a_quarantined_job_that_is_revived_starts_to_count_anew(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=50)], now=NOW)
    assert [crash(engine, turn, 2) for turn in (1, 2)] == [State.PENDING, State.FAILED]
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW + 2 * HOUR + LEASE)
    assert [crash(engine, turn, 2) for turn in (3, 4)] == [State.PENDING, State.FAILED]
    (dead_letter,) = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert [worker for _, worker in snapshot_of(dead_letter).crashes] == ["w3", "w4"]


@pytest.mark.needs("flows")
def test_the_children_of_a_quarantined_job_are_decided_with_it(engine: Engine) -> None:
    plant_chain(engine, "job", "child")
    claim_one(engine)
    engine.reap(10, 1, now=RAN_OUT)
    assert states(engine) == {"job": State.FAILED, "child": State.CANCELLED}


def test_crashes_are_counted_apart_from_failed_attempts(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine), NOW))
    claim_one(engine)
    engine.reap(10, now=RAN_OUT)
    assert (row(engine).attempt, row(engine).crashes) == (2, 1)


def test_nothing_is_reaped_before_its_lease_ran_out(engine: Engine) -> None:
    submit_and_claim(engine)
    before = row(engine)
    assert engine.reap(10, now=RAN_OUT - 1) == []
    assert row(engine) == before


def test_the_lease_of_each_claim_is_its_own(engine: Engine) -> None:
    engine.insert([new_job("short"), new_job("long")], now=NOW)
    claim_one(engine, lease=SECOND)
    claim_one(engine, lease=HOUR)
    assert [job.id for job in engine.reap(10, now=NOW + SECOND)] == ["short"]


@pytest.mark.parametrize("limit", [1, 3])
def test_a_reaping_stops_at_its_limit_and_the_next_goes_on(engine: Engine, limit: int) -> None:
    engine.insert([new_job(f"j{number}") for number in range(7)], now=NOW)
    claim(engine)
    sizes = []
    while reaped := engine.reap(limit, now=RAN_OUT):
        sizes.append(len(reaped))
    assert (sum(sizes), max(sizes)) == (7, limit)
    assert set(states(engine).values()) == {State.PENDING}


def test_an_empty_store_has_nothing_to_reap(engine: Engine) -> None:
    assert engine.reap(10, now=NOW) == []


def test_only_running_jobs_are_reaped(engine: Engine) -> None:
    engine.insert([new_job("pending"), new_job("scheduled", run_at=NOW + HOUR)], now=NOW)
    engine.insert([new_job("done", priority=9)], now=NOW)
    settle(engine, succeed(claim_one(engine)))
    assert engine.reap(10, now=NOW + 100 * HOUR) == []


def test_a_late_settle_of_a_reaped_job_is_refused(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.reap(10, now=RAN_OUT)
    assert settle(engine, succeed(claimed), now=RAN_OUT) == [succeed(claimed)]
    assert row(engine).state is State.PENDING
    assert [entry.event for entry in engine.queries.details("job").history] == [Trigger.LEASE_EXPIRED, "lease_lost"]


def test_reaped_jobs_of_several_workers_tell_whose_they_were(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(4)], now=NOW)
    held = {name: ids(claim(engine, 2, worker=name)) for name in ("w1", "w2")}
    reaped = engine.reap(10, now=RAN_OUT)
    assert {job.id: job.worker for job in reaped} == {job: name for name, jobs in held.items() for job in jobs}


# -- workers that died


@pytest.mark.needs("processes")
def test_a_killed_worker_is_noticed_at_once_and_loses_all_its_jobs(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(5)], now=NOW)
    worker = store.send("hold", "victim", 5, 2)
    assert worker.hear() == [f"j{number}" for number in range(5)]
    assert engine.reap(10, now=NOW) == []  # it lives
    worker.kill()
    reaped = engine.reap(10, now=NOW)
    assert {job.id: job.worker for job in reaped} == {f"j{number}": "victim" for number in range(5)}
    assert set(states(engine).values()) == {State.PENDING}


@pytest.mark.needs("processes")
def test_what_a_dead_worker_had_begun_is_spent_and_the_rest_is_given_back(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(5)], now=NOW)
    worker = store.send("hold", "victim", 5, 2)
    worker.hear()
    worker.kill()
    engine.reap(10, now=NOW)
    found = [row(engine, f"j{number}") for number in range(5)]
    assert [(job.attempt, job.crashes, job.releases) for job in found] == [(1, 1, 0)] * 2 + [(0, 0, 1)] * 3
    assert [job.version for job in found] == [3] * 5
    events = [[entry.event for entry in engine.queries.details(job.id).history] for job in found]
    assert events == [[Trigger.LEASE_EXPIRED]] * 2 + [[Trigger.RELEASE]] * 3


@pytest.mark.needs("processes")
def test_a_dead_worker_costs_the_last_attempt_only_where_it_had_begun(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}", max_attempts=1) for number in range(3)], now=NOW)
    worker = store.send("hold", "victim", 3, 1)
    worker.hear()
    worker.kill()
    assert {job.id: job.state for job in engine.reap(10, now=NOW)} == {
        "j0": State.FAILED,
        "j1": State.PENDING,
        "j2": State.PENDING,
    }
    assert row(engine, "j0").reason == "worker_lost"


@pytest.mark.needs("processes")
def test_a_limit_does_not_make_the_reaper_forget_the_rest_of_a_dead_worker(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(5)], now=NOW)
    worker = store.send("hold", "victim", 5, 5)
    worker.hear()
    worker.kill()
    assert len(engine.reap(2, now=NOW)) == 2
    assert [known.id for known in engine.queries.workers()] == ["victim"]  # as long as it has jobs, it can be looked up
    assert [len(engine.reap(2, now=NOW)) for _ in range(3)] == [2, 1, 0]
    assert engine.queries.workers() == []
    assert {job.crashes for job in engine.queries.find(EVERYTHING, 10).jobs} == {1}


@pytest.mark.needs("processes")
def test_a_dead_worker_is_struck_off_the_list_and_the_living_stay(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job("job")], now=NOW)
    liveness = engine.register_worker(worker_row("survivor"))
    worker = store.send("hold", "victim", 1, 1)
    worker.hear()
    assert {known.id for known in engine.queries.workers()} == {"survivor", "victim"}
    worker.kill()
    engine.reap(10, now=NOW)
    assert [known.id for known in engine.queries.workers()] == ["survivor"]
    liveness.close()


@pytest.mark.needs("processes")
def test_the_death_of_one_worker_does_not_touch_the_jobs_of_another(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(4)], now=NOW)
    liveness = engine.register_worker(worker_row("survivor"))
    mine = claim(engine, 2, worker="survivor")
    worker = store.send("hold", "victim", 2, 2)
    theirs = worker.hear()
    worker.kill()
    assert sorted(job.id for job in engine.reap(10, now=NOW)) == sorted(theirs)
    assert settle(engine, *(succeed(claimed) for claimed in mine)) == []
    liveness.close()


def test_a_live_worker_keeps_its_unexpired_jobs_and_loses_the_expired(engine: Engine) -> None:
    liveness = engine.register_worker(worker_row("w1"))
    engine.insert([new_job("short"), new_job("long")], now=NOW)
    claim_one(engine, lease=SECOND)
    claim_one(engine, lease=HOUR)
    assert [job.id for job in engine.reap(10, now=NOW + SECOND)] == ["short"]
    assert row(engine, "short").attempt == 1  # it may have begun, as far as anyone knows
    liveness.close()


@pytest.mark.needs("processes")
@pytest.mark.parametrize("with_dead", [False, True])
def test_every_lease_can_be_ended_and_the_living_are_told(store: StoreUnderTest, with_dead: bool) -> None:
    engine = store.open()
    engine.insert([new_job("again"), new_job("last", max_attempts=1), new_job("waits", run_at=NOW + HOUR)], now=NOW)
    claims = claim(engine, 2)
    if with_dead:  # then the leases of all are looked at
        worker = store.send("hold", "victim", 5, 2)
        worker.hear()
        worker.kill()
    assert len(engine.reap(1, now=NOW, alive=True)) == 1
    assert len(engine.reap(10, now=NOW, alive=True)) == 1
    assert states(engine) == {"again": State.PENDING, "last": State.FAILED, "waits": State.SCHEDULED}
    assert {entry.at for name in ("again", "last") for entry in engine.queries.details(name).history} == {NOW}
    assert len(engine.exchange([succeed(each) for each in claims], None, now=NOW).refused) == 2


def test_a_worker_that_left_in_order_is_not_taken_for_dead(engine: Engine) -> None:
    liveness = engine.register_worker(worker_row("w1"))
    submit_and_claim(engine)
    liveness.close()
    engine.unregister_worker("w1")
    assert engine.reap(10, now=NOW) == []
    assert engine.queries.workers() == []
    assert [job.id for job in engine.reap(10, now=RAN_OUT)] == ["job"]


@pytest.mark.needs("processes")
def test_a_slot_that_was_cleared_no_longer_counts_as_begun(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(3)], now=NOW)
    worker = store.send("hold", "victim", 3, 2, 1)
    worker.hear()
    worker.kill()
    engine.reap(10, now=NOW)
    assert [row(engine, f"j{number}").attempt for number in range(3)] == [0, 1, 0]


@pytest.mark.needs("processes")
def test_what_had_ended_under_a_dead_worker_runs_again_without_a_loss_or_if_it_may_not_has_failed(
    store: StoreUnderTest,
) -> None:
    engine = store.open()
    engine.insert([new_job("again"), new_job("once", max_attempts=1), new_job("runs")], now=NOW)
    worker = store.send("hold", "victim", 3, 3, 0, 2)
    worker.hear()
    worker.kill()
    engine.reap(10, 1, now=NOW)
    found = [row(engine, name) for name in ("again", "once", "runs")]
    assert [(job.state, job.attempt, job.crashes) for job in found] == [
        (State.PENDING, 0, 0),
        (State.FAILED, 1, 1),
        (State.FAILED, 1, 1),
    ]
    assert [entry.detail for entry in engine.queries.details("again").history] == [
        "its worker died before its end was stored"
    ]


@pytest.mark.needs("processes")
def test_a_dead_worker_without_jobs_is_buried_quietly(store: StoreUnderTest) -> None:
    engine = store.open()
    worker = store.send("hold", "victim", 5, 0)
    assert worker.hear() == []
    worker.kill()
    assert engine.reap(10, now=NOW) == []
    assert engine.queries.workers() == []


def test_a_store_signs_a_worker_off_before_it_has_seen_any(engine: Engine) -> None:
    engine.unregister_worker("stranger")
    assert engine.queries.workers() == []
