"""Redis: what another client changes between the read and the write of a decision is decided about again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.core.dead_letters.records import DeadLetterFilter, NewDeadLetter, RequeueRequest, notes_of
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Filter, JobUpdate
from headrace.core.jobs.states import State, Trigger
from headrace.core.retention.staleness import StaleAction
from headrace.engines.redis import dead_letters
from headrace.engines.redis.decisions import apply
from headrace.engines.redis.engine import RedisEngine
from headrace.engines.redis.script_loader import Script
from headrace.engines.shared import liveness_file
from headrace.errors import EngineUnavailable
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    claim,
    claim_one,
    fail,
    lease_of,
    new_job,
    row,
    settle,
    submit_and_claim,
    succeed,
    worker_row,
)
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("redis")
Meanwhile = Callable[[Callable[[], object], int], None]


@pytest.fixture
def meanwhile(engine: RedisEngine, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Do something before each of the first writes of a decision."""
    run = engine.connections.run

    def before_writes(act: Callable[[], object], times: int) -> None:
        left = times

        def run_after(script: Script, *args: Any, **options: Any) -> Any:
            nonlocal left
            if script.name == "jobs/apply" and left > 0:
                left -= 1
                act()
            return run(script, *args, **options)

        monkeypatch.setattr(engine.connections, "run", run_after)

    monkeypatch.setattr(apply, "_PAUSE", 0)
    return before_writes


@pytest.fixture
def other(store: StoreUnderTest) -> RedisEngine:
    """Another client of the same store."""
    engine = store.open()
    assert isinstance(engine, RedisEngine)
    return engine


def events(engine: RedisEngine, job_id: str) -> list[str]:
    return [entry.event for entry in engine.queries.details(job_id).history]


