"""Requeues from the desk of dead letters: a record leaves it once, and with its job."""

from __future__ import annotations

import pytest

from headrace.core.damaged_records import stored_tags
from headrace.core.dead_letters.records import (
    DeadLetterFilter,
    Requeued,
    RequeueRequest,
    notes_of,
)
from headrace.core.events.history import errors_of, timeline
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from headrace.runtime.event_log import last_cursor
from tests.conformance.dead_letters.builders import LATER, PENDING, dead, fail_again, one, pending
from tests.conformance.events.reading import types_after
from tests.conformance.flows.dependency_builders import child, plant_chain, the
from tests.support.builders import (
    HOUR,
    NOW,
    SECOND,
    candidate,
    claim_one,
    fail,
    ids,
    insert_unique,
    new_job,
    retry,
    row,
    settle,
    states,
    succeed,
    together,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE


def test_a_requeue_revives_the_job_and_resolves_the_record(engine: Engine) -> None:
    dead_letter = dead(engine, priority=5)
    before = row(engine)
    asked = RequeueRequest(dead_letter.id, boost=10)
    (done,) = engine.dead_letters.requeue([asked], "ops", "fixed it", "requeued from the desk", now=LATER)
    assert done == Requeued(dead_letter.id, "job", "requeued", 1)
    job = row(engine)
    assert (job.state, job.attempt, job.priority, job.run_at) == (State.PENDING, 0, 15, LATER)
    assert (job.version, job.finished_at, job.reason) == (before.version + 1, None, None)
    resolved = one(engine, dead_letter.id)
    assert (resolved.status, resolved.resolved_at, resolved.resolved_by) == ("requeued", LATER, "ops")
    assert resolved.requeues == 1
    (remark,) = notes_of(resolved.notes)
    assert (remark.at, remark.text, remark.by) == (LATER, "fixed it", "ops")
    entry = engine.queries.details("job").history[-1]
    assert (entry.event, entry.target, entry.detail) == (Trigger.REVIVE, State.PENDING, "requeued from the desk")
    claimed = claim_one(engine, now=LATER)
    assert (claimed.id, claimed.attempt) == ("job", 1)
    assert settle(engine, succeed(claimed, at=LATER), now=LATER) == []


def test_a_job_that_fails_again_in_the_same_millisecond_has_a_newer_record(engine: Engine) -> None:
    """As with a clock of a test, which stands still."""
    dead_letter = dead(engine)
    for number in range(1, 9):
        engine.dead_letters.requeue([RequeueRequest(dead_letter.id, most=9)], now=NOW)
        before, dead_letter = dead_letter, fail_again(engine, at=NOW)
        assert (dead_letter.id > before.id, dead_letter.requeues) == (True, number)


def test_the_errors_of_before_stay_in_the_history(engine: Engine) -> None:
    dead_letter = dead(engine)
    engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=LATER)
    assert [entry.error_type for entry in engine.queries.details("job").history] == ["KeyError", None]


@pytest.mark.parametrize(("priority", "boost", "expected"), [(95, 10, 100), (-95, -10, -100), (3, 0, 3)])
def test_a_raised_priority_stays_in_its_range(engine: Engine, priority: int, boost: int, expected: int) -> None:
    dead_letter = dead(engine, priority=priority)
    engine.dead_letters.requeue([RequeueRequest(dead_letter.id, boost=boost)], now=LATER)
    assert row(engine).priority == expected
    assert claim_one(engine, now=LATER).priority == expected


def test_the_arguments_may_be_others(engine: Engine) -> None:
    dead_letter = dead(engine, payload="[1]", checksum=1, tags=("red",))
    engine.dead_letters.requeue([RequeueRequest(dead_letter.id, payload="[2]", checksum=2)], now=LATER)
    claimed = claim_one(engine, now=LATER)
    assert (claimed.payload, claimed.checksum) == ("[2]", 2)
    assert ids_of(engine, Filter(tag="red")) == ["job"]


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize(("tags", "left"), [('["blue","\\u001fx=2"]', {"blue", "\x1fx=2"}), ("[]", set())])
def test_the_tags_may_be_others(engine: Engine, tags: str, left: set[str], is_gone: bool) -> None:
    dead_letter = dead(engine, payload="[1]", checksum=1, tags=("red", "\x1fx=1"))
    if is_gone:
        engine.queries.move(the("job"), Trigger.DELETE, 1, now=NOW)
    engine.dead_letters.requeue([RequeueRequest(dead_letter.id, payload="[2]", checksum=2, tags=tags)], now=LATER)
    found = {tag for tag in ("red", "blue", "\x1fx=1", "\x1fx=2") if ids_of(engine, Filter(tag=tag))}
    assert found == left
    assert set(stored_tags(row(engine).tags)) == left


def ids_of(engine: Engine, which: Filter) -> list[str]:
    return [job.id for job in engine.queries.find(which, 10).jobs]


