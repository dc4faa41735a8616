"""remember, steps, signal, and outcomes that wait for an event: what a job knows in its next attempt."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.core.jobs.records import Claim, Filter, Lease, Outcome
from headrace.core.jobs.states import FINAL, NOT_STARTED, State, Trigger
from headrace.core.jobs.steps import Step, awaiting
from headrace.core.jobs.unique_rules import Act, InsertResult, UniqueCondition
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    LATER,
    LEASE,
    NOW,
    SECOND,
    bring,
    candidate,
    claim,
    claim_one,
    fail,
    ids,
    insert_unique,
    lease_of,
    release,
    retry,
    row,
    settle,
    snooze,
    submit_and_claim,
    succeed,
    together,
    want,
)
from tests.support.waiting import PATIENCE

CHARGE = Step("step", "charge", 1, NOW, '"paid"', 11)


def suspended(claimed: Claim, name: str = "go", number: int = 1, until: int = LATER) -> Outcome:
    """The attempt ends here, until the event comes or the time."""
    return replace(snooze(claimed, until), reason=awaiting(name), awaits=((name, number),))


def suspended_for_any(claimed: Claim, *events: tuple[str, int]) -> Outcome:
    """The attempt ends here, until the first of these events comes."""
    return replace(snooze(claimed, LATER), reason=awaiting(*(name for name, _ in events)), awaits=events)


def suspend(engine: Engine, name: str = "go") -> None:
    settle(engine, suspended(submit_and_claim(engine), name))


# -- remember


def test_what_is_remembered_is_there_in_every_later_attempt(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    steps = [CHARGE, Step("sleep", "", 1, NOW, "123"), Step("step", "a:b 1", 1, NOW, None), Step("sleep", "", 2, NOW)]
    assert engine.queries.details("job").steps == []
    assert [engine.save_step(lease_of(claimed), step, now=NOW) for step in steps] == [True] * 4
    assert engine.queries.details("job").steps == steps
    settle(engine, retry(claimed, NOW))
    assert engine.queries.details("job").steps == steps
    settle(engine, succeed(claim_one(engine)))
    assert engine.queries.details("job").steps == steps


def test_what_is_remembered_is_on_record_and_moves_nothing(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    before = row(engine)
    engine.save_step(lease_of(claimed), CHARGE, now=NOW)
    (entry,) = engine.queries.details("job").history
    assert (entry.at, entry.event, entry.source, entry.target) == (NOW, "step", "running", "running")
    assert (entry.version, entry.attempt, entry.worker, entry.detail) == (claimed.version, 1, "w1", "charge")
    assert entry.started_at == before.started_at == NOW
    assert row(engine) == before
    assert settle(engine, succeed(claimed)) == []


def test_what_is_remembered_already_stays_as_it_is(engine: Engine) -> None:
    lease = lease_of(submit_and_claim(engine))
    engine.save_step(lease, CHARGE, now=NOW)
    assert engine.save_step(lease, replace(CHARGE, value='"twice"', at=NOW + 1), now=NOW + 1)
    assert (engine.queries.details("job").steps, len(engine.queries.details("job").history)) == ([CHARGE], 1)


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_nobody_remembers_without_the_lease(engine: Engine, state: State) -> None:
    lease = bring(engine, state)
    filed = engine.queries.details("job").history
    for held in (lease, Lease("job", row(engine).version), Lease("job", lease.version + 1), Lease("ghost", 1)):
        assert not engine.save_step(held, CHARGE, now=NOW)
    assert (engine.queries.details("job").steps, engine.queries.details("job").history) == ([], filed)


def test_a_worker_that_lost_its_job_can_not_write_into_it(engine: Engine) -> None:
    lost = submit_and_claim(engine)
    engine.reap(10, now=NOW + LEASE + 1)
    claim_one(engine, now=NOW + LEASE + 1, worker="w2")
    assert not engine.save_step(lease_of(lost), CHARGE, now=NOW + LEASE + 1)
    assert engine.queries.details("job").steps == []


def test_steps_go_with_their_job(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.save_step(lease_of(claimed), CHARGE, now=NOW)
    settle(engine, succeed(claimed))
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert engine.queries.details("job").steps == []
    submit_and_claim(engine, version=NOW)
    assert engine.queries.details("job").steps == []


@pytest.mark.parametrize("end", [succeed, fail])
def test_a_revived_job_forgets_only_if_it_had_completed(engine: Engine, end: object) -> None:
    claimed = submit_and_claim(engine)
    engine.save_step(lease_of(claimed), CHARGE, now=NOW)
    settle(engine, succeed(claimed) if end is succeed else fail(claimed))
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    assert engine.queries.details("job").steps == ([] if end is succeed else [CHARGE])


@pytest.mark.needs("transfer")
def test_steps_are_carried_with_their_job(engine: Engine) -> None:
    lease = lease_of(submit_and_claim(engine))
    steps = [CHARGE, *(Step("sleep", "", number, NOW, str(number)) for number in range(1, 12))]
    for step in steps:
        engine.save_step(lease, step, now=NOW)
    engine.queries.signal("job", "go", "1", 5, now=NOW)
    (job_export,) = engine.transfer.export_jobs(0, 10)
    assert job_export.steps == [*steps, Step("event", "go", 1, NOW, "1", 5)]
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert engine.transfer.import_records([job_export]) == 1
    assert engine.queries.details("job").steps == job_export.steps
    assert engine.queries.signal("job", "go", "2", 6, now=NOW)
    assert engine.queries.details("job").steps[-1] == Step("event", "go", 2, NOW, "2", 6)


# -- signal


def test_every_event_of_a_name_gets_the_next_number(engine: Engine) -> None:
    bring(engine, State.PENDING)
    for name, value in (("go", "1"), ("stop", "2"), ("go", "3"), ("go:1", None)):
        assert engine.queries.signal("job", name, value, None, now=NOW)
    stored = [(step.kind, step.name, step.number, step.value) for step in engine.queries.details("job").steps]
    assert stored == [
        ("event", "go", 1, "1"),
        ("event", "stop", 1, "2"),
        ("event", "go", 2, "3"),
        ("event", "go:1", 1, None),
    ]
    entries = [
        (entry.event, entry.source, entry.target, entry.detail) for entry in engine.queries.details("job").history
    ]
    assert entries[0] == ("event", "pending", "pending", "go")
    assert row(engine).version == 1


def test_an_event_wakes_the_job_that_is_suspended_for_it(engine: Engine) -> None:
    suspend(engine)
    before = row(engine)
    assert (before.state, before.reason) == (State.SCHEDULED, awaiting("go"))
    assert engine.queries.signal("job", "stop", None, None, now=NOW + SECOND)
    assert row(engine) == before
    bell = engine.listen("work")
    assert engine.queries.signal("job", "go", '"now"', 3, now=NOW + SECOND)
    assert bell.wait(PATIENCE)
    bell.close()
    after, entry = row(engine), engine.queries.details("job").history[-1]
    assert (after.state, after.run_at, after.reason) == (State.PENDING, NOW + SECOND, None)
    assert after.version == before.version + 1
    assert (entry.event, entry.source, entry.target) == (Trigger.PROMOTE_NOW, "scheduled", "pending")
    assert entry.detail == "event 'go' came"
    assert ids(claim(engine, now=NOW + SECOND)) == ["job"]


def test_an_event_that_comes_first_is_found_by_the_job_that_suspends_for_it(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.signal("job", "go", "1", None, now=NOW)
    again = engine.exchange([suspended(claimed)], want(), now=NOW).claims
    assert ids(again) == ["job"]
    settle(engine, suspended(again[0], number=2))
    assert (row(engine).state, row(engine).run_at) == (State.SCHEDULED, LATER)
    engine.queries.signal("job", "go", "2", None, now=NOW)
    assert row(engine).state is State.PENDING


def test_an_event_is_awaited_by_its_own_name_alone(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.signal("job", "stop", "1", None, now=NOW)
    settle(engine, suspended(claimed))
    assert row(engine).state is State.SCHEDULED


def test_a_job_is_woken_by_the_first_event_to_come_of_several(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    settle(engine, suspended_for_any(claimed, ("paid", 1), ("it's off", 1), ('"x"', 1)))
    engine.queries.signal("job", "other", None, None, now=NOW)
    assert (row(engine).state, row(engine).reason) == (State.SCHEDULED, awaiting("paid", "it's off", '"x"'))
    for number, name in enumerate(("it's off", "paid", '"x"')):
        engine.queries.signal("job", name, None, None, now=NOW)
        assert (row(engine).state, row(engine).reason) == (State.PENDING, None)
        assert engine.queries.details("job").history[-1].detail == f"event {name!r} came"
        again = claim_one(engine)
        events = [("paid", 1 + (number > 0)), ("it's off", 2), ('"x"', 1 + (number > 1))]
        settle(engine, suspended_for_any(again, *events))
        assert row(engine).state is State.SCHEDULED, "those that came were received"


def test_a_job_that_suspends_for_several_events_finds_any_that_came_first(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.signal("job", "off", None, None, now=NOW)
    settle(engine, suspended_for_any(claimed, ("paid", 1), ("off", 1)))
    assert row(engine).state is State.PENDING
    settle(engine, suspended_for_any(claim_one(engine), ("paid", 1), ("off", 2)))
    assert row(engine).state is State.SCHEDULED


def test_a_job_that_is_put_off_for_another_reason_is_not_woken(engine: Engine) -> None:
    settle(engine, snooze(submit_and_claim(engine), LATER))
    before = row(engine)
    assert engine.queries.signal("job", "go", None, None, now=NOW)
    assert row(engine) == before


@pytest.mark.parametrize("state", State)
def test_an_event_is_left_for_a_job_that_is_open_and_for_no_other(engine: Engine, state: State) -> None:
    bring(engine, state)
    before = row(engine)
    assert engine.queries.signal("job", "go", None, None, now=NOW) is (state not in FINAL)
    assert len(engine.queries.details("job").steps) == (state not in FINAL)
    assert row(engine) == before


def test_a_job_that_is_nowhere_gets_no_event(engine: Engine) -> None:
    assert not engine.queries.signal("ghost", "go", None, None, now=NOW)
    assert engine.queries.details("ghost").steps == []


def test_no_event_is_lost_between_a_job_that_suspends_and_one_who_signals(engine: Engine) -> None:
    for number in range(20):
        name = f"j{number}"
        claimed = submit_and_claim(engine, name)

        def act(who: int, claimed: Claim = claimed) -> object:
            if who:
                return engine.queries.signal(claimed.id, "go", None, None, now=NOW)
            return settle(engine, suspended(claimed))

        together(2, act)
        assert engine.queries.find(Filter(ids=(name,)), 1).jobs[0].state is State.PENDING
        settle(engine, succeed(claim_one(engine)))


# -- jobs under a rule


def between_runs(engine: Engine, how: str) -> None:
    """A job that has begun, and does not run now."""
    claimed = submit_and_claim(engine, unique_key="key", payload='["old"]')
    if how != "waits":
        engine.save_step(lease_of(claimed), CHARGE, now=NOW)
    ends = {"waits": suspended(claimed), "sleeps": snooze(claimed, LATER), "retries": retry(claimed, LATER)}
    settle(engine, ends.get(how) or release(claimed))


begun = pytest.mark.parametrize("how", ["waits", "sleeps", "retries", "released"])


@pytest.mark.needs("unique")
@begun
@pytest.mark.parametrize("act", ["replace", "reschedule"])
def test_a_job_that_has_begun_is_neither_replaced_nor_rescheduled(engine: Engine, how: str, act: Act) -> None:
    """What it remembers is of its own arguments: another call's would be run with the results of these."""
    between_runs(engine, how)
    before = row(engine)
    assert insert_unique(engine, [candidate("new", act, payload='["new"]')], now=NOW) == [
        InsertResult("existing", "job")
    ]
    assert row(engine) == before


@pytest.mark.needs("unique")
@begun
def test_a_job_that_has_begun_is_not_counted_by_those_who_would_replace_one_that_has_not(
    engine: Engine, how: str
) -> None:
    waiting = (UniqueCondition(tuple(sorted(NOT_STARTED))),)
    between_runs(engine, how)
    assert insert_unique(engine, [candidate("same", where=waiting)], now=NOW) == [InsertResult("existing", "job")]
    assert insert_unique(engine, [candidate("refused", "refuse", where=waiting)], now=NOW) == [
        InsertResult("refused", "job")
    ]
    batch = [candidate(name, "replace", where=waiting, payload=f'["{name}"]') for name in ("new", "newer")]
    assert insert_unique(engine, batch, now=NOW) == [InsertResult("new", "new"), InsertResult("replaced", "new")]
    assert (row(engine, "job").payload, row(engine, "new").payload) == ('["old"]', '["newer"]')


@pytest.mark.needs("unique")
def test_a_job_that_was_put_off_and_remembers_nothing_is_replaced(engine: Engine) -> None:
    settle(engine, snooze(submit_and_claim(engine, unique_key="key"), LATER))
    assert insert_unique(engine, [candidate("new", "replace")], now=NOW) == [InsertResult("replaced", "job")]
