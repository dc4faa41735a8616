"""Redis: what is where. Every index holds exactly what it should, nothing is left behind, nothing grows for ever."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.records import Filter, JobUpdate, Lease, Outcome
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.retention.staleness import everything, job_age_of
from headrace.engines.redis import queries, script_loader
from headrace.engines.redis.engine import RedisEngine
from headrace.errors import SchemaMismatch
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    bring,
    claim,
    fail,
    ids,
    kinds,
    lease_of,
    log,
    new_job,
    only,
    park,
    release,
    retry,
    row,
    rows,
    settle,
    snooze,
    states,
    submit_and_claim,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.schedules import stored_schedule

pytestmark = pytest.mark.engines("redis")

DAY = 24 * HOUR
FAR_AWAY = 253_402_300_799_000  # the last second of the year 9999


class Inside:
    """A look at the keys themselves."""

    def __init__(self, url: str) -> None:
        self.prefix = dict(part.split("=") for part in url.partition("?")[2].split("&"))["prefix"]
        self.client: Any = servers.redis_connection(url)

    def key(self, name: str) -> str:
        return f"{{{self.prefix}}}:{name}"

    def names(self) -> set[str]:
        pattern = f"*{self.prefix}*"
        return {key.decode().removeprefix(f"{{{self.prefix}}}:") for key in self.client.scan_iter(pattern, count=5000)}

    def encoding(self, name: str) -> bytes:
        """How the server keeps the key."""
        told: bytes = self.client.object("encoding", self.key(name))
        return told

    def sets(self) -> dict[str, dict[str, float]]:
        """Every sorted set with its members and scores."""
        found = {}
        for name in self.names():
            if self.client.type(self.key(name)) == b"zset":
                entries = self.client.zrange(self.key(name), 0, -1, withscores=True)
                found[name] = {member.decode(): score for member, score in entries}
        return found


@pytest.fixture
def inside(store: StoreUnderTest) -> Inside:
    return Inside(store.address)


# -- every index against the jobs themselves


def expected_sets(engine: RedisEngine) -> dict[str, dict[str, float]]:
    """What the sorted sets must hold, told by the rows alone."""
    sets: dict[str, dict[str, float]] = {}

    def put(name: str, member: str, score: Any) -> None:
        sets.setdefault(name, {})[member] = score

    for job in engine.queries.find(EVERYTHING, 100_000).jobs:
        member = f"{job.seq:012d}"
        indexes = [f"queue:{job.queue}", f"task:{job.task}"]
        indexes += [f"tag:{tag}" for tag in msgspec.json.decode(job.tags or "[]")]
        if job.state is not State.RUNNING:
            indexes.append(f"state:{job.state}")
        if job.state in FINAL and job.worker is not None:
            indexes.append(f"worker:{job.worker}")
        for name in indexes:
            put(name, member, job.seq)
        standing = (100 - job.priority) * 2**45 + max(-(2**44) + 1, min(job.rank, 2**44 - 1))
        scores: dict[State, Any] = {
            State.PENDING: standing,
            State.SCHEDULED: job.run_at,
            State.RETRYING: job.run_at,
            State.WAITING: job.seq,
            State.RUNNING: job.started_at,
        }
        put(f"in:{job.state}:{job.queue}", member, scores.get(job.state, job.finished_at))
        if job.state in (State.SCHEDULED, State.RETRYING):
            put("due", member, job.run_at)
        if job.lease_until is not None:
            put("leases", member, job.lease_until)
        if job.expires_at is not None and job.state not in (*FINAL, State.RUNNING):
            put("expiring", member, job.expires_at)
    return sets


def sets_of_letters(engine: RedisEngine) -> dict[str, dict[str, float]]:
    sets: dict[str, dict[str, float]] = {}
    for letter in engine.dead_letters.find(DeadLetterFilter(), 100_000):
        kinds = ("task", "queue", "reason", "fingerprint", "requeues")
        shelves = [f"dead:{letter.status}:{kind}:{getattr(letter, kind)}" for kind in kinds]
        for name in ("dead_ids", f"dead:{letter.status}", *shelves):
            sets.setdefault(name, {})[letter.id] = 0
    return sets


def check_sets(engine: RedisEngine, inside: Inside) -> None:
    found = inside.sets()
    assert found == expected_sets(engine) | sets_of_letters(engine)
    assert len({inside.client.hlen(inside.key(name)) for name in ("ids", "jobs", "payloads")}) == 1


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    "event", [None, Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE, "update", "time"]
)
def test_every_index_is_right_after_every_move(
    redis_engine: RedisEngine, inside: Inside, state: State, event: Trigger | str | None
) -> None:
    engine = redis_engine
    for number in range(3):
        bring(engine, state, f"j{number}", tags=("t", f"t{number}"), expires_at=NOW + 2 * HOUR, priority=number)
    if isinstance(event, Trigger):
        engine.queries.move(Filter(ids=("j0", "j1")), event, 9, now=NOW + 1)
    elif event == "update":
        engine.queries.update("j0", JobUpdate(priority=-5, queue="other"), now=NOW)
        engine.queries.update("j1", JobUpdate(run_at=NOW + HOUR), now=NOW)
    elif event == "time":
        engine.reap(2, now=NOW + LEASE)
        engine.exchange([], want(1), now=NOW + HOUR)
        engine.exchange([], want(1), now=NOW + 2 * HOUR)
    check_sets(engine, inside)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_every_index_is_right_after_a_long_mixed_life(redis_engine: RedisEngine, inside: Inside, seed: int) -> None:
    engine, chance, now = redis_engine, random.Random(seed), NOW
    held: list[Any] = []
    for turn in range(60):
        now += chance.choice([0, 1, SECOND, LEASE, HOUR])
        jobs = [
            new_job(
                f"j{turn}-{number}",
                queue=chance.choice("ab"),
                task=chance.choice("xy"),
                run_at=now + chance.choice([-5, 0, 500, HOUR]),
                created_at=now,
                lifo=chance.random() < 0.3,
                priority=chance.randint(-100, 100),
                max_attempts=chance.randint(1, 3),
                tags=tuple(chance.sample("rgb", chance.randint(0, 2))),
                expires_at=chance.choice([None, None, now + HOUR]),
            )
            for number in range(4)
        ]
        engine.insert(jobs, now=now)
        chance.shuffle(held)
        outcomes = [any_outcome(chance, held.pop(), now) for _ in held[:3]]
        held += engine.exchange(outcomes, want(3, worker=f"w{turn % 3}"), now=now).claims
        event = chance.choice([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE])
        engine.queries.move(Filter(queue=chance.choice("ab")), event, 1, by="ann", now=now)
        engine.queries.update(f"j{turn}-0", JobUpdate(queue=chance.choice("abc")), now=now)
        engine.reap(2, now=now)
        engine.renew(worker_row(), [lease_of(claimed) for claimed in held], LEASE, now=now)
    check_sets(engine, inside)


def any_outcome(chance: random.Random, lease: Lease, now: int) -> Outcome:
    return chance.choice(
        [
            succeed(lease),
            fail(lease),
            release(lease),
            retry(lease, now + 9),
            snooze(lease, now + HOUR),
            park(lease, now),
        ]
    )


# -- keys


def test_every_key_is_told_of_at_the_head_of_the_library(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number, tags=("t",), expires_at=NOW + HOUR)
    engine.exchange([], None, [log(Lease("running", 2), "hello")], now=NOW)
    engine.queries.pause_queue("other", True)
    engine.renew(worker_row(), [], LEASE, now=NOW)
    engine.transfer.set_status(engine.transfer.store_status())
    text = (script_loader.__file__ or "").replace("script_loader.py", "scripts/lib/base.lua")
    with open(text, encoding="utf-8") as library:
        told = re.findall(
            r"\{p\}:([a-z_]+(?::<\w+>|:[a-z_]+)*)", "".join(line for line in library if line.startswith("--"))
        )
    patterns = [re.compile(re.sub(r"<\w+>", ".+", name)) for name in told]
    unknown = {name for name in inside.names() if not any(pattern.fullmatch(name) for pattern in patterns)}
    assert unknown == set()
    assert len(inside.names()) > 25


def test_a_job_that_comes_alone_is_stored_like_one_of_a_batch(redis_engine: RedisEngine, inside: Inside) -> None:
    alone, *batch = (
        new_job(f"job-{n}", priority=5, metadata='{"by": "me"}', options='{"timeout": 1000}', has_dependencies=1)
        for n in (1, 2, 3)
    )
    redis_engine.insert([alone], now=NOW)
    redis_engine.insert(batch, now=NOW)
    check_sets(redis_engine, inside)
    first, second, third = (
        inside.client.hget(inside.key("jobs"), f"{n:012d}").replace(b"job-%d" % n, b"") for n in (1, 2, 3)
    )
    assert first == second == third
    stored = [msgspec.structs.replace(job, seq=0, id="") for job in rows(redis_engine).values()]
    assert stored == [stored[0]] * 3
    [[one], [both]] = [groups for _, groups in redis_engine.events.read(None, 10)]
    assert (one.jobs, both.jobs) == (["job-1"], ["job-2", "job-3"])
    assert msgspec.structs.replace(one, jobs=[]) == msgspec.structs.replace(both, jobs=[])
    assert inside.client.hvals(inside.key("hours")) == [b"000000000001 000000001000"]
    assert inside.client.get(inside.key("events_count")) == b"3"


def test_deleted_jobs_leave_nothing_of_theirs(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    engine.queries.pause_queue("default", False)
    empty = inside.names()
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number, tags=("t",), expires_at=NOW + HOUR)
    engine.exchange([], None, [log(Lease("running", 2), "hello")], now=NOW)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 100, now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 100, now=NOW)
    of_letters = {"dead_ids", "dead_letters", "dead_pending", "dead_latest", "dead_reasons", "dead_fingerprints"}
    assert {name for name in inside.names() - empty if not name.startswith("dead:")} == {"seq", "hours", *of_letters}


def test_stores_of_different_prefixes_do_not_meet(store: StoreUnderTest) -> None:
    one, other = store.open(), RedisEngine(f"{store.address}.more")
    one.insert([new_job("job")], now=NOW)
    assert other.queries.count(EVERYTHING).jobs == 0
    assert kinds(other.insert([new_job("job", payload='["other"]')], now=NOW)) == ["new"]
    bell = other.listen("work")
    one.ring("work")
    assert not bell.wait(0.05)
    bell.close()
    other.close()
    servers.drop(f"{store.address}.more")


def test_the_version_is_written_once_and_a_newer_one_is_refused(store: StoreUnderTest, inside: Inside) -> None:
    engine = store.open()
    assert engine.migrate(dry_run=True)[:2] == (0, 1)
    assert engine.migrate().applied == ["0001_initial"]
    assert engine.migrate().applied == []
    assert engine.migrate(dry_run=True)[:2] == (1, 1)
    inside.client.set(inside.key("version"), 8)
    before = inside.names()
    newer = store.open()
    for act in (
        lambda: newer.insert([new_job("job")], now=NOW),
        newer.migrate,
        lambda: newer.queries.count(EVERYTHING).jobs,
    ):
        with pytest.raises(Exception, match="version 8, written by a newer headrace") as caught:
            act()
        assert type(caught.value).__name__ == "SchemaMismatch"
    assert newer.migrate(dry_run=True)[:2] == (8, 1)
    assert inside.names() == before


@pytest.mark.parametrize("damage", [b"", b"\xe9", b"1.5", b"-1"])
def test_a_damaged_version_is_named_with_its_key_and_disturbs_no_open_engine(
    store: StoreUnderTest, redis_engine: RedisEngine, inside: Inside, damage: bytes
) -> None:
    redis_engine.insert([new_job("job")], now=NOW)
    inside.client.set(inside.key("version"), damage)
    assert redis_engine.maintenance.facts(NOW).details["schema"] == -1
    assert ids(redis_engine.exchange([], want(1), now=NOW).claims) == ["job"]
    with pytest.raises(SchemaMismatch, match="version is damaged"):
        store.open().queries.count(EVERYTHING)


def test_a_store_of_before_the_first_release_is_refused_with_what_to_do(store: StoreUnderTest, inside: Inside) -> None:
    inside.client.set(inside.key("schema"), 1)
    engine = store.open()
    for act in (engine.migrate, lambda: engine.insert([new_job("job")], now=NOW), engine.maintenance.facts):
        with pytest.raises(SchemaMismatch, match="finish its jobs, then start with a new prefix; nothing was changed"):
            act()
    assert inside.names() == {"schema"}


# -- the order of claims at its limits


def test_the_order_holds_at_the_ends_of_priority_and_time(redis_engine: RedisEngine) -> None:
    times = [-FAR_AWAY, -NOW, -1, 0, 1, NOW - 1, NOW, NOW + 1, 2**44 - 2]
    jobs = [
        new_job(f"{priority} {at}", priority=priority, run_at=at, state=State.PENDING)
        for priority in (-100, -99, 0, 99, 100)
        for at in times
    ]
    random.Random(1).shuffle(jobs)
    redis_engine.insert(jobs, now=NOW)
    expected = [job.id for job in sorted(jobs, key=lambda job: (-job.priority, job.rank))]
    assert [job.id for job in redis_engine.queries.peek("default", 1000)] == expected
    assert ids(claim(redis_engine, 1000)) == expected
    assert {job.run_at for job in redis_engine.queries.find(EVERYTHING, 100).jobs} == set(times)


def test_a_job_of_the_last_year_there_is_keeps_its_time(redis_engine: RedisEngine) -> None:
    redis_engine.insert([new_job("job", run_at=FAR_AWAY, expires_at=FAR_AWAY)], now=NOW)
    assert (row(redis_engine).run_at, row(redis_engine).rank, row(redis_engine).expires_at) == (FAR_AWAY,) * 3
    assert redis_engine.exchange([], want(), now=NOW).next_at == FAR_AWAY
    assert redis_engine.queries.queue_counts()[0].oldest == FAR_AWAY


def test_the_oldest_pending_job_is_found_among_all_priorities(redis_engine: RedisEngine) -> None:
    jobs = [
        new_job(f"{priority}{lifo}{age}", priority=priority, run_at=NOW - age, lifo=lifo)
        for priority in (-100, 0, 7, 100)
        for lifo in (False, True)
        for age in (5, 900 if (priority, lifo) == (7, True) else 6)
    ]
    redis_engine.insert(jobs, now=NOW)
    (depth,) = redis_engine.queries.queue_counts()
    assert (depth.jobs, depth.oldest) == (16, NOW - 900)


# -- large batches and long searches


@pytest.mark.slow
def test_ten_thousand_jobs_are_one_commit(redis_engine: RedisEngine, inside: Inside) -> None:
    jobs = [new_job(f"j{number}", queue=f"q{number % 3}", tags=("t",)) for number in range(10_000)]
    assert kinds(redis_engine.insert(jobs, all_or_nothing=True, now=NOW)) == ["new"] * 10_000
    claims = redis_engine.exchange([], want(10_000), now=NOW).claims
    assert len(claims) == 10_000
    assert redis_engine.renew(worker_row(), [lease_of(c) for c in claims], LEASE, now=NOW).lost == frozenset()
    outcomes = [succeed(claimed) if number % 2 else fail(claimed) for number, claimed in enumerate(claims)]
    assert settle(redis_engine, *outcomes) == []
    assert len(redis_engine.queries.finished([job.id for job in jobs])) == 10_000
    assert len(redis_engine.queries.get([job.id for job in jobs])) == 10_000
    assert len(redis_engine.queries.move(Filter(tag="t"), Trigger.DELETE, 9_999, now=NOW)) == 9_999
    check_sets(redis_engine, inside)


def test_many_claims_make_their_sets_trees_and_leave_nothing_else_in_them(
    redis_engine: RedisEngine, inside: Inside
) -> None:
    redis_engine.insert([new_job(f"j{number}") for number in range(100)], now=NOW)
    few = redis_engine.exchange([], only("default", 10), now=NOW).claims
    assert {inside.encoding("leases"), inside.encoding("in:running:default")}.isdisjoint({b"skiplist"})
    many = redis_engine.exchange([], only("default", 90), now=NOW).claims
    assert {inside.encoding("leases"), inside.encoding("in:running:default")} == {b"skiplist"}
    check_sets(redis_engine, inside)
    settle(redis_engine, *(succeed(claimed) for claimed in (*few, *many)))
    assert {"leases", "in:running:default"}.isdisjoint(inside.names())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, redis_engine: RedisEngine) -> list[str]:
    """The names of the scripts that were run."""
    run: list[str] = []
    real = redis_engine.connections.run

    def noted(script: script_loader.Script, *args: Any, **more: Any) -> Any:
        run.append(script.name)
        return real(script, *args, **more)

    monkeypatch.setattr(redis_engine.connections, "run", noted)
    return run


def test_a_search_takes_no_more_from_others_than_a_few_jobs_at_a_time(
    redis_engine: RedisEngine, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = script_loader.load("jobs/search_jobs")
    walk.text = walk.text.replace(
        "TIME_LIMIT = 5000", "TIME_LIMIT = 5000000"
    )  # the number is to end a look, not the time
    monkeypatch.setattr(queries, "_search_jobs", walk)
    monkeypatch.setattr(queries, "_SCAN_SIZE", 100)
    needles = {70, 71, 1800}
    jobs = [new_job(f"j{number}", payload="needle" if number in needles else "hay") for number in range(2000)]
    redis_engine.insert(jobs, now=NOW)
    looks.clear()
    assert [job.id for job in redis_engine.queries.find(Filter(text="needle"), 10).jobs] == ["j1800", "j71", "j70"]
    assert 20 <= len(looks) <= 22
    assert redis_engine.queries.count(Filter(text="needle")).jobs == 3
    page = redis_engine.queries.find(Filter(text="needle"), 2)
    assert [job.id for job in page.jobs] == ["j1800", "j71"]
    assert [job.id for job in redis_engine.queries.find(Filter(text="needle"), 2, page.cursor).jobs] == ["j70"]
    assert redis_engine.queries.move(Filter(text="needle"), Trigger.CANCEL, 2, now=NOW) == ["j70", "j71"]


@pytest.mark.parametrize(
    "which",
    [
        Filter(tag="rare"),
        Filter(task="rare"),
        Filter(queue="rare"),
        Filter(worker="rare"),
        Filter(states=(State.FAILED,)),
        Filter(states=(State.RUNNING,)),
        Filter(states=(State.RETRYING, State.SCHEDULED)),
        Filter(states=(State.COMPLETED,), task="rare"),
        Filter(since=NOW - 10 * DAY, until=NOW - 9 * DAY),
        Filter(queue="rare", states=(State.COMPLETED,)),
        Filter(ids=("rare",)),
    ],
)
def test_what_is_rare_is_found_at_the_first_look(redis_engine: RedisEngine, looks: list[str], which: Filter) -> None:
    """However many jobs there are beside it, and wherever among them it is."""
    engine = redis_engine
    engine.insert([new_job(f"before{number}") for number in range(1500)], now=NOW)
    held = engine.exchange([], only("default", 1500), now=NOW).claims
    settle(engine, *(succeed(claimed) for claimed in held))
    long_ago = NOW - 10 * DAY
    engine.insert([new_job("rare", task="rare", queue="rare", tags=("rare",), created_at=long_ago, run_at=long_ago)])
    (claimed,) = engine.exchange([], only("rare", 1, "rare"), now=NOW).claims
    match which.states:
        case (State.FAILED,):
            settle(engine, fail(claimed))
        case (State.RUNNING,):
            pass
        case (State.RETRYING, State.SCHEDULED):
            settle(engine, retry(claimed, NOW + HOUR))
        case _:
            settle(engine, succeed(claimed))
    engine.insert([new_job(f"after{number}") for number in range(1500)], now=NOW)
    looks.clear()
    assert [job.id for job in engine.queries.find(which, 10).jobs] == ["rare"]
    assert looks == ["jobs/search_jobs"]
    assert engine.queries.count(which).jobs == 1


@pytest.mark.parametrize("seed", range(3))
def test_jobs_are_found_by_their_time_in_whatever_order_they_came(redis_engine: RedisEngine, seed: int) -> None:
    chance = random.Random(seed)
    created: dict[str, int] = {}
    for batch in range(30):
        jobs = []
        for number in range(chance.randint(1, 4)):
            at = NOW + chance.randint(-6 * HOUR, 6 * HOUR)
            jobs.append(new_job(f"{batch}-{number}", created_at=at, run_at=at))
            created[jobs[-1].id] = at
        redis_engine.insert(jobs, now=NOW)
    gone = chance.sample(sorted(created), 20)
    redis_engine.queries.move(Filter(ids=tuple(gone)), Trigger.DELETE, 20, now=NOW)
    left = {job_id: at for job_id, at in created.items() if job_id not in gone}
    for _ in range(40):
        since, until = sorted(NOW + chance.randint(-7 * HOUR, 7 * HOUR) for _ in "ab")
        for which in (Filter(since=since), Filter(until=until), Filter(since=since, until=until)):
            expected = [
                job_id
                for job_id, at in reversed(left.items())
                if at >= (which.since or 0) and at < (which.until or FAR_AWAY)
            ]
            assert [job.id for job in redis_engine.queries.find(which, 1000).jobs] == expected
            assert redis_engine.queries.count(which).jobs == len(expected)


def test_depths_look_at_no_job(redis_engine: RedisEngine, inside: Inside) -> None:
    for number, state in enumerate(State):
        bring(redis_engine, state, state.value, priority=number)
    before = redis_engine.queries.queue_counts()
    inside.client.delete(inside.key("jobs"), inside.key("payloads"))
    assert redis_engine.queries.queue_counts() == before


# -- what is old goes


def test_nothing_is_left_of_what_was_swept_up(store: StoreUnderTest, inside: Inside) -> None:
    engine = store.open()
    assert isinstance(engine, RedisEngine)
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number, tags=("t",))
    engine.exchange([], None, [log(Lease("running", 2), "hello")], now=NOW)
    [letter] = engine.dead_letters.find(DeadLetterFilter(latest_of=("failed",)), 10)
    engine.dead_letters.update([letter.id], "cancelled", now=NOW)
    for state in FINAL:
        found = engine.retention_store.finished("default", state, NOW + 1, 10)
        assert engine.retention_store.delete([Lease(job.id, job.version) for job in found]) == [state.value]
    assert not FINAL & set(states(engine).values())
    assert [letter.job_id for letter in store.dead_letters()] == ["failed"]
    check_sets(engine, inside)


def test_hours_that_have_no_job_are_forgotten(redis_engine: RedisEngine, inside: Inside) -> None:
    redis_engine.insert([new_job(f"j{number}") for number in range(100)], now=NOW)
    settle(redis_engine, *(succeed(claimed) for claimed in claim(redis_engine, 100)))
    redis_engine.insert([new_job("kept", created_at=NOW + HOUR, run_at=NOW + HOUR)], now=NOW)
    assert inside.client.hlen(inside.key("hours")) == 2
    found = redis_engine.retention_store.finished("default", State.COMPLETED, NOW + 1, 1000)
    redis_engine.retention_store.delete([Lease(job.id, job.version) for job in found])
    assert list(states(redis_engine)) == ["kept"]
    check_sets(redis_engine, inside)
    assert inside.client.hlen(inside.key("hours")) == 1


# -- damage


def test_a_damaged_job_keeps_no_other_from_its_turn(redis_engine: RedisEngine, inside: Inside) -> None:
    engine = redis_engine
    names = [f"{kind} {state}" for kind in ("good", "bad") for state in ("pending", "late", "lapsing", "running")]
    for name in names:
        if name.endswith("running"):
            submit_and_claim(engine, name, priority=9)
        else:
            late = NOW + SECOND if name.endswith("late") else NOW
            lapses = NOW + SECOND if name.endswith("lapsing") else None
            engine.insert([new_job(name, run_at=late, expires_at=lapses)], now=NOW)
    for name in names[4:]:
        inside.client.hset(inside.key("jobs"), inside.client.hget(inside.key("ids"), name), "\xff\xffgarbage")
    refused = engine.exchange([succeed(Lease(name, 2)) for name in ("good running", "bad running")], None).refused
    assert [outcome.id for outcome in refused] == ["bad running"]
    assert ids(claim(engine, now=NOW + SECOND)) == ["good pending", "good late"]
    assert sorted(states(engine)) == sorted(names)
    assert row(engine, "good lapsing").state is State.CANCELLED
    assert [job.id for job in engine.reap(10, now=NOW + HOUR)] == ["good pending", "good late"]
    bad = engine.queries.get(names[4:])
    assert [(job.state, job.reason) for job in bad] == [(State.FAILED, "corrupt_record")] * 4


@pytest.mark.parametrize("damage", ["garbage", "cut short", "too long", "gone"])
def test_a_damaged_job_keeps_no_other_from_being_looked_at(
    redis_engine: RedisEngine, inside: Inside, damage: str
) -> None:
    redis_engine.insert([new_job(name) for name in ("first", "bad", "last")], now=NOW)
    member = inside.client.hget(inside.key("ids"), "bad")
    record = inside.client.hget(inside.key("jobs"), member)
    kept = {"garbage": b"\xff\xffgarbage", "cut short": record[:-1], "too long": record + record, "gone": None}[damage]
    if kept is None:
        inside.client.hdel(inside.key("jobs"), member)
    else:
        inside.client.hset(inside.key("jobs"), member, kept)
    page = redis_engine.staleness_store.by_age(everything(NOW), 10)
    assert [job.id for job in page.jobs if job.id != "bad"] == ["first", "last"]
    assert page.cursor is None


def test_long_histories_are_read_some_at_a_time(
    redis_engine: RedisEngine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engines.redis.staleness._ENTRIES", 5)
    names = [f"j{number}" for number in range(6)]
    for place, name in enumerate(names):
        redis_engine.insert([new_job(name)], now=NOW)
        for turn in range(place):  # none, one, two, ...
            settle(redis_engine, release(claim(redis_engine, now=NOW + turn)[0], at=NOW + turn + 1))
        claim(redis_engine, now=NOW + place)
    asked = list[int]()
    run = redis_engine.staleness_store._database.connections.run

    def listened_to(script: Any, *args: Any, **named: Any) -> Any:
        answer = run(script, *args, **named)
        if script.name == "jobs/read_histories":
            asked.append(sum(map(len, answer)))
        return answer

    monkeypatch.setattr(redis_engine.staleness_store._database.connections, "run", listened_to)
    found = {job.id: job for job in redis_engine.staleness_store.by_age(everything(NOW + HOUR), 100).jobs}
    assert found == {
        name: job_age_of(row(redis_engine, name), redis_engine.queries.details(name).history) for name in names
    }
    assert len(asked) > 1
    assert max(asked) < 5 + 6, "it stops after the history that was enough"


# -- texts


NUL = "a\x00b"


def test_a_zero_character_is_a_character_like_others(redis_engine: RedisEngine) -> None:
    engine = redis_engine
    job = new_job(NUL, queue=f"q{NUL}", task=f"t{NUL}", payload=NUL, metadata=NUL, tags=(NUL,))
    engine.insert([job, new_job("a")], now=NOW)
    (found,) = engine.queries.find(Filter(queue=f"q{NUL}", task=f"t{NUL}", tag=NUL, text=NUL), 5).jobs
    assert (found.id, found.payload, found.metadata) == (NUL, NUL, NUL)
    (claimed,) = engine.exchange([], only(f"q{NUL}", worker=f"w{NUL}"), now=NOW).claims
    settle(engine, fail(claimed, reason=NUL))
    assert engine.queries.details(NUL).history[0].detail == NUL
    assert [job.id for job in engine.queries.find(Filter(worker=f"w{NUL}"), 5).jobs] == [NUL]
    assert engine.dead_letters.find(DeadLetterFilter(), 5, oldest_first=True)[0].reason == NUL


def test_a_lone_surrogate_is_in_no_store_and_never_a_crash(redis_engine: RedisEngine) -> None:
    engine, lone = redis_engine, "x\ud800"
    engine.insert([new_job("job")], now=NOW)
    assert engine.queries.get([lone, "job"])[0].id == "job"
    assert engine.queries.finished([lone, "job"]) == {lone}
    assert (engine.queries.details(lone).history, engine.queries.details(lone).logs, engine.queries.peek(lone, 5)) == (
        [],
        [],
        [],
    )
    for which in (Filter(ids=(lone,)), Filter(queue=lone), Filter(task=lone), Filter(tag=lone), Filter(text=lone)):
        assert engine.queries.find(which, 5).jobs == []
        assert engine.queries.count(which).jobs == 0
        assert engine.queries.move(which, Trigger.DELETE, 5, now=NOW) == []
    assert (stored_schedule(engine.schedule_store, lone), engine.schedule_store.occurrences(lone)) == (None, [])
    assert not engine.schedule_store.delete(lone)
    assert not engine.queries.command_worker(lone, "stop")
    assert not engine.queries.update(lone, JobUpdate(priority=1), now=NOW)
    for unstorable in (new_job(lone), new_job("new", payload=lone), new_job("new", queue=lone)):
        with pytest.raises(UnicodeEncodeError):
            engine.insert([new_job("beside"), unstorable], now=NOW)
    assert list(rows(engine)) == ["job"]


def test_an_id_that_looks_like_a_number_is_a_text(redis_engine: RedisEngine) -> None:
    names = ["1", "01", "1.0", "1e3", "-1", "nan", "inf", "000000000001"]
    redis_engine.insert([new_job(name, payload=name) for name in names], now=NOW)
    assert ids(claim(redis_engine)) == names
    assert {job.id: job.payload for job in redis_engine.queries.get(names)} == {name: name for name in names}


def test_large_versions_and_checksums_are_exact(redis_engine: RedisEngine) -> None:
    version = 2**53 - 3
    claimed = submit_and_claim(redis_engine, version=version, checksum=2**32 - 1)
    assert (claimed.version, claimed.checksum) == (version + 1, 2**32 - 1)
    assert settle(redis_engine, succeed(claimed)) == []
    assert row(redis_engine).version == version + 2
    stale = succeed(claimed)
    assert settle(redis_engine, stale) == [stale]
    assert f"version {version + 1}, the job is at {version + 2}" in (
        redis_engine.queries.details("job").history[0].detail or ""
    )
