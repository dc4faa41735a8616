"""How finished jobs leave a store: told in the order of their ends, packed whole, removed by version, never if held."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.dependencies import FlowRow
from headrace.core.jobs.records import Lease
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.retention.retention import FinishedJob
from headrace.engines.protocol.engine import Engine
from tests.conformance.dead_letters.builders import dead, pending
from tests.conformance.flows.dependency_builders import child, plant_chain, the
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    NOW,
    bring,
    claim_one,
    fail,
    kinds,
    log,
    new_job,
    row,
    rows,
    settle,
    states,
    submit_and_claim,
    succeed,
)
from tests.support.waiting import PATIENCE

END = NOW + 1000 * HOUR


def complete(engine: Engine, job_id: str = "job", at: int = NOW, **more: Any) -> None:
    """A new job that completed then."""
    settle(engine, succeed(submit_and_claim(engine, job_id, **more), at=at), now=at)


def told(
    engine: Engine, state: State = State.COMPLETED, queue: str = "default", before: int = END
) -> list[FinishedJob]:
    return engine.retention_store.finished(queue, state, before, 1000)


def lease(engine: Engine, job_id: str = "job") -> Lease:
    return Lease(job_id, row(engine, job_id).version)


# -- telling


def test_a_finished_job_is_told_as_far_as_it_matters(engine: Engine) -> None:
    complete(engine, at=NOW + 5, task="mail", queue="q", options='{"timeout":5}')
    (found,) = told(engine, queue="q")
    stored = row(engine)
    assert found == FinishedJob(
        stored.seq, "job", "mail", "q", State.COMPLETED, NOW + 5, stored.version, '{"timeout":5}', False, False, None
    )


def test_only_jobs_that_are_over_are_told_each_under_its_state(engine: Engine) -> None:
    for number, state in enumerate(State):
        bring(engine, state, state.value, priority=number)
    for state in FINAL:
        assert [job.id for job in told(engine, state)] == [state.value]
    assert told(engine, queue="another") == []
    assert told(engine, before=NOW) == []


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 7, 50])
def test_all_are_told_in_order_page_by_page(engine: Engine, newest: bool, limit: int) -> None:
    # Many of one end, so that a page breaks among them.
    ends = {f"j{number:02d}": NOW + number // 6 for number in range(20)}
    for name, at in ends.items():
        complete(engine, name, at)
    seen: list[str] = []
    after = None
    while page := engine.retention_store.finished("default", State.COMPLETED, NOW + 3, limit, after, newest=newest):
        assert len(page) <= limit
        seen += [job.id for job in page]
        after = page[-1]
    expected = sorted((name for name, at in ends.items() if at < NOW + 3), key=lambda name: (ends[name], name))
    assert seen == (expected[::-1] if newest else expected)


@pytest.mark.parametrize("newest", [False, True])
def test_the_job_that_a_page_ended_with_may_be_gone(engine: Engine, newest: bool) -> None:
    for number in range(5):
        complete(engine, f"j{number}")
    first = engine.retention_store.finished("default", State.COMPLETED, END, 2, newest=newest)
    engine.retention_store.delete([Lease(job.id, job.version) for job in first])
    rest = engine.retention_store.finished("default", State.COMPLETED, END, 5, first[-1], newest=newest)
    assert {job.id for job in (*first, *rest)} == {f"j{number}" for number in range(5)}


def test_a_job_with_a_key_is_told_as_such(engine: Engine) -> None:
    complete(engine, unique_key="k")
    assert [job.keyed for job in told(engine)] == [True]


# -- what is held


def check_held(engine: Engine, job_id: str, *, held: bool) -> None:
    """The page and the removal are of one mind."""
    state = row(engine, job_id).state
    assert {job.id: job.held for job in told(engine, state)}[job_id] is held
    assert engine.retention_store.delete([lease(engine, job_id)]) == ([] if held else [job_id])


def test_a_job_with_a_pending_dead_letter_stays(engine: Engine) -> None:
    dead_letter = dead(engine)
    check_held(engine, "job", held=True)
    engine.dead_letters.update([dead_letter.id], "manually_resolved", now=NOW)
    check_held(engine, "job", held=False)
    assert [one.status for one in engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)] == [
        "manually_resolved"
    ]  # it outlives its job


def test_a_job_stays_as_long_as_a_child_is_open(engine: Engine) -> None:
    plant_chain(engine, "first", "second", "third")
    settle(engine, succeed(claim_one(engine)))
    check_held(engine, "first", held=True)
    settle(engine, succeed(claim_one(engine)))
    settle(engine, succeed(claim_one(engine)))
    assert set(states(engine).values()) == {State.COMPLETED}
    check_held(engine, "first", held=False)
    check_held(engine, "third", held=False)
    assert states(engine) == {"second": State.COMPLETED}


def test_the_jobs_of_a_flow_stay_until_all_of_it_is_over(engine: Engine) -> None:
    engine.insert([new_job("a", flow="f"), new_job("b", flow="f")], edges=[], flow=FlowRow("f", "flow", NOW), now=NOW)
    complete_next = claim_one(engine)
    settle(engine, succeed(complete_next))
    check_held(engine, "a", held=True)
    settle(engine, succeed(claim_one(engine)))
    check_held(engine, "a", held=False)
    assert [tally.flow.id for tally in engine.flow_store.flows(5)] == ["f"]
    check_held(engine, "b", held=False)
    assert engine.flow_store.flows(5) == []


def test_a_flow_does_not_stay_for_another_one(engine: Engine) -> None:
    engine.insert([new_job("a", flow="f")], edges=[], flow=FlowRow("f", "flow", NOW), now=NOW)
    settle(engine, succeed(claim_one(engine)))
    engine.insert([new_job("b", flow="g")], edges=[], flow=FlowRow("g", "flow", NOW), now=NOW)
    check_held(engine, "a", held=False)


def test_what_would_run_again_with_a_dead_letter_stays_with_it(engine: Engine) -> None:
    """Requeued, the job is given its parent's result, and those that were cancelled with it run after it."""
    plant_chain(engine, "first", "second", "third", "fourth")
    settle(engine, succeed(claim_one(engine)))
    settle(engine, fail(claim_one(engine)))
    assert states(engine)["fourth"] is State.CANCELLED
    for name in ("first", "second", "third", "fourth"):
        check_held(engine, name, held=True)
    engine.dead_letters.update([pending(engine, "second").id], "manually_resolved", now=NOW)
    for name in ("first", "second", "third", "fourth"):
        check_held(engine, name, held=False)


