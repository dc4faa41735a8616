"""Rates with several windows, and windows that count units: a job starts when all have room, and takes from all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from headrace.core.jobs.outcomes import give_back
from headrace.core.jobs.queue_rules import KeyRules, QueueRules, Rate, TaskRules, queue_rules
from headrace.core.jobs.records import Claim, NewJob, Outcome
from headrace.core.queues.limits import Limit, lane_of
from headrace.core.queues.rates import as_rate, starts_left
from headrace.engines.protocol.engine import Engine
from headrace.engines.sql import rate_buckets
from tests.support.builders import (
    HOUR,
    NOW,
    fail,
    keyed,
    look,
    new_job,
    numbered,
    release,
    retry,
    settle,
    started,
    succeed,
)

MINUTE = 60_000
DAY = 24 * HOUR
BEGIN = NOW - NOW % HOUR  # of an hour of the clock
KEY = Limit("rate", "acme")


def ruled(engine: Engine, rate: str, burst: int | None = None, queue: str = "default") -> Rate:
    found = as_rate(rate, burst)
    engine.rule_store.set_rules(queue, QueueRules(rate=found))
    return found


def costing(job_id: str, cost: int, **more: Any) -> NewJob:
    return new_job(job_id, created_at=BEGIN, run_at=BEGIN, options=f'{{"cost":{cost}}}', **more)


# -- several windows


def test_a_job_starts_when_every_window_has_room(engine: Engine) -> None:
    engine.insert(numbered(100), now=NOW)
    ruled(engine, "10/s, 25/min, 30/h", burst=20)
    at = BEGIN + HOUR
    assert len(started(engine, now=at)) == 20, "the burst"
    assert len(started(engine, now=at + 1000)) == 5, "25 in this minute"
    assert len(started(engine, now=at + 30_000)) == 0
    assert len(started(engine, now=at + MINUTE)) == 5, "30 in this hour"
    assert len(started(engine, now=at + HOUR - 1)) == 0
    assert len(started(engine, now=at + HOUR)) == 20


def test_a_window_without_room_leaves_the_others_as_they_are(engine: Engine) -> None:
    rate = ruled(engine, "10/s, 12/h", burst=10)
    engine.insert(numbered(40), now=NOW)
    at = BEGIN + HOUR
    assert [len(started(engine, now=at)), len(started(engine, now=at + 1000))] == [10, 2]
    before = engine.rule_store.limit_state({("queue", "default"): rate}).full_at
    assert len(started(engine, now=at + 2000)) == 0
    after = engine.rule_store.limit_state({("queue", "default"): rate}).full_at
    assert after == before
    assert starts_left(rate, after["queue", "default"], 1000 * (at + 2000)) == 0


def test_the_answer_says_when_the_last_window_opens(engine: Engine) -> None:
    engine.insert(numbered(40), now=NOW)
    ruled(engine, "10/s, 12/h", burst=12)
    turn = look(engine, now=BEGIN + HOUR + 5)
    assert len(turn.claims) == 12
    assert turn.next_at == BEGIN + 2 * HOUR
    assert look(engine, now=BEGIN + 2 * HOUR - 1).next_at == BEGIN + 2 * HOUR
    assert len(started(engine, now=BEGIN + 2 * HOUR)) == 12


def test_tasks_and_keys_have_windows_of_their_own(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(key_rate=as_rate("10/s, 3/min")))
    engine.rule_store.set_rules("slow", TaskRules(rate=as_rate("10/s, 2/min")))
    engine.insert([new_job(f"a{n}", lane=lane_of([KEY])) for n in range(9)], now=NOW)
    engine.insert([new_job(f"b{n}", lane=lane_of([Limit("rate", "other")])) for n in range(9)], now=NOW)
    engine.insert([new_job(f"s{n}", task="slow") for n in range(9)], now=NOW)
    for minute in (1, 2):
        found = started(engine, now=BEGIN + HOUR + minute * MINUTE)
        assert sorted(name[0] for name in found) == list("aaabbbss")
        assert started(engine, now=BEGIN + HOUR + minute * MINUTE + 30_000) == []


# -- units


def test_a_job_takes_its_units_from_windows_that_count_them_and_one_from_the_others(engine: Engine) -> None:
    ruled(engine, "100/s, 5/min, 1000 units/min", burst=100)
    rate = as_rate("1000 units/min", 1000)
    engine.rule_store.set_rules("default", QueueRules(rate=as_rate("5/min", 5), key_rate=rate))
    engine.insert([costing(f"j{n}", 300, lane=lane_of([KEY])) for n in range(9)], now=BEGIN)
    assert started(engine, now=BEGIN) == ["j0", "j1", "j2"]
    full_at = engine.rule_store.limit_state({("key", "default", "acme"): rate}).full_at["key", "default", "acme"]
    assert full_at == [1000 * BEGIN + 900 * rate.every]
    assert started(engine, now=BEGIN + 12_000) == ["j3"], "200 more"


@pytest.mark.parametrize("has_lane", [False, True])
def test_the_next_job_waits_for_all_its_units_and_no_later_one_overtakes_it(engine: Engine, has_lane: bool) -> None:
    rate = ruled(engine, "60 units/min", burst=100)
    lanes = [lane_of([Limit("rate", name)]) for name in "ab"] if has_lane else ["", ""]
    engine.insert([costing("first", 90, lane=lanes[0])], now=BEGIN)
    assert started(engine, now=BEGIN) == ["first"]
    engine.insert([costing("large", 50, lane=lanes[0])], now=BEGIN)
    for number in range(5):
        engine.insert([costing(f"small{number}", 5, lane=lanes[1])], now=BEGIN)
    begun: list[str] = []
    moment = BEGIN
    while len(begun) < 6:
        turn = look(engine, 1, now=moment)
        begun += [claim.id for claim in turn.claims]
        assert turn.claims or turn.next_at is not None
        moment = turn.next_at if not turn.claims and turn.next_at else moment
        assert moment < BEGIN + 2 * MINUTE
    assert "large" in begun[:2], "a lane with small ones does not keep it from its turn"
    assert moment == BEGIN + (90 + 50 + 25 - 100) * rate.every // 1000


def test_a_job_with_more_units_than_the_window_starts_when_it_is_full_and_the_next_waits(engine: Engine) -> None:
    ruled(engine, "60 units/min", burst=10)
    engine.insert([costing("one", 1), costing("huge", 100), costing("next", 1)], now=BEGIN)
    assert started(engine, now=BEGIN) == ["one"]
    assert started(engine, now=BEGIN + 999) == []
    assert started(engine, now=BEGIN + 1000) == ["huge"]
    turn = look(engine, now=BEGIN + 1000)
    assert turn.claims == []
    assert turn.next_at == BEGIN + 1000 + 91_000
    assert started(engine, now=turn.next_at) == ["next"]


def test_a_window_of_units_by_the_clock_is_never_exceeded(engine: Engine) -> None:
    ruled(engine, "1000 units/s, 1000 units/min", burst=1000)
    engine.insert([costing(f"j{n}", 300) for n in range(9)], now=BEGIN)
    assert len(started(engine, now=BEGIN)) == 3
    assert len(started(engine, now=BEGIN + 30_000)) == 0
    turn = look(engine, now=BEGIN + 59_000)
    assert turn.next_at == BEGIN + MINUTE
    assert len(started(engine, now=BEGIN + MINUTE)) == 3


def test_a_task_whose_units_are_used_up_holds_no_other_task(engine: Engine) -> None:
    engine.rule_store.set_rules("model", TaskRules(rate=as_rate("60 units/min", 100)))
    engine.insert([costing(f"m{n}", 60, task="model") for n in range(3)], now=BEGIN)
    engine.insert([costing(f"w{n}", 60) for n in range(3)], now=BEGIN)
    assert sorted(started(engine, now=BEGIN)) == ["m0", "w0", "w1", "w2"]
    assert started(engine, now=BEGIN + 20_000) == ["m1"]


def test_units_under_rates_of_starts_count_for_nothing(engine: Engine) -> None:
    ruled(engine, "10/s", burst=10)
    engine.insert([costing(f"j{n}", 300) for n in range(20)], now=BEGIN)
    assert len(started(engine, now=BEGIN)) == 10


def test_what_was_used_counts_until_its_period_is_over(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_buckets, "_CLEANUP_PROBABILITY", 1.0)
    ruled(engine, "100/s, 10/day", burst=100)
    engine.rule_store.set_rules("other", QueueRules(rate=as_rate("1/s")))
    midnight = NOW - NOW % DAY + DAY
    engine.insert(numbered(4), now=NOW)
    assert len(started(engine, now=midnight, lease=3 * DAY)) == 4
    engine.insert([new_job("other", queue="other")], now=NOW)
    engine.reap(limit=10, now=midnight + 20 * HOUR)
    assert started(engine, now=midnight + 20 * HOUR, lease=3 * DAY) == ["other"], "and full buckets are deleted"
    engine.insert(numbered(30, "later"), now=NOW)
    assert len(started(engine, now=midnight + 23 * HOUR, lease=3 * DAY)) == 6
    assert len(started(engine, now=midnight + DAY, lease=3 * DAY)) == 10


def test_a_claim_of_before_the_end_of_a_period_leaves_the_count_of_the_next_one(engine: Engine) -> None:
    ruled(engine, "100/s, 10/day", burst=100)
    engine.insert(numbered(30), now=NOW)
    midnight = NOW - NOW % DAY + DAY
    assert len(started(engine, now=midnight + 1)) == 10
    assert started(engine, now=midnight - 1) == []
    assert started(engine, now=midnight + 2) == []


# -- units that were used


def using(outcome: Outcome, units: int) -> Outcome:
    return msgspec.structs.replace(outcome, units=units)


def bucket(engine: Engine, rate: Rate, *owner: str) -> list[int]:
    return engine.rule_store.limit_state({owner or ("queue", "default"): rate}).full_at[owner or ("queue", "default")]


HOWEVER = {
    "succeed": succeed,
    "fail": fail,
    "retry": lambda claimed: retry(claimed, BEGIN + HOUR),
    "release": release,
}


@pytest.mark.parametrize("used", [0, 100, 300, 900])
@pytest.mark.parametrize("end", HOWEVER.values(), ids=HOWEVER)
def test_however_a_run_ends_it_is_charged_what_it_has_used(engine: Engine, end: Any, used: int) -> None:
    rate = ruled(engine, "1000 units/min", burst=1000)
    engine.insert([costing("j", 300)], now=BEGIN)
    [claimed] = look(engine, now=BEGIN).claims
    assert bucket(engine, rate) == [1000 * BEGIN + 300 * rate.every]
    assert settle(engine, using(end(claimed), used), now=BEGIN + 10) == []
    assert bucket(engine, rate) == [1000 * BEGIN + used * rate.every]


def test_a_late_outcome_gives_nothing_back(engine: Engine) -> None:
    rate = ruled(engine, "1000 units/min", burst=1000)
    engine.insert([costing("j", 300)], now=BEGIN)
    [claimed] = look(engine, now=BEGIN).claims
    assert settle(engine, using(succeed(claimed), 100), now=BEGIN) == []
    once = bucket(engine, rate)
    assert len(settle(engine, using(succeed(claimed), 100), now=BEGIN)) == 1
    assert bucket(engine, rate) == once


def test_all_limits_of_a_job_are_corrected_in_the_settle_of_a_batch(engine: Engine) -> None:
    rate = as_rate("1000 units/min", 1000)
    of_task = as_rate("1000 units/s, 50/min, 5000 units/day", 50)
    engine.rule_store.set_rules("default", QueueRules(rate=rate, key_rate=rate))
    engine.rule_store.set_rules("work", TaskRules(rate=of_task))
    engine.insert([costing(f"j{n}", 100, lane=lane_of([KEY])) for n in range(4)], now=BEGIN)
    claims = look(engine, now=BEGIN).claims
    assert len(claims) == 4
    assert settle(engine, *(using(succeed(claimed), 10) for claimed in claims[:3]), succeed(claims[3]), now=BEGIN) == []
    full_at = [1000 * BEGIN + 130 * rate.every]
    assert bucket(engine, rate) == bucket(engine, rate, "key", "default", "acme") == full_at
    assert bucket(engine, of_task, "task", "work") == [
        1000 * BEGIN + 4 * of_task.every,
        1000 * BEGIN + 130 * of_task.more[0].every,
        1000 * (BEGIN - BEGIN % DAY + DAY) + 130 * of_task.more[1].every,
    ]


def test_units_used_beyond_the_charge_make_the_next_job_wait(engine: Engine) -> None:
    ruled(engine, "60 units/min", burst=100)
    engine.insert([costing("j", 10), costing("next", 10)], now=BEGIN)
    [claimed] = look(engine, 1, now=BEGIN).claims
    settle(engine, using(succeed(claimed), 250), now=BEGIN)
    turn = look(engine, now=BEGIN)
    assert turn.claims == []
    assert turn.next_at == BEGIN + 151_000, "when there is any room"
    turn = look(engine, now=turn.next_at)
    assert turn.claims == []
    assert turn.next_at == BEGIN + 160_000, "when there is enough"
    assert started(engine, now=turn.next_at) == ["next"]


def test_a_period_that_is_over_gives_nothing_to_the_next_one(engine: Engine) -> None:
    rate = ruled(engine, "1000 units/s, 100 units/min", burst=1000)
    engine.insert([costing("a", 90), costing("b", 90), costing("c", 20)], now=BEGIN)
    [first] = look(engine, now=BEGIN + 50_000, lease=HOUR).claims
    [second] = look(engine, now=BEGIN + MINUTE, lease=HOUR).claims
    settle(engine, using(succeed(first), 10), now=BEGIN + MINUTE)
    assert bucket(engine, rate)[1] == 1000 * (BEGIN + 2 * MINUTE) + 90 * rate.more[0].every
    assert started(engine, now=BEGIN + MINUTE) == []
    settle(engine, using(succeed(second), 80), now=BEGIN + MINUTE)
    assert started(engine, now=BEGIN + MINUTE + 1000) == ["c"]


def test_a_fetched_job_that_was_not_started_gives_its_units_back(engine: Engine) -> None:
    rate = ruled(engine, "1000 units/min", burst=1000)
    engine.insert([costing("j", 300), new_job("plain", created_at=BEGIN, run_at=BEGIN)], now=BEGIN)
    claims: list[Claim] = look(engine, now=BEGIN).claims
    settle(engine, *(give_back(claimed, BEGIN) for claimed in claims), now=BEGIN)
    assert bucket(engine, rate) == [1000 * BEGIN + rate.every], "one that costs nothing in particular keeps its one"


# -- rules of a single key


def test_a_key_with_rules_of_its_own_follows_them_and_the_others_those_of_the_queue(engine: Engine) -> None:
    own = {"acme": KeyRules(rate=as_rate("5/min", 5)), 'it"s': KeyRules(rate=as_rate("1/min, 20/h"))}
    engine.rule_store.set_rules("default", QueueRules(key_rate=as_rate("2/min", 2), keys=own))
    names = ("acme", 'it"s', "small")
    for name in names:
        lane = lane_of([Limit("rate", name)])
        engine.insert([new_job(f"{name[0]}{n}", lane=lane) for n in range(9)], now=NOW)
    assert Counter(name[0] for name in started(engine, now=BEGIN + HOUR)) == {"a": 5, "i": 1, "s": 2}
    engine.rule_store.set_rules("default", QueueRules(key_rate=as_rate("2/min", 2)))
    assert Counter(name[0] for name in started(engine, now=BEGIN + HOUR)) == {"a": 2, "i": 2}, "a rate begins anew"


def test_a_key_has_its_own_rate_where_the_queue_has_none(engine: Engine) -> None:
    engine.rule_store.set_rules("default", QueueRules(keys={"acme": KeyRules(rate=as_rate("10 units/min", 100))}))
    engine.insert([costing(f"a{n}", 60, lane=lane_of([KEY])) for n in range(3)], now=BEGIN)
    engine.insert([costing(f"b{n}", 60, lane=lane_of([Limit("rate", "other")])) for n in range(3)], now=BEGIN)
    turn = look(engine, now=BEGIN, lease=HOUR)
    assert sorted(claim.id for claim in turn.claims) == ["a0", "b0", "b1", "b2"]
    [claimed] = [claim for claim in turn.claims if claim.id == "a0"]
    settle(engine, using(succeed(claimed), 10), now=BEGIN)
    assert started(engine, now=BEGIN) == ["a1"]


def test_a_key_has_a_concurrency_of_its_own(engine: Engine) -> None:
    own = {"acme": KeyRules(concurrency=3)}
    engine.rule_store.set_rules("default", QueueRules(key_concurrency=2, keys=own))
    for name in ("acme", "other"):
        engine.insert([keyed(f"{name[0]}{n}", name) for n in range(9)], now=NOW)
    assert Counter(name[0] for name in started(engine)) == {"a": 3, "o": 2}
    engine.rule_store.set_rules("default", QueueRules(keys={"acme": KeyRules(concurrency=5)}))
    assert Counter(name[0] for name in started(engine)) == {"a": 2}


def test_rules_of_keys_survive_the_store(engine: Engine) -> None:
    rules = QueueRules(keys={"acme": KeyRules(rate=as_rate("60/min, 1000 units/h", 5), concurrency=3)})
    engine.rule_store.set_rules("default", rules)
    assert queue_rules(engine.queries.rules().queues[0].rules) == rules


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("ageing", [None, HOUR])
def test_a_key_with_a_weight_gets_as_many_starts_in_each_of_its_turns(
    engine: Engine, slots: int, ageing: int | None
) -> None:
    """However many jobs a worker takes at once, and also if one claim breaks off a turn."""
    engine.rule_store.set_rules("default", QueueRules(ageing=ageing, keys={"acme": KeyRules(weight=3)}))
    for name in ("zed", "acme", "bob"):
        lane = lane_of([Limit("rate", name)])
        engine.insert([new_job(f"{name[0]}{n:02}", lane=lane) for n in range(40)], now=NOW)
    begun: list[str] = []
    while len(begun) < 60:
        begun += started(engine, slots, now=NOW)
    counts = Counter(name[0] for name in begun[:60])
    assert counts["a"] == pytest.approx(36, abs=3)
    assert counts["b"] == pytest.approx(12, abs=2)
    assert counts["z"] == pytest.approx(12, abs=2)


def test_a_weight_does_not_let_a_key_start_more_than_its_rate(engine: Engine) -> None:
    own = {"acme": KeyRules(weight=5, rate=as_rate("2/min", 2))}
    engine.rule_store.set_rules("default", QueueRules(keys=own))
    for name in ("acme", "bob"):
        lane = lane_of([Limit("rate", name)])
        engine.insert([new_job(f"{name[0]}{n:02}", lane=lane) for n in range(9)], now=NOW)
    assert Counter(name[0] for name in started(engine, 8)) == {"a": 2, "b": 6}
