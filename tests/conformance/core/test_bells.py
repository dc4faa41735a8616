"""listen and ring: whoever waits is woken, from any thread and any process, and no ring is lost."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    claim_one,
    new_job,
    release,
    settle,
    submit_and_claim,
    succeed,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

TOPICS = ("work", "done", "commands")


def heard_in_a_thread(bell: Bell) -> queue.Queue[bool]:
    heard: queue.Queue[bool] = queue.Queue()
    threading.Thread(target=lambda: heard.put(bell.wait(PATIENCE)), daemon=True).start()
    return heard


@pytest.mark.parametrize("topic", TOPICS)
def test_a_ring_before_the_wait_is_not_lost_and_counts_once(engine: Engine, topic: str) -> None:
    bell = engine.listen(topic)
    engine.ring(topic)
    engine.ring(topic)
    assert bell.wait(PATIENCE)
    assert not bell.wait(0)
    bell.close()


def test_a_listener_may_be_rung_from_within_its_own_process(engine: Engine) -> None:
    bell = engine.listen("work")
    bell.ring()
    assert bell.wait(PATIENCE)
    assert not bell.wait(0)
    bell.close()


def test_a_bell_nobody_rings_times_out(engine: Engine) -> None:
    bell = engine.listen("work")
    assert not bell.wait(0)
    assert not bell.wait(0.01)
    bell.close()


def test_a_ring_wakes_a_waiter_in_another_thread(engine: Engine) -> None:
    bell = engine.listen("work")
    heard = heard_in_a_thread(bell)
    engine.ring("work")
    assert heard.get(timeout=PATIENCE)
    bell.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_topics_are_apart(engine: Engine, topic: str) -> None:
    bells = {each: engine.listen(each) for each in TOPICS}
    engine.ring(topic)
    assert {each: bell.wait(0) for each, bell in bells.items()} == {each: each == topic for each in TOPICS}
    for bell in bells.values():
        bell.close()


def test_every_listener_of_a_topic_is_woken(store: StoreUnderTest) -> None:
    one, two = store.open(), store.open()
    bells = [one.listen("work"), one.listen("work"), two.listen("work")]
    two.ring("work")
    assert [bell.wait(PATIENCE) for bell in bells] == [True, True, True]
    for bell in bells:
        bell.close()


@pytest.mark.needs("processes")
def test_a_ring_wakes_a_waiter_in_another_process(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([], now=NOW)
    listener = store.send("listen", "done")
    assert listener.hear() == "ready"
    engine.ring("done")
    assert listener.hear() is True


@pytest.mark.needs("processes")
def test_a_ring_from_another_process_wakes_a_waiter_here(store: StoreUnderTest) -> None:
    engine = store.open()
    ringer = store.send("ring", "commands")
    assert ringer.hear() == "ready"
    bell = engine.listen("commands")
    heard = heard_in_a_thread(bell)
    ringer.go()
    assert heard.get(timeout=PATIENCE)
    bell.close()


@pytest.mark.needs("processes")
def test_a_dead_listener_does_not_keep_the_living_from_hearing(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([], now=NOW)
    listener = store.send("listen", "work")
    assert listener.hear() == "ready"
    listener.kill()
    bell = engine.listen("work")
    engine.ring("work")
    assert bell.wait(PATIENCE)
    engine.ring("work")
    assert bell.wait(PATIENCE)
    bell.close()


def test_a_closed_bell_is_not_missed(engine: Engine) -> None:
    closed, kept = engine.listen("work"), engine.listen("work")
    closed.close()
    engine.ring("work")
    assert kept.wait(PATIENCE)
    kept.close()


def test_a_closed_engine_rings_again_when_it_is_used(engine: Engine) -> None:
    bell = engine.listen("work")
    engine.close()
    engine.ring("work")
    assert bell.wait(PATIENCE)
    bell.close()


# -- what rings without being asked


def submit(engine: Engine) -> None:
    engine.insert([new_job("fresh")], now=NOW)


def settle_a_success(engine: Engine) -> None:
    settle(engine, succeed(submit_and_claim(engine)))


def give_a_job_back(engine: Engine) -> None:
    settle(engine, release(submit_and_claim(engine)))


def cancel(engine: Engine) -> None:
    submit(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)


def resume_a_queue(engine: Engine) -> None:
    engine.queries.pause_queue("default", False)


def command(engine: Engine) -> None:
    engine.renew(worker_row(), [], LEASE, now=NOW)
    engine.queries.command_worker("w1", "stop")


@pytest.mark.parametrize(
    ("topic", "act"),
    [
        ("work", submit),
        ("done", settle_a_success),
        ("work", give_a_job_back),
        ("done", cancel),
        ("commands", cancel),
        ("work", resume_a_queue),
        ("commands", command),
    ],
)
def test_what_concerns_a_waiter_wakes_it(store: StoreUnderTest, topic: str, act: Callable[[Engine], None]) -> None:
    listening, acting = store.open(), store.open()
    bell = listening.listen(topic)
    heard = heard_in_a_thread(bell)
    act(acting)
    assert heard.get(timeout=PATIENCE)
    bell.close()


def test_a_job_stored_between_a_look_and_the_wait_is_not_slept_over(store: StoreUnderTest) -> None:
    worker, client = store.open(), store.open()
    bell = worker.listen("work")
    assert worker.queries.count(EVERYTHING).jobs == 0
    client.insert([new_job("job")], now=NOW)
    assert bell.wait(PATIENCE)
    assert claim_one(worker).id == "job"
    bell.close()
