"""The same commits are told in the same order by every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from headrace.core.dead_letters.records import DeadLetterFilter, RequeueRequest
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import Trigger
from headrace.core.retention.staleness import StaleAction
from headrace.engines.protocol.engine import Engine
from headrace.runtime.event_log import last_cursor
from tests.conformance.dead_letters.builders import dead
from tests.conformance.events.reading import types_after
from tests.conformance.flows.dependency_builders import child, plant_chain, spawning, the
from tests.support.builders import (
    HOUR,
    NOW,
    claim,
    claim_one,
    fail,
    firing,
    new_job,
    numbered,
    release,
    retry,
    row,
    schedule,
    settle,
    snooze,
    succeed,
)

LATER = NOW + HOUR


class Commit(NamedTuple):
    """What is there before, one commit, and what it tells."""

    before: Callable[[Engine], object]
    act: Callable[[Engine], object]
    told: str


def _nothing(_: Engine) -> None: ...


def _settle_all_kinds(engine: Engine) -> None:
    one, two, three, four, five, six = sorted(claim(engine), key=lambda claimed: claimed.id)
    settle(engine, fail(one), retry(two, LATER), succeed(three), fail(four), release(five), snooze(six, LATER))


def _take_one_away(engine: Engine) -> None:
    engine.insert([new_job("late"), new_job("other")], now=NOW)
    claim(engine)
    engine.queries.move(the("late"), Trigger.CANCEL, 1, now=NOW)


def _settle_late(engine: Engine) -> None:
    first = row(engine, "other").version
    settle(engine, succeed(Lease("late", first)), fail(Lease("other", first)))


def _fail_a_parent(engine: Engine) -> None:
    settle(engine, fail(claim_one(engine)))


def _spawn(engine: Engine) -> None:
    claimed = claim_one(engine)
    settle(engine, spawning(claimed, [new_job("kid"), child("grandkid")], [Dependency("kid", "grandkid", "cancel")]))


def _lose(engine: Engine) -> None:
    engine.insert([new_job("again", max_attempts=3), new_job("last", max_attempts=1)], now=NOW)
    claim(engine)


def _dead_ones(engine: Engine) -> None:
    for job_id in ("there", "gone"):
        dead(engine, job_id)
    engine.queries.move(the("gone"), Trigger.DELETE, 1, now=NOW)


def _requeue(engine: Engine, most: int = 3) -> None:
    dead_letters = {
        dead_letter.job_id: dead_letter.id
        for dead_letter in engine.dead_letters.find(
            DeadLetterFilter(
                latest_of=(
                    "there",
                    "gone",
                )
            ),
            10,
        )
    }
    engine.dead_letters.requeue(
        [RequeueRequest(dead_letters[job_id], most=most) for job_id in ("there", "gone")], now=LATER
    )


def _dead_with_child(engine: Engine) -> None:
    plant_chain(engine, "job", "kid")
    settle(engine, fail(claim_one(engine)))


def _judge(engine: Engine) -> None:
    engine.staleness_store.mark_stale(
        [StaleAction(job_id, row(engine, job_id).version, "dead", "long", "aa") for job_id in ("a", "b")], now=LATER
    )


def _expiring(engine: Engine) -> None:
    plant_chain(engine, "job", "kid")
    engine.insert([new_job("short", expires_at=NOW + 1)], now=NOW)


COMMITS = {
    "insert": Commit(
        _nothing,
        lambda engine: engine.insert([new_job("a"), new_job("b", queue="mail"), new_job("c")], now=NOW),
        "job.enqueued job.enqueued job.enqueued",
    ),
    "settle": Commit(
        lambda engine: engine.insert(numbered(6), now=NOW),
        _settle_all_kinds,
        "job.attempt_failed job.failed job.attempt_failed job.retry_scheduled job.attempt_failed job.failed "
        "job.released job.scheduled dead.entered dead.entered",
    ),
    "settle late": Commit(_take_one_away, _settle_late, "job.attempt_failed job.failed dead.entered job.lease_lost"),
    "a parent fails": Commit(
        lambda engine: plant_chain(engine, "job", "kid", "grandkid"),
        _fail_a_parent,
        "job.attempt_failed job.failed dead.entered job.cancelled job.cancelled",
    ),
    "a parent succeeds": Commit(
        lambda engine: plant_chain(engine, "job", "kid"),
        lambda engine: settle(engine, succeed(claim_one(engine))),
        "job.dependencies_met",
    ),
    "a job spawns": Commit(
        lambda engine: engine.insert([new_job("job")], now=NOW), _spawn, "job.enqueued job.enqueued"
    ),
    "workers are lost": Commit(
        _lose, lambda engine: engine.reap(10, now=LATER), "job.stalled job.stalled job.failed dead.entered"
    ),
    "requeue": Commit(_dead_ones, _requeue, "dead.resolved dead.resolved job.enqueued job.enqueued"),
    "requeue too often": Commit(_dead_ones, lambda engine: _requeue(engine, most=0), "dead.resolved dead.resolved"),
    "retry by hand": Commit(
        _dead_with_child,
        lambda engine: engine.queries.move(the("job"), Trigger.REVIVE, 1, now=LATER),
        "dead.resolved job.enqueued job.enqueued",
    ),
    "cancel a parent": Commit(
        lambda engine: plant_chain(engine, "job", "kid"),
        lambda engine: engine.queries.move(the("job"), Trigger.CANCEL, 1, now=LATER),
        "job.cancelled job.cancelled",
    ),
    "delete a parent": Commit(
        lambda engine: plant_chain(engine, "job", "kid"),
        lambda engine: engine.queries.move(the("job"), Trigger.DELETE, 1, now=LATER),
        "job.removed job.cancelled",
    ),
    "cancel many": Commit(
        lambda engine: engine.insert(numbered(3), now=NOW),
        lambda engine: engine.queries.move(Filter(queue="default"), Trigger.CANCEL, 9, now=LATER),
        "job.cancelled job.cancelled job.cancelled",
    ),
    "stale": Commit(
        lambda engine: engine.insert([new_job("a"), new_job("b")], now=NOW),
        _judge,
        "job.stale job.failed job.stale job.failed dead.entered dead.entered",
    ),
    "fire": Commit(
        lambda engine: engine.schedule_store.put(schedule(), new=True),
        lambda engine: engine.schedule_store.fire([firing(schedule(), new_job("fired"))], now=NOW),
        "schedule.fired job.enqueued",
    ),
}


@pytest.mark.parametrize("name", COMMITS)
def test_a_commit_is_told_in_one_order_by_every_engine(engine: Engine, name: str) -> None:
    before, act, expected = COMMITS[name]
    before(engine)
    cursor = last_cursor(engine.events)
    act(engine)
    assert types_after(engine, cursor) == expected.split()
