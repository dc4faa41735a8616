"""A job that does not complete has its steps undone: in reverse order, each once, by jobs of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, Job, PermanentError, Retry, State, Task, chain, current_job
from headrace.core.jobs.dependencies import PARENTS_COMPLETED
from headrace.testing import VirtualClock, drain

ONCE = Retry(limit=1, backoff="fixed", base=60, jitter=0)
STEPS = ("flight", "hotel", "car")


class Travel:
    """A trip of three steps, each with a task that undoes it, and what was done for real."""

    def __init__(self, app: Headrace) -> None:
        self.app = app
        self.done: list[str] = []
        self.fails_after: str | None = None
        self.error: Exception = PermanentError("no more money")
        self.refuses_refund: str | None = None
        self.cancel: Task[..., Any, None] = app.task(name="cancel", retry=0)(self._cancel)
        self.trip: Task[..., Any, str] = app.task(name="trip", retry=ONCE)(self._trip)
        self.atrip: Task[..., Any, str] = app.task(name="atrip", retry=ONCE)(self._atrip)

    def book(self, what: str) -> str:
        self.done.append(what)
        return f"{what} {self.done.count(what)}"

    def _cancel(self, what: str, receipt: str) -> None:
        if what == self.refuses_refund:
            raise PermanentError("no refund")
        self.done.append(f"no {receipt}")

    def _trip(self) -> str:
        job = current_job()
        for what in STEPS:
            receipt = job.step(what, self.book, what)
            job.compensate(what, self.cancel.bind(what, receipt))
            if what == self.fails_after:
                raise self.error
        return "booked"

    async def _atrip(self) -> str:
        job = current_job()
        for what in STEPS:
            receipt = await job.astep(what, self.book, what)
            await job.acompensate(what, self.cancel.bind(what, receipt))
            if what == self.fails_after:
                raise self.error
        return "booked"

    def compensations(self, job: Job[Any]) -> dict[str, Job[Any]]:
        return {child.args[0]: child for child in job.children()}


@pytest.fixture
def travel(app: Headrace) -> Travel:
    return Travel(app)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_a_job_that_fails_for_good_is_undone_in_reverse_order(app: Headrace, travel: Travel, kind: str) -> None:
    travel.fails_after = "car"
    job = (travel.atrip if kind == "async" else travel.trip).enqueue()
    drain(app)
    assert job.refresh().state is State.FAILED
    assert travel.done == [*STEPS, "no car 1", "no hotel 1", "no flight 1"]
    events = [(entry.event, entry.message) for entry in job.history() if entry.event == "compensation"]
    assert events == [("compensation", what) for what in STEPS]
    assert {what: child.state for what, child in travel.compensations(job).items()} == dict.fromkeys(
        STEPS, State.COMPLETED
    )


def test_only_the_steps_that_were_done_are_undone(app: Headrace, travel: Travel) -> None:
    travel.fails_after = "flight"
    travel.trip.enqueue()
    drain(app)
    assert travel.done == ["flight", "no flight 1"]


def test_a_job_that_completes_is_not_undone(app: Headrace, travel: Travel) -> None:
    job = travel.trip.enqueue()
    drain(app)
    assert job.result() == "booked"
    assert travel.done == list(STEPS)
    assert {(child.state, child.reason) for child in travel.compensations(job).values()} == {
        (State.CANCELLED, PARENTS_COMPLETED)
    }


def test_a_job_that_is_removed_when_it_completes_is_not_undone(app: Headrace, travel: Travel) -> None:
    travel.trip.using(remove_on_complete=True).enqueue()
    drain(app)
    assert travel.done == list(STEPS)


def test_attempts_before_the_last_undo_nothing_and_register_nothing_twice(app: Headrace, travel: Travel) -> None:
    travel.fails_after, travel.error = "hotel", OSError("away")
    job = travel.trip.enqueue()
    drain(app)
    assert job.refresh().state is State.RETRYING
    assert travel.done == ["flight", "hotel"]
    assert len(job.children()) == 2
    assert job.promote()
    drain(app)
    assert job.refresh().state is State.FAILED
    assert travel.done == ["flight", "hotel", "no hotel 1", "no flight 1"]


def test_a_job_that_is_cancelled_while_it_waits_is_undone(app: Headrace, travel: Travel) -> None:
    @app.task(name="waits")
    def waits() -> None:
        travel._trip()
        current_job().wait_event("paid")

    job = waits.enqueue()
    drain(app)
    assert job.cancel()
    drain(app)
    assert travel.done == [*STEPS, "no car 1", "no hotel 1", "no flight 1"]


def test_why_says_what_a_compensation_waits_for(app: Headrace, travel: Travel) -> None:
    @app.task(name="waits")
    def waits() -> None:
        travel._trip()
        current_job().wait_event("paid")

    job = waits.enqueue()
    drain(app)
    assert "It runs only if a job that it waits for fails or is cancelled." in travel.compensations(job)["car"].why()
    assert app.signal(job, "paid", None)
    drain(app)
    assert "It was to run only if a job that it waited for failed" in travel.compensations(job)["car"].why()


def test_a_compensation_that_fails_does_not_stop_the_others(app: Headrace, travel: Travel) -> None:
    travel.fails_after, travel.refuses_refund = "car", "hotel"
    job = travel.trip.enqueue()
    drain(app)
    assert travel.done == [*STEPS, "no car 1", "no flight 1"]
    assert travel.compensations(job)["hotel"].state is State.FAILED
    assert [letter.task for letter in app.dead.list()].count("cancel") == 1


def test_a_retry_by_hand_does_again_what_was_undone(app: Headrace, travel: Travel) -> None:
    travel.fails_after = "hotel"
    job = travel.trip.enqueue()
    drain(app)
    travel.done.clear()
    assert job.retry()
    drain(app)
    assert travel.done == ["flight", "hotel", "no hotel 1", "no flight 1"]
    travel.done.clear()
    travel.fails_after = None
    assert job.retry()
    drain(app)
    assert travel.done == list(STEPS)
    assert job.result() == "booked"


def test_a_retry_before_anything_was_undone_goes_on(app: Headrace, travel: Travel) -> None:
    app.queue("refunds").pause()
    travel.cancel = travel.cancel.using(queue="refunds")
    travel.fails_after = "hotel"
    job = travel.trip.enqueue()
    drain(app)
    waiting = travel.compensations(job)
    assert {what: child.state for what, child in waiting.items()} == {"flight": State.WAITING, "hotel": State.PENDING}
    assert waiting["hotel"].cancel()  # an operator decides that the hotel stays
    assert travel.compensations(job)["flight"].state is State.PENDING
    travel.fails_after = None


def test_a_completed_job_that_runs_again_registers_anew(app: Headrace, travel: Travel) -> None:
    job = travel.trip.enqueue()
    drain(app)
    travel.done.clear()
    assert job.retry()
    travel.fails_after = "flight"
    drain(app)
    assert travel.done == ["flight", "no flight 1"]


def test_a_call_may_be_registered_before_its_step(app: Headrace, travel: Travel) -> None:
    @app.task(name="early", retry=0)
    def early() -> None:
        job = current_job()
        job.compensate("flight", travel.cancel.bind("flight", "flight of 7"))
        job.step("flight", travel.book, "flight")
        raise PermanentError("no more money")

    early.enqueue()
    drain(app)
    assert travel.done == ["flight", "no flight of 7"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda travel: travel.cancel, "expected a call such as task.bind"),
        (lambda travel: travel.cancel.using(unique=True).bind("a", "b"), "unique"),
        (lambda travel: travel.cancel.using(parent="x").bind("a", "b"), "leave parent out"),
    ],
)
def test_what_can_not_undo_is_refused(app: Headrace, travel: Travel, wrong: Any, said: str) -> None:
    @app.task(name="careless", retry=0)
    def careless() -> str:
        with pytest.raises(InvalidJob) as refused:
            current_job().compensate("flight", wrong(travel))
        return str(refused.value)

    job = careless.enqueue()
    drain(app)
    assert said in job.result()
    assert job.children() == []


def test_another_call_in_a_later_attempt_is_refused_where_the_first_one_was_not_stored(app: Headrace) -> None:
    """The worker died between the two commits of a registration."""

    @app.task(name="undo")
    def undo(number: int) -> None: ...

    @app.task(name="fickle", retry=0)
    def fickle() -> None:
        job = current_job()
        undo.submits.children.submit_compensation(undo.bind(1), job.id, "pay", 0, [])
        job.compensate("pay", undo.bind(2))

    job = fickle.enqueue()
    drain(app)
    assert "with another call" in job.errors[-1].message


def test_many_compensations_of_many_jobs_stay_apart(app: Headrace, travel: Travel) -> None:
    travel.fails_after = "car"
    jobs = [travel.trip.enqueue() for _ in range(5)]
    drain(app)
    assert len([one for one in travel.done if one.startswith("no ")]) == 15
    assert all(len(job.children()) == 3 for job in jobs)


def test_threads_of_a_job_register_side_by_side(app: Headrace, travel: Travel) -> None:
    @app.task(name="wide", retry=0)
    async def wide() -> None:
        job = current_job()

        async def one(number: int) -> None:
            receipt = await job.astep(f"room {number}", travel.book, f"room {number}")
            await job.acompensate(f"room {number}", travel.cancel.bind(f"room {number}", receipt))

        await asyncio.gather(*map(one, range(8)))
        raise PermanentError("no more money")

    wide.enqueue()
    drain(app)
    assert len(travel.done) == len(set(travel.done)) == 16


def test_a_retry_or_a_cancel_of_a_flow_leaves_compensations_alone(app: Headrace, travel: Travel) -> None:
    @app.task(name="mail", retry=0)
    def mail(booked: str) -> None:
        raise PermanentError("no such address")

    run = chain(travel.trip.bind(), mail.bind()).enqueue()
    drain(app)
    assert run.retry() == 1
    drain(app)
    assert travel.done == list(STEPS)
    assert len(run.refresh().jobs) == 2
    waiting = chain(travel.trip.using(delay=60).bind(), mail.bind()).enqueue()
    assert waiting.cancel() == 2


def test_a_flow_whose_jobs_complete_is_completed(app: Headrace, travel: Travel) -> None:
    @app.task(name="handler")
    def handler() -> str:
        return "handled"

    flow = app.flow("trip")
    trip = flow.add(travel.trip.bind())
    flow.add(handler.bind(), after=[trip], on_parent_failure="only")
    run = flow.enqueue()
    drain(app)
    assert run.refresh().state == "completed"
    assert run.result() is None
    assert run.retry() == 0
    assert app.flows.get(run.id).state == "completed"


def test_retrying_cancelled_jobs_undoes_no_completed_job(app: Headrace, travel: Travel) -> None:
    job = travel.trip.enqueue()
    drain(app)
    assert app.jobs.retry(state="cancelled") == 0
    [car] = [child for child in job.children() if child.args[0] == "car"]
    with pytest.raises(InvalidJob, match=r"was to run only if its parent .* failed, and that one completed"):
        car.retry()
    drain(app)
    assert travel.done == list(STEPS)


def test_the_order_holds_though_one_was_cancelled(app: Headrace, travel: Travel) -> None:
    @app.task(name="tour", retry=0)
    def tour() -> None:
        job = current_job()
        for what in STEPS:
            job.step(what, travel.book, what)
            job.compensate(what, travel.cancel.bind(what, what))
            if what == "hotel":
                assert travel.compensations(app.jobs.get(job.id))["hotel"].cancel()
        raise PermanentError("no more money")

    tour.enqueue()
    drain(app)
    assert travel.done == [*STEPS, "no car", "no flight"]


def test_a_compensation_does_not_expire_while_it_waits(app: Headrace, travel: Travel) -> None:
    @app.task(name="tour", retry=0)
    def tour() -> None:
        current_job().compensate("flight", travel.cancel.using(expires=60).bind("flight", "flight"))
        assert [child.row.expires_at for child in app.jobs.get(current_job().id).children()] == [None]

    tour.enqueue()
    assert drain(app) == 1
