"""Redis: what is lost, refused or cut off on the way never becomes half a commit, nor a second one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Step
from headrace.core.retention.retention import RetentionRun
from headrace.core.settings.settings import Settings
from headrace.engines.redis.engine import RedisEngine
from headrace.errors import ConfigError, DuplicateJob, EngineUnavailable
from headrace.runtime.retention.last_run import store_last_run
from headrace.runtime.retention.sweep_task import RetentionTask
from tests.conformance.redis.servers import OwnRedis
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    bring,
    claim,
    claim_one,
    ids,
    kinds,
    lease_of,
    new_job,
    row,
    rows,
    settle,
    states,
    submit_and_claim,
    succeed,
    want,
    worker_row,
)
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE, eventually

DAY = 86_400_000


@pytest.fixture(scope="module")
def server() -> Iterator[OwnRedis]:
    with OwnRedis() as started:
        yield started


@pytest.fixture
def engine(server: OwnRedis) -> Iterator[RedisEngine]:
    server.client.flushall()
    made = RedisEngine(server.url)
    yield made
    made.close()


@pytest.fixture
def connections(server: OwnRedis) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def far(engine: RedisEngine, server: OwnRedis, connections: Proxy) -> Iterator[RedisEngine]:
    """A second engine on the same store, behind a wire that can be cut."""
    made = RedisEngine(connections.through(server.url))
    yield made
    made.close()


# -- answers that are lost


@contextmanager
def lost_answers(monkeypatch: pytest.MonkeyPatch, times: int) -> Iterator[list[str]]:
    """The server does what it is told, but its next answers never arrive."""
    told: list[str] = []
    read = redis.Connection.read_response
    left = times

    def read_and_lose(self: Any, *args: Any, **more: Any) -> Any:
        nonlocal left
        answer = read(self, *args, **more)
        if left > 0:
            left -= 1
            told.append(repr(answer))
            raise redis.ConnectionError("the line went dead")
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(redis.Connection, "read_response", read_and_lose)
        yield told


@pytest.mark.parametrize("all_or_nothing", [False, True])
@pytest.mark.parametrize("size", [1, 20])
def test_an_insert_whose_answer_was_lost_knows_its_own_jobs_again(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch, size: int, all_or_nothing: bool
) -> None:
    engine.prepare()
    with lost_answers(monkeypatch, 1) as told:
        fresh = engine.insert([new_job(f"j{number}") for number in range(size)], all_or_nothing=all_or_nothing, now=NOW)
    assert len(told) == 1
    assert kinds(fresh) == ["new"] * size
    assert engine.queries.count(EVERYTHING).jobs == size


def test_an_insert_whose_answer_was_lost_with_the_scripts_knows_its_own_jobs_again(
    engine: RedisEngine, server: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a failover: the new server has the jobs, and none of the scripts."""
    engine.insert([new_job("before")], now=NOW)
    forget_idle = engine.connections._close_idle
    monkeypatch.setattr(engine.connections, "_close_idle", lambda: (forget_idle(), server.client.script_flush()))
    with lost_answers(monkeypatch, 1):
        assert kinds(engine.insert([new_job("job")], all_or_nothing=True, now=NOW)) == ["new"]
    assert sorted(rows(engine)) == ["before", "job"]


