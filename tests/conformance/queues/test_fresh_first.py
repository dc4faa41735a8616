"""Fresh jobs first: what was never tried, then what lost its worker, then what failed; in each by priority and age."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.jobs.records import Claim, Filter, JobRow, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    LEASE,
    NOW,
    SECOND,
    claim,
    new_job,
    release,
    retry,
    rows,
    settle,
    snooze,
    started,
    succeed,
    tenant,
)

# Every combination is tried on SQLite and Redis at once, on PostgreSQL with the slow tests.
pytestmark = pytest.mark.slow_on("postgres")

CLAIM = NOW + 100 * SECOND
at_any_room = pytest.mark.parametrize("room", [1, 3, 100])


def in_model_order(engine: Engine) -> list[str]:
    """The order that the rows tell: nothing of it is taken from the statements under test."""

    def place(job: JobRow) -> tuple[int, int, int, int]:
        was_tried = 0 if job.attempt == 0 else 1 if job.crashes else 2
        return was_tried, -job.priority, job.rank, job.seq

    pending = [job for job in rows(engine).values() if job.state is State.PENDING]
    return [job.id for job in sorted(pending, key=place)]


def all_started(engine: Engine, room: int, now: int = CLAIM, **more: Any) -> list[str]:
    order: list[str] = []
    while begun := started(engine, room, now=now, **more):
        order += begun
    return order


def three_classes(engine: Engine, **more: Any) -> None:
    """The tried ones are the most urgent by far, and those that failed more urgent than those that were lost."""
    jobs = [new_job("failed", priority=90, **more), new_job("lost", priority=50, **more)]
    engine.insert(jobs, now=NOW)
    failed, lost = claim(engine)
    assert (failed.id, lost.id) == ("failed", "lost")
    settle(engine, retry(failed, NOW + SECOND))
    assert len(engine.reap(10, now=NOW + LEASE + 1)) == 1
    engine.insert([new_job("fresh", priority=-9, **more), new_job("fresher", priority=-8, **more)], now=NOW)


IN_CLASSES = ["fresher", "fresh", "lost", "failed"]


@at_any_room
def test_a_queue_starts_its_classes_one_after_the_other(engine: Engine, room: int) -> None:
    three_classes(engine)
    engine.rule_store.set_rules("default", QueueRules(strategy="fresh_first"))
    assert all_started(engine, room) == IN_CLASSES


@at_any_room
def test_so_does_a_worker_that_prefers_it(engine: Engine, room: int) -> None:
    three_classes(engine)
    assert all_started(engine, room, strategy="fresh_first") == IN_CLASSES


@at_any_room
def test_so_does_a_task_among_its_own_jobs(engine: Engine, room: int) -> None:
    three_classes(engine, task="a")
    engine.rule_store.set_rules("a", TaskRules(strategy="fresh_first"))
    assert all_started(engine, room) == IN_CLASSES


def test_without_it_nobody_asks_what_was_tried(engine: Engine) -> None:
    three_classes(engine)
    assert all_started(engine, 2) == ["failed", "lost", "fresher", "fresh"]


def an_end(chance: random.Random, claimed: Claim, at: int) -> list[Outcome]:
    """One of the ways of an attempt to end; nothing if its worker is lost."""
    later = at + chance.randint(0, 88)
    ways = [[succeed(claimed)], [retry(claimed, later)], [snooze(claimed, later)], [release(claimed)], []]
    return chance.choice(ways)


@pytest.mark.slow_on("postgres")
@at_any_room
@pytest.mark.parametrize("seed", range(3))
def test_after_a_mixed_life_the_order_is_that_of_the_rows(engine: Engine, seed: int, room: int) -> None:
    chance, now = random.Random(seed), NOW
    for turn in range(8):
        jobs = [
            new_job(
                f"{turn}-{n:02}",
                priority=chance.randint(-3, 3),
                lifo=chance.random() < 0.3,
                run_at=now + chance.randint(0, 9),
                max_attempts=50,
                created_at=now,
            )
            for n in range(20)
        ]
        engine.insert(jobs, now=now)
        held = claim(engine, 15, now=now + 10)
        ends = [ended for job in held for ended in an_end(chance, job, now + 11)]
        assert settle(engine, *ends, now=now + 11) == []
        now += LEASE + 20
        engine.reap(100, now=now)
    claim(engine, 0, now=now)
    started(engine, 1, now=now, strategy="priority")  # what is due is pending from here on
    expected = in_model_order(engine)
    classes = {(job.attempt > 0) + (job.attempt > 0 and not job.crashes) for job in rows(engine).values()}
    assert classes == {0, 1, 2}
    assert all_started(engine, room, now=now, strategy="fresh_first") == expected


@at_any_room
def test_it_holds_among_jobs_that_wait_in_lanes(engine: Engine, room: int) -> None:
    """A fresh job of any lane comes before a tried one of any other."""
    engine.insert([tenant(f"old-{key}", key, priority=9) for key in "abc"], now=NOW)
    settle(engine, *(retry(claimed, NOW + SECOND) for claimed in claim(engine)))
    engine.insert([tenant(f"new-{key}", key) for key in "abcd"] + [new_job("free", priority=-1)], now=NOW)
    engine.rule_store.set_rules("default", QueueRules(strategy="fresh_first"))
    begun = all_started(engine, room)
    assert [name[:3] for name in begun] == ["new"] * 4 + ["fre"] + ["old"] * 3
    assert sorted(begun) == ["free", "new-a", "new-b", "new-c", "new-d", "old-a", "old-b", "old-c"]


@pytest.mark.parametrize(("tried", "first"), [(1999, "fresh"), (2000, "0000")])
def test_a_claim_looks_so_far_and_no_farther(engine: Engine, tried: int, first: str) -> None:
    """Behind too many that were tried, a fresh one waits until it comes into sight."""
    engine.insert([new_job(f"{n:04}") for n in range(tried)], now=NOW)
    settle(engine, *(retry(claimed, NOW) for claimed in claim(engine, 2000)))
    engine.insert([new_job("fresh", run_at=NOW + SECOND)], now=NOW + SECOND)
    assert started(engine, 1, now=CLAIM, strategy="fresh_first") == [first]


def test_a_job_given_back_with_its_attempt_is_as_fresh_as_before(engine: Engine) -> None:
    engine.insert([new_job("urgent", priority=5), new_job("other")], now=NOW)
    (urgent,) = claim(engine, 1)
    settle(engine, release(urgent))
    assert all_started(engine, 1, strategy="fresh_first") == ["urgent", "other"]


def test_other_rules_hold_as_well(engine: Engine) -> None:
    three_classes(engine)
    engine.rule_store.set_rules("default", QueueRules(strategy="fresh_first", concurrency=3))
    assert started(engine, 4, now=CLAIM) == IN_CLASSES[:3]
    assert started(engine, 4, now=CLAIM) == []


def test_a_job_that_an_operator_revives_is_fresh_again(engine: Engine) -> None:
    three_classes(engine)
    engine.queries.move(Filter(ids=("failed",)), Trigger.CANCEL, 1, now=CLAIM)
    engine.queries.move(Filter(ids=("failed",)), Trigger.REVIVE, 1, now=CLAIM)
    assert all_started(engine, 1, strategy="fresh_first") == ["failed", "fresher", "fresh", "lost"]
