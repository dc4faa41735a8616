"""A running task knows its job, reports on it while it runs, and is reached by nothing outside of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, HeadraceError, InvalidJob, JobContext, LeaseLost, Worker, current_job
from tests.support.gates import SOON, Gate, through
from tests.support.waiting import PATIENCE, eventually

Register = Callable[..., Any]


def test_the_context_describes_its_job(task: Register, worker: Worker) -> None:
    @task(name="tell", timeout=60)
    def describe() -> dict[str, Any]:
        ctx = current_job()
        return {
            "id": ctx.id,
            "task": ctx.task,
            "queue": ctx.queue,
            "attempt": ctx.attempt,
            "metadata": dict(ctx.metadata),
            "deadline": ctx.deadline,
            "version": ctx.lease_version,
            "cancel": (ctx.cancel_requested, ctx.cancel_reason),
            "repr": repr(ctx),
        }

    before = datetime.now(UTC)
    job = describe.using(queue="special", metadata={"order": 7, "at": before}).enqueue()
    described = job.result(PATIENCE)
    assert (described["id"], described["task"], described["queue"], described["attempt"]) == (
        job.id,
        "tell",
        "special",
        1,
    )
    assert described["metadata"] == {"order": 7, "at": before} == job.metadata
    assert timedelta(seconds=55) < described["deadline"] - before < timedelta(seconds=80)
    assert (described["version"], described["cancel"]) == (2, (False, None))
    assert described["repr"] == f"<JobContext {job.id} tell attempt 1>"


def test_each_attempt_has_a_higher_version_to_fence_with(task: Register, worker: Worker) -> None:
    versions: list[int] = []

    @task(retry=SOON)
    def fenced() -> None:
        versions.append(current_job().lease_version)
        if len(versions) < 3:
            raise OSError("again")

    fenced.enqueue().result(PATIENCE)
    assert versions == sorted(set(versions))


def test_without_metadata_it_is_empty(task: Register, worker: Worker) -> None:
    @task
    def describe() -> dict[str, Any]:
        return dict(current_job().metadata)

    assert describe.enqueue().result(PATIENCE) == {}


def test_outside_of_a_job_there_is_none(task: Register) -> None:
    with pytest.raises(HeadraceError, match="outside of a running job"):
        current_job()

    @task
    def direct() -> JobContext:
        return current_job()

    def call() -> None:
        if asyncio.iscoroutine(called := direct()):
            asyncio.run(called)

    with pytest.raises(HeadraceError, match="outside of a running job"):
        call()


def test_progress_is_there_while_the_job_runs_and_after(app: Headrace, worker: Worker, kind: str) -> None:
    gate = Gate()

    def half() -> None:
        current_job().progress(0.25)
        current_job().progress(0.5)

    def rest() -> None:
        current_job().progress({"done": 3, "of": 4})

    @app.task(name="threaded")
    def threaded() -> None:
        half()
        gate.pass_through()
        rest()

    @app.task(name="coroutine")
    async def coroutine() -> None:
        half()
        await gate.apass_through()
        rest()

    job = (coroutine if kind == "async" else threaded).enqueue()
    gate.wait_until_reached()
    eventually(lambda: job.refresh().progress == 0.5, "half of the progress")
    gate.open()
    job.wait(PATIENCE)
    assert job.progress == {"done": 3, "of": 4}


@pytest.mark.parametrize("value", [1.5, -0.1, True, "half", None, float("nan"), [1]])
def test_progress_that_is_no_share_is_refused(app: Headrace, worker: Worker, value: Any) -> None:
    def report() -> str:
        with pytest.raises(InvalidJob, match="progress"):
            current_job().progress(value)
        return "refused"

    assert app.task(report).enqueue().result(PATIENCE) == "refused"


def test_log_lines_come_in_order_with_their_level_attempt_and_fields(task: Register, worker: Worker) -> None:
    @task(retry=SOON)
    def chatty() -> None:
        ctx = current_job()
        ctx.log("begin")
        ctx.log("details", level="debug", rows=3, at=datetime(2026, 1, 1, tzinfo=UTC), tags={"a"})
        if ctx.attempt == 1:
            ctx.log("that was it", level="error")
            raise OSError("away")

    job = chatty.enqueue()
    job.result(PATIENCE)
    assert [(line.attempt, line.level, line.message) for line in job.logs()] == [
        (1, "info", "begin"),
        (1, "debug", "details"),
        (1, "error", "that was it"),
        (2, "info", "begin"),
        (2, "debug", "details"),
    ]
    assert job.logs()[1].fields == {"rows": 3, "at": datetime(2026, 1, 1, tzinfo=UTC), "tags": {"a"}}
    assert asyncio.run(job.alogs()) == job.logs()


def test_a_line_of_the_log_is_cut_at_a_bound(app: Headrace, worker: Worker) -> None:
    @app.task
    def talks() -> None:
        current_job().log("x" * 100_000)
        current_job().log("y" * 100_001)

    job = talks.enqueue()
    job.result(PATIENCE)
    whole, cut = [line.message for line in job.logs()]
    assert whole == "x" * 100_000
    assert cut == "y" * 99_999 + "…"


def test_any_text_may_be_logged_but_only_at_known_levels(app: Headrace, worker: Worker) -> None:
    @app.task
    def chatty() -> None:
        ctx = current_job()
        ctx.log("nul \x00 half \ud800 whole 🚰")
        ctx.log(12)  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="log level"):
            ctx.log("x", level="loud")
        with pytest.raises(InvalidJob, match="can't be stored"):
            ctx.log("x", socket=threading)

    job = chatty.enqueue()
    job.result(PATIENCE)
    assert [line.message for line in job.logs()] == ["nul \ufffd half ? whole 🚰", "12"]


def test_a_heartbeat_renews_the_lease_at_once(app: Headrace, kind: str) -> None:
    leases = []

    def lease() -> int:
        (row,) = app.engine.queries.get([current_job().id])
        assert row.lease_until is not None
        return row.lease_until

    @app.task(name="threaded")
    def threaded() -> None:
        leases.append(lease())
        eventually(lambda: _beaten(leases[0]), "a later lease")
        leases.append(lease())

    def _beaten(before: int) -> bool:
        current_job().heartbeat()
        return lease() > before

    @app.task(name="coroutine")
    async def coroutine() -> None:
        leases.append(lease())
        while leases[-1] <= leases[0]:
            await current_job().aheartbeat()
            leases.append(lease())

    with app.worker(heartbeat=25):
        (coroutine if kind == "async" else threaded).enqueue().result(PATIENCE)
    assert leases[-1] > leases[0]


def test_a_heartbeat_of_a_lost_lease_raises(app: Headrace, worker: Worker) -> None:
    @app.task
    def late() -> None:
        (row,) = app.engine.queries.get([current_job().id])
        assert app.jobs.get(row.id).cancel()
        with pytest.raises(LeaseLost):
            current_job().heartbeat()
        lost.set()

    lost = threading.Event()
    late.enqueue()
    assert lost.wait(PATIENCE)


def test_the_context_follows_into_threads_started_by_asyncio_but_not_into_other_jobs(
    app: Headrace, worker: Worker
) -> None:
    @app.task
    async def asks_in_a_thread() -> str:
        return await asyncio.to_thread(lambda: current_job().id)

    jobs = [asks_in_a_thread.enqueue() for _ in range(5)]
    assert [job.result(PATIENCE) for job in jobs] == [job.id for job in jobs]


def test_jobs_side_by_side_see_each_their_own(app: Headrace, kind: str) -> None:
    gates = [Gate() for _ in range(4)]
    tasks = [app.task(name=f"held-{n}")(through(kind, gate, lambda: current_job().id)) for n, gate in enumerate(gates)]
    with app.worker(concurrency=4):
        jobs = [task.enqueue() for task in tasks]
        for gate in gates:
            gate.wait_until_reached()
        for gate in reversed(gates):
            gate.open()
        assert [job.result(PATIENCE) for job in jobs] == [job.id for job in jobs]


def test_a_task_may_enqueue_and_a_thread_may_even_wait(app: Headrace, worker: Worker) -> None:
    @app.task
    def inner(n: int) -> int:
        return n * 2

    @app.task
    def outer() -> int:
        return inner.enqueue(21).result(PATIENCE)

    @app.task
    async def aouter() -> int:
        return await (await inner.aenqueue(21))

    assert outer.enqueue().result(PATIENCE) == 42
    assert aouter.enqueue().result(PATIENCE) == 42
