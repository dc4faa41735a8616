"""attend, sign_off, workers, command: who is there, and what was asked of them."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.core.jobs.records import ClaimRequest
from headrace.core.worker_commands import act_of, log_level_of, with_log_level
from headrace.engines.protocol.engine import Engine
from tests.support.builders import LEASE, NOW, SECOND, new_job, worker_row
from tests.support.engines import StoreUnderTest


def test_a_worker_that_signs_on_is_listed_as_it_reported_itself(engine: Engine) -> None:
    me = worker_row("w1", host="höst", pid=77, queues='["a","b"]', concurrency=9, tasks='["x"]')
    liveness = engine.register_worker(me)
    assert engine.queries.workers() == [me]
    liveness.close()


def test_a_heartbeat_brings_the_numbers_up_to_date(engine: Engine) -> None:
    liveness = engine.register_worker(worker_row("w1"))
    later = worker_row("w1", seen_at=NOW + SECOND, state="stopping", completed=30, failed=4)
    engine.renew(later, [], LEASE, now=NOW + SECOND)
    assert engine.queries.workers() == [later]
    liveness.close()


def test_a_heartbeat_brings_up_to_date_what_a_worker_is_and_not_since_when(engine: Engine) -> None:
    engine.renew(worker_row("w1", heartbeat=0), [], LEASE, now=NOW)
    more = {"host": "höst", "pid": 77, "queues": '["a"]', "concurrency": 9, "tasks": '["x"]', "capabilities": '["gpu"]'}
    reported = worker_row("w1", **more, heartbeat=2000, completed=3, failed=1)
    engine.renew(structs.replace(reported, started_at=NOW + SECOND), [], LEASE, now=NOW)
    assert engine.queries.workers() == [reported]


def test_one_that_only_shows_up_takes_nothing_back_that_it_reported(engine: Engine) -> None:
    reported = worker_row(
        "w1", host="höst", pid=77, queues='["a"]', concurrency=9, tasks='["x"]', completed=3, failed=1
    )
    engine.renew(reported, [], LEASE, now=NOW)
    engine.queries.command_worker("w1", "pause")
    shown = worker_row("w1", seen_at=NOW + SECOND, heartbeat=0)
    assert engine.renew(shown, [], LEASE, now=NOW + SECOND).command == "pause"
    assert engine.queries.workers() == [structs.replace(reported, seen_at=NOW + SECOND, command="pause")]


def test_workers_are_listed_oldest_first(engine: Engine) -> None:
    for name, started in (("b", NOW + 2), ("a", NOW + 3), ("c", NOW + 1)):
        engine.renew(worker_row(name, started_at=started), [], LEASE, now=NOW)
    assert [worker.id for worker in engine.queries.workers()] == ["c", "b", "a"]


def test_a_worker_that_signs_off_is_forgotten_and_the_others_are_not(engine: Engine) -> None:
    first, second = engine.register_worker(worker_row("w1")), engine.register_worker(worker_row("w2"))
    first.close()
    engine.unregister_worker("w1")
    assert [worker.id for worker in engine.queries.workers()] == ["w2"]
    second.close()


@pytest.mark.needs("processes")
def test_workers_of_every_process_are_seen(store: StoreUnderTest) -> None:
    engine = store.open()
    actor = store.send("hold", "elsewhere", 0, 0)
    actor.hear()
    assert [worker.id for worker in engine.queries.workers()] == ["elsewhere"]


def test_a_wish_is_seen_by_the_desk_and_by_the_worker(engine: Engine) -> None:
    engine.renew(worker_row("w1"), [], LEASE, now=NOW)
    assert engine.queries.command_worker("w1", "stop")
    assert [worker.command for worker in engine.queries.workers()] == ["stop"]
    assert engine.renew(worker_row("w1"), [], LEASE, now=NOW).command == "stop"


def test_a_wish_may_name_a_level_of_the_logs(engine: Engine) -> None:
    command = with_log_level("pause", "INFO,headrace.store=DEBUG")
    engine.renew(worker_row("w1"), [], LEASE, now=NOW)
    engine.queries.command_worker("w1", command)
    reported = engine.renew(worker_row("w1"), [], LEASE, now=NOW).command
    assert (act_of(reported), log_level_of(reported)) == ("pause", "INFO,headrace.store=DEBUG")
    assert log_level_of("pause") is None


def test_a_wish_may_be_taken_back(engine: Engine) -> None:
    engine.renew(worker_row("w1"), [], LEASE, now=NOW)
    engine.queries.command_worker("w1", "pause")
    engine.queries.command_worker("w1", "run")
    assert engine.renew(worker_row("w1"), [], LEASE, now=NOW).command == "run"


def test_a_wish_for_a_worker_nobody_knows_is_told_so(engine: Engine) -> None:
    assert not engine.queries.command_worker("ghost", "stop")
    assert engine.queries.workers() == []


def test_a_wish_concerns_one_worker(engine: Engine) -> None:
    for name in ("w1", "w2"):
        engine.renew(worker_row(name), [], LEASE, now=NOW)
    engine.queries.command_worker("w1", "stop")
    assert [(worker.id, worker.command) for worker in engine.queries.workers()] == [("w1", "stop"), ("w2", "run")]


def test_what_a_worker_runs_is_told_by_its_leases_up_to_its_concurrency(engine: Engine) -> None:
    liveness = engine.register_worker(worker_row("w1", concurrency=2, running=7))
    assert [worker.running for worker in engine.queries.workers()] == [0]
    engine.insert([new_job(f"job-{n}") for n in range(5)], now=NOW)
    engine.exchange([], ClaimRequest("w1", 1, LEASE), now=NOW)
    assert [worker.running for worker in engine.queries.workers()] == [1]
    engine.exchange([], ClaimRequest("w1", 4, LEASE), now=NOW)
    assert [worker.running for worker in engine.queries.workers()] == [2]
    liveness.close()
