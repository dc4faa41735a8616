"""exchange, its settling half: an outcome is applied once, by who holds the version, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from headrace.core.jobs.records import Claim, JobRow, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    NOW,
    SECOND,
    claim,
    claim_one,
    fail,
    give_up,
    ids,
    new_job,
    park,
    release,
    retry,
    row,
    settle,
    snooze,
    states,
    submit_and_claim,
    succeed,
    want,
)
from tests.support.engines import StoreUnderTest

DONE_AT = NOW + SECOND
Make = Callable[[Claim], Outcome]
EVERY_OUTCOME: dict[str, Make] = {
    "succeed": lambda claimed: succeed(claimed, at=DONE_AT),
    "retry": lambda claimed: retry(claimed, LATER, at=DONE_AT),
    "snooze": lambda claimed: snooze(claimed, LATER, at=DONE_AT),
    "release": lambda claimed: release(claimed, at=DONE_AT),
    "park": lambda claimed: park(claimed, LATER, at=DONE_AT),
    "fail": lambda claimed: fail(claimed, at=DONE_AT),
    "give up": lambda claimed: give_up(claimed, at=DONE_AT),
}
every_outcome = pytest.mark.parametrize("make", EVERY_OUTCOME.values(), ids=EVERY_OUTCOME)


def values_of(stored: JobRow, *names: str) -> tuple[object, ...]:
    return tuple(getattr(stored, name) for name in names)


# -- each outcome


@every_outcome
def test_an_outcome_leads_to_its_state_and_ends_the_lease(engine: Engine, make: Make) -> None:
    claimed = submit_and_claim(engine)
    outcome = make(claimed)
    assert settle(engine, outcome) == []
    stored = row(engine)
    assert stored.state is outcome.state
    assert stored.version == claimed.version + 1
    assert stored.lease_until is None
    assert values_of(stored, "reason", "finished_at") == (outcome.reason, outcome.finished_at)


def test_success_stores_the_result_and_who_did_it(engine: Engine) -> None:
    claimed = submit_and_claim(engine, worker="w3")
    settle(engine, succeed(claimed, at=DONE_AT, result='{"a": "ü"}'))
    stored = row(engine)
    assert values_of(stored, "result", "result_checksum") == ('{"a": "ü"}', 9)
    assert values_of(stored, "attempt", "worker", "started_at", "finished_at") == (1, "w3", NOW, DONE_AT)
    assert engine.queries.history("job") == []  # the row itself tells all of it


def test_success_may_have_no_result(engine: Engine) -> None:
    settle(engine, succeed(submit_and_claim(engine), result=None))
    assert values_of(row(engine), "state", "result", "result_checksum") == (State.COMPLETED, None, None)


def test_success_after_a_failed_attempt_no_longer_gives_the_reason_of_the_failure(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine), NOW))
    settle(engine, succeed(claim_one(engine)))
    assert row(engine).reason is None


def test_a_retry_spends_the_attempt_and_keeps_the_error(engine: Engine) -> None:
    claimed = submit_and_claim(engine, worker="w3")
    settle(engine, retry(claimed, LATER, at=DONE_AT, message="nö"))
    stored = row(engine)
    assert values_of(stored, "attempt", "releases", "run_at", "rank", "worker") == (1, 0, LATER, LATER, None)
    (entry,) = engine.queries.history("job")
    assert (entry.event, entry.source, entry.target) == (Trigger.RETRY, State.RUNNING, State.RETRYING)
    assert (entry.at, entry.attempt, entry.version, entry.worker) == (DONE_AT, 1, claimed.version + 1, "w3")
    assert (entry.started_at, entry.detail) == (NOW, "error")
    assert (entry.error_type, entry.error_message, entry.error_traceback) == ("ValueError", "nö", "Traceback: nö")


def test_a_snooze_gives_the_attempt_back(engine: Engine) -> None:
    settle(engine, snooze(submit_and_claim(engine), LATER))
    assert values_of(row(engine), "attempt", "releases", "run_at", "rank") == (0, 1, LATER, LATER)


def test_a_release_gives_the_attempt_back_and_the_place_in_the_queue(engine: Engine) -> None:
    engine.insert([new_job("job", run_at=NOW - HOUR)], now=NOW)
    settle(engine, release(claim_one(engine)))
    assert values_of(row(engine), "attempt", "releases", "run_at", "rank") == (0, 1, NOW - HOUR, NOW - HOUR)
    assert [entry.event for entry in engine.queries.history("job")] == [Trigger.RELEASE]


def test_a_parked_job_comes_back_at_its_time(engine: Engine) -> None:
    settle(engine, park(submit_and_claim(engine), LATER))
    assert values_of(row(engine), "state", "attempt", "run_at") == (State.SCHEDULED, 0, LATER)
    assert claim(engine, now=LATER - 1) == []
    assert claim_one(engine, now=LATER).attempt == 1


def test_a_lifo_job_stays_lifo_when_it_is_retried(engine: Engine) -> None:
    claimed = submit_and_claim(engine, lifo=True)
    settle(engine, retry(claimed, LATER))
    assert values_of(row(engine), "run_at", "rank") == (LATER, -LATER)


def test_failure_leaves_an_entry_and_a_dead_letter(store: StoreUnderTest) -> None:
    engine = store.open()
    claimed = submit_and_claim(engine, payload='["p"]', queue="q", task="t", tags=("x",))
    settle(engine, fail(claimed, at=DONE_AT, reason="attempts used up"))
    assert values_of(row(engine), "state", "reason", "finished_at") == (State.FAILED, "attempts used up", DONE_AT)
    (entry,) = engine.queries.history("job")
    assert (entry.event, entry.target, entry.error_type) == (Trigger.FAIL, State.FAILED, "KeyError")
    (dead_letter,) = store.dead_letters()
    assert (dead_letter.job_id, dead_letter.reason, dead_letter.status) == ("job", "attempts used up", "pending")
    expected = {"payload": '["p"]', "attempt": 1, "error_type": "KeyError", "error_message": "no such thing"}
    assert {name: dead_letter.snapshot[name] for name in expected} == expected


@pytest.mark.parametrize("name", [name for name in EVERY_OUTCOME if name != "fail"])
def test_no_other_outcome_opens_a_dead_letter(store: StoreUnderTest, name: str) -> None:
    engine = store.open()
    settle(engine, EVERY_OUTCOME[name](submit_and_claim(engine)))
    assert store.dead_letters() == []


def test_a_job_that_fails_again_after_a_revival_has_one_pending_dead_letter(store: StoreUnderTest) -> None:
    engine = store.open()
    settle(engine, fail(submit_and_claim(engine), reason="first"))
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    settle(engine, fail(claim_one(engine), reason="second", at=DONE_AT))
    assert [(dead_letter.reason, dead_letter.status) for dead_letter in store.dead_letters()] == [
        ("first", "requeued"),
        ("second", "pending"),
    ]


def test_a_task_that_cancels_its_own_job(engine: Engine) -> None:
    settle(engine, give_up(submit_and_claim(engine), at=DONE_AT))
    assert values_of(row(engine), "state", "reason", "finished_at") == (
        State.CANCELLED,
        "cancelled by its task",
        DONE_AT,
    )
    assert [entry.event for entry in engine.queries.history("job")] == [Trigger.CANCEL]


def test_an_outcome_may_correct_the_number_of_attempts(engine: Engine) -> None:
    claimed = submit_and_claim(engine, max_attempts=3)
    settle(engine, msgspec.structs.replace(retry(claimed, LATER), max_attempts=10))
    assert row(engine).max_attempts == 10


def test_the_errors_of_all_attempts_are_kept_in_order(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    for turn in range(3):
        settle(engine, retry(claim_one(engine), NOW, message=f"error {turn}"))
    history = engine.queries.history("job")
    assert [entry.error_message for entry in history] == ["error 0", "error 1", "error 2"]
    assert [entry.attempt for entry in history] == [1, 2, 3]


@pytest.mark.parametrize(
    "text", ["", "'\"\\", "\x01\x1f\u2028", "日本語 🚰", "'; DROP TABLE headrace_jobs; --", "x" * 200_000]
)
def test_error_texts_and_results_are_stored_verbatim(engine: Engine, text: str) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    a, b = claim(engine)
    settle(engine, retry(a, LATER, message=text), succeed(b, result=text))
    assert engine.queries.history("a")[0].error_message == text
    assert row(engine, "b").result == text


# -- fencing


@every_outcome
@pytest.mark.parametrize("behind", [-1, 1])
def test_a_wrong_version_changes_nothing_but_leaves_a_trace(engine: Engine, make: Make, behind: int) -> None:
    claimed = submit_and_claim(engine)
    before = row(engine)
    late = msgspec.structs.replace(make(claimed), version=claimed.version + behind)
    assert settle(engine, late, now=NOW + 5) == [late]
    assert row(engine) == before
    (entry,) = engine.queries.history("job")
    assert (entry.event, entry.at, entry.version) == ("lease_lost", NOW + 5, late.version)
    assert (entry.source, entry.target) == (State.RUNNING, State.RUNNING)


@every_outcome
def test_a_second_settle_of_one_claim_is_refused(engine: Engine, make: Make) -> None:
    claimed = submit_and_claim(engine)
    assert settle(engine, make(claimed)) == []
    before = row(engine)
    assert settle(engine, make(claimed)) == [make(claimed)]
    assert row(engine) == before


def test_a_late_failure_keeps_its_error_in_the_trace(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    settle(engine, succeed(claimed))
    settle(engine, fail(claimed))
    (entry,) = engine.queries.history("job")
    assert (entry.event, entry.error_type, entry.error_message) == ("lease_lost", "KeyError", "no such thing")


def test_a_late_failure_opens_no_dead_letter(store: StoreUnderTest) -> None:
    engine = store.open()
    claimed = submit_and_claim(engine)
    settle(engine, succeed(claimed))
    settle(engine, fail(claimed))
    assert store.dead_letters() == []


def test_an_outcome_of_a_job_that_is_gone_is_refused(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert settle(engine, succeed(claimed)) == [succeed(claimed)]
    assert engine.queries.count(EVERYTHING) == 0


def test_stale_outcomes_do_not_hold_up_the_fresh_ones_beside_them(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(8)], now=NOW)
    claims = claim(engine)
    settle(engine, *(release(claimed) for claimed in claims[:4]))
    batch = [succeed(claims[0]), fail(claims[1]), succeed(claims[4]), fail(claims[5]), retry(claims[6], LATER)]
    refused = settle(engine, *batch)
    assert [outcome.id for outcome in refused] == ["j0", "j1"]
    found = states(engine)
    assert [found[f"j{number}"] for number in range(8)] == [
        State.PENDING,
        State.PENDING,
        State.PENDING,
        State.PENDING,
        State.COMPLETED,
        State.FAILED,
        State.RETRYING,
        State.RUNNING,
    ]
    assert [dead_letter.job_id for dead_letter in store.dead_letters()] == ["j5"]
    assert len(engine.queries.history("j5")) == 1  # filed once, though the batch was taken apart


FIRST_AND_SECOND = [(one, two) for one in EVERY_OUTCOME for two in ("succeed", "fail", "release")]


@pytest.mark.parametrize(("one", "two"), FIRST_AND_SECOND)
def test_of_two_outcomes_for_one_claim_in_one_batch_only_the_first_is_applied(
    store: StoreUnderTest, one: str, two: str
) -> None:
    engine = store.open()
    claimed = submit_and_claim(engine)
    first, second = EVERY_OUTCOME[one](claimed), EVERY_OUTCOME[two](claimed)
    assert settle(engine, first, second) == [second]
    stored = row(engine)
    assert (stored.state, stored.version) == (first.state, claimed.version + 1)
    assert len(store.dead_letters()) == (one == "fail")
    trace = engine.queries.history("job")[-1]
    assert (trace.event, trace.source) == ("lease_lost", first.state)
    assert str(stored.version) in (trace.detail or "")


def test_one_outcome_three_times_in_one_batch(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    outcome = succeed(claimed)
    assert settle(engine, outcome, outcome, outcome) == [outcome, outcome]
    assert row(engine).version == claimed.version + 1


def test_the_trace_of_a_late_settle_names_the_worker_that_was_late(engine: Engine) -> None:
    claimed = submit_and_claim(engine, worker="slow")
    settle(engine, release(claimed))
    claim_one(engine, worker="quick")
    engine.exchange([succeed(claimed)], want(1, worker="slow"), now=NOW)
    trace = engine.queries.history("job")[-1]
    assert (trace.event, trace.worker) == ("lease_lost", "slow")


# -- one commit


def test_an_exchange_settles_first_and_then_claims_with_what_that_set_free(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    answer = engine.exchange([release(claimed)], want(), now=NOW)
    assert (answer.refused, ids(answer.claims)) == ([], ["job"])
    assert answer.claims[0].version == claimed.version + 2
    assert answer.claims[0].attempt == 1


def test_an_exchange_answers_for_both_halves(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b"), new_job("c")], now=NOW)
    a = claim_one(engine)
    settle(engine, succeed(a))
    b = claim_one(engine)
    answer = engine.exchange([succeed(a), succeed(b)], want(), now=NOW)
    assert answer.refused == [succeed(a)]
    assert ids(answer.claims) == ["c"]
    assert states(engine) == {"a": State.COMPLETED, "b": State.COMPLETED, "c": State.RUNNING}


def test_an_exchange_with_nothing_to_do_does_nothing(engine: Engine) -> None:
    answer = engine.exchange([], None, now=NOW)
    assert (answer.refused, answer.claims, answer.next_at) == ([], [], None)


def test_an_exchange_that_raises_has_done_nothing_at_all(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    a, b = claim(engine)
    before = row(engine, "a"), row(engine, "b")
    unstorable = retry(b, LATER, message="\ud800")  # a lone surrogate is no text
    with pytest.raises(UnicodeEncodeError):
        settle(engine, succeed(a), unstorable)
    assert (row(engine, "a"), row(engine, "b")) == before
    assert settle(engine, succeed(a), succeed(b)) == []


def test_a_thousand_outcomes_of_every_kind_in_one_batch(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(1001)], now=NOW)
    makers = list(EVERY_OUTCOME.values())
    claims = claim(engine, 1001)
    outcomes = [makers[number % 7](claimed) for number, claimed in enumerate(claims)]
    assert settle(engine, *outcomes) == []
    assert states(engine) == {outcome.id: outcome.state for outcome in outcomes}
