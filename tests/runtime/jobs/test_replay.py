"""A replay runs a stored job here and now: with what its runs have recorded, and without any trace in the store."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import os
import pdb
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import (
    CorruptPayload,
    Headrace,
    InvalidJob,
    Job,
    JobNotFound,
    PermanentError,
    ReplayStopped,
    State,
    UnknownTask,
    current_job,
    current_jobs,
)
from headrace.app.jobs.replay import replay_of
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.sweep import RetentionSweep
from headrace.testing import VirtualClock, drain

KEY = f"k:{base64.b64encode(b'k' * 32).decode()}"


class Order:
    """A job with all that runs record: steps, a patch, a sleep, an event and a compensation."""

    def __init__(self, app: Headrace) -> None:
        self.app = app
        self.done: list[str] = []
        self.is_broken = True
        self.undo: Any = app.task(name="undo")(self.done.append)
        self.task: Any = app.task(name="order", retry=0)(self._order)

    def do(self, what: str) -> str:
        self.done.append(what)
        if what == "mail" and self.is_broken:
            raise PermanentError("the mail server is away")
        return f"{what} {len(self.done)}"

    def _order(self, customer: str) -> list[Any]:
        job = current_job()
        job.log("begins", customer=customer)
        job.progress(0.5)
        job.report_cost(7)
        job.stream("a chunk")
        job.heartbeat()
        new = job.patched("new")
        charged = job.step("charge", self.do, "charge")
        job.compensate("charge", self.undo.bind("no charge"))
        job.sleep(60, "cool down")
        by = job.wait_event("approved")
        return [customer, new, charged, by, job.step("mail", self.do, "mail")]

    def failed(self) -> Job[Any]:
        """A job that has failed in its last step."""
        job: Job[Any] = self.task.enqueue("ann")
        drain(self.app)
        self.app.clock.advance(60)  # type: ignore[attr-defined]
        drain(self.app)
        self.app.signal(job, "approved", "bob")
        drain(self.app)
        assert job.refresh().state is State.FAILED
        self.done.clear()
        return job


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with Headrace(url, clock=VirtualClock()) as app:
        yield app


@pytest.fixture
def order(app: Headrace) -> Order:
    return Order(app)


def stored(app: Headrace) -> Any:
    """Everything that the store has of its jobs."""
    ids = sorted(job.id for job in app.jobs.find())
    return app.engine.transfer.export_jobs(ids=ids), app.engine.document_store.get("question", ids)


def test_what_was_recorded_is_returned_and_the_rest_runs(app: Headrace, order: Order) -> None:
    job = order.failed()
    before = stored(app)
    with pytest.raises(PermanentError, match="the mail server is away"):
        app.jobs.replay(job)
    assert order.done == ["mail"]
    order.is_broken = False
    assert app.jobs.replay(job.id) == ["ann", True, "charge 1", "bob", "mail 2"]
    assert order.done == ["mail", "mail"]
    assert stored(app) == before


def test_a_step_that_was_undone_has_its_result_in_a_replay(app: Headrace, order: Order) -> None:
    job = order.failed()
    assert [child.state for child in job.children()] == [State.COMPLETED]
    order.is_broken = False
    assert app.jobs.replay(job)[2] == "charge 1"


def test_of_a_step_that_ran_again_the_last_result_counts(app: Headrace, order: Order) -> None:
    job = order.failed()
    job.retry()
    drain(app)
    assert (job.refresh().state, order.done) == (State.FAILED, ["charge", "mail", "no charge"])
    order.done.clear()
    order.is_broken = False
    assert app.jobs.replay(job)[2:] == ["charge 1", "bob", "mail 1"]
    assert order.done == ["mail"]


def test_recorded_only_stops_before_a_step_without_a_result(app: Headrace, order: Order) -> None:
    job = order.failed()
    with pytest.raises(ReplayStopped, match=r"test_replay\.py:\d+: step 'mail' has no recorded result") as stopped:
        app.jobs.replay(job, recorded_only=True)
    assert (order.done, stopped.value.job_id) == ([], job.id)


def test_a_completed_job_is_replayed(app: Headrace, order: Order) -> None:
    order.is_broken = False
    job: Job[Any] = order.task.enqueue("ann")
    app.signal(job, "approved", "bob")
    drain(app)
    app.clock.advance(60)  # type: ignore[attr-defined]
    drain(app)
    order.done.clear()
    assert app.jobs.replay(job, recorded_only=True) == job.refresh().result()
    assert order.done == []


def test_it_stops_where_a_worker_suspends_the_job(app: Headrace, order: Order) -> None:
    job = order.task.enqueue("ann")
    before = stored(app)
    for _ in range(2):  # nothing is stored, so the second one begins as the first did
        with pytest.raises(ReplayStopped, match="it sleeps: cool down; a worker suspends the job here"):
            app.jobs.replay(job)
    assert (order.done, stored(app)) == (["charge", "charge"], before)
    drain(app)
    app.clock.advance(60)  # type: ignore[attr-defined]
    with pytest.raises(ReplayStopped, match="it waits for event 'approved'"):
        app.jobs.replay(job)
    assert order.done == ["charge"] * 3


def test_a_question_is_not_asked(app: Headrace) -> None:
    @app.task
    def ask() -> bool:
        return bool(current_job().wait_event("ok", ask="Pay?"))

    job = ask.enqueue()
    before = stored(app)
    with pytest.raises(ReplayStopped, match="it waits for event 'ok'"):
        app.jobs.replay(job)
    assert (stored(app), app.questions.list()) == (before, [])


@pytest.mark.parametrize("at_once", [False, True])
def test_it_stops_where_the_job_spawns(app: Headrace, order: Order, at_once: bool) -> None:
    @app.task
    def parent() -> None:
        try:
            current_job().spawn(order.task.bind("eve"), at_once=at_once)
        except Exception:
            raise AssertionError("a task that catches its errors does not go on") from None

    job = parent.enqueue()
    with pytest.raises(ReplayStopped, match="it spawns a job of 'order', and a replay stores nothing"):
        app.jobs.replay(job)
    assert app.jobs.count(queue="default") == 1


def test_it_stores_no_step_in_a_transaction(app: Headrace) -> None:
    @app.task
    def book() -> None:
        current_job().step_in(object(), "book", list)

    @app.task
    async def abook() -> None:
        await current_job().astep_in(object(), "book", list)

    for task in (book, abook):
        with pytest.raises(ReplayStopped, match=r"test_replay.py:\d+: it stores a step in a transaction"):
            app.jobs.replay(task.enqueue())


def test_coroutines_have_the_same_results(app: Headrace) -> None:
    done: list[str] = []

    async def charge() -> str:
        done.append("charge")
        return "receipt"

    @app.task(retry=0)
    async def ship() -> str:
        job = current_job()
        receipt = await job.astep("charge", charge)
        await asyncio.sleep(0)
        assert done == ["replayed"], "fails in a worker"
        await job.asleep(5)
        return receipt

    job = ship.enqueue()
    drain(app)
    done[:] = ["replayed"]
    with pytest.raises(ReplayStopped, match=r"test_replay.py:\d+: it sleeps"):
        app.jobs.replay(job)
    assert done == ["replayed"]

    async def replay() -> None:
        with pytest.raises(Exception, match=r"an event loop runs in this thread already; use `await"):
            app.jobs.replay(job)
        with pytest.raises(ReplayStopped, match="it sleeps"):
            await app.jobs.areplay(job)

    asyncio.run(replay())


def test_a_task_has_its_injected_values_and_hooks_and_runs_in_this_thread(app: Headrace) -> None:
    class Database:
        closed = 0

    @app.provide
    async def database() -> Any:
        yield Database()
        Database.closed += 1

    database.__annotations__["return"] = Database
    seen: list[Any] = []

    @app.around_attempt
    def around(job: Any) -> Any:
        seen.append(job.id)
        yield

    @app.task
    def read(number: int) -> tuple[int, str, bool]:
        return number, current_job().worker, threading.current_thread() is threading.main_thread()

    job = read.enqueue(3)
    assert app.jobs.replay(job) == (3, "headrace.replay", True)
    assert seen == [job.id]


def test_a_batch_has_one_item(app: Headrace) -> None:
    @app.task(batch=10)
    def send(names: list[str]) -> list[Any]:
        return [
            f"{name} {job.id}" if name != "eve" else ValueError(name)
            for name, job in zip(names, current_jobs(), strict=True)
        ]

    job = send.enqueue("ann")
    assert app.jobs.replay(job) == f"ann {job.id}"
    with pytest.raises(ValueError, match="eve"):
        app.jobs.replay(send.enqueue("eve"))


def test_results_of_parents_are_arguments(app: Headrace) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    first = add.enqueue(1, 2)
    second = app.enqueue(add, first, 4)
    with pytest.raises(Exception, match="has no result yet"):
        app.jobs.replay(second)
    drain(app)
    assert app.jobs.replay(second) == 7


def test_encrypted_jobs_are_read(url: str) -> None:
    with Headrace(url, clock=VirtualClock(), encryption_keys=(KEY,)) as app:
        order = Order(app)
        job = order.failed()
        order.is_broken = False
        assert app.jobs.replay(job) == ["ann", True, "charge 1", "bob", "mail 1"]


def test_lines_of_the_log_are_shown_and_not_stored(
    app: Headrace, order: Order, caplog: pytest.LogCaptureFixture
) -> None:
    job = order.failed()
    caplog.set_level(logging.INFO)
    with pytest.raises(PermanentError):
        app.jobs.replay(job)
    assert ("headrace.replay", logging.INFO, "begins customer='ann'") in caplog.record_tuples


def test_what_can_not_be_replayed_says_why(app: Headrace, order: Order) -> None:
    with pytest.raises(JobNotFound):
        app.jobs.replay("none")
    with pytest.raises(UnknownTask, match="is for task 'gone', which this app does not know"):
        app.jobs.replay(app.enqueue("gone"))
    with pytest.raises(InvalidJob, match="recorded_only: expected True or False, got 1"):
        app.jobs.replay(order.task.enqueue("ann"), recorded_only=1)  # type: ignore[arg-type]


def test_damaged_arguments_are_no_error_of_the_task(
    app: Headrace, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = order.task.enqueue("ann")
    damaged = replace(app.services.row(job.id, light=False), payload="[[")
    monkeypatch.setattr(app.services, "row", lambda *_, **__: damaged)
    with pytest.raises(CorruptPayload):
        replay_of(app.services, job)


def test_a_task_with_a_process_of_its_own_runs_in_this_one(app: Headrace) -> None:
    job = app.task(isolation="process")(os.getpid).enqueue()
    assert app.jobs.replay(job) == os.getpid()


def test_a_job_of_the_archive_is_replayed(url: str, folder: Path) -> None:
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if url.startswith("redis") else None
    with Headrace(url, clock=VirtualClock(), archive_url=elsewhere, dead_letters=False) as app:
        order = Order(app)
        job = order.failed()
        app.clock.advance(40 * 86_400)  # type: ignore[attr-defined]
        for _ in RetentionSweep(app.engine, app.settings, app.services.archive).walk(RetentionCounts(), full_scan=True):
            pass
        assert app.jobs.get(job.id).archived
        with pytest.raises(ReplayStopped, match="step 'mail' has no recorded result"):
            app.jobs.replay(job, recorded_only=True)
        order.is_broken = False
        assert app.jobs.replay(job) == ["ann", True, "charge 1", "bob", "mail 1"]


def test_the_debugger_opens_where_the_task_raised(app: Headrace, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    job = order.failed()
    opened: list[Any] = []

    def post_mortem(trace: Any) -> None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        opened.append((trace.tb_frame.f_locals["what"], current_job().id))

    monkeypatch.setattr(pdb, "post_mortem", post_mortem)
    with pytest.raises(InvalidJob, match="debugger: stdin is not a terminal"):
        app.jobs.replay(job, debugger=True)
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(PermanentError):
        app.jobs.replay(job, debugger=True)
    assert opened == [("mail", job.id)]
    with pytest.raises(ReplayStopped):
        app.jobs.replay(job, debugger=True, recorded_only=True)
    assert len(opened) == 1


def test_a_replay_within_a_job_leaves_that_job_as_it_is(app: Headrace) -> None:
    @app.task
    def inner() -> str:
        return current_job().id

    other = inner.enqueue()

    @app.task
    def outer() -> list[str]:
        return [app.jobs.replay(other), current_job().id]

    job = outer.enqueue()
    drain(app)
    assert job.result() == [other.id, job.id]