def test_a_flow_stays_whole_as_long_as_a_dead_letter_of_it_is_pending(engine: Engine) -> None:
    engine.insert([new_job("a", flow="f"), new_job("b", flow="f")], edges=[], flow=FlowRow("f", "flow", NOW), now=NOW)
    settle(engine, succeed(claim_one(engine)))
    settle(engine, fail(claim_one(engine)))
    check_held(engine, "a", held=True)
    engine.dead_letters.update([pending(engine, "b").id], "manually_resolved", now=NOW)
    check_held(engine, "a", held=False)
    check_held(engine, "b", held=False)


def test_the_removal_of_a_lost_parent_decides_nothing(engine: Engine) -> None:
    plant_chain(engine, "parent", "child", policy="hold")
    settle(engine, fail(claim_one(engine)))
    assert row(engine, "child").reason == "held"
    engine.dead_letters.update([pending(engine, "parent").id], "cancelled", now=NOW)
    before = row(engine, "child")
    assert engine.retention_store.delete([lease(engine, "parent")]) == []
    assert row(engine, "child") == before
    engine.queries.move(the("child"), Trigger.PROMOTE_NOW, 1, now=NOW)
    settle(engine, succeed(claim_one(engine)))
    kept = row(engine, "child")
    assert engine.retention_store.delete([lease(engine, "parent")]) == ["parent"]
    assert row(engine, "child").version == kept.version


# -- removing


