"""A claim from a store with many queues, most of which have few jobs or none."""

from __future__ import annotations

from collections import Counter

from headrace.engines.protocol.engine import Engine
from tests.support.builders import NOW, claim, new_job, want

_QUEUES, _EACH = 60, 2


def test_a_claim_is_filled_from_as_many_queues_as_it_takes(engine: Engine) -> None:
    names = [f"queue-{number}" for number in range(_QUEUES)]
    engine.insert([new_job(f"{name}-{turn}", queue=name) for turn in range(_EACH) for name in names], now=NOW)
    rounds = [claim(engine, 100), claim(engine, 100), claim(engine, 100)]
    assert list(map(len, rounds)) == [100, 20, 0]
    assert Counter(job.queue for jobs in rounds for job in jobs) == dict.fromkeys(names, _EACH)


def test_queues_that_were_emptied_give_nothing_and_are_in_nobodys_way(engine: Engine) -> None:
    engine.insert([new_job(f"old-{number}", queue=f"queue-{number}") for number in range(_QUEUES)], now=NOW)
    assert len(claim(engine, 100)) == _QUEUES
    engine.insert([new_job("new", queue="queue-37"), new_job("newer", queue="queue-59")], now=NOW)
    assert [job.id for job in claim(engine, 100)] == ["new", "newer"]


def test_capacity_that_is_left_goes_to_the_queues_in_the_order_of_their_shares(engine: Engine) -> None:
    jobs = {"last": 10, "first": 3, "second": 3}
    engine.insert([new_job(f"{name}-{n}", queue=name) for name, count in jobs.items() for n in range(count)], now=NOW)
    request = want(10, shares=(("first", 10), ("second", 10), ("last", 10)))
    found = engine.exchange([], request, now=NOW).claims
    assert Counter(job.queue for job in found) == {"first": 3, "second": 3, "last": 4}
