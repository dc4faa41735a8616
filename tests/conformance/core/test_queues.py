"""queues and pause_queue: every queue is known, and a pause is kept."""

from __future__ import annotations

import pytest

from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import EVERYTHING, NOW, SECOND, claim, ids, new_job
from tests.support.engines import StoreUnderTest


def known(engine: Engine) -> dict[str, bool]:
    return {queue.name: queue.paused for queue in engine.queries.rules().queues}


def test_a_new_store_has_no_queues(engine: Engine) -> None:
    assert engine.queries.rules().queues == []


@pytest.mark.parametrize("size", [1, 2])
def test_a_queue_is_known_from_its_first_job_on(engine: Engine, size: int) -> None:
    engine.insert([new_job(f"j{number}", queue="mail") for number in range(size)], now=NOW)
    (queue,) = engine.queries.rules().queues
    assert (queue.name, queue.paused, queue.created_at) == ("mail", False, NOW)


def test_queues_are_listed_by_name(engine: Engine) -> None:
    for name in ("b", "a", "ü", "A", "c"):
        engine.insert([new_job(name, queue=name)], now=NOW)
    assert list(known(engine)) == ["A", "a", "b", "c", "ü"]


def test_a_later_job_does_not_make_the_queue_younger(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    engine.insert([new_job("b")], now=NOW + SECOND)
    assert engine.queries.rules().queues[0].created_at == NOW


def test_an_emptied_queue_is_still_known(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert known(engine) == {"default": False}


def test_a_pause_can_be_set_repeated_and_lifted(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    for paused in (True, True, False, False, True):
        engine.queries.pause_queue("default", paused)
        assert known(engine) == {"default": paused}


def test_a_queue_with_a_setting_and_no_job_is_known(engine: Engine) -> None:
    engine.queries.pause_queue("empty", True)
    assert known(engine) == {"empty": True}


def test_new_jobs_do_not_lift_a_pause(store: StoreUnderTest) -> None:
    engine, other = store.open(), store.open()
    engine.queries.pause_queue("default", True)
    engine.insert([new_job("a")], now=NOW)
    other.insert([new_job("b"), new_job("c")], now=NOW)
    assert known(engine) == {"default": True}


def test_a_pause_holds_one_queue_only(engine: Engine) -> None:
    engine.insert([new_job("a", queue="a"), new_job("b", queue="a'b"), new_job("c", queue="c")], now=NOW)
    engine.queries.pause_queue("a'b", True)
    assert ids(claim(engine)) == ["a", "c"]


def test_a_pause_survives_the_engine(store: StoreUnderTest) -> None:
    first = store.open()
    first.queries.pause_queue("default", True)
    first.close()
    assert known(store.open()) == {"default": True}