def test_a_requeue_for_later_is_scheduled(engine: Engine) -> None:
    dead_letter = dead(engine)
    engine.dead_letters.requeue([RequeueRequest(dead_letter.id, run_at=LATER + SECOND)], now=LATER)
    assert (row(engine).state, row(engine).run_at) == (State.SCHEDULED, LATER + SECOND)
    assert engine.queries.details("job").history[-1].target == State.SCHEDULED
    assert claim_one(engine, now=LATER + SECOND).id == "job"


def test_a_job_of_a_lifo_queue_stays_one(engine: Engine) -> None:
    first, second = (dead(engine, name, lifo=True, at=NOW) for name in ("first", "second"))
    engine.dead_letters.requeue([RequeueRequest(first.id)], now=LATER)
    engine.dead_letters.requeue([RequeueRequest(second.id)], now=LATER + 1)
    assert claim_one(engine, now=LATER + 2).id == "second"


def test_requeues_are_carried_over_and_end_the_record(engine: Engine) -> None:
    dead_letter, at = dead(engine), NOW
    for count in range(1, 3):
        at += HOUR
        (done,) = engine.dead_letters.requeue([RequeueRequest(dead_letter.id, most=2)], now=at)
        assert (done.result, done.requeues) == ("requeued", count)
        dead_letter = fail_again(engine, at=at)
        assert dead_letter.requeues == count
    (done,) = engine.dead_letters.requeue([RequeueRequest(dead_letter.id, most=2)], "ops", "no more", now=at)
    assert done == Requeued(dead_letter.id, "job", "used_up", 2)
    assert row(engine).state is State.FAILED
    ended = one(engine, dead_letter.id)
    assert (ended.status, ended.resolved_by, ended.requeues) == ("permanently_failed", "system_max_retries", 2)
    told, why = notes_of(ended.notes)
    assert (told.text, told.by) == ("no more", "ops")
    assert (why.text, why.by) == ("it was requeued 2 times already, of 2 allowed (max_requeues)", None)
    assert engine.dead_letters.count(DeadLetterFilter(requeues=2)) == 2


def test_a_retry_by_hand_does_not_count(engine: Engine) -> None:
    dead(engine)
    engine.queries.move(the("job"), Trigger.REVIVE, 1, by="ops", now=LATER)
    (resolved,) = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert (resolved.status, resolved.requeues, resolved.resolved_by) == ("requeued", 0, "ops")
    assert fail_again(engine, at=LATER).requeues == 0


def test_a_job_that_is_gone_is_stored_anew(engine: Engine) -> None:
    dead_letter = dead(
        engine, priority=3, payload="[1]", tags=("red",), metadata='{"a":1}', max_attempts=5, queue="mail"
    )
    version = row(engine).version
    engine.queries.move(the("job"), Trigger.DELETE, 1, now=NOW)
    assert engine.dead_letters.find(DeadLetterFilter(ids=(dead_letter.id,)), 10) == [dead_letter]
    (done,) = engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=LATER)
    assert done == Requeued(dead_letter.id, "job", "stored_anew", 1)
    job = row(engine)
    assert (job.state, job.priority, job.payload, job.checksum) == (State.PENDING, 13, "[1]", 7)
    assert (job.queue, job.max_attempts, job.metadata, job.created_at) == ("mail", 5, '{"a":1}', NOW)
    assert job.version > version
    assert ids_of(engine, Filter(tag="red")) == ["job"]
    assert one(engine, dead_letter.id).status == "requeued"
    assert fail_again(engine, at=LATER).requeues == 1


def test_a_job_that_is_stored_anew_has_the_errors_of_before(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    settle(engine, retry(claim_one(engine), NOW, message="first"))
    settle(engine, fail(claim_one(engine)))
    before = engine.queries.details("job").history
    told = timeline(row(engine), before)
    engine.queries.move(the("job"), Trigger.DELETE, 1, now=NOW)
    told_so_far = last_cursor(engine.events)
    engine.dead_letters.requeue([RequeueRequest(pending(engine).id)], detail="requeued by ann", now=LATER)
    assert types_after(engine, told_so_far) == ["dead.resolved", "job.enqueued"]
    *kept, again = engine.queries.details("job").history
    assert [(history_row.at, history_row.event, history_row.version) for history_row in kept] == [
        (history_row.at, history_row.event, history_row.version) for history_row in before
    ]
    assert [error.message for error in errors_of(kept)] == [error.message for error in errors_of(before)]
    assert (again.event, again.source, again.target, again.detail) == ("revive", "failed", "pending", "requeued by ann")
    settle(engine, succeed(claim_one(engine, now=LATER), at=LATER), now=LATER)
    anew = timeline(row(engine), engine.queries.details("job").history)
    assert [entry.event for entry in anew[:-3]] == [entry.event for entry in told]
    assert [entry.event for entry in anew[-3:]] == [Trigger.REVIVE, Trigger.CLAIM, Trigger.SUCCEED]


def test_a_job_that_is_gone_may_get_other_arguments_and_another_time(engine: Engine) -> None:
    dead_letter = dead(engine)
    engine.queries.move(the("job"), Trigger.DELETE, 1, now=NOW)
    engine.dead_letters.requeue(
        [RequeueRequest(dead_letter.id, run_at=LATER + 1, payload="[2]", checksum=2)], now=LATER
    )
    job = row(engine)
    assert (job.state, job.run_at, job.payload, job.checksum) == (State.SCHEDULED, LATER + 1, "[2]", 2)


def test_a_new_job_of_the_same_id_is_left_alone(engine: Engine) -> None:
    dead_letter = dead(engine)
    engine.queries.move(the("job"), Trigger.DELETE, 1, now=NOW)
    engine.insert([new_job("job", version=NOW)], now=NOW)
    before = row(engine)
    (done,) = engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=LATER)
    assert (done.result, row(engine)) == ("busy", before)
    assert engine.dead_letters.find(DeadLetterFilter(ids=(dead_letter.id,)), 10) == [dead_letter]


