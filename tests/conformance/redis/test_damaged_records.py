"""Records of Redis that no longer decode: each costs its own job, and nobody else's turn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.core.dead_letters.records import DeadLetterFilter, RequeueRequest
from headrace.core.health.findings import Finding
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.redis.engine import RedisEngine
from tests.conformance.redis.test_layout import Inside
from tests.support.builders import NOW, claim, fail, ids, log, new_job, row, schedule, settle, states, succeed, want
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("redis")
HOUR = 3_600_000


@pytest.fixture
def inside(store: StoreUnderTest) -> Inside:
    return Inside(store.address)


def spoil(inside: Any, kind: str, job_id: str, length: int) -> None:
    """Cut what is stored of a job."""
    number = inside.client.hget(inside.key("ids"), job_id)
    held = inside.client.hget(inside.key(kind), number)
    inside.client.hset(inside.key(kind), number, held[:length])


def length_of(engine: RedisEngine, inside: Any, kind: str) -> int:
    engine.insert([new_job("sample", queue="other", tags=("t",))], now=NOW)
    return len(inside.client.hget(inside.key(kind), inside.client.hget(inside.key("ids"), "sample")))


def test_a_record_that_is_cut_anywhere_fails_its_job_alone(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    lengths = range(length_of(engine, inside, "jobs"))
    names = [f"bad-{length}" for length in lengths]
    engine.insert([new_job(name, tags=("t",)) for name in [*names, "good"]], now=NOW)
    for name, length in zip(names, lengths, strict=True):
        spoil(inside, "jobs", name, length)
    assert set(names) <= set(states(engine)), "they are listed"
    claims = engine.exchange([], want(1000), now=NOW).claims
    assert {"good", "sample"} <= set(ids(claims))
    # Where only the end is missing, a claim looks as if its payload were damaged.
    settle(engine, *(fail(one, reason="corrupt_payload") for one in claims if one.id in names), now=NOW)
    assert {state for name, state in states(engine).items() if name in names} == {State.FAILED}
    dead_letters = engine.dead_letters.find(DeadLetterFilter(latest_of=tuple(names)), 100)
    assert {(dead_letter.job_id, dead_letter.reason) for dead_letter in dead_letters} == {
        (name, "corrupt_record") for name in names
    }
    assert engine.queries.count(Filter(states=(State.FAILED,))).jobs == len(names)
    assert sorted(engine.queries.move(Filter(ids=tuple(names)), Trigger.DELETE, 1000, now=NOW)) == sorted(names)
    assert _damage(engine) == []


def test_a_body_that_is_cut_anywhere_costs_no_other_claim(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    lengths = range(length_of(engine, inside, "payloads"))
    names = [f"bad-{length}" for length in lengths]
    engine.insert([new_job(name, tags=("t",)) for name in [*names, "good"]], now=NOW)
    for name, length in zip(names, lengths, strict=True):
        spoil(inside, "payloads", name, length)
    assert {job.id for job in engine.queries.find(Filter(), 1000).jobs} >= {*names, "good"}
    assert len(engine.queries.peek("default", 1000)) == len(names) + 1
    claims = engine.exchange([], want(1000), now=NOW).claims
    assert {job.id for job in claims} >= {*names, "good"}
    settle(engine, *(fail(one, reason="corrupt_payload") for one in claims if one.id in names), now=NOW)
    assert {
        dead_letter.job_id for dead_letter in engine.dead_letters.find(DeadLetterFilter(latest_of=tuple(names)), 100)
    } == set(names)
    assert len(engine.queries.move(Filter(ids=tuple(names)), Trigger.DELETE, 1000, now=NOW)) == len(names)


def test_a_job_whose_record_is_damaged_while_it_runs_fails_when_it_is_handed_in(
    redis_engine: RedisEngine, inside: Inside
) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    claims = claim(engine)
    spoil(inside, "jobs", "bad", 20)
    assert [outcome.id for outcome in settle(engine, *map(succeed, claims))] == ["bad"]
    assert (row(engine, "bad").reason, row(engine, "good").state) == ("corrupt_record", State.COMPLETED)


def test_one_that_runs_and_is_never_handed_in_fails_when_its_lease_is_over(
    redis_engine: RedisEngine, inside: Inside
) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    claim(engine)
    spoil(inside, "jobs", "bad", 60)
    assert [job.id for job in engine.reap(10, now=NOW + HOUR)] == ["good"]
    assert row(engine, "bad").reason == "corrupt_record"


def test_a_damaged_job_can_be_deleted_before_anybody_met_it(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    spoil(inside, "jobs", "bad", 3)
    assert row(engine, "bad").reason == "corrupt_record"
    assert engine.queries.move(Filter(ids=("bad",)), Trigger.DELETE, 10, now=NOW) == ["bad"]
    assert list(states(engine)) == ["good"]


def test_the_repair_fails_damaged_jobs(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("bad", state=State.SCHEDULED, run_at=NOW + HOUR), new_job("good")], now=NOW)
    spoil(inside, "jobs", "bad", 30)
    [finding] = _damage(engine)
    assert (finding.count, finding.repairable) == (1, True)
    assert engine.maintenance.repair(["damaged_records"], 100, NOW) == {"damaged_records": 1}
    assert _damage(engine) == []
    assert row(engine, "bad").state is State.FAILED


def _damage(engine: RedisEngine) -> list[Finding]:
    return [finding for finding in engine.maintenance.inspect(NOW) if finding.code == "damaged_records"]


def test_a_time_without_its_schedule_is_found_and_removed(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.schedule_store.put(schedule("tick", due_at=NOW + HOUR), new=True)
    inside.client.zadd(inside.key("schedules_due"), {"ghost": 1, "later ghost": NOW + 2 * HOUR})
    assert [(f.code, f.count, f.repairable) for f in engine.maintenance.inspect(NOW)] == [("orphan_times", 2, True)]
    assert engine.schedule_store.due(10, NOW).rows == []
    assert engine.schedule_store.due(0).next_at == NOW + HOUR, "one that was due is not looked at again"
    assert engine.maintenance.repair(["orphan_times"], 100, NOW) == {"orphan_times": 1}
    assert engine.maintenance.inspect(NOW) == []


def test_a_damaged_schedule_does_not_fire_and_keeps_no_other_from_it(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    for name in ("bad", "good"):
        engine.schedule_store.put(schedule(name), new=True)
    inside.client.hset(inside.key("schedules"), "bad", b"\x91\xa3bad")
    assert [found.id for found in engine.schedule_store.due(10, NOW).rows] == ["good"]
    assert [found.id for found in engine.schedule_store.get()] == ["bad", "good"]
    assert engine.schedule_store.delete("bad")


def test_damaged_entries_beside_a_job_are_told_as_far_as_they_go(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("job")], now=NOW)
    [held] = claim(engine)
    engine.exchange([], None, [log(held, "first"), log(held, "second")], now=NOW)
    settle(engine, fail(held))
    number = inside.client.hget(inside.key("ids"), "job").decode()
    for kind in ("history", "logs"):
        entry = inside.client.lindex(inside.key(f"{kind}:{number}"), 0)
        inside.client.lset(inside.key(f"{kind}:{number}"), 0, entry[: len(entry) // 2])
    assert [line.message for line in engine.queries.details("job").logs][-1] == "second"
    assert len(engine.queries.details("job").history) == 1
    [dead_letter_id] = inside.client.hkeys(inside.key("dead_letters"))
    packed = inside.client.hget(inside.key("dead_letters"), dead_letter_id)
    inside.client.hset(inside.key("dead_letters"), dead_letter_id, packed[: len(packed) // 2])
    [dead_letter] = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    assert (dead_letter.id, dead_letter.job_id, dead_letter.status) == (dead_letter_id.decode(), "job", "pending")
    assert engine.dead_letters.update([dead_letter.id], "manually_resolved") == [dead_letter.id]
    assert engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)[0].status == "manually_resolved"
    assert engine.dead_letters.delete(DeadLetterFilter(ids=(dead_letter.id,)), 10) == 1


def damage_dead_letter(engine: RedisEngine, inside: Inside) -> str:
    """Fail a job, and make nothing of its dead letter readable; its id."""
    engine.insert([new_job("job")], now=NOW)
    settle(engine, fail(claim(engine)[0]))
    [dead_letter_id] = inside.client.hkeys(inside.key("dead_letters"))
    inside.client.hset(inside.key("dead_letters"), dead_letter_id, b"\xff")
    return str(dead_letter_id.decode())


def test_a_damaged_dead_letter_is_not_requeued(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    dead_letter_id = damage_dead_letter(engine, inside)
    [done] = engine.dead_letters.requeue([RequeueRequest(dead_letter_id)], now=NOW)
    assert (done.result, states(engine)) == ("missing", {"job": State.FAILED})


def test_a_job_that_is_revived_resolves_its_damaged_dead_letter(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    damage_dead_letter(engine, inside)
    assert engine.queries.move(Filter(ids=("job",)), Trigger.REVIVE, 1, now=NOW) == ["job"]
    assert inside.client.zcard(inside.key("dead:pending")) == inside.client.hlen(inside.key("dead_pending")) == 0


def test_the_answer_of_a_claim_is_taken_apart_only_if_it_must_be(redis_engine: RedisEngine) -> None:
    engine = redis_engine
    engine.insert([new_job("job", payload=msgspec.json.encode("\xdc\0\x1e\xac").decode())], now=NOW)
    assert ids(claim(engine)) == ["job"]


def test_an_id_that_leads_to_another_job_leads_to_its_own_again(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("one"), new_job("other")], now=NOW)
    number = inside.client.hget(inside.key("ids"), "other")
    inside.client.hset(inside.key("ids"), "one", number)
    assert engine.maintenance.repair(["unindexed"], 100, NOW) == {"unindexed": 1}
    assert {job.id for job in engine.queries.get(["one", "other"])} == {"one", "other"}
    assert engine.queries.move(Filter(ids=("one",)), Trigger.DELETE, 10, now=NOW) == ["one"]
    assert list(states(engine)) == ["other"]