def test_an_update_is_decided_again_after_another_one(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    engine.insert([new_job("a")], now=NOW)
    meanwhile(lambda: other.queries.update("a", JobUpdate(priority=7), now=NOW), 1)

    assert engine.queries.update("a", JobUpdate(run_at=NOW + 50), now=NOW)

    changed = row(engine, "a")
    assert (changed.priority, changed.run_at, changed.state, changed.version) == (7, NOW + 50, State.SCHEDULED, 3)
    assert events(engine, "a").count("update") == 2


def test_a_job_that_started_meanwhile_is_not_updated(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    engine.insert([new_job("a")], now=NOW)
    meanwhile(lambda: submit_and_claim(other, "b"), 1)

    assert not engine.queries.update("a", JobUpdate(priority=7), now=NOW)

    assert row(engine, "a").priority == 0


def test_a_job_that_was_settled_meanwhile_is_not_reaped(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    claimed = submit_and_claim(engine, "a")
    meanwhile(lambda: settle(other, succeed(claimed)), 1)

    assert engine.reap(10, now=NOW + LEASE + 1) == []

    assert row(engine, "a").state is State.COMPLETED
    assert "lease_expired" not in events(engine, "a")


def test_a_lease_that_was_renewed_meanwhile_is_not_reaped(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    claimed = submit_and_claim(engine, "a")
    meanwhile(lambda: other.renew(worker_row(), [lease_of(claimed)], LEASE, now=NOW + LEASE - 1), 1)

    assert engine.reap(10, now=NOW + LEASE + 1) == []

    assert row(engine, "a").state is State.RUNNING


def test_a_job_is_not_stale_at_another_version(engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    meanwhile(lambda: other.queries.update("a", JobUpdate(priority=7), now=NOW), 1)
    actions = [StaleAction(job_id, 1, "dead", "too old") for job_id in ("a", "b")]

    assert engine.staleness_store.mark_stale(actions, now=NOW) == [False, True]

    assert [row(engine, job_id).state for job_id in ("a", "b")] == [State.PENDING, State.FAILED]


def test_two_reviews_at_once_leave_one_entry(engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile) -> None:
    engine.insert([new_job("a")], now=NOW)
    review = [StaleAction("a", 1, "review", "too old")]
    meanwhile(lambda: other.staleness_store.mark_stale(review, now=NOW), 1)

    assert engine.staleness_store.mark_stale(review, now=NOW) == [False]

    assert events(engine, "a").count("review") == 1


def test_two_dead_letters_at_once_are_one(engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile) -> None:
    engine.insert([new_job("a")], now=NOW)
    request = NewDeadLetter("a", "poison")
    meanwhile(lambda: other.dead_letters.add(request, now=NOW), 1)

    assert engine.dead_letters.add(request, now=NOW) == "pending"

    assert engine.dead_letters.count(DeadLetterFilter()) == 1


def test_an_endless_conflict_is_an_error_and_changes_nothing(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    engine.insert([new_job("a")], now=NOW)
    meanwhile(lambda: other.queries.update("a", JobUpdate(priority=7), now=NOW), 1000)

    with pytest.raises(EngineUnavailable, match="were changed 30 times"):
        engine.queries.update("a", JobUpdate(run_at=NOW + 50), now=NOW)

    assert (row(engine, "a").version, row(engine, "a").run_at) == (31, NOW)


def test_a_cancellation_that_meets_a_start_cancels_the_run(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    meanwhile(lambda: claim_one(other), 1)

    assert engine.queries.move(EVERYTHING, Trigger.CANCEL, 10, now=NOW) == ["a", "b"]

    assert [row(engine, job_id).version for job_id in ("a", "b")] == [3, 2]


def test_a_cancellation_that_meets_many_starts_cancels_all(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    names = [f"j{number}" for number in range(9)]
    engine.insert([new_job(name) for name in names], now=NOW)
    meanwhile(lambda: claim(other, 1), 6)

    assert sorted(engine.queries.move(EVERYTHING, Trigger.CANCEL, 10, now=NOW)) == names

    assert {row(engine, name).state for name in names} == {State.CANCELLED}


def test_a_job_that_always_changes_holds_no_other_up_and_is_an_error(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    meanwhile(lambda: other.queries.update("a", JobUpdate(priority=7), now=NOW), 1000)

    with pytest.raises(EngineUnavailable, match="changed 30 times"):
        engine.queries.move(EVERYTHING, Trigger.CANCEL, 10, now=NOW)

    assert [row(engine, job_id).state for job_id in ("a", "b")] == [State.PENDING, State.CANCELLED]


def test_a_revival_resolves_a_dead_letter_that_was_added_meanwhile(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    settle(engine, replace(fail(submit_and_claim(engine, "a")), opens_dead_letter=False))
    meanwhile(lambda: other.dead_letters.add(NewDeadLetter("a", "by_hand"), now=NOW), 1)

    assert engine.queries.move(EVERYTHING, Trigger.REVIVE, 10, now=NOW) == ["a"]

    assert [letter.status for letter in engine.dead_letters.find(DeadLetterFilter(), 10)] == ["requeued"]


def test_two_that_notice_the_death_of_a_worker_report_it_once(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.renew(worker_row("w1"), [], 0, now=NOW)
    monkeypatch.setattr(liveness_file, "find_dead", lambda folder: {"w1": set()})
    meanwhile(lambda: other.reap(10, now=NOW), 1)

    assert engine.reap(10, now=NOW) == []

    groups = [group for _, page in engine.events.read(None, 100) for group in page]
    assert [group.type for group in groups].count("worker.lost") == 1


def test_dead_letters_are_deleted_by_more_ids_than_one_script_takes(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_SCAN_SIZE", 2)
    for number in range(5):
        settle(engine, fail(submit_and_claim(engine, f"j{number}")))
    found = engine.dead_letters.find(DeadLetterFilter(), 10)

    assert engine.dead_letters.delete(DeadLetterFilter(ids=tuple(letter.id for letter in found[1:])), 10) == 4

    assert engine.dead_letters.find(DeadLetterFilter(), 10) == found[:1]


def test_a_job_that_is_held_meanwhile_is_promoted(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    parent = submit_and_claim(engine, "parent")
    engine.insert([new_job("a", state=State.WAITING)], edges=[Dependency("parent", "a", "hold")], now=NOW)
    meanwhile(lambda: settle(other, fail(parent)), 1)

    assert engine.queries.move(Filter(ids=("a",)), Trigger.PROMOTE_NOW, 10, now=NOW) == ["a"]

    assert (row(engine, "a").state, row(engine, "a").reason) == (State.PENDING, None)


def test_a_requeue_that_meets_another_one_finds_it_resolved(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    settle(engine, fail(submit_and_claim(engine, "a")))
    (letter,) = engine.dead_letters.find(DeadLetterFilter(), 10)
    requests = [RequeueRequest(letter.id)]
    meanwhile(lambda: other.dead_letters.requeue(requests, now=NOW), 1)

    assert [done.result for done in engine.dead_letters.requeue(requests, now=NOW)] == ["resolved"]

    assert events(engine, "a").count("revive") == 1


def test_a_note_that_is_added_meanwhile_is_not_lost(
    engine: RedisEngine, other: RedisEngine, meanwhile: Meanwhile
) -> None:
    settle(engine, fail(submit_and_claim(engine, "a")))
    (letter,) = engine.dead_letters.find(DeadLetterFilter(), 10)
    meanwhile(lambda: other.dead_letters.update([letter.id], None, None, "first", now=NOW), 1)

    assert engine.dead_letters.update([letter.id], "manually_resolved", None, "second", now=NOW) == [letter.id]

    (resolved,) = engine.dead_letters.find(DeadLetterFilter(), 10)
    assert [note.text for note in notes_of(resolved.notes)] == ["first", "second"]
