"""Job handles and facades: what they show is what the store holds, and what they do is done, for one or for many."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, JobFailed, JobNotFound, Task, Worker
from headrace.testing import VirtualClock, drain
from tests.support.gates import SOON, Gate, through
from tests.support.waiting import PATIENCE


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def still(clock: VirtualClock) -> Any:
    """An app whose time stands still."""
    with Headrace("memory://", clock=clock) as app:
        yield app


@pytest.fixture
def add(still: Headrace) -> Task[[int, int], int, int]:
    @still.task
    def add(a: int, b: int) -> int:
        return a + b

    return add


@pytest.fixture
def fail(still: Headrace) -> Task[[], None, None]:
    @still.task(retry=0)
    def fail() -> None:
        raise OSError("away")

    return fail


# -- one job


def test_a_handle_is_as_of_its_last_refresh(still: Headrace, add: Any) -> None:
    job = add.enqueue(1, 2)
    drain(still)
    assert job.state == "pending"
    assert job.refresh() is job
    assert job.state == "completed"
    assert job.is_finished
    assert repr(job) == f"<Job {job.id} add completed>"
    assert {job, still.jobs.get(job.id)} == {job}


@pytest.mark.parametrize("name", ["id", "task", "args", "kwargs", "queue", "priority", "created_at", "state"])
def test_no_field_of_a_handle_can_be_assigned(still: Headrace, add: Any, name: str) -> None:
    job = add.enqueue(1, 2)
    before = getattr(job, name)
    with pytest.raises(AttributeError):
        setattr(job, name, "x")
    assert getattr(job, name) == before


def test_an_unknown_job_is_not_found(still: Headrace, add: Any) -> None:
    with pytest.raises(JobNotFound, match="no job has the id 'nothing'"):
        still.jobs.get("nothing")
    job = add.enqueue(1, 2)
    assert job.delete()
    for act in (job.refresh, job.wait, job.result, job.history, job.logs, job.why, lambda: job.errors):
        with pytest.raises(KeyError):
            act()
    assert job.delete() is False
    with pytest.raises(JobNotFound):
        job.cancel()


def test_a_handle_does_not_show_the_arguments_of_another_job_of_its_id(still: Headrace, clock: VirtualClock) -> None:
    echo = still.task(name="echo")(lambda text: text)
    first = echo.using(job_id="fixed").enqueue("x" * 5000)
    (found,) = still.jobs.find().jobs
    first.cancel()
    first.delete()
    clock.advance(1)
    echo.using(job_id="fixed").enqueue("y" * 5000)
    with pytest.raises(JobNotFound, match="fixed"):
        _ = found.args


def test_a_scheduled_job_can_be_brought_forward(still: Headrace, add: Any) -> None:
    job = add.using(delay=3600).enqueue(1, 2)
    assert drain(still) == 0
    assert job.promote()
    assert job.state == "pending"
    assert drain(still) == 1
    assert job.promote() is False


def test_a_retry_can_be_brought_forward(still: Headrace) -> None:
    @still.task(retry=1)
    def flaky() -> None:
        raise OSError("away")

    job = flaky.enqueue()
    drain(still)
    assert job.refresh().state == "retrying"
    assert job.promote()
    drain(still)
    assert (job.refresh().state, len(job.errors)) == ("failed", 2)


def test_a_job_that_has_not_started_can_be_changed(still: Headrace, add: Any, clock: VirtualClock) -> None:
    job = add.enqueue(1, 2)
    later = clock.moment + timedelta(hours=1)
    assert job.update(priority=50)
    assert job.priority == 50
    assert job.update(run_at=later, queue="night")
    assert (job.state, job.run_at, job.queue, job.priority) == ("scheduled", later, "night", 50)
    assert job.update(run_at=clock.moment)
    assert job.state == "pending"
    assert [entry.event for entry in job.history()] == ["submit", "update", "update", "update"]
    drain(still)
    assert job.update(priority=1) is False
    assert job.priority == 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "needs at least one of priority, run_at, queue"),
        ({"priority": 101}, "priority: 101"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at: .* has no time zone"),
        ({"queue": "two words"}, "queue: 'two words'"),
    ],
)
def test_a_wrong_change_is_refused_by_name(still: Headrace, add: Any, changes: Any, message: str) -> None:
    job = add.enqueue(1, 2)
    with pytest.raises(InvalidJob, match=message):
        job.update(**changes)
    assert job.refresh().row.version == 1


def test_a_finished_job_can_be_run_again_with_fresh_attempts_and_keeps_its_past(still: Headrace, fail: Any) -> None:
    job = fail.enqueue()
    drain(still)
    assert job.refresh().state == "failed"
    assert job.retry()
    assert (job.state, job.attempt, job.reason) == ("pending", 0, None)
    drain(still)
    assert [(error.attempt, error.type) for error in job.errors] == [(1, "OSError"), (1, "OSError")]
    assert [str(entry.event) for entry in job.history()] == ["submit", "claim", "fail", "revive", "claim", "fail"]


def test_a_completed_job_can_be_run_again_too_but_not_one_that_is_open(still: Headrace, add: Any) -> None:
    job = add.enqueue(1, 2)
    assert job.retry() is False
    drain(still)
    assert job.retry()
    assert job.row.result is None
    drain(still)
    assert job.result(0) == 3
    events = [str(entry.event) for entry in job.history()]
    assert events == ["submit", "claim", "succeed", "revive", "claim", "succeed"]


def test_a_running_job_can_be_neither_deleted_nor_changed(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()
    job = app.task(name="held")(through(kind, gate, lambda: "done")).enqueue()
    gate.wait_until_reached()
    assert (job.delete(), job.update(priority=1), job.promote(), job.retry()) == (False, False, False, False)
    assert "It is running: attempt 1 of 4" in job.why()
    gate.open()
    assert job.result(PATIENCE) == "done"


def test_the_history_lists_every_step_with_its_time(still: Headrace, clock: VirtualClock) -> None:
    @still.task(retry=1)
    def flaky() -> None:
        raise OSError("away")

    start = clock.moment
    job = flaky.using(delay=10).enqueue()
    clock.advance(10)
    drain(still)
    clock.advance(60)
    drain(still)
    entries = job.history()
    assert [(str(entry.event), entry.from_state, str(entry.to_state)) for entry in entries] == [
        ("submit", None, "scheduled"),
        ("promote", "scheduled", "pending"),
        ("claim", "pending", "running"),
        ("retry", "running", "retrying"),
        ("promote", "retrying", "pending"),
        ("claim", "pending", "running"),
        ("fail", "running", "failed"),
    ]
    assert [entry.version for entry in entries] == [1, 2, 3, 4, 5, 6, 7]
    assert entries[0].at == start
    assert entries[3].at == start + timedelta(seconds=10)
    assert entries[-1].at == start + timedelta(seconds=70)
    assert entries[3].message == "attempt 1 of 2 failed: OSError: away"
    assert "OSError: away" in job.errors[-1].traceback


def test_secrets_are_starred_out_where_arguments_are_shown(still: Headrace) -> None:
    @still.task(redact=("password",))
    def login(user: str, password: str, extra: Any = None) -> None: ...

    job = login.enqueue("ann", "s3cret", extra={"password": "again"})
    assert job.args == ("ann", "s3cret")
    assert job.redacted_call() == (("ann", "***"), {"extra": {"password": "***"}})
    with Headrace("memory://") as stranger:
        copy = stranger.enqueue("login", "ann", "s3cret")
        assert copy.redacted_call()[0] == ("ann", "s3cret")  # this app declares no secret


def test_every_blocking_method_has_an_async_twin(still: Headrace, add: Any) -> None:
    async def main() -> None:
        job = await add.using(delay=60).aenqueue(1, 2)
        assert (await job.arefresh()).state == "scheduled"
        assert await job.aupdate(priority=3)
        assert await job.apromote()
        assert await job.acancel()
        assert await job.aretry()
        assert next(entry.event for entry in await job.ahistory()) == "submit"
        assert await job.alogs() == []
        assert "No worker is alive" in await job.awhy()
        assert await still.jobs.acount(task="add") == 1
        assert (await still.jobs.afind(task="add"))[0] == await still.jobs.aget(job.id)
        assert (await still.queue("default").astats()).pending == 1
        assert await still.queue("default").alength() == 1
        assert len(await still.queue("default").apeek()) == 1
        assert [stats.queue for stats in await still.aqueues()] == ["default"]
        assert await still.aworkers() == []
        assert await job.adelete()
        assert await still.queue("default").aclear() == 0

    asyncio.run(main())


# -- many jobs


@pytest.fixture
def document_store(still: Headrace, add: Any, fail: Any, clock: VirtualClock) -> dict[str, list[str]]:
    """Some jobs of every kind, oldest first: 3 completed, 2 failed, 2 scheduled, 1 cancelled, 4 pending."""
    ids = {"completed": [add.using(tags=["old"]).enqueue(n, n).id for n in range(3)]}
    ids["failed"] = [fail.enqueue().id for _ in range(2)]
    drain(still)
    clock.advance(60)
    ids["scheduled"] = [add.using(delay=60, queue="night").enqueue(n, n).id for n in range(2)]
    ids["cancelled"] = [add.enqueue(9, 9).id]
    still.jobs.get(ids["cancelled"][0]).cancel()
    ids["pending"] = [
        add.using(tags=["new", f"t{n}"], metadata={"customer": f"zoe-{n}"}).enqueue(n, n).id for n in range(4)
    ]
    return ids


def test_jobs_are_found_by_every_filter_newest_first(
    still: Headrace, document_store: dict[str, list[str]], clock: VirtualClock
) -> None:
    def found(**filters: Any) -> list[str]:
        ids = [job.id for job in still.jobs.find(**filters)]
        assert len(ids) == still.jobs.count(**filters)
        return ids[::-1]

    everything = [job_id for ids in document_store.values() for job_id in ids]
    assert found() == everything
    for state, ids in document_store.items():
        assert found(state=state) == ids
    assert found(state=["failed", "completed"]) == document_store["completed"] + document_store["failed"]
    assert found(queue="night") == document_store["scheduled"]
    assert found(task="fail") == document_store["failed"]
    assert found(task=still.tasks["fail"]) == document_store["failed"]
    assert found(tag="old") == document_store["completed"]
    assert found(tag="t2") == [document_store["pending"][2]]
    assert found(text="zoe") == document_store["pending"]
    assert found(text="zoe-3") == [document_store["pending"][3]]
    assert (
        found(since=clock.moment)
        == document_store["scheduled"] + document_store["cancelled"] + document_store["pending"]
    )
    assert found(until=clock.moment) == document_store["completed"] + document_store["failed"]
    assert found(ids=document_store["failed"]) == document_store["failed"]
    assert found(ids=[]) == found(state=[]) == []
    assert found(tag="new", state="pending", text="zoe-0") == [document_store["pending"][0]]
    assert found(queue="nowhere") == []
    assert found(state=None, queue=None) == everything


def test_pages_follow_each_other_without_gaps_or_repeats(still: Headrace, document_store: dict[str, list[str]]) -> None:
    seen, cursor = [], None
    while True:
        page = still.jobs.find(limit=5, cursor=cursor)
        assert len(page) <= 5
        seen += [job.id for job in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [job_id for ids in document_store.values() for job_id in ids][::-1]
    page = still.jobs.find(limit=5)
    assert (page[0].id, [job.id for job in page[1:3]]) == (seen[0], seen[1:3])
    assert repr(page) == "<JobPage of 5, more follow>"


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"colour": "red"}, "unknown filter 'colour'; filters are state, queue"),
        ({"state": "sleeping"}, "state: 'sleeping' is not one of scheduled, waiting"),
        ({"state": 5}, "state: 5 is not one of"),
        ({"queue": 5}, "queue: expected text, got 5"),
        ({"since": "yesterday"}, "since: expected a datetime with a time zone, got 'yesterday'"),
        ({"until": datetime(2030, 1, 1)}, "until: .* has no time zone"),
        ({"ids": "abc"}, "ids: expected a list of ids, got 'abc'"),
        ({"ids": 5}, "ids: expected a list of ids, got 5"),
    ],
)
def test_a_wrong_filter_is_refused_by_name(still: Headrace, filters: Any, message: str) -> None:
    for act in (still.jobs.find, still.jobs.count, still.jobs.cancel, still.jobs.delete, still.jobs.retry):
        with pytest.raises(InvalidJob, match=message):
            act(**filters)


@pytest.mark.parametrize("limit", [0, -1, 10_001, "5", True])
def test_a_wrong_limit_is_refused(still: Headrace, limit: Any) -> None:
    with pytest.raises(InvalidJob, match="limit: expected 1 to 10000"):
        still.jobs.find(limit=limit)


@pytest.mark.parametrize("cursor", ["abc", "-1", "9" * 30, 5])
def test_a_foreign_cursor_is_refused(still: Headrace, cursor: Any) -> None:
    with pytest.raises(InvalidJob, match="cursor"):
        still.jobs.find(cursor=cursor)


def test_acting_on_many_needs_to_say_which(still: Headrace, document_store: dict[str, list[str]]) -> None:
    before = still.jobs.count()
    for act in (still.jobs.cancel, still.jobs.delete, still.jobs.promote):
        for filters in ({}, {"queue": None}, {"ids": None, "state": None}):
            with pytest.raises(InvalidJob, match="give at least one filter"):
                act(**filters)
        assert act(state=[]) == act(ids=[]) == 0
    assert still.jobs.count() == before


def test_many_are_cancelled_promoted_retried_and_deleted_by_filter(
    still: Headrace, document_store: dict[str, list[str]]
) -> None:
    assert still.jobs.promote(queue="night") == 2
    assert still.jobs.count(state="scheduled") == 0
    assert still.jobs.cancel(tag="new") == 4
    assert still.jobs.count(state="cancelled") == 5
    assert still.jobs.cancel(tag="new") == 0
    assert still.jobs.retry() == 2  # without a state, only what failed
    assert still.jobs.retry(ids=document_store["completed"][:1]) == 1
    assert still.jobs.delete(tag="old") == 3
    assert still.jobs.count(tag="old") == 0
    assert still.jobs.delete(state="cancelled") == 5


def test_acting_on_more_than_one_batch_reaches_them_all(still: Headrace, add: Any) -> None:
    still.enqueue_many([add.bind(n, n) for n in range(2500)])
    assert still.jobs.cancel(task="add") == 2500
    assert still.jobs.retry(state="cancelled") == 2500
    assert still.jobs.delete(task="add") == 2500
    assert still.jobs.count() == 0


# -- queues


def test_a_queue_counts_its_jobs_by_state(
    still: Headrace, document_store: dict[str, list[str]], clock: VirtualClock
) -> None:
    stats = still.queue("default").stats()
    assert (stats.pending, stats.completed, stats.failed, stats.cancelled) == (4, 3, 2, 1)
    assert (stats.scheduled, stats.running, stats.retrying, stats.waiting, stats.paused) == (0, 0, 0, 0, False)
    assert stats.oldest_pending == clock.moment
    assert [(found.queue, found.scheduled) for found in still.queues()] == [("default", 0), ("night", 2)]
    assert still.queue("unheard-of").stats().pending == 0
    with pytest.raises(InvalidJob, match="queue: 'two words'"):
        still.queue("two words")


def test_a_queue_shows_what_comes_next_and_can_be_emptied(
    still: Headrace, document_store: dict[str, list[str]]
) -> None:
    queue = still.queue("default")
    still.jobs.get(document_store["pending"][3]).update(priority=1)
    assert [job.id for job in queue.peek(2)] == [document_store["pending"][3], document_store["pending"][0]]
    assert queue.length() == 4
    assert queue.clear() == 4
    assert (queue.length(), still.jobs.count(queue="default")) == (0, 6)
    assert still.queue("night").clear() == 2
    assert repr(queue) == "<Queue default>"


def test_workers_report_themselves(app: Headrace) -> None:
    app.task(name="noop")(lambda: None)
    with app.worker(queues={"a": 2}, concurrency=3) as worker:
        (info,) = app.workers()
        assert (info.id, info.queues, info.concurrency, info.state) == (worker.id, {"a": 2}, 3, "running")
        assert info.tasks == ["noop"]
        assert info.started_at is not None
        assert info.seen_at is not None
    assert app.workers() == []


def test_a_job_failed_in_a_worker_shows_the_same_through_every_handle(app: Headrace, worker: Worker) -> None:
    @app.task(retry=SOON)
    def flaky() -> None:
        raise OSError("away")

    job = flaky.enqueue()
    with pytest.raises(JobFailed) as local:
        job.result(PATIENCE)
    with pytest.raises(JobFailed) as there:
        asyncio.run(app.jobs.get(job.id).aresult(0))
    assert str(local.value) == str(there.value)
    assert job.why().startswith("It is over: failed (attempts_used_up) at 20")


# -- requests that no store can answer

STRANGE = "\ud800"


@pytest.mark.parametrize("name", ["queue", "task", "tag", "worker", "text"])
def test_a_filter_with_half_a_character_is_refused_by_name(still: Headrace, name: str) -> None:
    with pytest.raises(InvalidJob, match=f"{name}: .* lone surrogate"):
        still.jobs.find(**{name: STRANGE})  # type: ignore[arg-type]


def test_ids_with_half_a_character_are_refused(still: Headrace) -> None:
    for act in (
        lambda: still.jobs.get(STRANGE),
        lambda: still.jobs.get(7),  # type: ignore[arg-type]
        lambda: still.jobs.count(ids=[STRANGE]),
        lambda: still.jobs.cancel(ids=[7]),
    ):
        with pytest.raises(InvalidJob, match="id"):
            act()


def test_no_worker_has_half_a_character_in_its_name(still: Headrace) -> None:
    assert still.pause_worker(STRANGE) is False
    assert still.stop_worker(STRANGE) is False


def test_an_argument_with_half_a_character_in_its_name_is_refused(still: Headrace) -> None:
    @still.task
    def anything(**options: int) -> None: ...

    with pytest.raises(InvalidJob, match=r"lone surrogate in its name"):
        anything.enqueue(**{STRANGE: 1})
    assert still.jobs.count() == 0


@pytest.mark.parametrize("n", [0, -1, 10_001, "3", True, None, 2**70])
def test_a_peek_is_bounded(still: Headrace, n: Any) -> None:
    with pytest.raises(InvalidJob, match="n: expected 1 to 10000"):
        still.queue("default").peek(n)


@pytest.mark.parametrize("timeout", ["5", float("nan")])
def test_a_wait_that_is_no_time_is_refused_also_for_a_job_that_is_over(still: Headrace, add: Any, timeout: Any) -> None:
    job = add.enqueue(1, 2)
    drain(still)
    with pytest.raises(InvalidJob, match="timeout"):
        job.wait(timeout)
    with pytest.raises(InvalidJob, match="timeout"):
        asyncio.run(job.aresult(timeout))


def test_a_job_can_be_moved_to_no_time_outside_of_the_calendar(still: Headrace, add: Any) -> None:
    job = add.using(delay=60).enqueue(1, 2)
    for moment in (datetime.min, datetime.max):
        with pytest.raises(InvalidJob, match=r"run_at: .* lies"):
            job.update(run_at=moment.replace(tzinfo=UTC))
    assert still.jobs.count(since=datetime.min.replace(tzinfo=UTC), until=datetime.max.replace(tzinfo=UTC)) == 1