def test_only_a_pending_record_is_requeued(engine: Engine) -> None:
    dead_letter = dead(engine)
    engine.dead_letters.update([dead_letter.id], "manually_resolved", now=NOW)
    results = [
        done.result
        for done in engine.dead_letters.requeue([RequeueRequest(dead_letter.id), RequeueRequest("nowhere")], now=LATER)
    ]
    assert results == ["resolved", "missing"]
    assert row(engine).state is State.FAILED


def test_many_are_requeued_together(engine: Engine) -> None:
    dead_letters = [dead(engine, f"j{number}", at=NOW + number) for number in range(5)]
    engine.queries.move(the("j3"), Trigger.DELETE, 1, now=NOW)
    done = engine.dead_letters.requeue([RequeueRequest(dead_letter.id) for dead_letter in dead_letters], now=LATER)
    assert [each.result for each in done] == ["requeued", "requeued", "requeued", "stored_anew", "requeued"]
    assert set(states(engine).values()) == {State.PENDING}
    assert engine.dead_letters.count(PENDING) == 0
    assert engine.dead_letters.count(DeadLetterFilter(statuses=("requeued",), requeues=1)) == 5
    assert engine.dead_letters.requeue([], now=LATER) == []


def test_one_of_many_at_once_requeues_a_record(store: StoreUnderTest) -> None:
    engine = store.open()
    dead_letters = [dead(engine, f"j{number}", at=NOW + number) for number in range(10)]
    orders = [RequeueRequest(dead_letter.id) for dead_letter in dead_letters]
    engines = [store.open() for _ in range(4)]
    answers = together(4, lambda number: engines[number].dead_letters.requeue(orders[:: (-1) ** number], now=LATER))
    results = [done.result for answer in answers for done in answer]
    assert (results.count("requeued"), results.count("resolved")) == (10, 30)
    assert [dead_letter.requeues for dead_letter in engine.dead_letters.find(DeadLetterFilter(), 100)] == [1] * 10


def test_a_requeue_wakes_workers(engine: Engine) -> None:
    dead_letter = dead(engine)
    bell = engine.listen("work")
    try:
        while bell.wait(0.05):  # rings of before
            pass
        engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=LATER)
        assert bell.wait(PATIENCE)
    finally:
        bell.close()


def test_what_waited_for_a_requeued_job_waits_again(engine: Engine) -> None:
    plant_chain(engine, "first", "second")
    settle(engine, fail(claim_one(engine)))
    assert states(engine) == {"first": State.FAILED, "second": State.CANCELLED}
    engine.dead_letters.requeue([RequeueRequest(pending(engine, "first").id)], now=LATER)
    assert states(engine) == {"first": State.PENDING, "second": State.WAITING}
    settle(engine, succeed(claim_one(engine, now=LATER), at=LATER), now=LATER)
    assert ids([claim_one(engine, now=LATER)]) == ["second"]


def test_a_job_with_a_key_is_requeued_like_any_other(engine: Engine) -> None:
    dead_letter = dead(engine, unique_key="key")
    (done,) = engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=LATER)
    assert done == Requeued(dead_letter.id, "job", "requeued", 1)
    assert (row(engine).state, row(engine).unique_key) == (State.PENDING, "key")
    assert [result.id for result in insert_unique(engine, [candidate("twin", key="key")], now=LATER)] == ["job"]


def test_what_waited_for_a_requeued_job_may_have_a_key(engine: Engine) -> None:
    engine.insert(
        [new_job("first"), child("second", unique_key="key")], edges=[Dependency("first", "second", "cancel")], now=NOW
    )
    settle(engine, fail(claim_one(engine)))
    assert states(engine) == {"first": State.FAILED, "second": State.CANCELLED}
    engine.dead_letters.requeue([RequeueRequest(pending(engine, "first").id)], now=LATER)
    assert states(engine) == {"first": State.PENDING, "second": State.WAITING}
