"""A transfer into a store with jobs: these stay, and differences are reported."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from headrace.app.services.why import explain
from headrace.app.transfer.move import StoreCopy
from headrace.core.jobs.records import Filter, JobUpdate
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from tests.runtime.transfer.kit import ELSEWHERE, JOBS, cut_off, move
from tests.runtime.transfer.store_contents import by_force, claim_from, contents, dead_letters, fill, without_nul
from tests.support.builders import (
    fail,
    new_job,
    only,
    row,
    states,
    succeed,
)
from tests.support.cases import PAIRS
from tests.support.engines import StoreUnderTest

# -- into a store in use


def test_jobs_are_added_to_a_store_in_use_and_ids_that_are_there_stay(source: Engine, target: Engine) -> None:
    fill(source, 300)
    source.reap(300, alive=True)
    source_jobs = without_nul(contents(source))
    target.insert([new_job("mine"), new_job("job-000010", payload='["mine"]')], now=1_000_000)
    target.queries.pause_queue("mail", True)
    target.queries.pause_queue("paused", False)
    target_jobs = contents(target)
    made = StoreCopy(source, target, into_used=True)
    copied = made.run(0)
    assert (copied.jobs, copied.known) == (299, 1)
    result = made.verify()
    assert (result.differences, result.taken) == ([], {"job-000010"})
    made.open()
    assert contents(target) == [
        *target_jobs,
        *(job_export for job_export in source_jobs if job_export.job.id != "job-000010"),
    ]
    paused = {queue.name: queue.paused for queue in target.queries.rules().queues}
    assert (paused["mail"], paused["paused"]) == (True, False), "what the store in use has set stays"


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_jobs_that_ran_at_both_stores_by_themselves_stay_as_they_are_in_the_one_in_use(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    """One of them was restored from a backup of the other, say. Each ran the same jobs as often."""
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    now = source.clock.now()
    names = ["completed", "failed", "failed and deleted", "waits"]
    for engine, at in ((source, now), (target, now + 77)):
        queues = ["mail"] * 3 + ["later"]
        engine.insert([new_job(n, queue=q, created_at=now, run_at=now) for n, q in zip(names, queues, strict=True)])
        claims = engine.exchange([], only("mail"), now=at).claims
        engine.exchange([(succeed if c.id == "completed" else fail)(c, at=at) for c in claims], None, now=at)
    target.queries.move(Filter(ids=("failed and deleted",)), Trigger.DELETE, 1)
    before, before_dead_letters = contents(target), dead_letters(target)
    made = StoreCopy(source, target, into_used=True)
    made.run(0)
    result = made.verify()
    assert (result.differences, result.taken) == ([], {"completed", "failed"})
    made.open()
    assert [job_export for job_export in contents(target) if job_export.job.id != "failed and deleted"] == before
    assert states(target)["failed and deleted"] == State.FAILED
    assert dead_letters(target) == before_dead_letters, "one is open for each"


def test_adding_that_was_cut_off_goes_on(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    target.insert([new_job("mine")])
    cut_off(source, target, 100, into_used=True)
    made = StoreCopy(source, target, into_used=True)
    copied = made.run(0)
    assert copied.jobs + copied.known == JOBS
    assert copied.known > 0
    assert made.verify().differences == []
    assert [job_export.job.id for job_export in contents(target)] == ["mine", *(p.job.id for p in contents(source))]


# -- differences


def last_job(engine: Engine, state: State) -> str:
    return engine.queries.find(Filter(states=(state,)), 1).jobs[0].id


def delete_one(target: Engine) -> str:
    job_id = last_job(target, State.COMPLETED)
    target.queries.move(Filter(ids=(job_id,)), Trigger.DELETE, 1)
    return rf"job {job_id} \(completed\) is missing"


def amend_one(target: Engine) -> str:
    job_id = last_job(target, State.PENDING)
    assert target.queries.update(job_id, JobUpdate(priority=50))
    return f"job {job_id} differs in priority, version, updated_at, history"


def cancel_one(target: Engine) -> str:
    job_id = last_job(target, State.PENDING)
    target.queries.move(Filter(ids=(job_id,)), Trigger.CANCEL, 1)
    return f"job {job_id} differs in state, .*history"


def open_a_queue(target: Engine) -> str:
    target.queries.pause_queue("paused", False)
    return "queue paused should be paused and is not"


@pytest.mark.parametrize("tamper", [delete_one, amend_one, cancel_one, open_a_queue])
def test_differences_are_found_and_reported(source: Engine, target: Engine, tamper: Callable[[Engine], str]) -> None:
    fill(source, JOBS)
    made = StoreCopy(source, target)
    made.run(0)
    with by_force(target):
        expected = tamper(target)
    result = made.verify()
    assert result.different == len(result.differences) == 1
    [difference] = map(str, result.differences)
    assert re.fullmatch(expected, difference), difference


def test_a_job_that_is_missing_is_brought_by_another_run_if_nothing_behind_it_is_there(
    source: Engine, target: Engine
) -> None:
    fill(source, JOBS)
    StoreCopy(source, target).run(0)
    job_id = contents(source)[-1].job.id
    with by_force(target):
        target.queries.move(Filter(ids=(job_id,)), Trigger.DELETE, 1)
    assert StoreCopy(source, target).verify().different == 1
    move(source, target)


def test_jobs_out_of_order_are_found(source: Engine, target: Engine) -> None:
    fill(source, 60)
    job_exports = without_nul(source.transfer.export_jobs(0, 100))
    job_exports[20], job_exports[40] = job_exports[40], job_exports[20]
    target.transfer.set_status(StoreStatus("arriving", source.url, 1))
    target.transfer.import_records(job_exports)
    target.transfer.import_records(dead_letters(source))
    target.transfer.import_records(source.queries.rules().queues)
    result = StoreCopy(source, target).verify()
    assert result.different == 20
    assert all("is out of order" in str(difference) for difference in result.differences)
    assert [difference.id for difference in result.differences] == [f"job-{number:06d}" for number in range(21, 41)]


def test_altered_contents_are_found(source: Engine, target: Engine) -> None:
    fill(source, 60)
    job_exports = without_nul(source.transfer.export_jobs(0, 100))
    altered = {
        "payload": msgspec.structs.replace(
            job_exports[3], job=msgspec.structs.replace(job_exports[3].job, payload="[0]")
        ),
        "rank": msgspec.structs.replace(job_exports[4], job=msgspec.structs.replace(job_exports[4].job, rank=5)),
        "history": msgspec.structs.replace(next(p for p in job_exports if p.history), history=[]),
        "logs": msgspec.structs.replace(
            next(p for p in job_exports if p.logs and p.job.state is not State.RUNNING), logs=[]
        ),
    }
    by_id = {job_export.job.id: (what, job_export) for what, job_export in altered.items()}
    assert len(by_id) == len(altered)
    target.transfer.set_status(StoreStatus("arriving", source.url, 1))
    target.transfer.import_records([by_id[p.job.id][1] if p.job.id in by_id else p for p in job_exports])
    target.transfer.import_records(dead_letters(source))
    target.transfer.import_records(source.queries.rules().queues)
    result = StoreCopy(source, target).verify()
    assert {difference.id: difference.how for difference in result.differences} == {
        job_id: f"differs in {what}" for job_id, (what, _) in by_id.items()
    }


def test_lost_and_altered_dead_letters_are_found(source: Engine, target: Engine) -> None:
    fill(source, 100)
    first, second, *rest = dead_letters(source)
    target.transfer.set_status(StoreStatus("arriving", source.url, 1))
    target.transfer.import_records(without_nul(source.transfer.export_jobs(0, 1000)))
    target.transfer.import_records([msgspec.structs.replace(second, reason="another"), *rest])
    target.transfer.import_records(source.queries.rules().queues)
    result = StoreCopy(source, target).verify()
    assert [str(difference) for difference in result.differences] == [
        f"dead letter {first.id} of job {first.job_id} is missing",
        f"dead letter {second.id} of job {second.job_id} differs",
    ]


def test_jobs_that_the_source_does_not_hand_out_are_found(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 30)
    pack = source.transfer.export_jobs
    hidden = pack(0, 30)[-1].job
    monkeypatch.setattr(
        source.transfer, "export_jobs", lambda after, limit: [p for p in pack(after, limit) if p.job.id != hidden.id]
    )
    made = StoreCopy(source, target)
    made.run(0)
    [difference] = made.verify().differences
    count = source.queries.count(Filter(queue=hidden.queue)).jobs
    assert str(difference) == f"queue {hidden.queue} has {count} jobs by its count, of which {count - 1} were found"


def test_many_differences_are_counted_and_the_first_are_reported(source: Engine, target: Engine) -> None:
    fill(source, 100)
    target.transfer.set_status(StoreStatus("arriving", source.url, 1))
    target.transfer.import_records(source.queries.rules().queues)
    target.transfer.import_records(dead_letters(source))
    result = StoreCopy(source, target).verify()
    assert (result.different, len(result.differences)) == (100, 20)


# -- why a job does not run


@pytest.mark.parametrize(
    ("store_status", "expected"),
    [
        (StoreStatus("moved", ELSEWHERE, 1), f"The jobs of this store were copied to {ELSEWHERE}"),
        (StoreStatus("arriving", ELSEWHERE, 1), f"This store is being filled from {ELSEWHERE}"),
    ],
    ids=lambda given: getattr(given, "kind", "told"),
)
def test_why_names_the_store_status(source: Engine, store_status: StoreStatus, expected: str) -> None:
    source.insert([new_job("waits"), new_job("runs", queue="mail")])
    claim_from(source, "mail")
    now = source.clock.now()
    assert explain(row(source, "waits"), source, now, store_status).cause.startswith(expected)
    assert explain(row(source, "runs"), source, now, store_status).cause.startswith("It is running")
    assert "No worker is alive" in explain(row(source, "waits"), source, now).cause
