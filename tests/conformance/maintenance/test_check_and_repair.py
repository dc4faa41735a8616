"""Looking after a store: what is wrong is found and nothing else, what can be repaired is, the rest is left alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headrace.core.dead_letters.records import DeadLetterFilter, RequeueRequest
from headrace.core.events.stream import line_note
from headrace.core.health.findings import GONE, LATE, MAINTENANCE_KINDS, RecordKind, TrimResult
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.details import StreamRange
from headrace.core.jobs.records import Filter, JobNote, JobUpdate
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from tests.conformance.maintenance.tampering import Tampering
from tests.support.builders import (
    LEASE,
    NOW,
    claim_one,
    fail,
    ids,
    log,
    new_job,
    retry,
    row,
    schedule,
    settle,
    states,
    submit_and_claim,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import StoreUnderTest

# Of the server that the tests start, not of what is in it.
_OF_SERVERS = {"fsync", "synchronous_commit", "autovacuum", "no_append_only_file", "long_transaction", "dead_rows"}


def found(engine: Engine, now: int = NOW) -> dict[str, int]:
    return {each.code: each.count for each in engine.maintenance.inspect(now) if each.code not in _OF_SERVERS}


def busy_store(engine: Engine) -> None:
    """Some of everything, as it should be."""
    engine.renew(worker_row("w1", seen_at=NOW), [], LEASE, now=NOW)
    engine.insert([new_job(f"job-{n}", tags=("t",), queue=f"q{n % 2}") for n in range(6)], now=NOW)
    engine.insert([new_job("later", run_at=NOW + 1)], now=NOW)
    settle(engine, succeed(claim_one(engine)), retry(claim_one(engine), NOW + 9), fail(claim_one(engine)))
    claim_one(engine)
    family = [new_job("parent", flow="f1"), new_job("child", state=State.WAITING, flow="f1")]
    engine.insert(family, edges=[Dependency("parent", "child")], flow=FlowRow("f1", "flow", NOW), now=NOW)


# -- finding


def test_a_store_in_use_has_nothing_wrong(engine: Engine) -> None:
    busy_store(engine)
    assert found(engine) == {}


def test_due_jobs_leases_and_workers_are_found_when_nobody_takes_care_of_them(engine: Engine) -> None:
    busy_store(engine)
    assert found(engine, NOW + LATE) == {}
    late = found(engine, NOW + LATE + LEASE + 10)
    assert late == {"silent_workers": 1, "unreaped_leases": 1, "overdue": 2}


def test_a_job_that_runs_under_an_unknown_worker_is_found(engine: Engine) -> None:
    submit_and_claim(engine)
    assert found(engine) == {"stray_leases": 1}


def test_finding_changes_nothing(engine: Engine) -> None:
    busy_store(engine)
    before = [msgspec.json.encode(job_export) for job_export in engine.transfer.export_jobs(0, 100)]
    found(engine, NOW + 10 * GONE)
    assert [msgspec.json.encode(job_export) for job_export in engine.transfer.export_jobs(0, 100)] == before
    assert len(engine.queries.workers()) == 1


# -- orphans


@pytest.mark.parametrize("what", ["history", "logs", "steps", "tags", "dependencies"])
def test_what_belongs_to_no_job_is_found_and_removed(store: StoreUnderTest, what: str) -> None:
    engine = store.open()
    busy_store(engine)
    tampering = Tampering(store)
    tampering.leave_orphan(what)
    code = "orphan_index" if tampering.is_redis and what == "tags" else f"orphan_{what}"
    assert found(engine) == {code: 1}
    assert engine.maintenance.repair([], 100, NOW) == {}
    assert found(engine) == {code: 1}
    assert engine.maintenance.repair([code], 100, NOW) == {code: 1}
    assert found(engine) == {}
    assert len(states(engine)) == 9
    assert engine.maintenance.repair([code], 100, NOW) == {code: 0}


def test_a_flow_without_jobs_is_found_and_removed_but_not_while_jobs_arrive(engine: Engine) -> None:
    busy_store(engine)
    engine.transfer.import_records([FlowRow("empty", "empty", NOW)])
    engine.transfer.set_status(StoreStatus("arriving", "elsewhere", NOW))
    assert "orphan_flows" not in found(engine)
    assert engine.maintenance.repair(["orphan_flows"], 100, NOW) == {"orphan_flows": 0}
    engine.transfer.set_status(None)
    assert found(engine) == {"orphan_flows": 1}
    assert engine.maintenance.repair(["orphan_flows"], 100, NOW) == {"orphan_flows": 1}
    assert [tally.flow.id for tally in engine.flow_store.flows(10)] == ["f1"]


def test_a_repair_takes_no_more_than_it_is_told(store: StoreUnderTest) -> None:
    engine = store.open()
    busy_store(engine)
    tampering = Tampering(store)
    for _ in range(5):
        tampering.leave_orphan("logs")
    left = 5
    while left:
        fresh = engine.maintenance.repair(["orphan_logs"], 2, NOW)["orphan_logs"]
        assert 0 < fresh <= (5 if tampering.is_redis else 2)
        left -= fresh
    assert found(engine) == {}


def test_a_job_that_waits_for_nobody_is_found(store: StoreUnderTest) -> None:
    engine = store.open()
    busy_store(engine)
    Tampering(store).unblock("child")
    assert found(engine) == {"forlorn": 1}


@pytest.mark.parametrize("lane", ["not json", '["c:ann', '["x:ann"]', "[7]", '{"c":"ann"}'])
def test_a_job_whose_lane_is_damaged_is_found_and_fails(engine: Engine, lane: str) -> None:
    busy_store(engine)
    engine.insert([new_job("bad", lane=lane), new_job("good", lane='["c:ann"]')], now=NOW)
    assert found(engine) == {"damaged_records": 1}
    assert engine.maintenance.repair(["damaged_records"], 100, NOW) == {"damaged_records": 1}
    assert found(engine) == {}
    job = row(engine, "bad")
    assert (job.state, job.reason, job.lane) == (State.FAILED, "corrupt_record", "")
    [dead_letter] = engine.dead_letters.find(DeadLetterFilter(latest_of=("bad",)), 10)
    assert (dead_letter.reason, dead_letter.status) == ("corrupt_record", "pending")
    assert row(engine, "good").state is State.PENDING
    assert engine.maintenance.repair(["damaged_records"], 100, NOW) == {"damaged_records": 0}
    [result] = engine.dead_letters.requeue([RequeueRequest(dead_letter.id)], now=NOW)
    assert result.result == "requeued"
    assert "bad" in ids(engine.exchange([], want(10), now=NOW).claims)


@pytest.mark.engines("sqlite")
def test_a_job_whose_lane_is_no_text_is_found_and_fails(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job(name, lane='["c:ann"]') for name in ("bad", "good")], now=NOW)
    not_utf8 = "CAST(x'5b22633aff225d' AS TEXT)"
    Tampering(store).execute(f"UPDATE headrace_jobs SET lane = {not_utf8} WHERE id = 'bad'")
    assert found(engine) == {"damaged_records": 1}
    assert engine.maintenance.repair(["damaged_records"], 100, NOW) == {"damaged_records": 1}
    assert (row(engine, "bad").reason, row(engine, "good").state) == ("corrupt_record", State.PENDING)


@pytest.mark.engines("sqlite")
def test_an_id_that_is_no_text_becomes_what_it_is_shown_as(store: StoreUnderTest) -> None:
    engine = store.open()
    engine.insert([new_job("bad"), new_job("häßlich"), new_job("good")], now=NOW)
    settle(engine, fail(claim_one(engine)))
    engine.schedule_store.put(schedule("tick"), new=True)
    for table in ("headrace_jobs", "headrace_dead_letters", "headrace_schedules"):
        Tampering(store).execute(f"UPDATE {table} SET id = CAST(x'62ff64' AS TEXT) WHERE id NOT IN ('häßlich', 'good')")
    assert found(engine) == {"damaged_ids": 3}
    assert not engine.schedule_store.delete("b\ufffdd"), "nobody can ask for it"
    assert engine.maintenance.repair(["damaged_ids"], 100, NOW) == {"damaged_ids": 3}
    assert found(engine) == {}
    assert sorted(states(engine)) == ["b\ufffdd", "good", "häßlich"]
    assert engine.schedule_store.delete("b\ufffdd")
    assert engine.dead_letters.delete(DeadLetterFilter(ids=("b\ufffdd",)), 10) == 1
    assert engine.queries.move(Filter(ids=("b\ufffdd",)), Trigger.DELETE, 10, now=NOW) == ["b\ufffdd"]


@pytest.mark.engines("redis")
@pytest.mark.parametrize("index", ["turns:default", "lanes:default", 'lane:default:["c:ann"]', "queues_with_lanes"])
def test_a_lane_that_has_lost_its_turn_gets_it_back(store: StoreUnderTest, index: str) -> None:
    engine = store.open()
    engine.insert([new_job("keyed", lane='["c:ann"]')], now=NOW)
    Tampering(store).lose(index)
    assert found(engine) == {"unindexed": 1}
    assert engine.maintenance.repair(["unindexed"], 100, NOW) == {"unindexed": 1}
    assert found(engine) == {}
    assert ids(engine.exchange([], want(10), now=NOW).claims) == ["keyed"]


@pytest.mark.engines("redis")
@pytest.mark.parametrize("index", ["queue:q0", "task:work", "state:pending", "in:pending:q1", "ids", "leases", "due"])
def test_a_job_that_an_index_has_lost_is_put_back(store: StoreUnderTest, index: str) -> None:
    engine = store.open()
    busy_store(engine)
    Tampering(store).lose(index)
    assert found(engine).get("unindexed", 0) >= 1
    assert engine.maintenance.repair(["unindexed"], 100, NOW)["unindexed"] >= 1
    assert found(engine) == {}
    assert engine.queries.count(Filter()).jobs == 9


# -- workers


def test_a_worker_that_is_gone_is_forgotten_and_one_that_is_late_is_not(engine: Engine) -> None:
    engine.renew(worker_row("gone", seen_at=NOW), [], LEASE, now=NOW)
    engine.renew(worker_row("late", seen_at=NOW + 2), [], LEASE, now=NOW)
    assert engine.maintenance.repair(["silent_workers"], 100, NOW + GONE) == {"silent_workers": 0}
    assert engine.maintenance.repair(["silent_workers"], 100, NOW + GONE + 1) == {"silent_workers": 1}
    assert [worker.id for worker in engine.queries.workers()] == ["late"]


def test_a_forgotten_worker_that_comes_back_goes_on(engine: Engine) -> None:
    worker = worker_row("w1", seen_at=NOW)
    claimed = submit_and_claim(engine)
    engine.renew(worker, [], LEASE, now=NOW)
    engine.maintenance.repair(["silent_workers"], 100, NOW + GONE + 1)
    assert engine.queries.workers() == []
    engine.renew(msgspec.structs.replace(worker, seen_at=NOW + GONE + 2), [], LEASE, now=NOW + GONE + 2)
    assert settle(engine, succeed(claimed), now=NOW + GONE + 3) == []


# -- histories that are too long


def _log(engine: Engine, count: int, *, errors: frozenset[int] = frozenset()) -> None:
    claimed = submit_and_claim(engine)
    notes = [
        JobNote(claimed.id, claimed.version, NOW, level="error" if n in errors else "info", message=str(n))
        for n in range(count)
    ]
    engine.exchange([], None, notes, now=NOW)


def _cap(engine: Engine, what: RecordKind, most: int, limit: int = 1000) -> int:
    """All there is to do; how many entries went."""
    removed, after = 0, 0
    while True:
        done = engine.maintenance.trim_history(what, most, after, limit)
        removed, after = removed + done.removed, done.reached
        if not done.more:
            return removed


def test_a_log_that_is_too_long_keeps_its_start_its_end_and_its_errors(engine: Engine) -> None:
    _log(engine, 100, errors=frozenset({20, 21, 95}))
    assert _cap(engine, "logs", 40) == 60
    left = [int(line.message) for line in engine.queries.details("job").logs]
    # Ten at the start; of the rest half for the newest and for those before them, oldest first, but errors last.
    assert left == [*range(10), 20, 21, *range(72, 100)]
    assert _cap(engine, "logs", 40) == 0


def test_errors_go_as_well_when_there_is_nothing_else(engine: Engine) -> None:
    _log(engine, 60, errors=frozenset(range(60)))
    assert _cap(engine, "logs", 20) == 40
    assert [int(line.message) for line in engine.queries.details("job").logs] == [*range(10), *range(50, 60)]


def test_a_history_that_is_too_long_is_shortened_and_its_errors_stay(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=100), new_job("other", run_at=NOW + 1)], now=NOW)
    for n in range(25):
        settle(engine, retry(claim_one(engine, now=NOW), NOW, message=f"error {n}"))
        engine.queries.update("job", JobUpdate(priority=n % 5), now=NOW)
    before = len(engine.queries.details("job").history)
    assert before == 50
    assert _cap(engine, "history", 40) == before - 40
    left = engine.queries.details("job").history
    assert len(left) == 40
    assert left[0].event == "retry"
    assert sum(entry.error_type is not None for entry in left) == 25


def test_what_is_short_enough_is_left_alone(engine: Engine) -> None:
    _log(engine, 40)
    assert _cap(engine, "logs", 40) == 0
    assert len(engine.queries.details("job").logs) == 40


def test_a_cap_goes_on_where_it_stopped_and_finds_what_came_since(engine: Engine) -> None:
    _log(engine, 50)
    after = 0
    while (done := engine.maintenance.trim_history("logs", 30, after, 7)).more:
        assert isinstance(done, TrimResult)
        after = done.reached
    after = done.reached
    assert len(engine.queries.details("job").logs) == 30
    claimed = submit_and_claim(engine, "second")
    engine.exchange([], None, [JobNote(claimed.id, claimed.version, NOW, level="info", message="x")] * 35, now=NOW)
    while engine.maintenance.trim_history("logs", 30, after, 1000).more:
        pass
    assert len(engine.queries.details("second").logs) == 30


def test_a_cap_of_logs_counts_no_line_of_a_stream_and_takes_none(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    lines = [line_note(claimed.lease, n, [str(n)], NOW) for n in range(50)]
    engine.exchange([], None, [note for n in range(30) for note in (log(claimed, str(n)), lines[n])], now=NOW)
    assert _cap(engine, "logs", 30) == 0
    engine.exchange([], None, [log(claimed, "30"), *lines[30:]], now=NOW)
    assert _cap(engine, "logs", 30) == 1
    details = engine.queries.details("job", stream=StreamRange(0, 100))
    assert (len(details.logs), [line.message for line in details.stream]) == (30, [f"[{n}]" for n in range(50)])


def test_a_very_long_log_is_shortened_in_pieces(engine: Engine) -> None:
    _log(engine, 5000)
    assert _cap(engine, "logs", 100) == 4900
    left = [int(line.message) for line in engine.queries.details("job").logs]
    assert left == [*range(10), *range(4910, 5000)]


# -- log, space, everything


def test_checkpoint_optimize_and_upkeep_leave_everything_as_it_is(engine: Engine) -> None:
    busy_store(engine)
    before = states(engine)
    sizes = engine.maintenance.maintain(MAINTENANCE_KINDS, "all").sizes
    assert sizes["size_after"] > 0
    engine.maintenance.maintain(MAINTENANCE_KINDS, "full")
    log_sizes = engine.maintenance.maintain(["checkpoint"], "all").sizes
    assert not log_sizes or log_sizes["log_after"] <= log_sizes["log_before"]
    while engine.maintenance.maintain(MAINTENANCE_KINDS, now=NOW).more:
        pass
    assert states(engine) == before
    assert found(engine) == {}
    claim_one(engine)


@pytest.mark.engines("postgres", "redis")
def test_a_cleared_store_is_as_good_as_a_new_one(engine: Engine) -> None:
    busy_store(engine)
    engine.schedule_store.put(schedule(), new=True)
    engine.queries.pause_queue("q1", True)
    engine.maintenance.restore(Path("nowhere"), lambda: None, replace=True)
    assert (states(engine), engine.queries.rules().queues, engine.queries.workers(), engine.flow_store.flows(10)) == (
        {},
        [],
        [],
        [],
    )
    assert (engine.schedule_store.get(), engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True)) == (
        [],
        [],
    )
    assert found(engine) == {}
    assert submit_and_claim(engine, "job-0").id == "job-0"
