"""history: what happened to a job can be told afterwards, in order."""

from __future__ import annotations

from headrace.core.jobs.records import Filter, JobUpdate
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    SECOND,
    claim_one,
    fail,
    new_job,
    release,
    retry,
    row,
    settle,
    snooze,
    submit_and_claim,
    succeed,
)


def test_a_long_life_is_told_oldest_first_with_rising_versions(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=5)], now=NOW)
    engine.queries.update("job", JobUpdate(priority=1), now=NOW)
    settle(engine, release(claim_one(engine)))
    settle(engine, retry(claim_one(engine), NOW))
    settle(engine, snooze(claim_one(engine), NOW))
    claim_one(engine)
    engine.reap(1, now=NOW + LEASE)
    late = claim_one(engine, now=NOW + LEASE)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW + LEASE)
    settle(engine, succeed(late), now=NOW + LEASE)
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW + LEASE)
    settle(engine, fail(claim_one(engine, now=NOW + LEASE)))
    history = engine.queries.history("job")
    assert [entry.event for entry in history] == [
        Trigger.UPDATE,
        Trigger.RELEASE,
        Trigger.RETRY,
        Trigger.SNOOZE,
        Trigger.LEASE_EXPIRED,
        Trigger.CANCEL,
        "lease_lost",
        Trigger.REVIVE,
        Trigger.FAIL,
    ]
    moved = [entry.version for entry in history if entry.event != "lease_lost"]
    assert moved == sorted(set(moved))
    assert moved[-1] == row(engine).version


def test_what_the_row_loses_when_it_is_overwritten_was_filed(engine: Engine) -> None:
    settle(engine, succeed(submit_and_claim(engine, worker="w5"), at=NOW + SECOND))
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW + 2 * SECOND)
    (entry,) = engine.queries.history("job")
    assert (entry.event, entry.source, entry.target) == (Trigger.REVIVE, State.COMPLETED, State.PENDING)
    assert (entry.attempt, entry.worker, entry.started_at, entry.finished_at) == (1, "w5", NOW, NOW + SECOND)


def test_histories_of_different_jobs_do_not_mix(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine, "a"), NOW + SECOND))
    settle(engine, release(submit_and_claim(engine, "b")))
    assert [entry.event for entry in engine.queries.history("a")] == [Trigger.RETRY]
    assert [entry.event for entry in engine.queries.history("b")] == [Trigger.RELEASE]


def test_a_move_of_many_files_one_entry_for_each(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(20)], now=NOW)
    engine.queries.move(Filter(queue="default"), Trigger.CANCEL, 15, now=NOW)
    assert [len(engine.queries.history(f"j{number}")) for number in range(20)] == [1] * 15 + [0] * 5


def test_a_job_nobody_knows_has_no_history(engine: Engine) -> None:
    assert engine.queries.history("ghost") == []
