"""Dead letters as users see them: failed jobs are found, shown and requeued, and no secret is revealed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import (
    DeadLetterClosed,
    DeadLetterNotFound,
    Headrace,
    InvalidJob,
    Job,
    JobNotFound,
    PermanentError,
    Retry,
    State,
    Task,
    current_job,
)
from headrace.core.dead_letters.records import STATUSES, DeadLetterFilter, id_at
from headrace.core.jobs.fingerprint import fingerprint_of_lost
from headrace.core.jobs.records import ClaimRequest
from headrace.core.settings.settings import Settings
from headrace.runtime.dead_letters.auto_requeue import AutoRequeue
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from headrace.testing import drain
from tests.support.waiting import PATIENCE

Making = Callable[..., Job[Any]]


@pytest.fixture
def pay(app: Headrace) -> Task[..., Any, Any]:
    @app.task(retry=0, redact=("card",))
    def pay(order: int, card: str = "4111", *, fine: bool = False) -> int:
        if not fine:
            raise ConnectionError(f"no bank for order {order}")
        return order

    return pay


@pytest.fixture
def failed(app: Headrace, pay: Task[..., Any, Any]) -> Making:
    def make(order: int = 1, **options: Any) -> Job[Any]:
        job = pay.using(**options).enqueue(order)
        drain(app)
        assert job.refresh().state is State.FAILED
        return job

    return make


def test_a_final_failure_has_a_dead_letter(app: Headrace, failed: Making) -> None:
    job = failed(7, tags=["vip"], metadata={"shop": 3}, priority=4)
    [dead_letter] = app.dead.list()
    assert (dead_letter.job_id, dead_letter.task, dead_letter.queue, dead_letter.status) == (
        job.id,
        job.task,
        "default",
        "pending",
    )
    assert (dead_letter.reason, dead_letter.original_state, dead_letter.attempts) == ("attempts_used_up", "running", 1)
    assert (dead_letter.priority, dead_letter.tags, dead_letter.metadata) == (4, ("vip",), {"shop": 3})
    assert (dead_letter.error_type, dead_letter.error_message) == ("ConnectionError", "no bank for order 7")
    assert "no bank for order" in (dead_letter.error_traceback or "")
    assert len(dead_letter.fingerprint) == 16
    assert dead_letter.is_pending
    assert app.dead.get(dead_letter.id) == app.dead.get(job.id) == dead_letter
    assert [entry.event for entry in app.dead.history(dead_letter.id)][-1] == "fail"


def test_secrets_are_starred_out(app: Headrace, pay: Task[..., Any, Any]) -> None:
    pay.enqueue(1, "4711-secret")
    pay.enqueue(2, card="4711-secret")
    drain(app)
    for dead_letter in app.dead.list():
        assert "4711-secret" not in repr(dead_letter)
    assert {dead_letter.args for dead_letter in app.dead.list()} == {(1, "***"), (2,)}


def test_why_names_the_dead_letter(app: Headrace, failed: Making) -> None:
    job = failed()
    [dead_letter] = app.dead.list()
    assert f"Its dead letter {dead_letter.id} is pending" in job.why()
    assert "dead letter" not in app.jobs.get(_completed(app)).why()


def _completed(app: Headrace) -> str:
    job = app.task(name="nothing")(lambda: None).enqueue()
    drain(app)
    return job.id


def test_a_requeued_job_runs_again_and_can_succeed(app: Headrace, failed: Making) -> None:
    job = failed(3, priority=5)
    [dead_letter] = app.dead.list()
    answer = app.dead.requeue(dead_letter.id, by="ann", note="bank is back", kwargs={"fine": True})
    assert (answer.requeued, answer.status, answer.requeues, answer.job_id) == (True, "requeued", 1, job.id)
    assert job.refresh().priority == 15
    drain(app)
    assert job.result(PATIENCE) == 3
    closed = app.dead.get(dead_letter.id)
    assert (closed.status, closed.resolved_by, closed.requeues) == ("requeued", "ann", 1)
    assert [(note.text, note.by) for note in closed.notes] == [("bank is back", "ann")]
    assert not app.dead.list()
    assert [found.id for found in app.dead.list(status=None)] == [dead_letter.id]
    assert "requeued from its dead letter by ann" in [entry.message for entry in job.history()]
    assert len(job.errors) == 1


def test_the_limit_of_requeues_ends_in_permanently_failed(app: Headrace, failed: Making) -> None:
    job = failed()
    for count in (1, 2):
        assert app.dead.requeue(job.id, max_requeues=2).requeues == count
        drain(app)
    answer = app.dead.requeue(job.id, max_requeues=2)
    assert (answer.requeued, answer.status) == (False, "permanently_failed")
    assert "max_requeues" in answer.message
    assert job.refresh().state is State.FAILED
    assert app.dead.get(job.id).status == "permanently_failed"


def test_a_dead_letter_is_added_by_hand(app: Headrace, pay: Task[..., Any, Any]) -> None:
    job = pay.using(delay=3600).enqueue(1)
    dead_letter = app.dead.add(job.id, reason="wrong_total", note="ask the shop", by="ann")
    assert (dead_letter.job_id, dead_letter.reason, dead_letter.status, dead_letter.original_state) == (
        *(job.id, "wrong_total", "pending"),
        "scheduled",
    )
    assert [(note.text, note.by) for note in dead_letter.notes] == [("ask the shop", "ann")]
    assert (job.refresh().state, job.reason) == (State.FAILED, "wrong_total")
    with pytest.raises(InvalidJob, match="has a pending dead letter"):
        app.dead.add(job.id)
    with pytest.raises(JobNotFound):
        app.dead.add("nowhere")
    fine = pay.enqueue(2, fine=True)
    drain(app)
    with pytest.raises(InvalidJob, match="is completed"):
        app.dead.add(fine.id)
    app.dead.requeue(job.id)
    drain(app)
    app.dead.resolve(job.id, "manually_resolved")
    again = app.dead.add(job.id)
    assert (again.reason, again.error_type) == ("by_hand", "ConnectionError")


def test_a_dead_letter_shows_when_it_is_requeued_automatically(url: str) -> None:
    settings: dict[str, Any] = {"dead_requeue_after": 60, "dead_requeue_factor": 3, "dead_requeue_limit": 2}
    with Headrace(url, **settings) as app:

        @app.task(name="weak", retry=0)
        def weak() -> None:
            raise OSError

        job = weak.enqueue()
        waits = []
        for _ in range(3):
            drain(app)
            dead_letter = app.dead.get(job.id)
            waits.append(
                dead_letter.next_requeue_at and (dead_letter.next_requeue_at - dead_letter.entered_at).total_seconds()
            )
            app.dead.requeue(job.id)
        assert waits == [60, 180, None]
        assert app.dead.get(job.id).next_requeue_at is None


def test_a_dead_letter_shows_how_far_the_job_had_come_without_its_secrets(app: Headrace) -> None:
    @app.task(name="pay", retry=Retry(limit=1, base=0.001, jitter=0))
    def pay() -> None:
        context = current_job()
        context.step("charge", lambda: "ok")
        context.log("charged", card="4111", password="hunter2")
        context.progress({"done": 1, "password": "hunter2"})
        raise OSError("away")

    job = pay.enqueue()
    drain(app)
    job.promote()
    drain(app)
    job.delete()
    dead_letter = app.dead.get(job.id)
    assert (dead_letter.steps, dead_letter.progress) == (("charge",), {"done": 1, "password": "***"})
    assert [(line.attempt, line.message) for line in dead_letter.logs] == [(1, "charged"), (2, "charged")]
    assert dead_letter.logs[0].fields == {"card": "4111", "password": "***"}
    assert dead_letter.first_failed_at < dead_letter.entered_at
    assert "hunter2" not in repr(dead_letter)


def test_a_dead_letter_is_dealt_with_once(app: Headrace, failed: Making) -> None:
    job = failed()
    dead_letter = app.dead.resolve(job.id, "manually_resolved", by="bob", note="refunded")
    assert (dead_letter.status, dead_letter.resolved_by) == ("manually_resolved", "bob")
    for act in (
        lambda: app.dead.requeue(dead_letter.id),
        lambda: app.dead.resolve(dead_letter.id, "cancelled"),
    ):
        with pytest.raises(DeadLetterClosed, match="manually_resolved already") as expected:
            act()
        assert expected.value.status == "manually_resolved"
    assert [note.text for note in app.dead.note(dead_letter.id, "all good").notes] == ["refunded", "all good"]


def test_a_dead_letter_keeps_the_history_of_a_job_that_is_gone(app: Headrace) -> None:
    @app.task(name="weak", retry=Retry(limit=2, base=0.001, jitter=0))
    def weak() -> None:
        raise ConnectionError("no bank")

    job = weak.enqueue()
    drain(app)
    while job.refresh().state is not State.FAILED:
        job.promote()
        drain(app)
    whole = [(entry.at, entry.event, entry.to_state, entry.attempt, entry.message) for entry in job.history()]
    job.delete()
    kept = app.dead.history(app.dead.get(job.id).id)
    assert [entry.event for entry in kept if entry.event in ("retry", "fail")] == ["retry", "retry", "fail"]
    assert all("no bank" in str(entry.message) for entry in kept if entry.event in ("retry", "fail"))
    assert {(entry.at, entry.event, entry.to_state, entry.attempt, entry.message) for entry in kept} <= set(whole)


def test_a_deleted_job_comes_back_under_its_id(app: Headrace, failed: Making) -> None:
    job = failed(5, tags=["vip"])
    assert job.delete()
    [dead_letter] = app.dead.list()
    assert [entry.event for entry in app.dead.history(dead_letter.id)] == ["fail"]
    answer = app.dead.requeue(dead_letter.id, kwargs={"fine": True})
    assert "stored again" in answer.message
    drain(app)
    back = app.jobs.get(job.id)
    assert (back.state, back.result(PATIENCE), back.tags) == (State.COMPLETED, 5, ("vip",))


def test_edited_arguments_are_checked(app: Headrace, failed: Making) -> None:
    job = failed()
    with pytest.raises(InvalidJob, match="order"):
        app.dead.requeue(job.id, args=["seven"])
    with pytest.raises(InvalidJob, match="colour"):
        app.dead.requeue(job.id, kwargs={"colour": 1})
    with pytest.raises(InvalidJob, match="args: expected a list"):
        app.dead.requeue(job.id, args="7")
    with pytest.raises(InvalidJob, match="kwargs: expected a dict"):
        app.dead.requeue(job.id, kwargs=[1])  # type: ignore[arg-type]
    assert app.dead.get(job.id).is_pending
    app.dead.requeue(job.id, args=[9], kwargs={"fine": True})
    drain(app)
    assert job.result(PATIENCE) == 9


def test_a_task_that_is_not_known_here_takes_any_arguments(app: Headrace, failed: Making) -> None:
    job = failed()
    del app.tasks[job.task]
    app.dead.requeue(job.id, args=["anything"])
    assert job.refresh().args == ("anything",)


def test_failures_of_one_kind_are_one_group(app: Headrace, pay: Task[..., Any, Any]) -> None:
    @app.task(name="other", retry=0)
    def other() -> None:
        raise PermanentError("odd")

    for order in range(3):
        pay.enqueue(order)
    other.enqueue()
    drain(app)
    big, small = app.dead.groups()
    assert (big.task, big.count, big.error_type) == (pay.name, 3, "ConnectionError")
    assert (small.task, small.count, small.message) == ("other", 1, "odd")
    assert big.first_seen <= big.last_seen
    assert {dead_letter.args[0] for dead_letter in app.dead.list(fingerprint=big.fingerprint)} == {0, 1, 2}
    by_reason = {stats.reason: stats for stats in app.dead.stats()}
    assert (by_reason["attempts_used_up"].total, by_reason["permanent_error"].pending) == (3, 1)


def test_a_job_that_lost_its_worker_has_a_dead_letter(app: Headrace, pay: Task[..., Any, Any]) -> None:
    job = pay.enqueue(1)
    now = app.clock.now()
    app.engine.exchange([], ClaimRequest("gone", 1, 1000), now=now)
    app.engine.reap(10, now=now + 2000)
    dead_letter = app.dead.get(job.id)
    assert (dead_letter.reason, dead_letter.error_type) == ("worker_lost", "WorkerLost")
    assert dead_letter.fingerprint == fingerprint_of_lost(pay.name)


def test_many_are_requeued_by_a_filter(app: Headrace, pay: Task[..., Any, Any], failed: Making) -> None:
    jobs = pay_many(app, pay, 7)
    [group] = app.dead.groups()
    foretold = app.dead.requeue_where(fingerprint=group.fingerprint, dry_run=True)
    assert (foretold.matched, foretold.requeued, foretold.dry_run) == (7, 7, True)
    assert app.dead.count() == 7
    done = app.dead.requeue_where(task=pay, limit=3, by="ann")
    assert (done.matched, done.requeued, done.skipped, done.permanently_failed) == (3, 3, 0, 0)
    assert app.dead.count() == 4
    done = app.dead.requeue_where(everything=True, max_requeues=0)
    assert (done.requeued, done.permanently_failed) == (0, 4)
    assert sum(job.refresh().state is State.PENDING for job in jobs) == 3


def pay_many(app: Headrace, pay: Task[..., Any, Any], count: int) -> list[Job[Any]]:
    jobs = app.enqueue_many(pay.bind(order) for order in range(count))
    drain(app)
    assert app.dead.count() == count
    return jobs


def test_a_rate_spreads_the_starts(app: Headrace, pay: Task[..., Any, Any]) -> None:
    jobs = pay_many(app, pay, 4)
    done = app.dead.requeue_where(task=pay.name, rate="1/min")
    starts = sorted(job.refresh().run_at for job in jobs)
    gaps = [(later - one).total_seconds() for one, later in pairwise(starts)]
    assert all(50 < gap <= 60 for gap in gaps)
    assert done.until == starts[-1]
    assert sorted(job.state for job in jobs) == [State.PENDING, *[State.SCHEDULED] * 3]


def test_pages_follow_each_other(app: Headrace, pay: Task[..., Any, Any]) -> None:
    pay_many(app, pay, 5)
    first = app.dead.list(limit=3)
    second = app.dead.list(limit=3, cursor=first.cursor)
    assert (len(first), len(second), second.cursor) == (3, 2, None)
    assert len({dead_letter.id for dead_letter in (*first, *second)}) == 5
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert len(app.dead.list(until=soon)) == 5
    assert len(app.dead.list(since=soon)) == 0


def test_old_dead_letters_are_purged_but_not_pending_ones(app: Headrace, failed: Making) -> None:
    first, second = failed(), failed(2)
    app.dead.resolve(first.id, "cancelled")
    assert app.dead.purge() == 0
    assert app.dead.purge(older_than=0, dry_run=True) in (0, 1)
    app.engine.dead_letters.delete(DeadLetterFilter(statuses=("cancelled",), ended_before=app.clock.now() + 1000), 10)
    with pytest.raises(DeadLetterNotFound, match="purged"):
        app.dead.get(first.id)
    assert app.dead.get(second.id).is_pending
    assert app.engine.dead_letters.count(DeadLetterFilter()) == 1


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda dead: dead.requeue_where(), "at least one filter"),
        (lambda dead: dead.list(color="red"), "unknown filter 'color'"),
        (lambda dead: dead.list(status="odd"), "is not one of pending"),
        (lambda dead: dead.list(limit=0), "limit"),
        (lambda dead: dead.list(since="yesterday"), "since"),
        (lambda dead: dead.resolve("x", "requeued"), "manually_resolved"),
        (lambda dead: dead.requeue_where(task="a", rate="soon"), "rate"),
        (lambda dead: dead.requeue_where(task="a", rate=3), "rate"),
        (lambda dead: dead.requeue_where(task="a", limit=0), "limit"),
        (lambda dead: dead.requeue_where(task="a", priority_boost=1000), "priority_boost"),
        (lambda dead: dead.requeue_where(task="a", max_requeues=-1), "max_requeues"),
        (lambda dead: dead.purge(older_than="long"), "older_than"),
        (lambda dead: dead.purge(status="gone"), "is not one of"),
    ],
)
def test_wrong_use_is_refused(app: Headrace, act: Callable[[Any], Any], expected: str) -> None:
    with pytest.raises(InvalidJob, match=expected):
        act(app.dead)


def test_unknown_dead_letters_are_refused(app: Headrace) -> None:
    for act in (app.dead.get, app.dead.requeue, app.dead.history):
        with pytest.raises(DeadLetterNotFound, match="no dead letter has the id 'nowhere'"):
            act("nowhere")


def test_dead_letters_have_async_twins(app: Headrace, failed: Making) -> None:
    job = failed()

    async def look() -> None:
        [dead_letter] = await app.dead.alist()
        assert await app.dead.aget(dead_letter.id) == dead_letter
        assert (await app.dead.arequeue(dead_letter.id)).job_id == job.id
        assert await app.dead.acount() == 0

    asyncio.run(look())


# -- by itself


def automatic(app: Headrace) -> AutoRequeue:
    return AutoRequeue(app.engine, Settings(dead_requeue_limit=2), after=3600)


def age(app: Headrace, seconds: float) -> None:
    """Make all dead letters older, as if that time had passed."""
    engine = app.engine
    rows = engine.dead_letters.find(DeadLetterFilter(), 100)
    engine.dead_letters.delete(DeadLetterFilter(statuses=STATUSES, ended_before=app.clock.now() + 1000), 100)
    older = [replace(row, entered_at=row.entered_at - int(seconds * 1000)) for row in rows]
    engine.transfer.import_records([replace(row, id=id_at(row.entered_at) + row.id[12:]) for row in older])


def test_dead_letters_are_requeued_automatically_when_due(app: Headrace, failed: Making) -> None:
    job = failed(priority=3)
    requeuing = automatic(app)
    assert requeuing.requeue_due() == 0
    age(app, 3601)
    assert requeuing.requeue_due() == 1
    assert (job.refresh().state, job.priority) == (State.PENDING, 3)
    dead_letter = app.dead.get(job.id)
    assert (dead_letter.status, dead_letter.resolved_by, dead_letter.requeues) == ("requeued", "headrace", 1)
    assert "requeued automatically" in [entry.message for entry in job.history()]


def test_the_second_time_takes_longer_and_a_third_is_left_to_people(app: Headrace, failed: Making) -> None:
    job = failed()
    for seconds, back in ((3601, 1), (3601, 0), (3601, 1), (10**6, 0)):
        age(app, seconds)
        assert automatic(app).requeue_due() == back
        drain(app)
    assert job.refresh().state is State.FAILED
    assert (app.dead.get(job.id).requeues, app.dead.get(job.id).status) == (2, "pending")


def test_a_dead_letter_that_can_t_be_requeued_blocks_no_other(app: Headrace, pay: Task[..., Any, Any]) -> None:
    jobs = pay_many(app, pay, 3)
    age(app, 3601)
    for job in jobs[1:]:
        job.delete()
        pay.using(job_id=job.id, delay=60).enqueue(1)  # an open job under its id
    assert automatic(app).requeue_due() == 1
    assert automatic(app).requeue_due() == 0
    assert app.dead.count() == 2


def test_nothing_is_requeued_automatically_by_default(app: Headrace, failed: Making) -> None:
    failed()
    age(app, 10**7)
    assert not any(
        isinstance(maintenance_task, AutoRequeue) for maintenance_task in maintenance_tasks_of(app.engine, Settings())
    )
    assert app.dead.count() == 1


def test_a_worker_requeues_in_its_upkeep(app: Headrace) -> None:
    runs: list[int] = []

    @app.task(name="flaky", retry=0)
    def flaky() -> int:
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError("away")
        return len(runs)

    job = flaky.enqueue()
    with app.worker(dead_requeue_after=1.5):
        assert job.wait(PATIENCE) is State.FAILED
        deadline = time.monotonic() + PATIENCE
        while job.refresh().state is not State.COMPLETED:
            assert time.monotonic() < deadline, job.why()
            time.sleep(0.02)
    assert job.result() == 2
