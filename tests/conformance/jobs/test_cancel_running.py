"""The newest call cancels the running job of its key: one commit asks it to stop, and the new job starts after it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.outcomes import cancel
from headrace.core.jobs.records import Claim, Filter, Lease, Outcome
from headrace.core.jobs.states import NOT_STARTED, State, Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import InsertResult, UniqueCondition, UniqueInsert
from headrace.core.queues.limits import lane_of, unique_limit
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    LEASE,
    NOW,
    SECOND,
    candidate,
    claim,
    claim_one,
    fail,
    ids,
    insert_unique,
    new_job,
    release,
    retry,
    row,
    rows,
    settle,
    snooze,
    states,
    submit_and_claim,
    succeed,
    together,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

LANE = lane_of([unique_limit("key")])
BY_NEW = "cancelled by a newer call, job new"
RAN_OUT = NOW + LEASE


def call(job_id: str, **more: Any) -> UniqueInsert:
    """A call of the key that cancels what runs."""
    where = (UniqueCondition(tuple(sorted(NOT_STARTED))),)
    return candidate(job_id, "cancel", where=where, **{"lane": LANE, **more})


def newest(engine: Engine, job_id: str = "new", **more: Any) -> list[tuple[str, str]]:
    return [(result.kind, result.id) for result in insert_unique(engine, [call(job_id, **more)], now=NOW)]


def running(engine: Engine, job_id: str = "job", **more: Any) -> Claim:
    newest(engine, job_id, **more)
    return claim_one(engine)


def requested(claimed: Claim) -> Lease:
    """The lease that the job has since it was asked to stop."""
    return Lease(claimed.id, claimed.version + 1)


def story(engine: Engine, job_id: str) -> list[tuple[str, str | None]]:
    return [(entry.event, entry.detail) for entry in engine.queries.details(job_id).history]


def test_a_call_asks_the_running_job_to_stop_and_waits_behind_it(engine: Engine) -> None:
    claimed = running(engine)
    assert newest(engine) == [("new", "new")]
    old = row(engine)
    assert (old.state, old.version, old.reason, old.worker) == (State.RUNNING, claimed.version + 1, BY_NEW, "w1")
    assert old.lease_until == RAN_OUT
    assert claim(engine) == []
    assert settle(engine, cancel(requested(claimed), BY_NEW, NOW)) == []
    assert (row(engine).state, row(engine).reason) == (State.CANCELLED, BY_NEW)
    assert ids(claim(engine)) == ["new"]
    assert story(engine, "job") == [(Trigger.CANCEL_REQUEST, BY_NEW), (Trigger.CANCEL, BY_NEW)]
    assert story(engine, "new") == [(Trigger.SUPERSEDE, "it runs after job job, which was asked to stop")]


def test_a_job_that_was_asked_to_stop_ends_in_no_other_way(engine: Engine) -> None:
    claimed = running(engine)
    newest(engine)
    outcomes = [succeed(claimed), retry(claimed, NOW), snooze(claimed, NOW), release(claimed), fail(claimed)]
    for late in outcomes:
        assert settle(engine, late) == [late]
    assert not engine.save_step(claimed.lease, Step("step", "a", 1, NOW, "1", None), NOW)
    assert row(engine).state is State.RUNNING
    assert engine.renew(worker_row(), [claimed.lease], LEASE, NOW).lost == frozenset([claimed.lease])
    assert engine.renew(worker_row(), [requested(claimed)], LEASE, NOW + SECOND).lost == frozenset()
    assert row(engine).lease_until == RAN_OUT + SECOND


def test_the_next_call_replaces_the_waiting_one_and_asks_no_second_time(engine: Engine) -> None:
    claimed = running(engine)
    newest(engine)
    assert newest(engine, "newer", payload='["newer"]') == [("replaced", "new")]
    assert (row(engine, "new").payload, row(engine).version) == ('["newer"]', claimed.version + 1)
    assert set(rows(engine)) == {"job", "new"}
    assert [event for event, _ in story(engine, "new")] == [Trigger.SUPERSEDE, Trigger.UPDATE]


def test_without_a_started_job_it_is_a_plain_replacement(engine: Engine) -> None:
    assert newest(engine, "job") == [("new", "job")]
    assert newest(engine) == [("replaced", "job")]
    assert story(engine, "job") == [(Trigger.UPDATE, "replaced by a newer call")]


def test_a_job_that_completed_before_is_left_alone(engine: Engine) -> None:
    claimed = running(engine)
    assert settle(engine, succeed(claimed)) == []
    assert newest(engine) == [("new", "new")]
    assert (row(engine).state, ids(claim(engine))) == (State.COMPLETED, ["new"])
    assert story(engine, "new") == []


def test_a_retry_that_has_not_begun_anything_is_replaced(engine: Engine) -> None:
    settle(engine, retry(running(engine), NOW + SECOND))
    assert newest(engine) == [("replaced", "job")]


@pytest.mark.parametrize("back", [retry, snooze], ids=["retry", "snooze"])
def test_a_started_job_that_does_not_run_is_cancelled_at_once(
    engine: Engine, back: Callable[[Claim, int], Outcome]
) -> None:
    claimed = running(engine)
    assert engine.save_step(claimed.lease, Step("step", "a", 1, NOW, "1", None), NOW)
    settle(engine, back(claimed, NOW + SECOND))
    assert newest(engine) == [("new", "new")]
    assert (row(engine).state, row(engine).reason, row(engine).finished_at) == (State.CANCELLED, BY_NEW, NOW)
    assert ids(claim(engine)) == ["new"]
    assert story(engine, "job")[-1] == (Trigger.CANCEL, BY_NEW)
    assert story(engine, "new") == [(Trigger.SUPERSEDE, "it has cancelled job job, which had started")]


def test_what_depends_on_a_cancelled_job_ends_in_the_same_commit(engine: Engine) -> None:
    claimed = running(engine)
    engine.save_step(claimed.lease, Step("step", "a", 1, NOW, "1", None), NOW)
    engine.insert([new_job("child", state=State.WAITING)], edges=[Dependency("job", "child")], now=NOW)
    settle(engine, snooze(claimed, NOW + SECOND))
    newest(engine)
    assert states(engine) == {"job": State.CANCELLED, "child": State.CANCELLED, "new": State.PENDING}


def test_a_call_of_another_key_or_another_rule_stops_nothing(engine: Engine) -> None:
    claimed = running(engine)
    insert_unique(engine, [call("other", key="other")], now=NOW)
    insert_unique(engine, [candidate("plain", "replace", where=(UniqueCondition((State.PENDING,)),))], now=NOW)
    assert row(engine).version == claimed.version


def test_a_refused_batch_stops_nothing(engine: Engine) -> None:
    claimed = running(engine)
    engine.insert([new_job("taken")], now=NOW)
    with pytest.raises(Exception, match="taken"):
        insert_unique(engine, [call("new"), UniqueInsert(new_job("taken"))], all_or_nothing=True, now=NOW)
    assert row(engine).version == claimed.version
    assert story(engine, "job") == []


def test_of_several_calls_in_a_batch_the_last_one_remains(engine: Engine) -> None:
    running(engine)
    batch = [call("a", payload='["a"]'), call("b", payload='["b"]')]
    assert insert_unique(engine, batch, now=NOW) == [InsertResult("new", "a"), InsertResult("replaced", "a")]
    assert (row(engine, "a").payload, row(engine).reason) == ('["b"]', "cancelled by a newer call, job a")


# -- the worker is gone


def test_a_job_that_was_asked_to_stop_is_cancelled_when_its_lease_runs_out(engine: Engine) -> None:
    running(engine)
    newest(engine)
    assert engine.reap(10, now=RAN_OUT - 1) == []
    (reaped,) = engine.reap(10, now=RAN_OUT)
    assert (reaped.id, reaped.state) == ("job", State.CANCELLED)
    assert (row(engine).state, row(engine).reason, row(engine).finished_at) == (State.CANCELLED, BY_NEW, RAN_OUT)
    assert story(engine, "job")[-1] == (Trigger.CANCEL, BY_NEW)
    assert ids(claim(engine, now=RAN_OUT)) == ["new"]


def test_a_claim_that_was_asked_to_stop_is_not_taken_for_an_unknown_one(engine: Engine) -> None:
    claimed = running(engine)
    newest(engine)
    assert engine.release_unknown_claims("w1", [claimed.lease], NOW) == []
    assert row(engine).state is State.RUNNING


def test_an_operator_can_cancel_a_job_that_was_asked_to_stop(engine: Engine) -> None:
    claimed = running(engine)
    newest(engine)
    assert engine.queries.move(Filter(ids=("job",)), Trigger.CANCEL, 1, now=NOW) == ["job"]
    late = cancel(requested(claimed), BY_NEW, NOW)
    assert settle(engine, late) == [late]
    assert ids(claim(engine)) == ["new"]


# -- races


def test_of_many_calls_at_once_one_waits_and_the_running_job_is_asked_once(
    engine: Engine, store: StoreUnderTest
) -> None:
    claimed = running(engine)
    engines = [store.open() for _ in range(4)]
    together(8, lambda number: insert_unique(engines[number % 4], [call(f"c{number}")], now=NOW))
    waiting = [job for job in rows(engine).values() if job.state is State.PENDING]
    assert (len(waiting), row(engine).version) == (1, claimed.version + 1)
    assert [event for event, _ in story(engine, "job")] == [Trigger.CANCEL_REQUEST]


def test_an_end_at_the_same_moment_either_counts_or_is_refused(engine: Engine, store: StoreUnderTest) -> None:
    other = store.open()
    for number in range(10):
        old, new = f"old{number}", f"new{number}"
        claimed = running(engine, old)
        ready, refused = threading.Barrier(2), list[Outcome]()

        def finish(
            claimed: Claim = claimed, ready: threading.Barrier = ready, refused: list[Outcome] = refused
        ) -> None:
            ready.wait(PATIENCE)
            refused += settle(other, succeed(claimed))

        thread = threading.Thread(target=finish)
        thread.start()
        ready.wait(PATIENCE)
        assert newest(engine, new) == [("new", new)]
        thread.join(PATIENCE)
        assert row(engine, old).state is (State.RUNNING if refused else State.COMPLETED)
        if refused:
            settle(engine, cancel(requested(claimed), "", NOW))
        settle(engine, succeed(claim_one(engine)))
        assert row(engine, new).state is State.COMPLETED


def test_a_repeated_call_after_a_lost_answer_asks_once(engine: Engine) -> None:
    claimed = submit_and_claim(engine, unique_key="key", lane=LANE)
    newest(engine)
    assert newest(engine) in ([("replaced", "new")], [("new", "new")], [("taken", "new")])
    assert row(engine).version == claimed.version + 1