def test_a_repeated_insert_still_tells_what_was_taken_before(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.insert([new_job("b")], now=NOW)
    batch = [new_job("a"), new_job("b"), new_job("a"), new_job("c")]
    with lost_answers(monkeypatch, 1):
        assert kinds(engine.insert(batch, now=NOW)) == ["new", "taken", "taken", "new"]
    assert sorted(rows(engine)) == ["a", "b", "c"]


def test_a_repeated_insert_that_was_refused_is_refused_again(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.insert([new_job("b")], now=NOW)
    with lost_answers(monkeypatch, 1), pytest.raises(DuplicateJob, match="'b'"):
        engine.insert([new_job("a"), new_job("b")], all_or_nothing=True, now=NOW)
    assert list(rows(engine)) == ["b"]


def test_an_insert_that_never_gets_an_answer_is_an_outage(engine: RedisEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.prepare()
    with lost_answers(monkeypatch, 2), pytest.raises(EngineUnavailable, match="the line went dead"):
        engine.insert([new_job("job")], now=NOW)
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["taken"]


def test_an_exchange_whose_answer_was_lost_is_not_repeated(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = submit_and_claim(engine, "done")
    engine.insert([new_job("next")], now=NOW)
    with lost_answers(monkeypatch, 9) as told, pytest.raises(EngineUnavailable):
        engine.exchange([succeed(done)], want(5), now=NOW)
    assert len(told) == 1
    assert states(engine) == {"done": State.COMPLETED, "next": State.RUNNING}
    assert engine.release_unknown_claims("w1", [], now=NOW) == ["next"]
    assert row(engine, "next").attempt == 0
    assert claim_one(engine).attempt == 1


def test_reads_and_renewals_are_repeated(engine: RedisEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = lease_of(submit_and_claim(engine))
    acts: list[Callable[[], Any]] = [
        lambda: engine.queries.get(["job"])[0].id == "job",
        lambda: engine.queries.find(EVERYTHING, 5).jobs[0].id == "job",
        lambda: engine.renew(worker_row(), [lease], LEASE, now=NOW).lost == frozenset(),
        lambda: engine.queries.command_worker("w1", "pause"),
    ]
    for act in acts:
        with lost_answers(monkeypatch, 1) as told:
            assert act()
        assert len(told) == 1


# -- connections that are cut


def test_a_connection_that_died_while_idle_is_noticed_before_it_is_used(far: RedisEngine, connections: Proxy) -> None:
    claimed = submit_and_claim(far)
    connections.cut()
    assert far.exchange([succeed(claimed)], want(), now=NOW).refused == []
    assert row(far).state is State.COMPLETED


def test_after_an_outage_everything_goes_on_by_itself(far: RedisEngine, connections: Proxy) -> None:
    far.insert([new_job("before")], now=NOW)
    connections.refuse()
    connections.cut()
    with pytest.raises(EngineUnavailable, match="is Redis running there"):
        far.insert([new_job("meanwhile")], now=NOW)
    connections.accept_again()
    far.insert([new_job("after")], now=NOW)
    assert sorted(states(far)) == ["after", "before"]


def test_during_a_long_outage_nobody_waits_for_it_each_time(far: RedisEngine, connections: Proxy) -> None:
    far.prepare()
    connections.refuse()
    connections.cut()
    for _ in range(5):
        with pytest.raises(EngineUnavailable):
            far.queries.count(EVERYTHING)
    with pytest.raises(EngineUnavailable, match="next try in"):
        far.queries.count(EVERYTHING)
    connections.accept_again()
    eventually(lambda: answers(far))


def answers(engine: RedisEngine) -> bool:
    try:
        engine.queries.count(EVERYTHING)
    except EngineUnavailable:
        return False
    return True


def test_a_server_that_was_killed_comes_back_with_its_jobs() -> None:
    with OwnRedis("appendfsync always", "appendonly yes") as server:
        engine = RedisEngine(server.url)
        engine.insert([new_job(f"j{number}") for number in range(50)], now=NOW)
        first = claim(engine, 10)
        bell = engine.listen("work")
        server.kill()
        with pytest.raises(EngineUnavailable):
            claim(engine, 10)
        server.start()
        eventually(lambda: answers(engine))
        assert bell.wait(PATIENCE)  # for what came while nobody could be told
        assert settle(engine, *(succeed(claimed) for claimed in first)) == []
        assert len(claim(engine, 100)) == 40
        bell.close()
        engine.close()


def test_a_server_that_forgot_the_scripts_is_told_them_again(engine: RedisEngine, server: OwnRedis) -> None:
    engine.insert([new_job("job")], now=NOW)
    server.client.script_flush()
    assert ids(claim(engine)) == ["job"]
    server.client.script_flush()
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["taken"]


def test_more_threads_than_connections_wait_for_their_turn(server: OwnRedis, engine: RedisEngine) -> None:
    engine.prepare()
    narrow = RedisEngine(f"{server.url}?max_connections=2")
    threads = [
        threading.Thread(target=lambda name=name: narrow.insert([new_job(f"j{name}")], now=NOW)) for name in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert narrow.queries.count(EVERYTHING).jobs == 20
    clients = [client for client in server.client.client_list() if client["cmd"] == "evalsha"]
    assert len(clients) <= 3
    narrow.close()


# -- what the server refuses


@pytest.fixture
def full(engine: RedisEngine, server: OwnRedis) -> Iterator[RedisEngine]:
    """A store with some jobs in a server that has no memory left."""
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number, tags=("t",))
    engine.renew(worker_row(), [], LEASE, now=NOW)
    server.client.config_set("maxmemory", 1)
    yield engine
    server.client.config_set("maxmemory", 0)


def test_without_memory_what_can_wait_changes_nothing_at_all(full: RedisEngine, server: OwnRedis) -> None:
    before = rows(full), full.queries.workers(), full.queries.queue_counts(), server.client.dbsize()
    acts: list[Callable[[], Any]] = [
        lambda: full.insert([new_job("new", queue="new", tags=("new",))], now=NOW),
        lambda: full.queries.move(EVERYTHING, Trigger.CANCEL, 9, now=NOW),
        lambda: full.queries.pause_queue("default", True),
        lambda: full.queries.command_worker("w1", "stop"),
    ]
    for act in (
        acts * 2
    ):  # the server is there, however often it refuses: it is still asked, and what makes room still done
        with pytest.raises(EngineUnavailable, match="out of memory and nothing was changed"):
            act()
    assert (rows(full), full.queries.workers(), full.queries.queue_counts(), server.client.dbsize()) == before


def test_without_memory_workers_go_on(full: RedisEngine) -> None:
    running = lease_of_running(full)
    assert full.renew(worker_row("new"), [running], LEASE, now=NOW).lost == frozenset()
    assert full.save_step(Lease(running.id, running.version), Step("step", "charge", 1, NOW, '"paid"', 11), now=NOW)
    answer = full.exchange([succeed(running)], want(worker="new"), now=NOW)
    (claimed,) = answer.claims
    assert (row(full, running.id).state, row(full, claimed.id).worker) == (State.COMPLETED, "new")
    assert [reaped.id for reaped in full.reap(10, now=NOW + 2 * LEASE)] == [claimed.id]
    assert row(full, claimed.id).state is State.PENDING
    (again,) = full.exchange([], want(worker="new"), now=NOW + 2 * LEASE).claims
    assert full.release_unknown_claims("new", [], now=NOW + 2 * LEASE) == [again.id]
    newcomer = RedisEngine(full.url)
    newcomer.prepare()
    newcomer.close()


def lease_of_running(engine: RedisEngine) -> Any:
    (running,) = engine.queries.find(Filter(states=(State.RUNNING,)), 2).jobs
    return running


def test_what_makes_room_works_without_memory(full: RedisEngine) -> None:
    assert len(full.queries.move(Filter(states=(State.PENDING,)), Trigger.DELETE, 9, now=NOW)) == 1
    with pytest.raises(EngineUnavailable):
        store_last_run(full.document_store, RetentionRun(at=NOW, duration=1))
    maintenance_task = RetentionTask(full, Settings(), 60.0, lambda: None)
    while maintenance_task.do() == 0.0:  # they ended long ago, by the server's clock
        pass
    assert full.queries.count(Filter(states=(State.COMPLETED, State.CANCELLED))).jobs == 0
    assert full.queries.count(Filter(states=(State.FAILED,))).jobs == 1


def test_a_replica_says_so() -> None:
    with OwnRedis() as primary, OwnRedis(f"replicaof 127.0.0.1 {primary.port}", "appendonly no") as replica:
        eventually(lambda: replica.client.info("replication")["master_link_status"] == "up")
        engine = RedisEngine(replica.url)
        with pytest.raises(EngineUnavailable, match="replica"):
            engine.insert([new_job("job")], now=NOW)
        with pytest.raises(EngineUnavailable, match="replica"):
            engine.exchange([], want(), now=NOW)
        assert any("replica" in finding for finding in map(str, engine.maintenance.inspect(NOW)))
        engine.close()


def test_a_key_that_is_not_ours_is_named_as_the_cause(engine: RedisEngine, server: OwnRedis) -> None:
    server.client.set("{headrace}:ids", "somebody's")
    with pytest.raises(ConfigError, match="prefix"):
        engine.insert([new_job("job")], now=NOW)


# -- what an operator should know


@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("appendonly", "no", "would lose accepted jobs"),
        ("appendfsync", "no", "appendfsync"),
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
    ],
)
def test_a_hazard_of_the_server_is_found(
    engine: RedisEngine, server: OwnRedis, setting: str, value: str, word: str
) -> None:
    assert engine.maintenance.inspect(NOW) == []
    usual = server.client.config_get(setting)[setting]
    server.client.config_set(setting, value)
    try:
        assert [word in finding for finding in map(str, engine.maintenance.inspect(NOW))] == [True]
    finally:
        server.client.config_set(setting, usual)


def test_memory_that_runs_short_is_found(engine: RedisEngine, server: OwnRedis) -> None:
    engine.prepare()
    server.client.config_set("maxmemory", int(server.client.info("memory")["used_memory"] * 1.02))
    try:
        assert any("soon it will refuse" in finding for finding in map(str, engine.maintenance.inspect(NOW)))
    finally:
        server.client.config_set("maxmemory", 0)


def test_damage_and_stray_leases_are_found(engine: RedisEngine, server: OwnRedis) -> None:
    submit_and_claim(engine)
    assert ["never registered" in finding for finding in map(str, engine.maintenance.inspect(NOW))] == [True]
    engine.renew(worker_row(), [], LEASE, now=NOW)
    assert engine.maintenance.inspect(NOW) == []
    server.client.delete("{headrace}:payloads")
    assert ["damaged" in finding for finding in map(str, engine.maintenance.inspect(NOW))] == [True]


def test_facts_tell_what_is_there(engine: RedisEngine) -> None:
    engine.insert([new_job("job")], now=NOW)
    facts = engine.maintenance.facts().details
    assert (facts["engine"], facts["jobs"], facts["prefix"], facts["role"]) == ("redis", 1, "headrace", "master")
    assert (facts["append_only_file"], facts["eviction"]) == ("on", "noeviction")


# -- bells


def test_who_names_queues_is_not_rung_for_others(engine: RedisEngine, far: RedisEngine) -> None:
    mail, either, every, fence = (
        far.listen("work", ["mail"]),
        far.listen("work", ["mail", "web"]),
        far.listen("work"),
        far.listen("orders"),
    )
    engine.insert([new_job("a", queue="web")], now=NOW)
    engine.ring("orders")  # comes on the same line, so it is heard after the other
    assert fence.wait(PATIENCE)
    assert [bell.wait(0) for bell in (mail, either, every)] == [False, True, True]
    engine.insert([new_job("b", queue="mail"), new_job("c", queue="web")], now=NOW)
    assert [bell.wait(PATIENCE) for bell in (mail, either, every)] == [True, True, True]
    engine.ring("work")  # by hand it concerns everybody
    assert [bell.wait(PATIENCE) for bell in (mail, either, every)] == [True, True, True]
    for bell in (mail, either, every, fence):
        bell.close()


def test_a_lost_line_rings_everybody_and_is_taken_up_again(
    engine: RedisEngine, far: RedisEngine, connections: Proxy
) -> None:
    listening = [far.listen(topic) for topic in ("work", "done", "orders")]
    lines = connections.connections
    connections.cut()
    assert [bell.wait(PATIENCE) for bell in listening] == [True, True, True]
    eventually(lambda: connections.connections > lines)
    eventually(lambda: rings_through(engine, listening[2]))
    for bell in listening:
        bell.close()


def rings_through(engine: RedisEngine, bell: Any) -> bool:
    engine.ring("orders")
    return bool(bell.wait(0.5))


def test_bells_that_are_closed_leave_no_thread_and_no_connection(engine: RedisEngine, server: OwnRedis) -> None:
    bell, other = engine.listen("work"), engine.listen("done")
    assert [client["sub"] for client in server.client.client_list()].count("1") == 1
    bell.close()
    other.close()
    eventually(lambda: not any(thread.name == "headrace-bell" for thread in threading.enumerate()))
    eventually(lambda: [client["sub"] for client in server.client.client_list()].count("1") == 0)
    again = engine.listen("work")
    engine.insert([new_job("job")], now=NOW)
    assert again.wait(PATIENCE)
    again.close()
