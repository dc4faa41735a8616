"""Dead letters that a person opens: what has not started fails by it, what is over stays as it is."""

from __future__ import annotations

import pytest

from headrace.core.dead_letters.records import (
    ADDABLE,
    DeadLetterFilter,
    NewDeadLetter,
    RequeueRequest,
    notes_of,
    snapshot_of,
)
from headrace.core.jobs.states import FINAL, NOT_STARTED, State, Trigger
from headrace.engines.protocol.engine import Engine
from headrace.runtime.event_log import last_cursor
from tests.conformance.dead_letters.builders import LATER, dead, pending
from tests.conformance.events.reading import types_after
from tests.conformance.flows.dependency_builders import plant_chain, the
from tests.support.builders import NOW, bring, claim_one, fail, row, settle, states, succeed

ORDER = NewDeadLetter("job", "wrong", "OSError", "away", "aa")


@pytest.mark.parametrize("state", sorted(NOT_STARTED))
def test_a_job_that_has_not_started_fails(engine: Engine, state: State) -> None:
    bring(engine, state)
    version, told = row(engine).version, last_cursor(engine.events)
    assert engine.dead_letters.add(ORDER, "ann", "look at this", now=LATER) == "added"
    job = row(engine)
    assert (job.state, job.reason, job.finished_at, job.version) == (State.FAILED, "wrong", LATER, version + 1)
    dead_letter = pending(engine)
    assert (dead_letter.reason, dead_letter.entered_at, dead_letter.fingerprint) == ("wrong", LATER, "aa")
    was = snapshot_of(dead_letter)
    assert (was.state, was.error_type, was.error_message, was.version) == (state, "OSError", "away", version)
    assert [(note.at, note.text, note.by) for note in notes_of(dead_letter.notes)] == [(LATER, "look at this", "ann")]
    filed = engine.queries.details("job").history[-1]
    assert (filed.event, filed.source, filed.detail) == (Trigger.FAIL, state, "wrong (by ann)")
    assert types_after(engine, told) == ["job.failed", "dead.entered"]


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_a_job_that_is_over_stays_as_it_is(engine: Engine, state: State) -> None:
    bring(engine, state)
    for dead_letter in engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10):
        engine.dead_letters.update([dead_letter.id], "manually_resolved", now=NOW)
    before, history = row(engine), engine.queries.details("job").history
    assert engine.dead_letters.add(ORDER, now=LATER) == "added"
    assert (row(engine), engine.queries.details("job").history) == (before, history)
    dead_letter = pending(engine)
    assert (snapshot_of(dead_letter).state, dead_letter.notes) == (state, None)
    (done,) = engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=LATER)
    assert (done.result, row(engine).state) == ("requeued", State.PENDING)


@pytest.mark.parametrize("state", sorted(set(State) - ADDABLE))
def test_a_job_that_runs_or_has_completed_is_left_alone(engine: Engine, state: State) -> None:
    bring(engine, state)
    before = row(engine)
    assert engine.dead_letters.add(ORDER, now=LATER) == "busy"
    assert (row(engine), engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)) == (before, [])


def test_there_is_one_pending_record_of_a_job(engine: Engine) -> None:
    dead_letter = dead(engine)
    assert engine.dead_letters.add(ORDER, now=LATER) == "pending"
    assert pending(engine) == dead_letter
    assert engine.dead_letters.add(NewDeadLetter("nowhere", "wrong"), now=LATER) == "missing"


def test_what_waits_for_it_is_cancelled_and_comes_back_with_it(engine: Engine) -> None:
    plant_chain(engine, "job", "kid")
    assert engine.dead_letters.add(ORDER, now=LATER) == "added"
    assert states(engine) == {"job": State.FAILED, "kid": State.CANCELLED}
    engine.dead_letters.requeue([RequeueRequest(pending(engine).id)], now=LATER)
    assert states(engine) == {"job": State.PENDING, "kid": State.WAITING}


def test_a_job_that_was_over_is_stored_anew_with_its_own_end(engine: Engine) -> None:
    bring(engine, State.CANCELLED)
    assert engine.dead_letters.add(ORDER, now=LATER) == "added"
    engine.queries.move(the("job"), Trigger.DELETE, 1, now=LATER)
    engine.dead_letters.requeue([RequeueRequest(pending(engine).id)], now=LATER)
    told = [
        (history_row.event, history_row.source, history_row.target)
        for history_row in engine.queries.details("job").history
    ]
    assert told[-2:] == [("cancel", told[-2][1], "cancelled"), ("revive", "cancelled", "pending")]
    assert row(engine).state not in FINAL


def test_a_record_that_was_added_makes_room_for_the_next(engine: Engine) -> None:
    bring(engine, State.PENDING)
    engine.dead_letters.add(ORDER, now=LATER)
    engine.dead_letters.requeue([RequeueRequest(pending(engine).id)], now=LATER)
    settle(engine, fail(claim_one(engine, now=LATER), at=LATER + 1), now=LATER + 1)
    assert pending(engine).requeues == 1
    engine.dead_letters.requeue([RequeueRequest(pending(engine).id)], now=LATER)
    settle(engine, succeed(claim_one(engine, now=LATER), at=LATER), now=LATER)
    assert row(engine).state is State.COMPLETED
