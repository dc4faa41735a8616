"""Redis: what is kept of lanes. Every set holds exactly what the rows tell, and nothing outlives its jobs."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest

from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.jobs.records import ClaimRequest, Filter, JobUpdate
from headrace.core.jobs.states import State, Trigger
from headrace.core.queues.limits import Limit, lane_limits_of, lane_of
from headrace.engines.redis import script_loader
from headrace.engines.redis.engine import RedisEngine
from tests.conformance.redis.test_layout import Inside, any_outcome
from tests.support import servers
from tests.support.builders import EVERYTHING, HOUR, LEASE, NOW, SECOND, candidate, new_job, only, per_second, want
from tests.support.engines import KINDS, StoreUnderTest
from tests.support.servers import RedisServer

pytestmark = [
    pytest.mark.engines("redis"),
    pytest.mark.skipif("redis" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES"),
]

GATES = [
    Limit("key", "k"),
    Limit("key", 'o"d\\d:\x01/'),
    Limit("rate", "r"),
    Limit("needs", "gpu"),
    Limit("needs", "nobody"),
]


def expected(engine: RedisEngine) -> dict[str, Any]:
    """What must be there of lanes and holds, told by the rows alone."""
    lanes: dict[tuple[str, str], dict[str, float]] = {}
    found: dict[str, Any] = {}
    for job in engine.queries.find(EVERYTHING, 100_000).jobs:
        member = f"{job.seq:012d}"
        standing = (100 - job.priority) * 2**45 + job.rank
        if job.state is State.PENDING and job.lane:
            lanes.setdefault((job.queue, job.lane), {})[member] = standing
            found.setdefault(f"in:laned:{job.queue}", {})[member] = standing
        elif job.state is State.PENDING:
            found.setdefault(f"in:pending:{job.queue}", {})[member] = standing
        elif job.state is State.RUNNING:
            for lane_limit in lane_limits_of(job.lane):
                if lane_limit.kind == "key":
                    found.setdefault(f"held:c:{lane_limit.name}", {})[member] = job.seq
    for (queue, lane), jobs in lanes.items():
        level = f"{round(min(jobs.values()) / 2**45):03d}"
        found[f"lane:{queue}:{lane}"] = jobs
        found.setdefault(f"turns:{queue}", {})[level + lane] = 0
        found.setdefault(f"lanes:{queue}", {})[lane] = level
        found.setdefault("queues_with_lanes", set()).add(queue)
    return found


def kept(inside: Inside) -> dict[str, Any]:
    prefixes = ("in:laned:", "in:pending:", "held:", "lane:", "turns:")
    found: dict[str, Any] = {name: jobs for name, jobs in inside.sets().items() if name.startswith(prefixes)}
    for name in inside.names():
        if name.startswith("lanes:"):
            levels = inside.client.hgetall(inside.key(name))
            found[name] = {lane.decode(): level.decode() for lane, level in levels.items()}
    if queues := inside.client.smembers(inside.key("queues_with_lanes")):
        found["queues_with_lanes"] = {queue.decode() for queue in queues}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_every_lane_is_right_after_a_long_mixed_life(store: StoreUnderTest, seed: int) -> None:
    engine, inside = store.open(), Inside(store.address)
    assert isinstance(engine, RedisEngine)
    chance, now, held = random.Random(seed), NOW, list[Any]()

    def lane() -> str:
        return lane_of(chance.sample(GATES, chance.randint(0, 2)))

    for turn in range(60):
        now += chance.choice([0, 1, SECOND, LEASE, HOUR])
        jobs = [
            new_job(
                f"j{turn}-{number}",
                queue=chance.choice("ab"),
                task=chance.choice(["x", 'y"\\/\n']),
                run_at=now + chance.choice([-5, 0, 500, HOUR]),
                created_at=now,
                lifo=chance.random() < 0.3,
                priority=chance.randint(-100, 100),
                max_attempts=chance.randint(1, 3),
                expires_at=chance.choice([None, None, now + HOUR]),
                lane=lane(),
            )
            for number in range(5)
        ]
        engine.insert(jobs, now=now)
        engine.insert_unique([candidate(f"u{turn}", "replace", lane=lane(), run_at=now, created_at=now)], now=now)
        if turn % 7 == 3:
            rules = QueueRules(
                strategy=chance.choice([None, "fifo", "lifo", "weighted_random", "fresh_first"]),
                ageing=chance.choice([None, 1000]),
                rate=chance.choice([None, per_second(1, 5)]),
                key_rate=chance.choice([None, per_second(1, 2)]),
                concurrency=chance.choice([None, 4]),
                key_concurrency=chance.choice([None, 2]),
            )
            engine.queries.set_queue_rules(chance.choice("ab"), rules)
            engine.queries.set_task_rules(
                chance.choice(["x", 'y"\\/\n']), TaskRules(chance.random() < 0.3, None, chance.choice([None, 3]))
            )
        chance.shuffle(held)
        outcomes = [any_outcome(chance, held.pop(), now) for _ in held[:3]]
        wanted = msgspec.structs.replace(want(4, worker=f"w{turn % 3}"), capabilities=("gpu",))
        claims = engine.exchange(outcomes, wanted, now=now).claims
        assert len({claimed.id for claimed in claims}) == len(claims)
        held += claims
        event = chance.choice([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE])
        engine.queries.move(Filter(queue=chance.choice("ab")), event, 1, by="ann", now=now)
        engine.queries.update(
            f"j{turn}-0", JobUpdate(queue=chance.choice("abc"), priority=chance.choice([None, 7])), now=now
        )
        engine.reap(2, now=now)
        engine.release_unknown_claims("w1", [], now=now) if chance.random() < 0.1 else None
        assert kept(inside) == expected(engine)
    everything = engine.queries.find(EVERYTHING, 100_000).jobs
    assert {lane_limit for job in everything for lane_limit in lane_limits_of(job.lane)} > set(GATES)
    for queue in "ab":
        waiting = [job for job in everything if job.queue == queue and job.state is State.PENDING]
        which = Filter(queue=queue, states=(State.PENDING,))
        assert engine.queries.count(which) == len(waiting)
        assert {job.id for job in engine.queries.find(which, 1000).jobs} == {job.id for job in waiting}
        assert {job.id for job in engine.queries.peek(queue, 1000)} == {job.id for job in waiting}
        depth = [
            depth for depth in engine.queries.queue_counts() if (depth.queue, depth.state) == (queue, State.PENDING)
        ]
        assert [(found.jobs, found.oldest) for found in depth] == [
            (len(waiting), min(abs(job.rank) for job in waiting))
        ]
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 10_000, now=now)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 10_000, now=now)
    assert kept(inside) == {}


def test_a_job_whose_lane_is_damaged_keeps_no_other_from_its_turn(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job("bad", lane="not json"), new_job("good", lane='["c:k"]'), new_job("free")], now=NOW)
    assert sorted(claimed.id for claimed in engine.exchange([], want(), now=NOW).claims) == ["free", "good"]


def test_a_job_that_is_damaged_in_its_lane_is_passed_over(store: StoreUnderTest) -> None:
    engine, inside = store.open(), Inside(store.address)
    engine.insert([new_job(name, lane='["r:k"]') for name in ("bad", "good")], now=NOW)
    inside.client.hset(inside.key("jobs"), inside.client.hget(inside.key("ids"), "bad"), "\xff\xffgarbage")
    claims = [claimed.id for _ in range(3) for claimed in engine.exchange([], want(1), now=NOW).claims]
    assert claims == ["good"]


def test_every_key_of_rules_and_lanes_is_told_of_at_the_head_of_the_library(store: StoreUnderTest) -> None:
    engine, inside = store.open(), Inside(store.address)
    engine.insert([new_job(name, lane='["c:k","r:k"]') for name in ("runs", "waits")], now=NOW)
    engine.queries.set_queue_rules("default", QueueRules(rate=per_second(1, 5)))
    engine.queries.set_task_rules("other", TaskRules(paused=True))
    assert [claimed.id for claimed in engine.exchange([], want(), now=NOW).claims] == ["runs"]
    with open(
        (script_loader.__file__ or "").replace("script_loader.py", "scripts/lib/base.lua"), encoding="utf-8"
    ) as library:
        head = "".join(line for line in library if line.startswith("--"))
    documented = [re.sub(r"<\w+>", ".+", name) for name in re.findall(r"\{p\}:([a-z_]+(?::<\w+>|:[a-z_]+)*)", head)]
    assert {name for name in inside.names() if not any(re.fullmatch(pattern, name) for pattern in documented)} == set()
    kinds = {name.partition(":")[0] for name in inside.names()}
    assert {
        "held",
        "lane",
        "lanes",
        "turns",
        "queues_with_lanes",
        "queues_with_rules",
        "tasks",
        "rate_buckets",
    } <= kinds


def test_buckets_that_have_rested_are_forgotten(store: StoreUnderTest) -> None:
    engine, inside = store.open(), Inside(store.address)
    engine.queries.set_queue_rules("default", QueueRules(key_rate=per_second(1, 5)))
    engine.insert([new_job(f"j{number}", lane=lane_of([Limit("rate", f"k{number}")])) for number in range(20)], now=NOW)
    assert len(engine.exchange([], want(), now=NOW).claims) == 20
    engine.reap(0, now=NOW + SECOND)
    assert inside.client.zcard(inside.key("rate_buckets")) == 20
    engine.reap(0, now=NOW + 2 * HOUR)
    assert inside.client.zcard(inside.key("rate_buckets")) == 0


def test_rules_of_queues_that_a_worker_does_not_serve_are_not_even_read(
    quiet_store: RedisEngine, quiet_redis: RedisServer
) -> None:
    """To make the gatekeeper takes half as long as a claim of one job."""
    engine: RedisEngine = quiet_store
    client: Any = servers.redis_connection(quiet_redis.url)
    engine.insert([new_job("a", queue="plain"), new_job("b", queue="ruled"), new_job("c", queue="plain")], now=NOW)
    engine.queries.set_queue_rules("ruled", QueueRules(concurrency=1, rate=per_second(1, 5)))

    def reads_of_sets() -> int:
        return int(client.info("commandstats").get("cmdstat_smembers", {"calls": 0})["calls"])

    def looks(wanted: ClaimRequest) -> tuple[list[str], int]:
        before = reads_of_sets()
        claims = engine.exchange([], wanted, now=NOW).claims
        return [claimed.id for claimed in claims], reads_of_sets() - before

    assert looks(only("plain", 1)) == (["a"], 1), "which queues are paused"
    claimed, reads = looks(want())
    assert (sorted(claimed), reads) == (["b", "c"], 3)


def test_with_ageing_what_is_remembered_of_lanes_does_not_grow_with_time(store: StoreUnderTest) -> None:
    """Levels pass, for ever new ones: to remember who was served last at each would never end."""
    engine = store.open()
    assert isinstance(engine, RedisEngine)
    engine.queries.set_queue_rules("default", QueueRules(ageing=SECOND))
    engine.insert([new_job(f"j{n:02}", lane=f'["r:{n % 3}"]', run_at=NOW + n * HOUR) for n in range(30)], now=NOW)
    sizes = set()
    for n in range(29):
        assert engine.exchange([], want(1), now=NOW + n * HOUR).claims
        sizes.add(len(engine._lane_positions["default"]))
    assert len(sizes) == 1
