"""Records and entries of Redis that still decode, but tell something else: each costs its own job, and no other one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace.app.transfer.dependencies import flow_pages
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.dependencies import FlowRow
from headrace.core.jobs.known_tasks import KnownTasks
from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.records import Claim, ClaimRequest, Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.redis.engine import RedisEngine
from headrace.engines.redis.script_records import RECORDS, head
from tests.conformance.redis.test_layout import Inside
from tests.support.builders import (
    HOUR,
    LEASE,
    NOW,
    SECOND,
    claim,
    fail,
    ids,
    keyed,
    lease_of,
    new_job,
    row,
    settle,
    states,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("redis")
_FIELDS = RECORDS["Record"].__struct_fields__


@pytest.fixture
def inside(store: StoreUnderTest) -> Inside:
    return Inside(store.address)


def number_of(inside: Inside, job_id: str) -> bytes:
    number: bytes = inside.client.hget(inside.key("ids"), job_id)
    return number


def change(inside: Inside, job_id: str, **fields: Any) -> None:
    """Give the record of a job other values; bytes are a text that need not be UTF-8."""
    number = number_of(inside, job_id)
    values = _values(head(len(_FIELDS)) + inside.client.hget(inside.key("jobs"), number))
    for name, value in fields.items():
        values[_FIELDS.index(name)] = _packed(value)
    inside.client.hset(inside.key("jobs"), number, b"".join(values))


def _values(array: bytes) -> list[bytes]:
    return [bytes(value) for value in msgspec.msgpack.decode(array, type=list[msgspec.Raw])]


def _packed(value: Any) -> bytes:
    return bytes([0xD9, len(value)]) + value if isinstance(value, bytes) else msgspec.msgpack.encode(value)


def lead_to(inside: Inside, entries: str, job_id: str, score: int) -> None:
    """Have an entry of one of the sets lead to this job."""
    inside.client.zadd(inside.key(entries), {number_of(inside, job_id): score})


def repair(engine: RedisEngine) -> None:
    engine.maintenance.repair(["unindexed", "damaged_records"], 100, NOW)


def codes(engine: RedisEngine) -> set[str]:
    return {finding.code for finding in engine.maintenance.inspect(NOW)} & {"unindexed", "damaged_records"}


def knowing(engine: RedisEngine, *names: str) -> list[Claim]:
    """What a worker is handed that knows these tasks alone, in as many turns as it is told to come back for."""
    claims: list[Claim] = []
    for _ in range(5):
        known = KnownTasks(lambda task: task in names, names)
        answer = engine.exchange([], ClaimRequest("w1", 100, LEASE, known=known), now=NOW)
        claims += answer.claims
        if answer.next_at != NOW:
            break
    return claims


# -- flows


@pytest.mark.parametrize("record", [b"", b"\xc0", b"]", b"\x90", b"\xa4lost"])
def test_a_flow_is_told_whatever_state_a_job_of_it_has(
    redis_engine: RedisEngine, inside: Inside, record: bytes
) -> None:
    engine = redis_engine
    flow = FlowRow("flow", "name", NOW)
    engine.insert([new_job("bad", flow="flow"), new_job("good", flow="flow")], edges=[], flow=flow, now=NOW)
    inside.client.hset(inside.key("jobs"), number_of(inside, "bad"), record)
    [tally] = engine.flow_store.flows(10)
    assert (tally.flow, tally.jobs) == (flow, {"pending": 1})


# -- names that are no text


@pytest.mark.parametrize("name", ["queue", "lane", "id", "task", "worker"])
@pytest.mark.parametrize(
    "held", [b"\xe1dd", b"a\xba", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80"]
)
def test_a_job_with_a_name_that_is_no_text_is_damaged(
    redis_engine: RedisEngine, inside: Inside, name: str, held: bytes
) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    change(inside, "bad", **{name: held})
    assert row(engine, "bad").reason == "corrupt_record"
    assert codes(engine) == {"damaged_records"}
    repair(engine)
    assert codes(engine) == set()
    assert (row(engine, "bad").state, row(engine, "bad").queue) == (State.FAILED, "default")
    assert engine.queries.move(Filter(ids=("bad",)), Trigger.DELETE, 10, now=NOW) == ["bad"]
    assert list(states(engine)) == ["good"]


def test_names_of_any_letters_are_whole(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    name = "ä߿ࠀ퟿\ue000\uffff\U00010000\U0010ffff"
    engine.insert([new_job("job", queue=name, task=name)], now=NOW)
    assert codes(engine) == set()
    assert settle(engine, succeed(*claim(engine))) == []
    assert (row(engine, "job").queue, row(engine, "job").state) == (name, State.COMPLETED)


@pytest.mark.parametrize("held", [b"b\xad", b'b"d', b"b\\d"])
def test_a_finished_job_whose_id_is_none_can_be_deleted(redis_engine: RedisEngine, inside: Inside, held: bytes) -> None:
    engine = redis_engine
    engine.insert([new_job("bad")], now=NOW)
    settle(engine, fail(*claim(engine)))
    change(inside, "bad", id=held)
    repair(engine)
    assert engine.queries.move(Filter(ids=tuple(states(engine))), Trigger.DELETE, 10, now=NOW) == ["bad"]
    assert states(engine) == {}


def test_a_claimed_job_whose_id_is_no_text_fails_at_once(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    change(inside, "bad", id=b"b\xad")
    assert ids(claim(engine)) == ["good"]
    assert (row(engine, "bad").state, row(engine, "bad").reason) == (State.FAILED, "corrupt_record")


def test_a_task_that_is_no_text_keeps_no_worker_from_the_others(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    change(inside, "bad", task=b"\xe1dd")
    assert ids(knowing(engine, "work")) == ["good"]
    assert row(engine, "bad").reason == "corrupt_record"


# -- jobs that wait elsewhere than they say


def test_a_job_with_another_queue_and_an_unknown_task_keeps_no_worker_from_the_others(
    redis_engine: RedisEngine, inside: Inside
) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    change(inside, "bad", queue="defauht", task="wosk")
    assert ids(knowing(engine, "work")) == ["good"]
    assert (row(engine, "bad").reason, row(engine, "bad").queue) == ("corrupt_record", "default")


def test_a_job_with_another_lane_keeps_no_worker_from_the_others(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([keyed("bad", "ann", task="other"), keyed("next", "ann"), new_job("good")], now=NOW)
    change(inside, "bad", lane='["c:anm"]')
    assert sorted(ids(knowing(engine, "work"))) == ["good", "next"]
    assert row(engine, "bad").reason == "corrupt_record"


def test_a_pending_job_that_names_another_queue_is_repaired(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("bad"), keyed("laned", "ann"), new_job("good")], now=NOW)
    for job_id in ("bad", "laned"):
        change(inside, job_id, queue="defauht")
    assert codes(engine) == {"damaged_records"}
    repair(engine)
    assert codes(engine) == set()
    assert states(engine) == {"bad": State.FAILED, "laned": State.FAILED, "good": State.PENDING}
    assert ids(claim(engine)) == ["good"]


def test_a_job_that_is_only_missing_from_its_queue_goes_back(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("lost"), new_job("good")], now=NOW)
    for entries in ("queue:default", "in:pending:default"):
        inside.client.zrem(inside.key(entries), number_of(inside, "lost"))
    repair(engine)
    assert ids(claim(engine)) == ["lost", "good"]


def test_a_lane_whose_turn_is_damaged_has_one_again_with_its_next_job(
    redis_engine: RedisEngine, inside: Inside
) -> None:
    engine, turns = redis_engine, inside.key("turns:default")
    engine.insert([keyed("first", "ann")], now=NOW)
    [turn] = inside.client.zrange(turns, 0, -1)
    inside.client.zrem(turns, turn)
    inside.client.zadd(turns, {turn.replace(b"ann", b"anm"): 0})
    engine.insert([keyed("second", "ann")], now=NOW)
    assert ids(claim(engine)) == ["first"]


# -- entries that lead to another job


@pytest.mark.parametrize("entries", ["due", "expiring"])
@pytest.mark.parametrize("state", [State.PENDING, State.RUNNING, State.COMPLETED])
def test_a_time_that_leads_to_another_job_does_nothing_to_it(
    redis_engine: RedisEngine, inside: Inside, entries: str, state: State
) -> None:
    engine = redis_engine
    engine.insert([new_job("other")], now=NOW)
    claims = claim(engine) if state is not State.PENDING else []
    if state is State.COMPLETED:
        settle(engine, succeed(*claims))
    before = row(engine, "other")
    lead_to(inside, entries, "other", NOW - 1)
    answer = engine.exchange([], want(others=False), now=NOW)
    assert answer.next_at is None
    assert row(engine, "other") == before
    engine.insert([new_job("good", queue="more")], now=NOW)
    assert "good" in ids(claim(engine))


@pytest.mark.parametrize("state", [State.PENDING, State.COMPLETED])
@pytest.mark.parametrize("take", ["reap", "disown"])
def test_a_lease_that_leads_to_another_job_does_nothing_to_it(
    redis_engine: RedisEngine, inside: Inside, state: State, take: str
) -> None:
    engine = redis_engine
    engine.insert([new_job("other")], now=NOW)
    if state is State.COMPLETED:
        settle(engine, succeed(*claim(engine)))
    before = msgspec.structs.replace(row(engine, "other"), lease_until=None)
    lead_to(inside, "leases", "other", NOW - 1)
    takes: dict[str, Callable[[], list[Any]]] = {
        "reap": lambda: list(engine.reap(10, now=NOW)),
        "disown": lambda: list(engine.release_unknown_claims("w1", (), now=NOW)),
    }
    assert takes[take]() == []
    assert msgspec.structs.replace(row(engine, "other"), lease_until=None) == before


def test_a_lease_that_leads_to_no_running_job_goes(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.insert([new_job("other")], now=NOW)
    lead_to(inside, "leases", "other", NOW - HOUR)
    inside.client.zadd(inside.key("leases"), {"000000999999": NOW - HOUR})
    assert engine.reap(10, now=NOW) == []
    assert inside.client.zcard(inside.key("leases")) == 0


@pytest.mark.parametrize("name", [name for name in _FIELDS if name not in ("id", "queue", "task", "lane", "worker")])
def test_a_running_job_with_a_damaged_value_fails(redis_engine: RedisEngine, inside: Inside, name: str) -> None:
    """Whatever the value: Python and the scripts agree that the record is damaged."""
    engine = redis_engine
    engine.insert([new_job("job")], now=NOW)
    claim(engine)
    change(inside, "job", **{name: [1]})
    engine.reap(10, now=NOW + LEASE + 1)
    assert (row(engine, "job").state, row(engine, "job").reason) == (State.FAILED, "corrupt_record")


# -- orders


def test_crashes_that_are_no_number_keep_no_queue_from_its_order(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.rule_store.set_rules("default", QueueRules(strategy="fresh_first"))
    engine.insert([new_job("bad"), new_job("good")], now=NOW)
    change(inside, "bad", attempt=1, crashes="x")
    assert "good" in ids(claim(engine))


# -- workers


@pytest.mark.parametrize("held", [7, None, b"\xe1un"])
def test_a_worker_whose_own_record_is_changed_keeps_its_leases(
    redis_engine: RedisEngine, inside: Inside, held: Any
) -> None:
    engine, worker = redis_engine, worker_row("w1")
    engine.insert([new_job("job")], now=NOW)
    engine.renew(worker, (), LEASE, now=NOW)
    [claimed] = claim(engine)
    values = _values(inside.client.hget(inside.key("workers"), "w1"))
    values[6] = _packed(held)
    inside.client.hset(inside.key("workers"), "w1", b"\x9f" + b"".join(values))
    renewal = engine.renew(worker, [lease_of(claimed)], LEASE, now=NOW + SECOND)
    assert (renewal.command, renewal.lost) == ("run", frozenset())
    assert engine.queries.workers()[0].command == "run"


# -- what is told page by page


def test_a_flow_whose_record_has_another_id_is_told_once(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    for name in ("f1", "f2", "f3"):
        engine.insert([new_job(f"job-{name}", flow=name)], edges=[], flow=FlowRow(name, "name", NOW), now=NOW)
    inside.client.hset(inside.key("flows"), "f2", msgspec.msgpack.encode(FlowRow("f9", "name", NOW)))
    pages = itertools.islice(flow_pages(engine.flow_store), 5)
    assert [flow.id for page in pages for flow in page] == ["f3", "f2", "f1"]
    assert [tally.flow.id for tally in engine.flow_store.flows(1, "f2")] == ["f1"]


def test_a_letter_whose_record_has_another_id_keeps_no_other_from_a_copy(
    redis_engine: RedisEngine, inside: Inside
) -> None:
    engine = redis_engine
    engine.insert([new_job(f"j{n}") for n in range(3)], now=NOW)
    settle(engine, *map(fail, claim(engine)))
    names = sorted(inside.client.hkeys(inside.key("dead_letters")))
    values = _values(inside.client.hget(inside.key("dead_letters"), names[0]))
    values[0] = _packed("z")
    inside.client.hset(inside.key("dead_letters"), names[0], b"\x9d" + b"".join(values))
    assert [
        dead_letter.id.encode() for dead_letter in engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True)
    ] == names
