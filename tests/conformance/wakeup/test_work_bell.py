"""Whatever lets a job start, now or at a time, rings for work: an idle worker asks only now and then by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.jobs.records import Filter, JobUpdate, Lease
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    HOUR,
    LATER,
    LEASE,
    NOW,
    bring,
    claim_one,
    give_up,
    lease_of,
    new_job,
    release,
    retry,
    settle,
    snooze,
    submit_and_claim,
    succeed,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

Act = Callable[[], object]


def limited(engine: Engine) -> None:
    engine.queries.set_queue_rules("default", QueueRules(concurrency=1))


def settled(end: Callable[[Lease], object]) -> Callable[[Engine], Act]:
    def prepare(engine: Engine) -> Act:
        claimed = submit_and_claim(engine)
        return lambda: settle(engine, end(lease_of(claimed)))  # type: ignore[arg-type]

    return prepare


def moved(state: State, event: Trigger) -> Callable[[Engine], Act]:
    def prepare(engine: Engine) -> Act:
        bring(engine, state)
        return lambda: engine.queries.move(Filter(ids=("job",)), event, 10, now=NOW)

    return prepare


def after(first: Callable[[Engine], object], then: Callable[[Engine], object]) -> Callable[[Engine], Act]:
    def prepare(engine: Engine) -> Act:
        first(engine)
        return lambda: then(engine)

    return prepare


def stored(engine: Engine) -> None:
    engine.insert([new_job()], now=NOW)


def paused(engine: Engine) -> None:
    stored(engine)
    engine.queries.pause_queue("default", True)


def ended_under_a_limit(engine: Engine) -> Act:
    limited(engine)
    claimed = submit_and_claim(engine, "one")
    stored(engine)
    return lambda: settle(engine, give_up(claimed))


ACTS: dict[str, Callable[[Engine], Act]] = {
    "a job that is due now": after(lambda engine: None, stored),
    "a job that is due later": after(
        lambda engine: None, lambda engine: engine.insert([new_job(state=State.SCHEDULED, run_at=LATER)], now=NOW)
    ),
    "a retry at a time": settled(lambda lease: retry(lease, LATER)),
    "a snooze": settled(lambda lease: snooze(lease, LATER)),
    "a release": settled(release),
    "an end where a rule counts": ended_under_a_limit,
    "a retry by hand": moved(State.FAILED, Trigger.REVIVE),
    "a promotion by hand": moved(State.SCHEDULED, Trigger.PROMOTE_NOW),
    "another time": after(
        lambda engine: bring(engine, State.SCHEDULED),
        lambda engine: engine.queries.update("job", JobUpdate(run_at=NOW + 1), now=NOW),
    ),
    "another queue": after(
        paused,
        lambda engine: engine.queries.update("job", JobUpdate(queue="open"), now=NOW),
    ),
    "a queue that goes on": after(paused, lambda engine: engine.queries.pause_queue("default", False)),
    "a queue without its limit": after(limited, lambda engine: engine.queries.set_queue_rules("default", QueueRules())),
    "a task without its pause": after(
        lambda engine: engine.queries.set_task_rules("task", TaskRules(paused=True)),
        lambda engine: engine.queries.set_task_rules("task", TaskRules()),
    ),
    "a lease that ran out": after(submit_and_claim, lambda engine: engine.reap(10, now=NOW + LEASE + HOUR)),
}


@pytest.mark.parametrize("act", ACTS)
def test_it_rings(store: StoreUnderTest, act: str) -> None:
    actor, idle = store.open(), store.open()
    do = ACTS[act](actor)
    work, marker = idle.listen("work"), idle.listen("orders")
    actor.ring("orders")
    assert marker.wait(PATIENCE), "whatever rang before has been heard"
    while work.wait(0):
        pass
    do()
    assert work.wait(PATIENCE)
    work.close()
    marker.close()


def test_the_end_of_a_parent_rings_for_its_child(store: StoreUnderTest) -> None:
    from headrace.core.jobs.dependencies import Dependency

    actor, idle = store.open(), store.open()
    parent = submit_and_claim(actor, "parent")
    actor.insert_graph(
        [new_job("child", state=State.WAITING, has_dependencies=1)], [Dependency("parent", "child")], now=NOW
    )
    work, marker = idle.listen("work"), idle.listen("orders")
    actor.ring("orders")
    assert marker.wait(PATIENCE)
    while work.wait(0):
        pass
    settle(actor, succeed(parent))
    assert work.wait(PATIENCE)
    work.close()
    marker.close()
    assert claim_one(idle).id == "child"
