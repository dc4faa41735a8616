"""A step is done once, whatever becomes of its run; what it returned is there for every run after it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, Job, JobFailed, LeaseLost, ResultUnavailable, Worker, current_job
from headrace.core.jobs.steps import KINDS
from headrace.engines.protocol.engine import Engine
from tests.support.gates import SOON, Gate
from tests.support.waiting import PATIENCE, eventually


@dataclass
class Receipt:
    """A model that a step may return if it is annotated."""

    number: int


class Till:
    """Counts what is done for real."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def do(self, name: str, value: Any = None) -> Any:
        self.done.append(name)
        return value

    async def ado(self, name: str, value: Any = None) -> Any:
        await asyncio.sleep(0)
        return self.do(name, value)


@pytest.fixture
def till() -> Till:
    return Till()


def test_a_retry_goes_on_behind_the_last_step(app: Headrace, worker: Worker, till: Till, kind: str) -> None:
    def fail_at_first() -> None:
        if current_job().attempt < 3:
            raise OSError("away")

    @app.task(name="thread", retry=SOON)
    def threaded(order: int) -> list[Any]:
        job = current_job()
        charged = job.step("charge", till.do, "charge", (order, "eur"))
        fail_at_first()
        return [charged, job.step("mail", till.do, "mail", value={"to": {7}})]

    @app.task(name="async", retry=SOON)
    async def coroutine(order: int) -> list[Any]:
        job = current_job()
        charged = await job.astep("charge", till.ado, "charge", (order, "eur"))
        fail_at_first()
        return [charged, await job.astep("mail", till.do, "mail", value={"to": {7}})]

    job = (coroutine if kind == "async" else threaded).enqueue(7)
    assert job.result(PATIENCE) == [(7, "eur"), {"to": {7}}]
    assert till.done == ["charge", "mail"]
    assert job.attempt == 3


def test_every_run_gets_the_same_from_a_step_also_the_first(app: Headrace, worker: Worker) -> None:
    seen: list[Any] = []

    def receipt() -> Receipt:
        return Receipt(7)

    def untyped() -> Any:
        return Receipt(8)

    @app.task(retry=SOON)
    def order() -> None:
        job = current_job()
        seen.append([job.step("typed", receipt), job.step("untyped", untyped), job.step("nothing", lambda: None)])
        if job.attempt == 1:
            raise OSError("away")

    order.enqueue().result(PATIENCE)
    assert seen == [[Receipt(7), {"number": 8}, None]] * 2


def test_a_step_that_raises_is_done_again_in_the_same_run_or_the_next(
    app: Headrace, worker: Worker, till: Till
) -> None:
    def flaky() -> str:
        till.do("try")
        if len(till.done) < 4:
            raise OSError("busy")
        return "done"

    @app.task(retry=SOON)
    def order() -> str:
        try:
            return current_job().step("flaky", flaky)
        except OSError:
            return current_job().step("flaky", flaky)

    assert order.enqueue().result(PATIENCE) == "done"
    assert len(till.done) == 4


def test_a_name_stands_for_one_step(app: Headrace, worker: Worker, till: Till) -> None:
    @app.task(retry=SOON)
    def order() -> None:
        for item in ("a", "b"):
            current_job().step("charge", till.do, item)

    with pytest.raises(JobFailed, match="step 'charge': this run already has a step of this name"):
        order.enqueue().result(PATIENCE)
    assert till.done == ["a"]


@pytest.mark.parametrize("name", ["", "a\x00b", "x" * 101, 7, None])
def test_a_name_is_one(app: Headrace, worker: Worker, till: Till, name: Any) -> None:
    @app.task
    def order() -> None:
        with pytest.raises(InvalidJob, match="expected a name of 1 to 100 characters"):
            current_job().step(name, till.do, "x")

    order.enqueue().result(PATIENCE)
    assert till.done == []


def test_the_error_for_a_coroutine_names_astep(app: Headrace, worker: Worker, till: Till) -> None:
    @app.task
    def order() -> None:
        job = current_job()
        with pytest.raises(InvalidJob, match="use `await current_job"):
            job.step("charge", till.ado, "charge")  # type: ignore[unused-coroutine]
        with pytest.raises(InvalidJob, match="use `await current_job"):
            job.step("charge", lambda: till.ado("charge"))  # type: ignore[unused-coroutine]

    @app.task
    async def aorder() -> str:
        done: str = await current_job().astep("charge", lambda: till.ado("charge", "charged"))
        return done

    order.enqueue().result(PATIENCE)
    assert till.done == []
    assert aorder.enqueue().result(PATIENCE) == "charged"


@pytest.mark.parametrize(("value", "expected"), [(object(), "can't be stored"), ("x" * 2_000_000, "more than")])
def test_a_result_that_cannot_be_stored_is_reported_and_the_step_not_repeated(
    app: Headrace, worker: Worker, till: Till, value: Any, expected: str
) -> None:
    @app.task(retry=SOON)
    def order() -> None:
        current_job().step("charge", till.do, "charge", value)

    job = order.enqueue()
    with pytest.raises(JobFailed, match=f"step 'charge' was done and is not done again, but .*{expected}") as caught:
        job.result(PATIENCE)
    assert caught.value.error_type == ResultUnavailable.__name__
    assert till.done == ["charge"]


def test_a_run_without_its_lease_stores_nothing_and_begins_nothing(app: Headrace, worker: Worker, till: Till) -> None:
    gate, refused = Gate(), Gate()

    @app.task
    def order() -> None:
        job = current_job()
        with pytest.raises(LeaseLost, match="stop working on it"):
            job.step("charge", gate.pass_through)
        eventually(lambda: job.cancel_requested, "the news")
        with pytest.raises(LeaseLost, match="stop working on it"):
            job.step("mail", till.do, "mail")
        refused.reached.set()

    job = order.enqueue()
    gate.wait_until_reached()
    assert job.cancel()
    gate.open()
    refused.wait_until_reached()
    assert app.engine.queries.details(job.id).steps == []
    assert till.done == []


