"""Retention as users have it: finished jobs leave the store when their time has come, and are found in the archive."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from headrace import (
    ConfigError,
    Headrace,
    InvalidJob,
    JobFailed,
    JobNotFound,
    Lifecycle,
    PermanentError,
    State,
    Task,
    current_job,
)
from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.retention.archive import row_of
from headrace.core.retention.retention import RetentionRun
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.archive import Archive
from headrace.errors import EngineUnavailable, StoreMoved
from headrace.runtime.retention.last_run import last_run, store_last_run
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.sweep import RetentionSweep
from headrace.runtime.retention.sweep_task import RetentionTask
from headrace.testing import VirtualClock, drain
from tests.support.waiting import PATIENCE, eventually

DAY = 86_400


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, folder: Path, clock: VirtualClock) -> Iterator[Headrace]:
    """Redis has no archive of its own."""
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if url.startswith("redis") else None
    with Headrace(url, clock=clock, archive_url=elsewhere) as app:
        yield app


@pytest.fixture
def work(app: Headrace) -> Task[..., Any, Any]:
    @app.task(retry=0)
    def work(number: int = 0, *, fail: bool = False) -> int:
        if fail:
            raise PermanentError(f"no {number}")
        return number

    return work


def archive_of(app: Headrace) -> Archive:
    archive = app.services.archive
    assert archive is not None
    return archive


def run_retention(app: Headrace) -> RetentionCounts:
    """Run retention as a worker's maintenance task does, to the end."""
    counts = RetentionCounts()
    for _ in RetentionSweep(app.engine, app.settings, app.services.archive).walk(counts, full_scan=False):
        pass
    return counts


def both(app: Headrace) -> tuple[list[str], list[str]]:
    """The ids that are live, and those that are archived."""
    return sorted(job.id for job in app.jobs.find(limit=1000)), sorted(
        job.id for job in app.jobs.find(limit=1000, archived=True)
    )


# -- when


