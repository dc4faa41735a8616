"""Redis: where jobs with a key are found, that nothing of a key is left behind, and what a lost answer does to both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import redis

from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.records import Filter, JobRow, Lease
from headrace.core.jobs.states import FINAL, OPEN, State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import UniqueCondition, UniqueInsert
from headrace.engines.redis.engine import RedisEngine
from headrace.errors import DuplicateJob, QueueFull
from tests.conformance.redis.test_layout import Inside, expected_sets
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    bring,
    candidate,
    claim,
    fail,
    firing,
    insert_unique,
    new_job,
    one_version_on,
    retry,
    row,
    rows,
    schedule,
    settle,
    succeed,
    want,
)
from tests.support.engines import StoreUnderTest
from tests.support.schedules import stored_schedule

pytestmark = pytest.mark.engines("redis")

DAY = 24 * HOUR
ANY_STATE = (UniqueCondition(tuple(sorted(State))),)
_ELSEWHERE = ("dead_ids", "dead", "unique", "unique_done")  # sets that other checks look after


@pytest.fixture
def client(store: StoreUnderTest) -> Any:
    return servers.redis_connection(store.address)


def key_sets(engine: RedisEngine, client: Any) -> dict[str, dict[str, float]]:
    """The sets in which jobs are found by their keys, by kind and key."""
    tag = f"{{{engine.prefix}}}:"
    found: dict[str, dict[str, float]] = {}
    for kind in ("unique", "unique_done"):
        for key in client.scan_iter(f"{tag}{kind}:*", count=5000):
            entries = client.zrange(key, 0, -1, withscores=True)
            found[key.decode().removeprefix(tag)] = {member.decode(): score for member, score in entries}
    return found


def check_keys(engine: RedisEngine, client: Any) -> None:
    """Every job with a key is in one set and no other: among the finished only if it is, else in the one of its key."""
    found = key_sets(engine, client)
    for job in rows(engine).values():
        if job.unique_key is None:
            continue
        member = f"{job.seq:012d}"
        in_past = found.get(f"unique_done:{job.state}:{job.unique_key}", {}).pop(member, None)
        in_key = found.get(f"unique:{job.unique_key}", {}).pop(member, None)
        assert (in_past, in_key) in ((None, job.seq), (job.finished_at, None)), job
        assert job.state in FINAL or in_key is not None, job
    assert {name: left for name, left in found.items() if left} == {}


# -- where they are


@pytest.mark.parametrize("state", State)
def test_a_job_is_found_by_its_key_in_every_state_and_after_each_move(
    redis_engine: RedisEngine, client: Any, state: State
) -> None:
    engine = redis_engine
    bring(engine, state, unique_key="key", tags=("t",))
    check_keys(engine, client)
    for event in (None, Trigger.CANCEL, Trigger.REVIVE, Trigger.CANCEL, Trigger.REVIVE):
        if event is not None:
            engine.queries.move(EVERYTHING, event, 1, now=NOW)
        (result,) = insert_unique(engine, [candidate("new", where=ANY_STATE)], now=NOW)
        assert (result.kind, result.id) == ("existing", "job")
        check_keys(engine, client)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert key_sets(engine, client) == {}


def test_jobs_without_a_key_leave_no_trace_of_one(redis_engine: RedisEngine, client: Any) -> None:
    for number, state in enumerate(State):
        bring(redis_engine, state, state.value, priority=number)
    insert_unique(redis_engine, [candidate("ruled", key=None), UniqueInsert(new_job("free"))], now=NOW)
    assert key_sets(redis_engine, client) == {}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_every_index_is_right_after_a_long_life_of_admissions(store: StoreUnderTest, client: Any, seed: int) -> None:
    engine, inside, chance, now = store.open(), Inside(store.address), random.Random(seed), NOW
    assert isinstance(engine, RedisEngine)
    held: list[Any] = []
    for turn in range(60):
        now += chance.choice([0, 1, SECOND, LEASE, HOUR])
        batch = [any_candidate(chance, f"j{turn}-{number}", now) for number in range(4)]
        expected = expected_places(engine, batch)
        results = insert_unique(engine, batch, now=now)
        assert [(result.kind, result.id) for result in results[:1]] == expected
        chance.shuffle(held)
        outcomes = [
            chance.choice([succeed(claimed, at=now), fail(claimed, at=now), retry(claimed, now + 9, at=now)])
            for claimed in [held.pop() for _ in held[:3]]
        ]
        held += engine.exchange(outcomes, want(3), now=now).claims
        event = chance.choice([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE])
        engine.queries.move(Filter(queue=chance.choice("ab")), event, 1, now=now)
        engine.reap(2, now=now)
        check_keys(engine, client)
    sets = inside.sets().items()
    others = {name: found for name, found in sets if name.split(":")[0] not in _ELSEWHERE}
    assert others == expected_sets(engine)


def any_candidate(chance: random.Random, job_id: str, now: int) -> UniqueInsert:
    since = chance.choice([None, now - HOUR, now])
    conditions = (
        UniqueCondition(tuple(chance.sample(sorted(State), 3)), created_since=since),
        UniqueCondition(tuple(sorted(FINAL)), finished_since=now - chance.choice([0, SECOND, DAY])),
    )
    return candidate(
        job_id,
        chance.choice(["keep", "refuse", "replace", "reschedule"]),
        key=chance.choice(["x", "y", None]),
        where=conditions,
        queue=chance.choice("ab"),
        task=chance.choice("vw"),
        expires_at=chance.choice([None, now + HOUR]),
        run_at=now + chance.choice([0, 500]),
        created_at=now,
        tags=tuple(chance.sample("rgb", 2)),
    )


def expected_places(engine: RedisEngine, batch: list[UniqueInsert]) -> list[tuple[str, str]]:
    """The first verdict as it follows from all rows: those behind it see what it did."""
    job, rule = batch[0].job, batch[0].rule
    assert rule is not None
    standing = [
        there
        for there in rows(engine).values()
        if there.unique_key == job.unique_key is not None
        and any(fits(there, condition) for condition in rule.conditions)
    ]
    if not standing:
        return [("new", job.id)]
    newest = max(standing, key=lambda there: there.seq)
    started = newest.state in FINAL or newest.state is State.RUNNING
    kinds = {"keep": "existing", "refuse": "refused", "replace": "replaced", "reschedule": "rescheduled"}
    return [("existing" if started and rule.act != "refuse" else kinds[rule.act], newest.id)]


def fits(job: JobRow, condition: UniqueCondition) -> bool:
    return (
        job.state in condition.states
        and job.created_at >= (condition.created_since or 0)
        and (condition.finished_since is None or (job.finished_at or 0) >= condition.finished_since)
    )


# -- a key that many finished jobs have


def test_finished_jobs_are_put_aside_and_not_looked_at_again(redis_engine: RedisEngine, client: Any) -> None:
    engine = redis_engine
    for number in range(20):
        (result,) = insert_unique(engine, [candidate(f"j{number}")], now=NOW + number)
        assert result.kind == "new"
        settle(engine, succeed(claim(engine, now=NOW + number)[0], at=NOW + number))
    sets = key_sets(engine, client)
    assert (len(sets["unique:key"]), len(sets["unique_done:completed:key"])) == (1, 19)
    recent = UniqueCondition((State.COMPLETED,), finished_since=NOW + 5)
    (result,) = insert_unique(engine, [candidate("new", where=(recent,))], now=NOW + HOUR)
    assert (result.kind, result.id) == ("existing", "j19")
    assert sorted(key_sets(engine, client)) == ["unique_done:completed:key"]


def test_finished_jobs_of_a_key_that_nobody_looks_for_do_not_gather(redis_engine: RedisEngine, client: Any) -> None:
    engine = redis_engine
    for number in range(60):
        engine.insert([new_job(f"j{number}", unique_key="key")], now=NOW)
        settle(engine, succeed(claim(engine)[0]))
    sets = key_sets(engine, client)
    assert (len(sets["unique:key"]), len(sets["unique_done:completed:key"])) == (1, 59)
    check_keys(engine, client)


def test_the_newest_is_the_last_that_was_submitted_not_the_last_that_finished(redis_engine: RedisEngine) -> None:
    engine = redis_engine
    engine.insert([new_job(name, unique_key="key") for name in "abc"], now=NOW)
    for at, claimed in enumerate(reversed(claim(engine))):
        settle(engine, succeed(claimed, at=NOW + at))
    for _ in range(2):  # found where they were, and then where they were put
        (result,) = insert_unique(engine, [candidate("new", where=ANY_STATE)], now=NOW)
        assert (result.kind, result.id) == ("existing", "c")


def test_jobs_that_are_no_longer_kept_take_their_keys_along(redis_engine: RedisEngine, client: Any) -> None:
    engine = redis_engine
    for number, put_aside in enumerate((False, True)):
        bring(engine, State.COMPLETED, f"j{number}", unique_key=f"k{number}")
        if put_aside:
            insert_unique(engine, [candidate("new", key=f"k{number}", where=ANY_STATE)], now=NOW)
    assert sorted(key_sets(engine, client)) == ["unique:k0", "unique_done:completed:k1"]
    engine.retention_store.delete([Lease(row.id, row.version) for row in rows(engine).values()])
    assert (rows(engine), key_sets(engine, client)) == ({}, {})


def test_finished_jobs_from_another_store_are_put_aside_at_once(redis_engine: RedisEngine, client: Any) -> None:
    engine = redis_engine
    for number, state in enumerate(State):
        bring(engine, state, state.value, unique_key="key", priority=number)
    job_exports = engine.transfer.export_jobs(0, 100)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 100, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 100, now=NOW)
    assert engine.transfer.import_records(job_exports) == len(State)
    sets = key_sets(engine, client)
    assert {name: len(found) for name, found in sets.items()} == {
        "unique:key": len(OPEN),
        **{f"unique_done:{state}:key": 1 for state in FINAL},
    }
    check_keys(engine, client)


# -- answers that are lost


@contextmanager
def lost_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The server does what it is told, but its next answer never arrives."""
    lost: list[object] = []
    read = redis.Connection.read_response

    def read_and_lose(self: Any, *args: Any, **more: Any) -> Any:
        answer = read(self, *args, **more)
        if not lost:
            lost.append(answer)
            raise redis.ConnectionError("the line went dead")
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(redis.Connection, "read_response", read_and_lose)
        yield lost
    assert lost