def test_a_run_reads_its_steps_once_and_one_without_any_never(
    app: Headrace, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = app.engine.queries.details

    def counted(job_id: str, **parts: Any) -> Any:
        reads.append(job_id)
        return read(job_id, **parts)

    monkeypatch.setattr(app.engine.queries, "details", counted)

    @app.task
    def stepping() -> None:
        for n in range(5):
            current_job().step(f"{n}", lambda: None)

    @app.task
    def plain() -> None: ...

    plain.enqueue().result(PATIENCE)
    job = stepping.enqueue()
    job.result(PATIENCE)
    assert reads == [job.id]


def test_steps_at_the_same_time_are_all_kept(app: Headrace, worker: Worker, till: Till) -> None:
    @app.task(retry=SOON)
    async def order() -> list[int]:
        job = current_job()
        found = await asyncio.gather(*(job.astep(f"{n}", till.ado, f"{n}", n) for n in range(10)))
        if job.attempt == 1:
            raise OSError("away")
        return found

    assert order.enqueue().result(PATIENCE) == list(range(10))
    assert sorted(till.done, key=int) == [str(n) for n in range(10)]


def test_a_failed_job_that_is_retried_goes_on_and_a_completed_one_begins_anew(
    app: Headrace, worker: Worker, till: Till
) -> None:
    @app.task(retry=0)
    def order() -> None:
        current_job().step("charge", till.do, "charge")
        if len(till.done) == 1 and current_job().step("once", till.do, "once") is None:
            raise OSError("away")

    job = order.enqueue()
    job.wait(PATIENCE)
    assert (job.state, till.done) == ("failed", ["charge", "once"])
    job.retry()
    job.result(PATIENCE)
    assert till.done == ["charge", "once"]
    job.retry()
    job.result(PATIENCE)
    assert till.done == ["charge", "once", "charge"]


def test_the_history_lists_each_step_where_it_was_done(app: Headrace, worker: Worker, till: Till) -> None:
    @app.task(retry=SOON)
    def order() -> None:
        job = current_job()
        job.step("charge", till.do, "charge")
        if job.attempt == 1:
            raise OSError("away")
        job.step("mail", till.do, "mail")

    job = order.enqueue()
    job.result(PATIENCE)
    expected = [(str(entry.event), entry.message if entry.event in KINDS else None) for entry in job.history()]
    assert expected == [
        ("submit", None),
        ("claim", None),
        ("step", "charge"),
        ("retry", None),
        ("promote", None),
        ("claim", None),
        ("step", "mail"),
        ("succeed", None),
    ]
    assert [entry.attempt for entry in job.history() if entry.event == "step"] == [1, 2]


def test_steps_are_copied_to_another_store(app: Headrace, till: Till) -> None:
    @app.task(name="order", retry=SOON)
    def order() -> None:
        current_job().step("charge", till.do, "charge", "\x00 7")
        current_job().wait_event("paid")

    with app.worker(concurrency=1):
        job = order.enqueue()
        eventually(lambda: job.refresh().state == "scheduled", "the wait")
    with Headrace("memory://") as elsewhere:
        elsewhere.engine.transfer.import_records(app.engine.transfer.export_jobs(0, 10))
        assert elsewhere.engine.queries.details(job.id).steps == app.engine.queries.details(job.id).steps
        elsewhere.task(name="order")(order.function)
        assert elsewhere.signal(job.id, "paid")
        with elsewhere.worker(concurrency=1):
            elsewhere.jobs.get(job.id).result(PATIENCE)
    assert till.done == ["charge"]


def test_a_store_that_is_away_for_a_moment_costs_no_step(
    app: Headrace, worker: Worker, till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.errors import EngineUnavailable

    away = iter([True, True, False])
    save_step = app.engine.save_step

    def sometimes(*args: Any, **kwargs: Any) -> bool:
        if next(away, False):
            raise EngineUnavailable("away")
        return save_step(*args, **kwargs)

    monkeypatch.setattr(app.engine, "save_step", sometimes)

    @app.task(retry=0)
    def order() -> None:
        current_job().step("charge", till.do, "charge")

    job = order.enqueue()
    job.result(PATIENCE)
    assert till.done == ["charge"]
    engine: Engine = app.engine
    assert [step.name for step in engine.queries.details(job.id).steps] == ["charge"]


@pytest.mark.parametrize("kind", ["step", "astep"])
def test_a_step_that_enqueues_a_job_does_not_wait_for_it(app: Headrace, till: Till, kind: str) -> None:
    @app.task
    def other(number: int) -> int:
        return number

    def enqueue(number: int) -> Job[int]:
        till.do("enqueue")
        return other.enqueue(number)

    @app.task(name="step", retry=SOON)
    def threaded() -> None:
        current_job().step("start", enqueue, 1)

    @app.task(name="astep", retry=SOON)
    async def coroutine() -> None:
        await current_job().astep("start", enqueue, 1)

    job = (coroutine if kind == "astep" else threaded).enqueue()
    # With one slot, the other job could never run while this one waits for it.
    expected = "step 'start' was done and is not done again, but .*can't be stored"
    with app.worker(concurrency=1), pytest.raises(JobFailed, match=expected) as caught:
        job.result(PATIENCE)
    assert caught.value.error_type == ResultUnavailable.__name__
    assert till.done == ["enqueue"]
    assert app.jobs.count(task="other") == 1