def test_removed_are_those_that_are_over_at_this_very_version(engine: Engine) -> None:
    complete(engine, "gone")
    complete(engine, "revived")
    complete(engine, "older")
    leases = [lease(engine, name) for name in ("gone", "revived", "older")]
    engine.queries.move(the("revived"), Trigger.REVIVE, 1, now=NOW)
    leases[2] = Lease("older", leases[2].version - 1)
    running = submit_and_claim(engine, "running", priority=9)
    asked = [*leases, Lease("running", running.version), Lease("nowhere", 1)]
    assert engine.retention_store.delete(asked) == ["gone"]
    assert states(engine) == {
        "revived": State.PENDING,
        "older": State.COMPLETED,
        "running": State.RUNNING,
    }
    assert engine.retention_store.delete(asked) == []
    assert engine.retention_store.delete([]) == []


def test_nothing_is_left_of_what_was_removed(engine: Engine) -> None:
    claimed = submit_and_claim(engine, tags=("red",), unique_key="k")
    engine.exchange([], None, [log(claimed, "hello")], now=NOW)
    engine.save_step(Lease(claimed.id, claimed.version), Step("step", "a", 1, NOW), now=NOW)
    settle(engine, fail(claimed))
    engine.dead_letters.update([pending(engine).id], "manually_resolved", now=NOW)
    engine.retention_store.delete([lease(engine)])
    assert (
        rows(engine),
        engine.queries.details("job").history,
        engine.queries.details("job").logs,
        engine.queries.details("job").steps,
    ) == (
        {},
        [],
        [],
        [],
    )
    assert engine.queries.count(EVERYTHING).jobs == 0
    assert engine.queries.finished(["job"]) == {"job"}
    assert kinds(engine.insert([new_job("job", tags=("red",))], now=NOW)) == ["new"]
    assert engine.queries.details("job").history == []


def test_whoever_waits_is_told_of_a_removal(engine: Engine) -> None:
    complete(engine)
    bell = engine.listen("done")
    try:
        while bell.wait(0):
            pass
        engine.retention_store.delete([lease(engine)])
        assert bell.wait(PATIENCE)
    finally:
        bell.close()


def test_nothing_is_removed_while_a_notice_hangs_at_the_door(engine: Engine) -> None:
    complete(engine)
    engine.transfer.set_status(StoreStatus("moved", "elsewhere", NOW))
    assert engine.retention_store.delete([lease(engine)]) == []
    engine.transfer.set_status(None)
    assert engine.retention_store.delete([lease(engine)]) == ["job"]


def test_two_who_sweep_remove_each_job_once(engine: Engine) -> None:
    for number in range(20):
        complete(engine, f"j{number}")
    leases = [Lease(job.id, job.version) for job in told(engine)]
    gone = [engine.retention_store.delete(leases[:15]), engine.retention_store.delete(leases[5:])]
    assert sorted(gone[0] + gone[1]) == sorted(one.id for one in leases)


# -- packing


def test_jobs_are_packed_with_all_that_is_theirs(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.exchange([], None, [log(claimed, "hello")], now=NOW)
    engine.save_step(Lease(claimed.id, claimed.version), Step("step", "a", 1, NOW), now=NOW)
    settle(engine, fail(claimed))
    complete(engine, "other")
    packed = {
        job_export.job.id: job_export
        for job_export in engine.transfer.export_jobs(ids=["job", "nowhere", "other", "job"])
    }
    expected = {job_export.job.id: job_export for job_export in engine.transfer.export_jobs(0, 10)}
    assert packed == expected
    assert isinstance(packed["job"], JobExport)
    assert (len(packed["job"].history), len(packed["job"].logs), len(packed["job"].steps)) == (2, 1, 1)
    assert engine.transfer.export_jobs(ids=[]) == []


def test_a_packed_job_can_be_put_back(engine: Engine) -> None:
    engine.insert([new_job("p"), child("c")], all_or_nothing=True, now=NOW)
    complete(engine, "job", priority=9)
    before = row(engine)
    job_exports = engine.transfer.export_jobs(ids=["job"])
    engine.retention_store.delete([lease(engine)])
    assert engine.transfer.import_records(job_exports) == 1
    assert row(engine).result == before.result
    assert row(engine).version == before.version