def test_finished_jobs_leave_after_their_time_and_open_ones_never(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    done, failed = work.enqueue(1), work.enqueue(2, fail=True)
    drain(app)
    cancelled, waiting = work.using(delay=99 * DAY).enqueue(), work.using(delay=98 * DAY).enqueue()
    cancelled.cancel()
    app.dead.resolve(failed.id, "manually_resolved")
    clock.advance(7 * DAY - 1)
    run_retention(app)
    assert len(both(app)[0]) == 4
    clock.advance(1)
    assert run_retention(app).archived == 2
    assert both(app) == (sorted([failed.id, waiting.id]), sorted([done.id, cancelled.id]))
    clock.advance(23 * DAY)
    assert run_retention(app).archived == 1
    assert both(app)[0] == [waiting.id]


def test_a_task_over_its_queue_over_the_settings_says_how_long(app: Headrace, clock: VirtualClock) -> None:
    @app.task(lifecycle=Lifecycle(keep_completed=DAY))
    def short() -> None: ...

    @app.task
    def usual() -> None: ...

    @app.task(lifecycle=Lifecycle(keep_completed=None))
    def ever() -> None: ...

    app.lifecycle.sync()
    app.lifecycle.configure(queue="brief", keep_completed=2 * DAY)
    jobs = {
        name: task.using(queue=queue).enqueue()
        for name, task, queue in [
            ("short", short, "default"),
            ("usual", usual, "default"),
            ("brief", usual, "brief"),
            ("both", short, "brief"),
            ("ever", ever, "brief"),
        ]
    }
    drain(app)
    gone: dict[float, set[str]] = {}
    for day in (0.9, 1, 2, 6.9, 7, 100):
        clock.set(jobs["usual"].refresh().created_at)
        clock.advance(day * DAY + 1)
        run_retention(app)
        gone[day] = {name for name, job in jobs.items() if job.refresh().archived}
    assert gone[0.9] == set()
    assert gone[1] == {"short", "both"}
    assert gone[2] == {"short", "both", "brief"}
    assert gone[7] == {"short", "both", "brief", "usual"}
    assert gone[100] == gone[7]


def test_a_pending_dead_letter_keeps_its_job(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    job = work.enqueue(fail=True)
    drain(app)
    clock.advance(31 * DAY)
    assert app.lifecycle.archive().archived == 0
    assert not run_retention(app).anything
    app.dead.resolve(job.id, "permanently_failed", by="ops")
    clock.advance(31 * DAY)
    assert run_retention(app).dead_letters == 0
    assert job.refresh().archived
    assert app.dead.get(job.id).status == "permanently_failed"  # it outlives the job


def test_closed_dead_letters_go_after_their_own_time(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    for status in ("manually_resolved", "cancelled", "permanently_failed"):
        job = work.enqueue(fail=True)
        drain(app)
        app.dead.resolve(job.id, status)
    open_one = work.enqueue(fail=True)
    drain(app)
    clock.advance(30 * DAY)
    assert run_retention(app).dead_letters == 0
    clock.advance(1)
    assert run_retention(app).dead_letters == 2
    left = {dead_letter.status: dead_letter.job_id for dead_letter in app.dead.list(status=None)}
    assert set(left) == {"permanently_failed", "pending"}
    assert left["pending"] == open_one.id


def test_a_flow_stays_until_all_of_it_is_over(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    flow = app.flow("import")
    first = flow.add(work.bind(1))
    flow.add(work.using(delay=9 * DAY).bind(first))
    run = flow.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    assert app.lifecycle.archive(dry_run=False).archived == 0
    clock.advance(2 * DAY)
    drain(app)
    assert run.result(1) is not None
    clock.advance(8 * DAY)
    assert app.lifecycle.archive(dry_run=False).archived == 2
    assert [job.result(0) for job in app.jobs.find(archived=True)] == [1, 1]


@pytest.mark.parametrize("is_flow", [True, False])
def test_what_failed_runs_again_after_its_parents_time_was_over(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, is_flow: bool
) -> None:
    fails = [True]

    @app.task(retry=0)
    def double(number: Any) -> int:
        if fails:
            raise PermanentError("not yet")
        return int(number * 2)

    if is_flow:
        flow = app.flow("import")
        flow.add(double.bind(flow.add(double.bind(flow.add(work.bind(5))))))
        jobs = flow.enqueue().jobs
    else:
        jobs = [work.enqueue(5)]
        jobs += [double.enqueue(jobs[0])]
        jobs += [double.enqueue(jobs[1])]
    drain(app)
    clock.advance(8 * DAY)
    assert run_retention(app).archived == 0
    fails.clear()
    app.dead.requeue(jobs[1].id)
    drain(app)
    assert jobs[2].result(0) == 20


def test_the_result_of_a_flow_is_read_from_the_archive(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    flow = app.flow("import")
    flow.add(work.bind(flow.add(work.bind(5))))
    run = flow.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    assert run_retention(app).archived == 2
    assert run.result(0) == 5


def test_a_job_may_come_after_an_archived_one_that_was_completed(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    done, failed = work.enqueue(1), work.enqueue(2, fail=True)
    drain(app)
    app.dead.resolve(app.dead.get(failed.id).id, "manually_resolved")
    clock.advance(40 * DAY)
    assert run_retention(app).archived == 2
    live = work.enqueue(3)
    after_one = work.using(after=[done]).enqueue(4)
    after_both = work.using(after=[done, live]).enqueue(5)
    later = work.using(after=[done], delay=60).enqueue(6)
    assert [job.state for job in (after_one, after_both, later)] == ["pending", "waiting", "scheduled"]
    drain(app)
    assert (after_one.result(0), after_both.result(0)) == (4, 5)
    for parents in ([failed], [done, failed], ["nobody"]):
        with pytest.raises(InvalidJob, match="which does not exist"):
            work.using(after=parents).enqueue(7)
    with pytest.raises(InvalidJob, match="which does not exist"):
        work.enqueue(done)  # its result would have to be there


# -- removal


def test_jobs_to_remove_on_finish_go_with_the_next_run(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    app.lifecycle.configure(task=work.name, remove_on_complete=True)
    done, failed = work.enqueue(5), work.enqueue(fail=True)
    drain(app)
    assert not run_retention(app).anything  # a waiter has a moment to see it
    assert done.result(1) == 5
    clock.advance(10)
    assert run_retention(app).archived == 1
    assert both(app) == ([failed.id], [done.id])
    assert done.result(1) == 5  # of the archive


def test_only_the_newest_stay(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    app.lifecycle.configure(task=work.name, remove_on_complete=3, remove_on_fail=1)
    jobs = []
    for number in range(6):
        jobs.append(work.enqueue(number))
        elsewhere = work.using(queue="other").enqueue(number)
        drain(app)
        clock.advance(1)
    clock.advance(10)
    assert app.lifecycle.archive().archived == 6
    assert run_retention(app).archived == 6
    assert {job.id for job in jobs[3:]} | {elsewhere.id} <= set(both(app)[0])
    assert run_retention(app).archived == 0
    jobs.append(work.enqueue(6))
    drain(app)
    clock.advance(11)
    assert run_retention(app).archived == 1
    assert jobs[3].refresh().archived


def test_a_single_call_is_removed_where_a_worker_has_seen_it(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    kept = work.enqueue(1)
    gone = work.using(remove_on_complete=True).enqueue(2)
    drain(app)
    clock.advance(60)
    seen: set[str] = set()
    maintenance_task = RetentionTask(app.engine, app.settings, 1.0, lambda: app.services.archive, seen)
    run_to_end(maintenance_task)
    assert not gone.refresh().archived
    seen.add("default")
    clock.advance(60)
    run_to_end(maintenance_task)
    assert (gone.refresh().archived, kept.refresh().archived) == (True, False)
    another = work.using(remove_on_complete=True).enqueue(3)
    drain(app)
    clock.advance(60)
    run_to_end(maintenance_task)
    assert another.refresh().archived


def _refuse(*_: Any) -> None:
    raise EngineUnavailable("the store is full")


def test_a_single_call_is_removed_also_by_a_worker_that_never_ran_one(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = work.using(remove_on_complete=True).enqueue(2)
    drain(app)
    clock.advance(60)
    seen, other = (
        RetentionTask(app.engine, app.settings, 1.0, lambda: app.services.archive, queues)
        for queues in ({"default"}, ())
    )
    store_last_run(
        app.engine.document_store, RetentionRun(at=clock.now(), duration=1, until=clock.now() + 10_000)
    )  # it is another's turn
    assert seen.do() > 0
    clock.advance(60)
    run_to_end(other)
    assert gone.refresh().archived
    assert [document.key for document in app.engine.document_store.get("~removing")] == ["default"]
    clock.advance(31 * DAY)
    with monkeypatch.context() as full:
        full.setattr(type(app.engine.document_store), "put", _refuse)
        run_to_end(other)
    clock.advance(60)
    run_to_end(other)
    assert app.engine.document_store.get("~removing") == []
    run_to_end(seen)  # it is noted again, if it is met again
    assert [document.key for document in app.engine.document_store.get("~removing")] == ["default"]


def run_to_end(maintenance_task: RetentionTask) -> float:
    while (pause := maintenance_task.do()) == 0.0:
        pass
    return pause


def test_a_job_with_an_idempotency_key_is_known_for_its_day(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    app.lifecycle.configure(task=work.name, remove_on_complete=True)
    first = work.using(idempotency_key="k").enqueue(1)
    drain(app)
    clock.advance(DAY - 1)
    assert not run_retention(app).anything
    assert work.using(idempotency_key="k").enqueue(2).id == first.id
    clock.advance(2)
    assert run_retention(app).archived == 1


def test_held_jobs_are_removed_after_their_hold_ends(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    """Once their flow is over, or the day of their key has passed."""
    app.lifecycle.configure(task=work.name, remove_on_complete=True)
    maintenance_task = RetentionTask(app.engine, app.settings, 1.0, lambda: app.services.archive)
    keyed = work.using(idempotency_key="k").enqueue()
    flow = app.flow("long")
    flow.add(work.bind(1))
    flow.add(work.using(delay=3600).bind(2))
    run = flow.enqueue()
    drain(app)
    for _ in range(2):
        clock.advance(600)
        run_to_end(maintenance_task)
    assert (len(both(app)[0]), both(app)[1]) == (3, [])
    clock.advance(3600)
    drain(app)
    assert run.refresh().state == "completed"
    clock.advance(600)
    run_to_end(maintenance_task)
    assert both(app)[0] == [keyed.id]
    for _ in range(24):
        clock.advance(3600)
        run_to_end(maintenance_task)
    assert both(app)[0] == []


def test_without_an_archive_jobs_are_deleted(url: str, clock: VirtualClock) -> None:
    with Headrace(url, clock=clock, archive=False) as app:

        @app.task
        def work() -> int:
            return 1

        job = work.enqueue()
        drain(app)
        clock.advance(8 * DAY)
        run = app.lifecycle.archive(dry_run=False)
        assert (run.archived, run.deleted) == (0, 1)
        with pytest.raises(JobNotFound):
            job.refresh()
        assert both(app) == ([], [])


# -- dry runs


def test_a_dry_run_is_the_default_and_lists_the_very_jobs_of_the_real_run(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    app.lifecycle.configure(queue="few", remove_on_complete=2)
    for number in range(5):
        work.using(queue="few").enqueue(number)
        work.enqueue(number)
        held = work.enqueue(number, fail=True)
        drain(app)
        clock.advance(DAY)
    assert held.state is State.PENDING
    clock.advance(3.5 * DAY)
    before = both(app)
    found = app.lifecycle.archive()
    assert found.dry_run
    assert both(app) == before
    assert found.archived == 5
    real = app.lifecycle.archive(dry_run=False)
    assert (real.archived, real.deleted, real.jobs) == (found.archived, found.deleted, found.jobs)
    assert both(app)[1] == found.jobs
    assert app.lifecycle.archive().jobs == []


# -- jobs of the archive


def test_an_archived_job_reads_as_any_other(app: Headrace, clock: VirtualClock) -> None:
    @app.task(retry=1, tags=("red",))
    def work(number: int) -> int:
        current_job().log("tried", number=number)
        if current_job().attempt == 1:
            raise ConnectionError("away")
        return number

    job = work.using(priority=4, metadata={"a": 1}).enqueue(7)
    drain(app)
    clock.advance(9 * DAY)
    drain(app)
    before = app.jobs.get(job.id)
    expected = (
        before.state,
        before.args,
        before.priority,
        before.tags,
        before.metadata,
        before.attempt,
        before.result(1),
    )
    history, logs, errors = before.history(), before.logs(), before.errors
    clock.advance(8 * DAY)
    app.lifecycle.archive(dry_run=False)
    for found in (app.jobs.get(job.id), job.refresh(), app.jobs.find(archived=True)[0]):
        assert found.archived
        assert expected == (
            *(found.state, found.args, found.priority, found.tags, found.metadata, found.attempt),
            found.result(1),
        )
        assert (found.history(), found.logs(), found.errors) == (history, logs, errors)
        assert "archive" in found.why()
    assert len(errors) == 1
    assert len(logs) == 2


def test_a_failed_job_of_the_archive_raises_its_error(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    job = work.enqueue(3, fail=True)
    drain(app)
    app.dead.resolve(job.id, "cancelled")
    clock.advance(31 * DAY)
    run_retention(app)
    with pytest.raises(JobFailed, match="no 3"):
        job.result(1)


def test_archived_jobs_are_found_by_the_same_filters(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    jobs = []
    for number in range(5):
        jobs.append(work.using(queue="q1" if number % 2 else "q2", tags=[f"t{number}"]).enqueue(number))
        drain(app)
        clock.advance(DAY)
    clock.advance(9 * DAY)
    run_retention(app)
    ids = [job.id for job in reversed(jobs)]
    assert [job.id for job in app.jobs.find(archived=True)] == ids
    assert [job.id for job in app.jobs.find(archived=True, queue="q1")] == [ids[1], ids[3]]
    assert [job.id for job in app.jobs.find(archived=True, tag="t2")] == [ids[2]]
    ended = jobs[2].refresh().finished_at
    assert [job.id for job in app.jobs.find(archived=True, since=ended)] == ids[:3]
    assert [job.id for job in app.jobs.find(archived=True, until=ended)] == ids[3:]
    page = app.jobs.find(archived=True, limit=2)
    assert [job.id for job in app.jobs.find(archived=True, limit=9, cursor=page.cursor)] == ids[2:]
    assert app.jobs.count(archived=True, queue="q2") == 3
    assert app.jobs.count(archived=True, state="failed") == 0
    for wrong in ("text", "worker", "flow"):
        given: dict[str, Any] = {wrong: "x"}
        with pytest.raises(InvalidJob, match=wrong):
            app.jobs.find(archived=True, **given)


def test_what_can_not_be_done_with_an_archived_job_says_so(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    job = work.enqueue(1)
    drain(app)
    clock.advance(8 * DAY)
    run_retention(app)
    with pytest.raises(InvalidJob, match="archive"):
        job.retry()
    assert not job.cancel()
    assert not job.promote()
    assert job.refresh().archived


def test_an_archived_job_can_be_deleted_for_good(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    job, other = work.enqueue(1), work.enqueue(2)
    drain(app)
    clock.advance(8 * DAY)
    run_retention(app)
    live = work.enqueue(3)
    assert job.delete()
    assert not job.delete()
    with pytest.raises(JobNotFound):
        app.jobs.get(job.id)
    assert app.jobs.get(other.id).archived
    assert app.jobs.delete(ids=[job.id, other.id, live.id]) == 2
    assert app.jobs.count(archived=True) == 0


def test_a_job_is_brought_back_to_run_again(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    job = work.enqueue(1)
    drain(app)
    clock.advance(8 * DAY)
    run_retention(app)
    back = app.lifecycle.restore(job.id)
    assert (back.state, back.archived) == (State.PENDING, False)
    assert both(app) == ([job.id], [])
    with pytest.raises(JobNotFound):
        app.lifecycle.restore("nowhere")
    with pytest.raises(InvalidJob, match="is in the store"):
        app.lifecycle.restore(job.id)
    drain(app)
    assert job.result(1) == 1
    assert "revive" in [entry.event for entry in job.history()]
    clock.advance(8 * DAY)
    run_retention(app)
    assert both(app) == ([], [job.id])


@pytest.mark.parametrize("kind", ["moved", "arriving"])
def test_nothing_is_brought_back_while_the_store_is_being_moved(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, kind: Literal["moved", "arriving"]
) -> None:
    job = work.enqueue(1)
    drain(app)
    clock.advance(8 * DAY)
    run_retention(app)
    app.engine.transfer.set_status(StoreStatus(kind, "sqlite:////elsewhere.db", 1))
    with pytest.raises(StoreMoved if kind == "moved" else EngineUnavailable, match=r"/elsewhere\.db"):
        app.lifecycle.restore(job.id)
    assert both(app) == ([], [job.id])
    app.engine.transfer.set_status(None)
    assert app.lifecycle.restore(job.id).state is State.PENDING


# -- races and crashes


def test_a_job_that_runs_again_meanwhile_stays(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = work.enqueue(1)
    drain(app)
    clock.advance(8 * DAY)
    archive, add = archive_of(app), archive_of(app).add

    def add_and_revive(*args: Any) -> None:
        add(*args)
        job.retry()

    monkeypatch.setattr(archive, "add", add_and_revive)
    assert not run_retention(app).anything
    assert both(app) == ([job.id], [])
    assert archive.count(Filter()) == 0


def test_a_retention_run_that_died_before_the_removal_is_repeated(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = work.enqueue(1)
    drain(app)
    clock.advance(8 * DAY)
    with monkeypatch.context() as patch:
        patch.setattr(app.engine.retention_store, "delete", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_retention(app)
    assert both(app) == ([job.id], [])  # found once
    assert not app.jobs.get(job.id).archived
    assert run_retention(app).archived == 1
    assert both(app) == ([], [job.id])
    assert archive_of(app).count(Filter()) == 1


def test_after_such_a_death_the_job_may_run_again_and_is_archived_once(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    job = work.enqueue(1)
    drain(app)
    [job_export] = app.engine.transfer.export_jobs(ids=[job.id])
    archive_of(app).add([row_of(job_export)], "weekly")
    clock.advance(20 * DAY)
    job.retry()
    drain(app)
    clock.advance(8 * DAY)
    assert run_retention(app).archived == 1
    assert both(app) == ([], [job.id])
    [row] = archive_of(app).find(Filter(), 10).rows
    assert row.finished_at > (job_export.job.finished_at or 0)


def test_two_concurrent_retention_runs_lose_nothing(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    jobs = app.enqueue_many([work.bind(number) for number in range(300)])
    drain(app)
    clock.advance(8 * DAY)
    start, tallies = threading.Barrier(3), [RetentionCounts(), RetentionCounts(), RetentionCounts()]

    def run(counts: RetentionCounts) -> None:
        start.wait(PATIENCE)
        for _ in RetentionSweep(app.engine, app.settings, app.services.archive).walk(counts):
            pass

    threads = [threading.Thread(target=run, args=(counts,)) for counts in tallies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sum(counts.archived for counts in tallies) == 300
    assert both(app) == ([], sorted(job.id for job in jobs))
    assert archive_of(app).count(Filter()) == 300


# -- the maintenance task


def test_workers_run_retention_by_themselves(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    jobs = app.enqueue_many([work.bind(number) for number in range(50)])
    drain(app)
    clock.advance(8 * DAY)
    with app.worker(archive_check=0.1):
        eventually(lambda: app.lifecycle.stats().archived == 50, "all are archived")
    assert both(app) == ([], sorted(job.id for job in jobs))
    stats = app.lifecycle.stats()
    assert (stats.jobs, stats.archived, stats.deleted) == (50, 50, 0)
    assert stats.swept_at is not None
    assert stats.partition in [partition.name for partition in app.lifecycle.partitions()]


def test_one_worker_runs_retention_at_a_time(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    for _ in range(3):
        work.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    one, other = (RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive) for _ in range(2))
    assert one.do() == 0.0
    assert other.do() > 0  # it is left to the first one
    assert run_to_end(one) >= 60.0
    assert both(app)[0] == []
    work.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    assert other.do() == 0.0
    clock.advance(60)  # it died
    assert run_to_end(one) > 0
    assert both(app)[0] == []


def test_after_a_long_run_for_nothing_all_workers_rest_and_not_only_the_one_that_ran(
    app: Headrace, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr("headrace.runtime.retention.sweep_task._IDLE_FACTOR", 1e9)  # as if it had taken long
        rest = run_to_end(one)
    assert rest > 600
    clock.advance(rest / 2)
    assert other.do() == 20.0
    clock.advance(rest)
    assert other.do() == 0.0


def test_a_record_of_a_wrong_clock_blocks_no_run(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    last = RetentionRun(at=clock.now() + 9 * DAY * 1000, duration=1, until=clock.now() + 10 * DAY * 1000)
    store_last_run(app.engine.document_store, last)
    work.enqueue()
    drain(app)
    assert RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive).do() == 0.0


def test_partitions_are_made_ahead_and_dropped_when_they_are_past(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    work.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    run_retention(app)
    names = [partition.name for partition in app.lifecycle.partitions()]
    assert len(names) in (4, 5)  # of the job, of now, and two ahead
    clock.advance(200 * DAY)
    counts = run_retention(app)
    assert counts.dropped == names
    assert both(app) == ([], [])
    assert len(app.lifecycle.partitions()) == 3


def test_no_dead_letter_is_removed_while_the_store_is_closed(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    job = work.enqueue(1, fail=True)
    drain(app)
    app.dead.resolve(app.dead.get(job.id).id, "manually_resolved")
    clock.advance(400 * DAY)
    app.engine.transfer.set_status(StoreStatus("arriving", "elsewhere", 1))
    assert app.lifecycle.archive(dry_run=False).dead_letters == 0, "what arrives has to stay until it is compared"
    app.engine.transfer.set_status(None)
    assert app.lifecycle.archive(dry_run=False).dead_letters == 1


def test_a_dry_run_counts_dead_letters_and_partitions_that_would_go(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    job = work.enqueue(1, fail=True)
    work.enqueue(2)
    drain(app)
    app.dead.resolve(app.dead.get(job.id).id, "manually_resolved")
    clock.advance(8 * DAY)
    run_retention(app)
    clock.advance(400 * DAY)
    found = app.lifecycle.archive()
    assert app.dead.count(status=None) == 1
    real = app.lifecycle.archive(dry_run=False)
    assert (found.dead_letters, found.dropped) == (real.dead_letters, real.dropped)
    assert found.dead_letters == 1
    assert found.dropped


def test_past_partitions_are_dropped_also_where_nothing_is_archived_any_more(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    work.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    run_retention(app)
    clock.advance(200 * DAY)
    for _ in RetentionSweep(app.engine, replace(app.settings, archive=False), app.services.archive).walk(
        RetentionCounts()
    ):
        pass
    assert app.lifecycle.partitions() == []


def test_what_is_older_than_the_archive_keeps_is_not_archived(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    work.enqueue()
    drain(app)
    clock.advance(200 * DAY)
    counts = run_retention(app)
    assert (counts.archived, counts.deleted) == (0, 1)


def test_a_long_retention_run_is_logged(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    work.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    maintenance_task = RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive)
    with caplog.at_level(logging.INFO, "headrace.maintenance"):
        maintenance_task.do()
        clock.advance(181)
        run_to_end(maintenance_task)
    assert "1 job archived in 181.0 s" in caplog.text
    assert "retention took 181 s" in caplog.text


def test_a_walk_that_failed_begins_anew(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.enqueue()
    drain(app)
    clock.advance(8 * DAY)
    maintenance_task = RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive)
    with monkeypatch.context() as patch:
        patch.setattr(archive_of(app), "add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_to_end(maintenance_task)
    found = last_run(app.engine.document_store)
    assert found is not None
    assert found.error == "ZeroDivisionError: division by zero"  # for the doctor
    clock.advance(60)
    run_to_end(maintenance_task)
    assert app.jobs.count(archived=True) == 1
    found = last_run(app.engine.document_store)
    assert found is not None
    assert found.error is None


# -- export


def test_archived_jobs_are_exported(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, tmp_path: Path
) -> None:
    for number in range(3):
        work.using(tags=["t"]).enqueue(number)
        drain(app)
        clock.advance(DAY)
    clock.advance(9 * DAY)
    run_retention(app)
    target = tmp_path / "jobs.jsonl"
    assert app.lifecycle.export(target) == 3
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["result"] for line in lines] == [2, 1, 0]
    assert (lines[0]["task"], lines[0]["state"], lines[0]["tags"]) == (work.name, "completed", ["t"])
    assert [entry["event"] for entry in lines[0]["history"]] == ["submit", "claim", "succeed"]
    assert lines[0]["history"][0]["at"] == lines[0]["created_at"]
    assert app.lifecycle.export(tmp_path / "one.jsonl", ids=[lines[0]["id"]]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.jsonl", "one.jsonl"]
    with pytest.raises(InvalidJob, match="jsonl or"):
        app.lifecycle.export(tmp_path / "jobs.csv")
    with pytest.raises(InvalidJob, match="path"):
        app.lifecycle.export(tmp_path / "nowhere" / "jobs.jsonl")


@pytest.mark.engines("sqlite")
def test_a_table_of_them_is_written_with_the_extra(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock, tmp_path: Path
) -> None:
    work.enqueue(4)
    drain(app)
    clock.advance(9 * DAY)
    run_retention(app)
    try:
        from pyarrow import parquet
    except ImportError:
        with pytest.raises(ConfigError, match="parquet"):
            app.lifecycle.export(tmp_path / "jobs.parquet")
        return
    assert app.lifecycle.export(tmp_path / "jobs.parquet") == 1
    [row] = parquet.read_table(tmp_path / "jobs.parquet").to_pylist()
    assert (row["task"], row["state"], row["result"], row["attempts"]) == (work.name, "completed", "4", 1)


def test_the_archive_shows_how_long_tasks_ran(app: Headrace, work: Task[..., Any, Any], clock: VirtualClock) -> None:
    for _ in range(3):
        work.enqueue()
    drain(app)
    clock.advance(9 * DAY)
    run_retention(app)
    [found] = app.lifecycle.durations(task=work.name)
    assert (found.task, found.jobs) == (work.name, 3)


def test_archived_jobs_are_counted_by_the_month_of_their_end(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    year = clock.moment.year + 1
    for month, day, jobs in ((9, 15, 1), (9, 30, 2), (10, 1, 3), (10, 20, 4), (12, 31, 1)):  # in weeks, as it is stored
        clock.set(datetime(year, month, day, 12, tzinfo=UTC))
        for _ in range(jobs):
            work.enqueue()
        drain(app)
    assert app.lifecycle.months() == []
    clock.advance(9 * DAY)
    run_retention(app)
    months = app.lifecycle.months()
    assert [(one.month, one.jobs) for one in months] == [(f"{year}-09", 3), (f"{year}-10", 7), (f"{year}-12", 1)]
    filled = [one for one in app.lifecycle.partitions() if one.jobs]
    assert len(filled) == 4  # the last of September and the first of October are of one week
    assert 0 <= sum(one.bytes for one in filled) - sum(one.bytes for one in months) < 2


# -- where it is


def test_an_archive_in_another_store(url: str, folder: Path, clock: VirtualClock) -> None:
    other = f"sqlite:///{folder / 'other.db'}"
    with Headrace(url, clock=clock, archive_url=other) as app:

        @app.task
        def work() -> int:
            return 1

        job = work.enqueue()
        drain(app)
        clock.advance(8 * DAY)
        run_retention(app)
        assert job.refresh().archived
    with Headrace(other) as looking:
        assert [found.id for found in looking.jobs.find(archived=True)] == [job.id]


@pytest.mark.engines("redis")
def test_redis_alone_deletes_by_the_same_terms(url: str, clock: VirtualClock) -> None:
    with Headrace(url, clock=clock) as app:
        app.enqueue("work")
        app.engine.queries.move(Filter(), Trigger.CANCEL, 5)
        clock.advance(8 * DAY)
        counts = run_retention(app)
        assert (counts.archived, counts.deleted) == (0, 1)
        assert both(app) == ([], [])
        assert app.lifecycle.partitions() == []
        with pytest.raises(ConfigError, match="archive_url"):
            app.lifecycle.restore("job")


def test_only_a_store_in_sql_may_have_the_archive() -> None:
    with pytest.raises(ConfigError, match="archive_url"):
        Settings(archive_url="redis://localhost")


def test_a_lease_of_another_version_leaves_a_held_job_alone(
    app: Headrace, work: Task[..., Any, Any], clock: VirtualClock
) -> None:
    job = work.enqueue()
    drain(app)
    row = app.engine.queries.get([job.id])[0]
    stale = replace(row, version=row.version - 1)
    assert app.engine.retention_store.delete([Lease(stale.id, stale.version)]) == []
    clock.advance(8 * DAY)
    assert run_retention(app).archived == 1
