"""Redis: what is kept of bonds, flows and steps, that nothing of it is left behind, and what damage may not stop."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Step
from headrace.engines.redis import queries
from headrace.engines.redis.engine import RedisEngine
from tests.conformance.flows.dependency_builders import child, plant_chain, spawning, the
from tests.conformance.redis.test_layout import Inside
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    NOTHING,
    NOW,
    SECOND,
    claim,
    claim_one,
    fail,
    ids,
    lease_of,
    new_job,
    row,
    settle,
    states,
    submit_and_claim,
    succeed,
    want,
)
from tests.support.engines import KINDS, StoreUnderTest
from tests.support.servers import RedisServer

pytestmark = [
    pytest.mark.engines("redis"),
    pytest.mark.skipif("redis" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES"),
]

# What stays when all jobs are gone.
KEPT = {"seq", "hours", "queues", "dead_ids", "dead_letters", "dead_pending", "events", "events_count"}


@pytest.fixture
def inside(store: StoreUnderTest) -> Inside:
    return Inside(store.address)


def fill(engine: RedisEngine) -> None:
    """A flow with a job in every place that kin can lead to."""
    flow = FlowRow("f", "all of it", NOW)
    jobs = [new_job("main", flow="f"), child("lost", flow="f"), child("held", flow="f"), child("free", flow="f")]
    edges = [
        Dependency("main", "lost"),
        Dependency("main", "held", "hold"),
        Dependency("main", "free", "run"),
        Dependency("lost", "held"),
    ]
    engine.insert(jobs, edges=edges, flow=flow, now=NOW)
    claimed = claim_one(engine)
    engine.save_step(lease_of(claimed), Step("step", "one", 1, NOW, "1"), now=NOW)
    engine.queries.signal("held", "go", None, None, now=NOW)
    settle(engine, spawning(claimed, [new_job("part", flow="f")], [Dependency("part", "main", "run")]))
    assert row(engine, "main").state is State.WAITING


def test_nothing_is_left_of_kin_that_is_deleted(store: StoreUnderTest, inside: Inside) -> None:
    engine = store.open()
    assert isinstance(engine, RedisEngine)
    engine.queries.count(EVERYTHING)
    empty = inside.names()
    fill(engine)
    for name in ("held", "main", "lost", "free", "part"):
        assert engine.queries.move(the(name), Trigger.DELETE, 1, now=NOW) == [name]
    assert inside.names() - empty <= KEPT


def test_nothing_is_left_of_kin_that_is_old(redis_engine: RedisEngine, inside: Inside) -> None:
    redis_engine.queries.count(EVERYTHING)
    empty = inside.names()
    fill(redis_engine)
    redis_engine.queries.move(EVERYTHING, Trigger.CANCEL, 99, now=NOW)
    found = redis_engine.retention_store.finished("default", State.CANCELLED, NOW + 1, 99)
    redis_engine.retention_store.delete([Lease(job.id, job.version) for job in found])
    assert states(redis_engine) == {}
    assert inside.names() - empty <= KEPT


def test_large_flows_are_counted_a_few_at_a_time(redis_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        jobs = [new_job(f"{number}-{place}", flow=f"f{number}") for place in range(3)]
        redis_engine.insert(jobs, edges=[], flow=FlowRow(f"f{number}", "", NOW), now=NOW)
    whole = redis_engine.flow_store.flows(9)
    monkeypatch.setattr(queries, "_FLOW_SCAN_SIZE", 5)
    for limit in (1, 2, 6, 7, 9):
        assert redis_engine.flow_store.flows(limit) == whole[:limit]
    assert redis_engine.flow_store.flows(9, before="f4", ids=[f"f{number}" for number in range(9)]) == whole[3:]


def test_a_store_without_bonds_has_nothing_of_them(redis_engine: RedisEngine, inside: Inside) -> None:
    settle(redis_engine, succeed(submit_and_claim(redis_engine)))
    assert not {
        name for name in inside.names() if name.split(":")[0] in {"has_dependencies", "parents", "children", "blocks"}
    }


def test_who_waits_after_its_run_is_found_by_its_worker_and_does_not_expire(redis_engine: RedisEngine) -> None:
    main = submit_and_claim(redis_engine, "main", expires_at=NOW + SECOND)
    redis_engine.insert([new_job("part")], edges=[Dependency("part", "main")], now=NOW)
    settle(redis_engine, succeed(main))
    assert [job.id for job in redis_engine.queries.find(Filter(worker="w1"), 9).jobs] == ["main"]
    redis_engine.exchange([], NOTHING, now=NOW + 2 * SECOND)
    assert row(redis_engine, "main").state is State.WAITING
    settle(redis_engine, succeed(claim_one(redis_engine)))
    assert row(redis_engine, "main").state is State.COMPLETED
    assert {job.id for job in redis_engine.queries.find(Filter(worker="w1"), 9).jobs} == {"main", "part"}


def test_what_a_success_leaves_behind_can_not_keep_it_from_being_stored(redis_engine: RedisEngine) -> None:
    """Its job has run: bonds that can't be are left out, jobs that are there are not stored again."""
    main = submit_and_claim(redis_engine, "main")
    redis_engine.insert([child("after")], edges=[Dependency("main", "after")], now=NOW)
    redis_engine.insert([new_job("there", payload='["first"]', queue="other")], now=NOW)
    jobs = [child("x"), new_job("there", payload='["second"]', queue="other"), new_job("y")]
    edges = [
        Dependency("after", "x"),
        Dependency("x", "main"),
        Dependency("nowhere", "y"),
        Dependency("there", "main"),
        Dependency("y", "y"),
    ]
    assert settle(redis_engine, spawning(main, jobs, edges)) == []
    assert row(redis_engine, "there").payload == '["first"]'
    for _ in range(9):
        settle(redis_engine, *map(succeed, claim(redis_engine)))
    assert set(states(redis_engine).values()) == {State.COMPLETED}