@pytest.mark.parametrize("act", ["keep", "refuse", "replace", "reschedule"])
def test_an_admission_whose_answer_was_lost_knows_its_own_jobs_again(
    redis_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    engine = redis_engine
    insert_unique(engine, [candidate("there", key="theirs")], now=NOW)
    batch = [candidate("a", act), candidate("b"), candidate("c", key="theirs"), candidate("a"), candidate("there")]
    with lost_answer(monkeypatch):
        results = insert_unique(engine, batch, now=NOW)
    assert [(result.kind, result.id) for result in results] == [
        ("new", "a"),
        ("existing", "a"),
        ("existing", "there"),
        ("taken", "a"),
        ("taken", "there"),
    ]
    assert sorted(rows(engine)) == ["a", "there"]


def test_a_whole_admission_whose_answer_was_lost_is_no_duplicate_of_itself(
    redis_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = redis_engine
    engine.rule_store.set_rules("default", QueueRules(max_length=2))
    with lost_answer(monkeypatch):
        results = insert_unique(
            engine, [candidate("a", "refuse"), candidate("b", "refuse", key="b")], all_or_nothing=True, now=NOW
        )
    assert [result.kind for result in results] == ["new", "new"]
    with lost_answer(monkeypatch), pytest.raises(DuplicateJob, match="'a'"):
        insert_unique(engine, [candidate("c", "refuse")], all_or_nothing=True, now=NOW)
    with lost_answer(monkeypatch), pytest.raises(QueueFull, match="at most 2 waiting jobs and has 2; 1 more"):
        insert_unique(engine, [candidate("c", key="c")], all_or_nothing=True, now=NOW)
    assert sorted(rows(engine)) == ["a", "b"]


def test_a_replacement_whose_answer_was_lost_says_so(
    redis_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = redis_engine
    insert_unique(engine, [candidate("a")], now=NOW)
    with lost_answer(monkeypatch):
        (result,) = insert_unique(engine, [candidate("b", "replace", payload="[2]")], now=NOW)
    assert (result.kind, result.id) == ("replaced", "a")
    assert (row(engine, "a").payload, sorted(rows(engine))) == ("[2]", ["a"])


def test_a_job_that_was_replaced_is_still_known_by_the_call_that_made_it(
    store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is lost, and before it can ask again somebody else replaces the job."""
    engine, other = store.open(), store.open()
    insert_unique(other, [candidate("warm", key="warm")], now=NOW)
    assert isinstance(engine, RedisEngine)
    engine.prepare()
    forget_idle = engine.connections._close_idle

    def replace_meanwhile() -> None:
        monkeypatch.undo()
        insert_unique(other, [candidate("b", "replace", payload="[2]")], now=NOW)
        forget_idle()

    with lost_answer(monkeypatch):
        monkeypatch.setattr(engine.connections, "_close_idle", replace_meanwhile)
        (result,) = insert_unique(engine, [candidate("a")], all_or_nothing=True, now=NOW)
    assert (result.kind, result.id) == ("new", "a")
    assert row(engine, "a").payload == "[2]"


def test_schedules_whose_answer_was_lost_are_stored_and_fired_once(
    redis_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, times = redis_engine, redis_engine.schedule_store
    engine.prepare()
    tick = schedule()
    with lost_answer(monkeypatch):
        assert times.put(tick, new=True)
    with lost_answer(monkeypatch):
        assert times.put(tick)
    tick = one_version_on(tick)
    with lost_answer(monkeypatch):
        assert times.fire([firing(tick, new_job("a")), firing(schedule("unknown"), new_job("b"))], now=NOW) == [
            True,
            False,
        ]
    assert (list(rows(engine)), len(times.occurrences("tick"))) == (["a"], 1)
    with lost_answer(monkeypatch):
        assert not times.put(tick)
        assert not times.put(msgspec.structs.replace(tick, queue="mail"), new=True)


# -- firings


def test_what_is_fired_while_a_notice_hangs_is_left_alone(redis_engine: RedisEngine) -> None:
    """It was found to be due before the notice was put up."""
    times = redis_engine.schedule_store
    times.put(schedule(), new=True)
    for kind in ("moved", "arriving"):
        redis_engine.transfer.set_status(StoreStatus(kind, "redis://other", NOW))
        assert times.fire([firing(schedule(), new_job("a"))], now=NOW) == [False]
    redis_engine.transfer.set_status(None)
    assert (rows(redis_engine), stored_schedule(times, "tick")) == ({}, schedule())
    assert times.fire([firing(schedule(), new_job("a"))], now=NOW) == [True]


def test_a_job_that_two_firings_of_one_call_name_is_stored_once(redis_engine: RedisEngine) -> None:
    times = redis_engine.schedule_store
    for name in ("one", "two"):
        times.put(schedule(name), new=True)
    both = [firing(schedule(name), new_job("a", payload=name)) for name in ("one", "two")]
    assert times.fire(both, now=NOW) == [True, True]
    assert [job.payload for job in rows(redis_engine).values()] == ["one"]
    assert redis_engine.queries.count(EVERYTHING).jobs == len(claim(redis_engine)) == 1


def test_a_schedule_may_fire_twice_in_one_call(redis_engine: RedisEngine) -> None:
    times = redis_engine.schedule_store
    times.put(schedule(), new=True)
    first = firing(schedule(), new_job("a"))
    second = firing(one_version_on(first.row), new_job("b"))
    assert times.fire([first, second, second], now=NOW) == [True, True, False]
    assert stored_schedule(times, "tick") == one_version_on(second.row)
    assert [occurrence.job_id for occurrence in times.occurrences("tick")] == ["b", "a"]
