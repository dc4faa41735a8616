"""Whatever tells an event rings, for work or for the event itself: who follows events does not ask all the time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.events.log import EventGroup
from headrace.core.jobs.states import TRANSITIONS, State, Trigger
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.engine import Engine
from headrace.runtime.event_log import last_cursor
from tests.conformance.core.test_every_event import ACTS, EXPIRES, is_expected
from tests.support.builders import NOW, bring, fail, new_job, settle, submit_and_claim, succeed, worker_row
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE, eventually

TOLD_BY_THE_WORKER = {Trigger.CLAIM, Trigger.SUCCEED}  # as the news of a turn

MOVES = [
    pytest.param(event, way, state, id=f"{event}-{way}-{state}")
    for event, acts in ACTS.items()
    for way in range(len(acts))
    for state in State
    if event not in (*TOLD_BY_THE_WORKER, Trigger.SUBMIT)
    and state in TRANSITIONS[event].sources
    and is_expected(event, way, state)
]


def listening(actor: Engine, follower: Engine) -> Bell:
    """A bell that has heard nothing of what was before."""
    marker = follower.listen("orders")
    actor.ring("orders")
    assert marker.wait(PATIENCE)
    marker.close()
    return follower.listen("events")


def a_late_settle(engine: Engine) -> Callable[[], object]:
    claimed = submit_and_claim(engine)
    settle(engine, succeed(claimed))
    return lambda: settle(engine, succeed(claimed))


def a_resolved_letter(engine: Engine) -> Callable[[], object]:
    claimed = submit_and_claim(engine)
    settle(engine, fail(claimed))
    (letter,) = engine.dead_letters.find(DeadLetterFilter(latest_of=(claimed.id,)), 10)
    return lambda: engine.dead_letters.update([letter.id], "manually_resolved", now=NOW)


def news_of_a_turn(engine: Engine) -> Callable[[], object]:
    claimed = submit_and_claim(engine)
    started = EventGroup("job.started", NOW, "default", "task", "w1", [claimed.id])
    return lambda: engine.exchange([], None, now=NOW, groups=[started])


def a_success(engine: Engine) -> Callable[[], object]:
    claimed = submit_and_claim(engine)
    ended = EventGroup("job.completed", NOW, "default", "task", "w1", [claimed.id])
    return lambda: engine.exchange([succeed(claimed)], None, now=NOW, groups=[ended])


OTHERS: dict[str, Callable[[Engine], Callable[[], object]]] = {
    "an event by itself": lambda engine: lambda: engine.events.append([EventGroup("worker.started", NOW, worker="w1")]),
    "a new job": lambda engine: lambda: engine.insert([new_job()], now=NOW),
    "a success": a_success,
    "a queue that is paused": lambda engine: lambda: engine.queries.pause_queue("default", True),
    "a late settle": a_late_settle,
    "a resolved letter": a_resolved_letter,
    "the news of a turn": news_of_a_turn,
}


def heard(store: StoreUnderTest, prepare: Callable[[Engine], Callable[[], object]], *, own: bool = False) -> None:
    actor = store.open()
    follower = actor if own else store.open()
    do = prepare(actor)
    before, bell = last_cursor(actor.events), listening(actor, follower)
    assert not bell.wait(0)
    do()
    assert last_cursor(actor.events) != before, "an event was appended"
    eventually(lambda: bell.wait(0), "a ring")  # as handlers ask: SQLite's bell looks at the file when it is asked
    bell.close()


@pytest.mark.slow_on("postgres", "redis")
@pytest.mark.parametrize(("event", "way", "state"), MOVES)
def test_a_move_rings(store: StoreUnderTest, event: Trigger, way: int, state: State) -> None:
    def prepare(engine: Engine) -> Callable[[], object]:
        lease = bring(engine, state, expires_at=EXPIRES if event is Trigger.EXPIRE else None)
        return lambda: ACTS[event][way](engine, lease)

    heard(store, prepare)


@pytest.mark.slow_on("postgres", "redis")
@pytest.mark.parametrize("own", [False, True], ids=["elsewhere", "in its own process"])
@pytest.mark.parametrize("what", OTHERS)
def test_what_else_is_told_rings(store: StoreUnderTest, what: str, own: bool) -> None:
    heard(store, OTHERS[what], own=own)


def test_a_heartbeat_rings_for_nobody(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.renew(worker_row(), [], 1000, now=NOW)
    bells = [engine.listen("work"), listening(engine, engine)]
    engine.renew(worker_row(), [], 1000, now=NOW)
    assert [bell.wait(0.05) for bell in bells] == [False, False]
    for bell in bells:
        bell.close()
