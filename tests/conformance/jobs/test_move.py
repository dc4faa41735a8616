"""move: what an operator may do by hand, from which states, and that it is on record."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import TRANSITIONS, State, Trigger, sources
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    NOW,
    SECOND,
    bring,
    claim,
    claim_one,
    fail,
    ids,
    lease_of,
    log,
    new_job,
    retry,
    row,
    rows,
    settle,
    states,
    submit_and_claim,
    succeed,
    worker_row,
)
from tests.support.engines import StoreUnderTest

MOVES = (Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE)
LEGAL = [(event, state) for event in MOVES for state in State if state in sources(event)]
ILLEGAL = [(event, state) for event in MOVES for state in State if state not in sources(event)]


@pytest.mark.parametrize(("event", "state"), LEGAL)
def test_a_legal_move_is_made(engine: Engine, event: Trigger, state: State) -> None:
    bring(engine, state)
    before = row(engine)
    assert engine.queries.move(Filter(ids=("job",)), event, 10, now=NOW) == ["job"]
    if event is Trigger.DELETE:
        assert engine.queries.get(["job"]) == []
        return
    after = row(engine)
    assert after.state in TRANSITIONS[event].targets
    assert after.version == before.version + 1
    assert after.lease_until is None
    assert (after.finished_at is not None) == (event is Trigger.CANCEL)
    entry = engine.queries.history("job")[-1]
    assert (entry.event, entry.source, entry.target, entry.version) == (event, state, after.state, after.version)


@pytest.mark.parametrize(("event", "state"), ILLEGAL)
def test_an_illegal_move_changes_nothing(engine: Engine, event: Trigger, state: State) -> None:
    bring(engine, state)
    before, filed = row(engine), engine.queries.history("job")
    assert engine.queries.move(Filter(ids=("job",)), event, 10, by="ann", now=NOW) == []
    assert engine.queries.move(Filter(states=(state,)), event, 10, by="ann", now=NOW) == []
    assert (row(engine), engine.queries.history("job")) == (before, filed)


# -- which jobs


def test_a_move_by_filter_takes_every_job_that_matches_and_may_move(engine: Engine) -> None:
    for number, state in enumerate(State):
        bring(engine, state, f"a{number}", queue="a", priority=number)
        bring(engine, state, f"b{number}", queue="b", priority=number)
    before = rows(engine)
    moved = engine.queries.move(Filter(queue="a"), Trigger.CANCEL, 100, now=NOW)
    expected = [name for name, job in before.items() if job.queue == "a" and job.state in sources(Trigger.CANCEL)]
    assert sorted(moved) == sorted(expected)
    after = rows(engine)
    assert {name for name in after if after[name] != before[name]} == set(expected)


def test_the_states_of_the_filter_narrow_the_move(engine: Engine) -> None:
    bring(engine, State.SCHEDULED, "scheduled")
    bring(engine, State.PENDING, "pending")
    assert engine.queries.move(Filter(states=(State.SCHEDULED, State.FAILED)), Trigger.CANCEL, 9, now=NOW) == [
        "scheduled"
    ]
    assert row(engine, "pending").state is State.PENDING


def test_a_move_stops_at_its_limit_and_takes_the_oldest(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}", priority=number) for number in range(5)], now=NOW)
    for which in (EVERYTHING, Filter(queue="default"), Filter(queue="default", states=(State.PENDING,))):
        expected = [["j0", "j1"], ["j2", "j3"], ["j4"], []]
        assert [sorted(engine.queries.move(which, Trigger.CANCEL, 2, now=NOW)) for _ in range(4)] == expected
        engine.queries.move(EVERYTHING, Trigger.REVIVE, 9, now=NOW)


def test_a_move_of_jobs_that_do_not_exist_is_empty(engine: Engine) -> None:
    assert engine.queries.move(Filter(ids=("ghost",)), Trigger.CANCEL, 10, now=NOW) == []


def test_an_injected_filter_moves_nothing(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    evil = "x' OR 1=1 --"
    for which in (Filter(queue=evil), Filter(task=evil), Filter(tag=evil), Filter(text=evil), Filter(ids=(evil,))):
        assert engine.queries.move(which, Trigger.DELETE, 10, now=NOW) == []
    assert engine.queries.count(EVERYTHING) == 1


@pytest.mark.parametrize("event", [Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW])
def test_who_moved_a_job_is_on_record(engine: Engine, event: Trigger) -> None:
    bring(
        engine,
        State.RETRYING if event is Trigger.PROMOTE_NOW else State.FAILED if event is Trigger.REVIVE else State.PENDING,
    )
    engine.queries.move(EVERYTHING, event, 1, by="ann@example.org", now=NOW + SECOND)
    entry = engine.queries.history("job")[-1]
    assert "ann@example.org" in (entry.detail or "")
    assert entry.at == NOW + SECOND


# -- cancel


def test_a_cancel_of_a_running_job_fences_its_worker_out_at_once(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, by="ann", now=NOW + SECOND)
    stored = row(engine)
    assert (stored.state, stored.finished_at, stored.lease_until) == (State.CANCELLED, NOW + SECOND, None)
    assert "ann" in (stored.reason or "")
    assert settle(engine, succeed(claimed)) == [succeed(claimed)]
    assert engine.renew(worker_row(), [lease_of(claimed)], HOUR, now=NOW).lost == {lease_of(claimed)}
    assert row(engine) == stored


def test_a_cancelled_job_never_runs(engine: Engine) -> None:
    engine.insert([new_job("pending"), new_job("scheduled", run_at=LATER)], now=NOW)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 10, now=NOW)
    assert claim(engine, now=LATER + HOUR) == []
    assert engine.reap(10, now=LATER + HOUR) == []


# -- revive


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED, State.COMPLETED])
def test_a_revived_job_starts_from_the_beginning(engine: Engine, state: State) -> None:
    bring(engine, state, max_attempts=3)
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW + SECOND)
    revived = row(engine)
    assert (revived.state, revived.attempt, revived.crashes, revived.max_attempts) == (State.PENDING, 0, 0, 3)
    assert (revived.run_at, revived.rank) == (NOW + SECOND, NOW + SECOND)
    gone = ("started_at", "finished_at", "worker", "result", "result_checksum", "progress", "reason", "expires_at")
    assert [getattr(revived, name) for name in gone] == [None] * len(gone)
    assert claim_one(engine, now=NOW + SECOND).attempt == 1


def test_a_revival_keeps_the_errors_and_the_logs(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.exchange([retry(claimed, NOW, message="first")], None, [log(claimed, "hello")], now=NOW)
    settle(engine, fail(claim_one(engine)))
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    history = engine.queries.history("job")
    assert [entry.event for entry in history] == [Trigger.RETRY, Trigger.FAIL, Trigger.REVIVE]
    assert [entry.error_message for entry in history] == ["first", "no such thing", None]
    assert [line.message for line in engine.queries.logs("job")] == ["hello"]


def test_a_revived_job_that_had_expired_does_not_lapse_again(engine: Engine) -> None:
    engine.insert([new_job("job", expires_at=NOW + SECOND)], now=NOW)
    claim(engine, now=NOW + SECOND)
    assert row(engine).state is State.CANCELLED
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW + HOUR)
    assert ids(claim(engine, now=NOW + HOUR)) == ["job"]


def test_a_revival_resolves_the_dead_letter(store: StoreUnderTest) -> None:
    engine = store.open()
    bring(engine, State.FAILED)
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, by="ann", now=NOW)
    assert [dead_letter.status for dead_letter in store.dead_letters()] == ["requeued"]


def test_a_revival_fences_out_the_worker_of_the_life_before(engine: Engine) -> None:
    old = submit_and_claim(engine, worker="old")
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    new = claim_one(engine, worker="new")
    assert settle(engine, succeed(old)) == [succeed(old)]
    assert settle(engine, succeed(new)) == []


def test_a_revived_lifo_job_is_the_newest(engine: Engine) -> None:
    bring(engine, State.FAILED, lifo=True)
    engine.insert([new_job("later", lifo=True)], now=NOW)
    engine.queries.move(Filter(ids=("job",)), Trigger.REVIVE, 1, now=NOW + SECOND)
    assert ids(claim(engine, now=NOW + SECOND)) == ["job", "later"]


# -- promote now and delete


@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING])
def test_a_promoted_job_is_claimable_now(engine: Engine, state: State) -> None:
    bring(engine, state)
    attempt = row(engine).attempt
    engine.queries.move(EVERYTHING, Trigger.PROMOTE_NOW, 1, now=NOW + SECOND)
    promoted = row(engine)
    assert (promoted.run_at, promoted.rank, promoted.attempt) == (NOW + SECOND, NOW + SECOND, attempt)
    assert ids(claim(engine, now=NOW + SECOND)) == ["job"]


def test_a_deleted_job_leaves_nothing_of_its_own_behind(engine: Engine) -> None:
    claimed = submit_and_claim(engine, tags=("t",))
    engine.exchange([retry(claimed, LATER)], None, [log(claimed, "hello")], now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert (engine.queries.history("job"), engine.queries.logs("job")) == ([], [])
    assert engine.queries.count(Filter(tag="t")) == 0
    assert claim(engine, now=LATER + HOUR) == []


def test_a_deleted_id_may_be_used_again_and_inherits_nothing(engine: Engine) -> None:
    bring(engine, State.FAILED, tags=("old",))
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert engine.insert([new_job("job")], now=NOW) == [True]
    assert (row(engine).attempt, row(engine).tags, engine.queries.history("job")) == (0, None, [])
    assert engine.queries.count(Filter(tag="old")) == 0


def test_a_new_job_of_a_deleted_id_takes_over_its_open_dead_letter(store: StoreUnderTest) -> None:
    engine = store.open()
    bring(engine, State.FAILED)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    settle(engine, fail(submit_and_claim(engine), reason="again", at=NOW + SECOND))
    assert [(dead_letter.job_id, dead_letter.reason) for dead_letter in store.dead_letters()] == [("job", "again")]


def test_a_dead_letter_outlives_its_job(store: StoreUnderTest) -> None:
    engine = store.open()
    bring(engine, State.FAILED)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert states(engine) == {}
    assert [dead_letter.job_id for dead_letter in store.dead_letters()] == ["job"]