def test_a_damaged_child_keeps_no_other_from_going_on(redis_engine: RedisEngine, inside: Inside) -> None:
    redis_engine.insert(
        [new_job("a"), child("bad"), child("good")],
        edges=[Dependency("a", "bad"), Dependency("a", "good"), Dependency("bad", "good", "run")],
    )
    plant_chain(redis_engine, "b", "c")
    inside.client.hset(inside.key("jobs"), inside.client.hget(inside.key("ids"), "bad"), "\xff\xffgarbage")
    done = {claimed.id: claimed for claimed in claim(redis_engine)}
    assert settle(redis_engine, succeed(done["a"]), fail(done["b"])) == []
    assert row(redis_engine, "c").state is State.CANCELLED
    assert [edge.child for edge in redis_engine.flow_store.edges(["a"])] == ["good"]


def test_a_settle_looks_at_no_kin_where_there_is_none(quiet_store: RedisEngine, quiet_redis: RedisServer) -> None:
    client: Any = servers.redis_connection(quiet_redis.url)
    quiet_store.insert([new_job(f"j{number}") for number in range(200)], now=NOW)
    done = [succeed(claimed) for claimed in claim(quiet_store, 200)]
    client.config_resetstat()
    settle(quiet_store, *done)
    calls = client.info("commandstats")
    assert calls["cmdstat_exists"]["calls"] <= 2
    assert not {"cmdstat_smismember", "cmdstat_scard", "cmdstat_smembers", "cmdstat_hgetall"} & calls.keys()


def test_parents_without_parents_cost_one_question_for_a_batch(
    quiet_store: RedisEngine, quiet_redis: RedisServer
) -> None:
    client: Any = servers.redis_connection(quiet_redis.url)
    plant_chain(quiet_store, "a", "b")
    quiet_store.insert([new_job(f"j{number}") for number in range(200)], now=NOW)
    claims = quiet_store.exchange([], want(300), now=NOW).claims
    client.config_resetstat()
    settle(quiet_store, *(succeed(claimed) for claimed in claims if claimed.id != "a"))
    calls = client.info("commandstats")
    assert calls["cmdstat_smismember"]["calls"] == 1
    assert not {"cmdstat_scard", "cmdstat_smembers", "cmdstat_hgetall"} & calls.keys()
    assert ids(quiet_store.exchange([succeed(claims[0])], want(), now=NOW).claims) == ["b"]
