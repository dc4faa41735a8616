"""peek: what an operator is shown as next is what is next."""

from __future__ import annotations

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import EVERYTHING, HOUR, NOW, SECOND, bring, claim, ids, new_job, only


def a_mixed_queue(engine: Engine) -> None:
    engine.insert(
        [
            new_job(
                f"j{number}",
                priority=(number * 7) % 5 - 2,
                run_at=NOW - (number * 13) % 11,
                lifo=number % 3 == 0,
            )
            for number in range(60)
        ],
        now=NOW,
    )
    engine.insert([new_job("elsewhere", queue="other", priority=100)], now=NOW)


def test_peek_shows_the_order_of_the_claims(engine: Engine) -> None:
    a_mixed_queue(engine)
    shown = [job.id for job in engine.queries.peek("default", 100)]
    assert len(shown) == 60
    claimed: list[str] = []
    while claims := engine.exchange([], only("default", 7), now=NOW).claims:
        claimed += ids(claims)
    assert claimed == shown


def test_peek_stops_at_its_limit_and_starts_at_the_front(engine: Engine) -> None:
    a_mixed_queue(engine)
    assert engine.queries.peek("default", 5) == engine.queries.peek("default", 100)[:5]


def test_peek_takes_nothing(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    before = engine.queries.find(EVERYTHING, 10)
    engine.queries.peek("default", 10)
    assert engine.queries.find(EVERYTHING, 10) == before


def test_peek_shows_only_pending_jobs(engine: Engine) -> None:
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number)
    assert [job.id for job in engine.queries.peek("default", 100)] == [State.PENDING.value]


def test_peek_shows_a_paused_queue_too(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    engine.queries.pause_queue("default", True)
    assert claim(engine) == []
    assert [job.id for job in engine.queries.peek("default", 10)] == ["job"]


def test_peek_follows_hand_made_changes(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b"), new_job("late", run_at=NOW + HOUR)], now=NOW)
    engine.queries.move(Filter(ids=("a",)), Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(Filter(ids=("a",)), Trigger.REVIVE, 1, now=NOW + SECOND)
    engine.queries.move(Filter(ids=("late",)), Trigger.PROMOTE_NOW, 1, now=NOW + 2 * SECOND)
    assert [job.id for job in engine.queries.peek("default", 10)] == ["b", "a", "late"]


def test_peek_into_a_queue_nobody_knows_is_empty(engine: Engine) -> None:
    assert engine.queries.peek("nowhere", 10) == []
