"""aged: a walk that comes by every open job that may have stayed too long, and tells exactly since when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.core.dead_letters.records import DeadLetterFilter, snapshot_of
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import DeadLetterRow, JobUpdate
from headrace.core.jobs.states import OPEN, State, Trigger
from headrace.core.retention.policy_fields import OnStale
from headrace.core.retention.staleness import AgeQuery, JobAge, StaleAction, everything, job_age_of
from headrace.engines.protocol.engine import Engine
from tests.conformance.flows.dependency_builders import child, plant_chain, spawning, the
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    LEASE,
    NOTHING,
    NOW,
    SECOND,
    bring,
    claim,
    claim_one,
    fail,
    keyed,
    new_job,
    only,
    release,
    retry,
    row,
    settle,
    snooze,
    submit_and_claim,
    succeed,
)
from tests.support.waiting import PATIENCE

ALL = everything(NOW)


def walk(engine: Engine, watch: AgeQuery = ALL, looks: int = 1000) -> Iterator[JobAge]:
    cursor = None
    for _ in range(10_000):
        page = engine.staleness_store.by_age(watch, looks, cursor)
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return
    raise AssertionError("the walk has no end")


def age_of(engine: Engine, job_id: str = "job") -> JobAge:
    """What the walk tells of this job, which is what its row and history tell."""
    (found,) = [job for job in walk(engine) if job.id == job_id]
    assert found == job_age_of(row(engine, job_id), engine.queries.details(job_id).history)
    return found


# -- since when

SINCE = {
    State.PENDING: NOW,
    State.SCHEDULED: LATER,
    State.RETRYING: LATER,
    State.WAITING: NOW,
    State.RUNNING: NOW,
}


@pytest.mark.parametrize("state", sorted(OPEN))
def test_each_open_state_has_its_clock(engine: Engine, state: State) -> None:
    bring(engine, state)
    found = age_of(engine)
    assert (found.state, found.since, found.version) == (state, SINCE[state], row(engine).version)
    assert (found.task, found.queue, found.reviewed) == ("work", "default", False)


@pytest.mark.parametrize("state", sorted(set(State) - OPEN))
def test_what_is_finished_is_never_told(engine: Engine, state: State) -> None:
    bring(engine, state)
    assert list(walk(engine)) == []


def test_a_promoted_job_is_pending_since_it_was_due(engine: Engine) -> None:
    engine.insert([new_job(run_at=NOW + SECOND)], now=NOW)
    engine.exchange([], NOTHING, now=NOW + HOUR)
    assert (age_of(engine).state, age_of(engine).since) == (State.PENDING, NOW + SECOND)


def test_a_long_run_that_is_recovered_has_not_been_pending_long(engine: Engine) -> None:
    engine.insert([new_job()], now=NOW)
    claim_one(engine, lease=HOUR)
    engine.reap(10, now=NOW + 2 * HOUR)
    assert (age_of(engine).state, age_of(engine).since) == (State.PENDING, NOW + 2 * HOUR)


def test_a_job_whose_parents_took_their_time_is_pending_since_they_ended(engine: Engine) -> None:
    plant_chain(engine, "parent", "job")
    assert age_of(engine).since == NOW
    claimed = claim_one(engine, now=NOW + HOUR)
    engine.exchange([succeed(claimed, at=NOW + HOUR)], None, now=NOW + HOUR)
    assert (age_of(engine).state, age_of(engine).since) == (State.PENDING, NOW + HOUR)


def test_a_job_that_waits_for_what_it_spawned_does_so_since_its_run_was_over(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    outcome = spawning(claimed, [new_job("spawned")], [Dependency("spawned", "job")])
    engine.exchange([outcome], None, now=NOW + SECOND)
    assert age_of(engine).state is State.WAITING
    assert age_of(engine).since >= NOW


def test_an_operator_who_changes_a_priority_does_not_turn_the_clock_back(engine: Engine) -> None:
    bring(engine, State.PENDING)
    engine.queries.update("job", JobUpdate(priority=5), now=NOW + HOUR)
    assert age_of(engine).since == NOW


def test_a_revived_job_begins_anew_with_its_age_too(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine), NOW))
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=LATER)
    found = age_of(engine)
    assert (found.since, found.due) == (LATER, LATER)
    settle(engine, retry(claim_one(engine, now=LATER + SECOND), LATER + HOUR), now=LATER + SECOND)
    assert age_of(engine).due == LATER + SECOND, "when the first run of this life began"


def test_children_that_wait_again_do_so_since_then(engine: Engine) -> None:
    plant_chain(engine, "parent", "job")
    engine.queries.move(the("parent"), Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(the("parent"), Trigger.REVIVE, 1, now=LATER)
    found = age_of(engine)
    assert (found.state, found.since) == (State.WAITING, LATER)


@pytest.mark.parametrize("created_at", [NOW - HOUR, NOW])
def test_an_age_counts_from_when_a_job_was_first_due(engine: Engine, created_at: int) -> None:
    engine.insert([new_job(created_at=created_at, run_at=NOW)], now=created_at)
    assert age_of(engine).due == NOW
    claimed = claim_one(engine, now=NOW + SECOND)
    assert age_of(engine).due == NOW
    settle(engine, retry(claimed, LATER), now=NOW + SECOND)
    assert age_of(engine).due == NOW + SECOND, "the time it was first due is overwritten, that of its first run is not"


def test_a_snooze_and_a_release_leave_the_age(engine: Engine) -> None:
    settle(engine, snooze(submit_and_claim(engine), LATER))
    settle(engine, release(claim_one(engine, now=LATER), at=LATER), now=LATER)
    assert age_of(engine).due == NOW


def test_a_review_is_told_of_the_version_it_was_of(engine: Engine) -> None:
    bring(engine, State.PENDING)
    engine.staleness_store.mark_stale([StaleAction("job", row(engine).version, "review", "long")], now=LATER)
    found = age_of(engine)
    assert (found.reviewed, found.since) == (True, NOW)
    claim_one(engine, now=LATER)
    assert not age_of(engine).reviewed


# -- which, and all of them


def fill(engine: Engine, jobs: int) -> set[str]:
    """Jobs of every open state in several queues, lanes, priorities and orders; the ids."""
    news = []
    for number in range(jobs):
        state = (State.PENDING, State.SCHEDULED, State.WAITING)[number % 10 if number % 10 < 3 else 0]
        more: dict[str, Any] = {
            "queue": f"q{number % 3}",
            "priority": number % 5 - 2,
            "lifo": number % 2 == 0,
            "state": state,
        }
        more["run_at"] = LATER + number % 4 if state is State.SCHEDULED else NOW + number % 6
        name = f"j{number:04d}"
        news.append(keyed(name, f"k{number % 4}", **more) if number % 7 == 0 else new_job(name, **more))
    engine.insert(news, now=NOW)
    claims = engine.exchange([], only("q1", jobs // 6), now=NOW).claims
    settle(engine, *[retry(one, LATER) for one in claims[::2]])
    assert {row(engine, one.id).state for one in claims} == {State.RETRYING, State.RUNNING}
    return {job.id for job in news}


@pytest.mark.parametrize("looks", [1, 7, 50, 10_000])
def test_a_walk_of_any_pace_comes_by_every_open_job_once(engine: Engine, looks: int) -> None:
    ids = fill(engine, 150)
    found = [job.id for job in walk(engine, ALL, looks)]
    assert sorted(found) == sorted(ids)


def test_a_walk_comes_by_all_that_stay_while_others_come_and_go(engine: Engine) -> None:
    ids = fill(engine, 150)
    found, cursor, gone = set(), None, set()
    for turn in range(1000):
        page = engine.staleness_store.by_age(ALL, 10, cursor)
        found |= {job.id for job in page.jobs}
        cursor = page.cursor
        if cursor is None:
            break
        engine.insert([new_job(f"new{turn}", queue="q0", priority=9)], now=NOW)
        gone |= set(engine.queries.move(the(f"j{turn:04d}"), Trigger.CANCEL, 1, now=NOW))
    assert cursor is None
    assert ids - gone <= found


def test_only_what_may_be_too_old_is_told(engine: Engine) -> None:
    for number in range(3):
        moment = NOW + number * SECOND
        engine.insert([new_job(f"p{number}", run_at=moment, created_at=moment, priority=number)], now=moment)
        engine.insert([child(f"w{number}", created_at=moment, run_at=moment)], now=moment)
        engine.insert([new_job(f"s{number}", run_at=LATER + number * SECOND)], now=NOW)
    early = NOW + SECOND

    def found(watch: AgeQuery) -> list[str]:
        return sorted(job.id for job in walk(engine, watch))

    assert found(AgeQuery({})) == []
    assert found(AgeQuery({State.PENDING: early})) == ["p0", "p1"]
    assert found(AgeQuery({State.WAITING: NOW})) == ["w0"]
    assert found(AgeQuery({State.SCHEDULED: LATER + SECOND, State.RETRYING: LATER + HOUR})) == ["s0", "s1"]
    assert found(AgeQuery({State.RUNNING: NOW + HOUR})) == []
    assert found(AgeQuery({}, due=NOW)) == ["p0", "s0", "s1", "s2", "w0"], "by what is cheap to know: their creation"
    claim(engine, 1, now=LATER - 1)
    assert found(AgeQuery({State.RUNNING: LATER - 1})) == ["p2"]
    assert found(AgeQuery({State.RUNNING: LATER - 2})) == []


# -- what becomes of them


def mark_stale(
    engine: Engine, action: OnStale, job_id: str = "job", version: int | None = None, now: int = LATER
) -> bool:
    at = row(engine, job_id).version if version is None else version
    [done] = engine.staleness_store.mark_stale(
        [StaleAction(job_id, at, action, f"too long ({action})", "print")], now=now
    )
    return done


@pytest.mark.parametrize("state", sorted(OPEN))
@pytest.mark.parametrize("action", ["dead", "fail"])
def test_a_stale_job_fails_with_what_happened_in_its_history(engine: Engine, state: State, action: OnStale) -> None:
    bring(engine, state, payload='["x"]')
    before = row(engine)
    assert mark_stale(engine, action)
    stored = row(engine)
    assert (stored.state, stored.reason, stored.finished_at) == (State.FAILED, "staleness_timeout", LATER)
    assert (stored.version, stored.attempt, stored.lease_until) == (before.version + 1, before.attempt, None)
    entry = engine.queries.details("job").history[-1]
    assert (entry.event, entry.source, entry.target) == (Trigger.STALE, state, State.FAILED)
    assert (entry.at, entry.version, entry.detail) == (LATER, stored.version, f"too long ({action})")
    dead_letters = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert len(dead_letters) == (action == "dead")
    for dead_letter in dead_letters:
        assert (dead_letter.reason, dead_letter.status, dead_letter.fingerprint) == (
            "staleness_timeout",
            "pending",
            "print",
        )
        snapshot = snapshot_of(dead_letter)
        assert (snapshot.state, snapshot.payload) == (state, '["x"]')
        assert (snapshot.error_type, snapshot.error_message) == ("StaleJob", "too long (dead)")


@pytest.mark.parametrize("action", ["dead", "fail", "review"])
def test_a_job_that_moved_on_is_left_alone(engine: Engine, action: OnStale) -> None:
    bring(engine, State.PENDING)
    seen = row(engine).version
    claimed = claim_one(engine)
    assert not mark_stale(engine, action, version=seen)
    assert (row(engine).state, engine.queries.details("job").history) == (State.RUNNING, [])
    assert settle(engine, succeed(claimed)) == []
    assert not mark_stale(engine, action)
    assert not mark_stale(engine, action, "nowhere", 1)


def test_a_running_attempt_is_fenced_out_at_once(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    assert mark_stale(engine, "fail", now=NOW)
    assert [one.id for one in settle(engine, succeed(claimed))] == ["job"]
    assert row(engine).state is State.FAILED
    assert engine.reap(10, now=NOW + LEASE) == []


def test_a_review_changes_nothing_and_is_filed_once_for_a_version(engine: Engine) -> None:
    bring(engine, State.PENDING)
    before = row(engine)
    assert mark_stale(engine, "review")
    assert not mark_stale(engine, "review")
    assert row(engine) == before
    (entry,) = engine.queries.details("job").history
    assert (entry.event, entry.source, entry.target) == ("review", "pending", "pending")
    assert (entry.version, entry.at, entry.detail) == (before.version, LATER, "too long (review)")
    claimed = claim_one(engine, now=LATER)
    assert mark_stale(engine, "review"), "another version, another matter"
    assert settle(engine, succeed(claimed)) == []


def test_a_batch_is_one_commit_and_one_bad_apple_does_not_spoil_it(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(4)], now=NOW)
    fresh, stale = row(engine, "j0").version, "long"
    batch = [
        StaleAction("j0", fresh, "dead", stale, "a"),
        StaleAction("j1", fresh + 5, "dead", stale, "a"),
        StaleAction("nowhere", 1, "dead", stale, "a"),
        StaleAction("j2", fresh, "review", stale),
        StaleAction("j3", fresh, "fail", stale),
        StaleAction("j3", fresh, "dead", stale),
    ]
    assert engine.staleness_store.mark_stale(batch, now=LATER) == [True, False, False, True, True, False]
    assert [row(engine, f"j{number}").state for number in range(4)] == ["failed", "pending", "pending", "failed"]
    assert [
        dead_letter.job_id
        for dead_letter in engine.dead_letters.find(
            DeadLetterFilter(
                latest_of=(
                    "j0",
                    "j1",
                    "j2",
                    "j3",
                )
            ),
            10,
        )
    ] == ["j0"]
    assert engine.staleness_store.mark_stale([], now=LATER) == []


def test_a_dead_letter_that_is_pending_gives_way_to_the_new_one(engine: Engine) -> None:
    """Such as of a job that was revived from a store that knows no desk, or by hand at the same moment."""
    settle(engine, fail(submit_and_claim(engine)))
    (first,) = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    engine.dead_letters.update([first.id], "manually_resolved", now=NOW)
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    assert mark_stale(engine, "dead")
    engine.insert([new_job("other")], now=NOW)
    [second] = engine.dead_letters.find(DeadLetterFilter(statuses=("pending",)), 10)
    assert (second.job_id, second.reason) == ("job", "staleness_timeout")


def test_a_pending_letter_of_an_open_job_does_not_break_the_batch(engine: Engine) -> None:
    engine.insert([new_job("job"), new_job("other")], now=NOW)
    pending = DeadLetterRow(
        "0" * 32, "job", "work", "default", "old", NOW, "pending", None, None, "{}", notes='[{"at":1,"text":"kept"}]'
    )
    assert engine.transfer.import_records([pending]) == 1
    batch = [StaleAction(name, row(engine, name).version, "dead", "long", "print") for name in ("job", "other")]
    assert engine.staleness_store.mark_stale(batch, now=LATER) == [True, True]
    found = engine.dead_letters.find(DeadLetterFilter(statuses=("pending",)), 10)
    assert {(dead_letter.job_id, dead_letter.reason) for dead_letter in found} == {
        ("job", "staleness_timeout"),
        ("other", "staleness_timeout"),
    }
    assert [dead_letter.notes for dead_letter in found if dead_letter.job_id == "job"] == [pending.notes]


def test_children_are_decided_as_with_any_failure(engine: Engine) -> None:
    plant_chain(engine, "job", "child", "grandchild")
    engine.insert([child("hardy")], edges=[Dependency("job", "hardy", "run")], now=NOW)
    assert mark_stale(engine, "dead")
    assert row(engine, "child").state is State.CANCELLED
    assert row(engine, "grandchild").state is State.CANCELLED
    assert row(engine, "hardy").state is State.PENDING


def test_a_waiting_child_that_is_stale_ends_and_its_parent_goes_on(engine: Engine) -> None:
    plant_chain(engine, "parent", "job")
    assert mark_stale(engine, "fail")
    claimed = claim_one(engine)
    assert settle(engine, succeed(claimed)) == []
    assert row(engine).state is State.FAILED


def test_whoever_waits_and_whoever_runs_it_is_told(engine: Engine) -> None:
    submit_and_claim(engine)
    bells = {topic: engine.listen(topic) for topic in ("done", "commands")}
    try:
        assert mark_stale(engine, "fail")
        assert all(bell.wait(PATIENCE) for bell in bells.values())
    finally:
        for bell in bells.values():
            bell.close()
