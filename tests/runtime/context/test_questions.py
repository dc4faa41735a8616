"""A job asks people: the question is listed while the job waits, answered once, and its type is checked."""

from __future__ import annotations

import asyncio
import base64
import threading
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest

from headrace import Headrace, InvalidJob, Job, QuestionNotFound, current_job
from headrace.core.jobs.questions import KIND
from headrace.testing import VirtualClock, drain
from tests.support.waiting import PATIENCE, eventually

DAY = 86_400


class Decision(msgspec.Struct):
    approved: bool
    note: str = ""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Any:
    with Headrace(url, clock=clock) as app:

        @app.task
        def pay(invoice: int) -> Any:
            text = f"Pay invoice {invoice}?"
            decision = current_job().wait_event("approval", timedelta(days=7), ask=text, answer=Decision, to="finance")
            return [type(decision).__name__, decision.approved, decision.note]

        @app.task
        def twice() -> list[bool]:
            job = current_job()
            return [job.wait_event("go", ask="Go on?"), job.wait_event("go", ask="And now?")]

        @app.task
        async def reminded() -> bool:
            answer: bool = await current_job().await_event("go", DAY * 3, ask="Go on?", remind=DAY)
            return answer

        yield app


def asked(app: Headrace, task: str, *args: Any) -> Job[Any]:
    job = app.enqueue(task, *args)
    drain(app)
    return job


def test_a_question_is_listed_and_answered_with_its_type(app: Headrace) -> None:
    job = asked(app, "pay", 7)
    [question] = app.questions.list()
    assert question == app.questions.get(job) == app.questions.get(job.id)
    assert (question.job, question.task, question.event) == (job.id, "pay", "approval")
    assert (question.text, question.to) == ("Pay invoice 7?", "finance")
    assert question.asked_at is not None
    assert question.until == question.asked_at + timedelta(days=7)
    assert job.why() == (
        "It waits for an answer from finance to 'Pay invoice 7?', for at most another 7 days 0 h; "
        f"answer it with `headrace questions answer {job.id}`."
    )
    app.questions.answer(job, {"approved": True, "note": "fine"}, by="ann")
    assert (app.questions.list(), app.questions.count()) == ([], 0)
    drain(app)
    assert job.result() == ["Decision", True, "fine"]
    [entry] = app.audit.list()
    assert (entry.who, entry.what, entry.target) == ("ann", "questions.answer", job.id)
    assert entry.detail == {"event": "approval", "answer": {"approved": True, "note": "fine"}}
    assert [entry.message for entry in job.history() if entry.event == "question"] == ["approval"]


def test_the_list_can_be_of_one_person(app: Headrace) -> None:
    job = asked(app, "pay", 7)
    asked(app, "twice")
    assert [one.job for one in app.questions.list(to="finance")] == [job.id]
    assert app.questions.list(to="nobody") == []
    assert (len(app.questions.list()), len(app.questions.list(limit=1)), app.questions.count()) == (2, 1, 2)


def test_an_answer_of_another_type_is_refused_and_the_question_stays(app: Headrace) -> None:
    job = asked(app, "pay", 7)
    with pytest.raises(InvalidJob, match="'approved': expected boolean"):
        app.questions.answer(job, {"approved": "yes"})
    app.questions.answer(job, {"approved": False})
    drain(app)
    assert job.result() == ["Decision", False, ""]


def test_a_second_answer_is_refused_and_never_counts_for_the_next_question(app: Headrace) -> None:
    job = asked(app, "twice")
    app.questions.answer(job, True)
    with pytest.raises(QuestionNotFound, match="does not wait for this answer"):
        app.questions.answer(job, False)
    drain(app)
    assert app.questions.get(job).text == "And now?"
    app.questions.answer(job, False)
    drain(app)
    assert job.result() == [True, False]
    assert app.engine.document_store.get(KIND) == []


def test_a_late_answer_to_a_question_never_counts_for_the_next_one(app: Headrace) -> None:
    job = asked(app, "twice")
    question = app.questions.get(job)
    app.questions.answer(question, True)
    drain(app)
    with pytest.raises(QuestionNotFound, match="asks another question by now"):
        app.questions.answer(question, False)
    [second] = app.questions.list()
    assert (question.event, question.number, second.event, second.number) == ("go", 1, "go", 2)
    app.questions.answer(second, False)
    drain(app)
    assert job.result() == [True, False]


@pytest.mark.parametrize("first", ["the deletion", "the next question"])
def test_the_next_question_is_asked_while_the_one_before_is_deleted(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    job = asked(app, "twice")
    store = type(app.engine.document_store)
    put, deletions = store.put, list[Any]()

    def put_in_this_order(self: Any, documents: Any, delete: Any = ()) -> bool:
        if delete:
            deletions.append(delete)
            return True
        due = [deletions.pop() for _ in deletions[:1]]
        if first == "the next question":
            stored = put(self, documents, delete)
        for deletion in due:
            put(self, (), deletion)
        return stored if first == "the next question" else put(self, documents, delete)

    with monkeypatch.context() as ordered:
        ordered.setattr(store, "put", put_in_this_order)
        app.questions.answer(job, True)
        assert deletions, "the deletion is under way"
        drain(app)
        assert not deletions
    assert app.questions.get(job).text == "And now?"
    app.questions.answer(job, False)
    drain(app)
    assert job.result() == [True, False]


def test_coroutines_that_ask_at_once_ask_one_after_the_other(app: Headrace) -> None:
    @app.task
    async def everyone() -> list[int]:
        job = current_job()
        asks = [("go", "First?"), ("go", "Second?"), ("stop", "Third?")]
        return await asyncio.gather(*(job.await_event(name, ask=text, answer=int) for name, text in asks))

    job = asked(app, "everyone")
    for number, text in enumerate(("First?", "Second?", "Third?")):
        assert app.questions.get(job).text == text
        app.questions.answer(job, number)
        drain(app)
    assert job.result() == [0, 1, 2]


def test_of_many_who_answer_at_once_one_is_heard(app: Headrace) -> None:
    job = asked(app, "twice")
    together, heard, refused = threading.Barrier(4), list[bool](), list[Exception]()

    def answer(value: bool) -> None:
        together.wait(PATIENCE)
        try:
            app.questions.answer(job, value)
            heard.append(value)
        except QuestionNotFound as error:
            refused.append(error)

    threads = [threading.Thread(target=answer, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (len(heard), len(refused)) == (1, 3)
    drain(app)
    assert app.questions.get(job).text == "And now?"


def test_an_answer_whose_sender_died_can_be_given_again_later(
    app: Headrace, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = asked(app, "twice")

    def die(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(type(app.services), "signal", die)
        with pytest.raises(KeyboardInterrupt):
            app.questions.answer(job, True, by="ann")
    with pytest.raises(QuestionNotFound, match="ann is answering it"):
        app.questions.answer(job, False)
    assert app.questions.get(job).text == "Go on?"
    clock.advance(61)
    app.questions.answer(job, False)
    drain(app)
    assert app.questions.get(job).text == "And now?"


def test_a_wait_that_times_out_asks_no_longer(app: Headrace, clock: VirtualClock) -> None:
    job = asked(app, "pay", 7)
    clock.advance(8 * DAY)
    drain(app)
    assert job.refresh().state == "retrying"  # TimeoutError is an error like any other
    assert app.questions.list() == []


def test_an_answer_after_a_timeout_is_for_the_next_question(app: Headrace, clock: VirtualClock) -> None:
    @app.task
    def persistent() -> list[Any]:
        answers: list[Any] = []
        for text in ("Now?", "Today?", "Ever?"):
            try:
                answers.append(current_job().wait_event("go", DAY, ask=text, answer=str))
            except TimeoutError:
                answers.append(None)
        return answers

    job = asked(app, "persistent")
    first = app.questions.get(job)
    clock.advance(DAY + 1)
    drain(app)
    with pytest.raises(QuestionNotFound, match="asks another question by now"):
        app.questions.answer(first, "at once")
    second = app.questions.get(job)
    assert (second.text, second.number) == ("Today?", 2)
    assert second.until is not None
    assert first.until is not None
    assert second.until >= first.until + timedelta(days=1)
    app.questions.answer(second, "yes")
    drain(app)
    app.questions.answer(app.questions.get(job), "no")
    drain(app)
    assert job.result() == [None, "yes", "no"]


def test_a_job_logs_a_reminder_after_each_interval(app: Headrace, clock: VirtualClock) -> None:
    job = asked(app, "reminded")
    for _ in range(2):
        clock.advance(DAY)
        drain(app)
    assert app.questions.get(job).text == "Go on?"
    assert "for at most another 24 h 0 min" in job.why()
    lines = [(line.level, line.message, line.fields) for line in job.logs()]
    assert lines == [("warning", "still waits for an answer: Go on?", {"event": "go"})] * 2
    app.questions.answer(job, True)
    drain(app)
    assert (job.result(), job.attempt) == (True, 1)


def test_the_question_of_a_job_that_is_over_is_deleted_by_the_list(app: Headrace) -> None:
    cancelled, deleted = asked(app, "twice"), asked(app, "twice")
    cancelled.cancel()
    deleted.delete()
    assert len(app.engine.document_store.get(KIND)) == 2
    assert app.questions.list() == []
    assert app.engine.document_store.get(KIND) == []
    with pytest.raises(QuestionNotFound):
        app.questions.answer(cancelled, True)


def test_a_retried_job_asks_again(app: Headrace) -> None:
    job = asked(app, "twice")
    job.cancel()
    app.questions.list()
    job.retry()
    drain(app)
    assert app.questions.get(job).text == "Go on?"


def test_an_event_for_the_question_is_checked_in_the_job(app: Headrace) -> None:
    job = asked(app, "pay", 7)
    app.signal(job, "approval", {"approved": "perhaps"})
    drain(app)
    assert job.refresh().state == "failed"
    assert "event 'approval'" in job.errors[-1].message
    assert app.questions.list() == []


def test_what_is_no_question_is_refused(app: Headrace) -> None:
    @app.task
    def wrong(**options: Any) -> None:
        current_job().wait_event("go", **options)

    for options in ({"to": "ann"}, {"remind": 60}, {"ask": 7}, {"ask": "Go?", "remind": 0.1}, {"ask": "Go?", "to": ""}):
        job = asked(app, "wrong")
        job = app.enqueue("wrong", **options)
        drain(app)
        assert (job.refresh().state, job.errors[-1].type) == ("failed", "InvalidJob"), options


def test_a_question_is_encrypted_where_the_app_has_keys(url: str) -> None:
    key = f"2026:{base64.b64encode(bytes(32)).decode()}"
    with Headrace(url, encryption_keys=[key]) as app:

        @app.task
        def secretive() -> str:
            answer: str = current_job().wait_event(
                "colour", ask="Which colour, Mr. Brown?", answer=Literal["red", "blue"]
            )
            return answer

        job = asked(app, "secretive")
        [document] = app.engine.document_store.get(KIND)
        assert "Brown" not in document.value
        assert "blue" not in document.value
        assert app.questions.get(job).text == "Which colour, Mr. Brown?"
        app.questions.answer(job, "red")
        drain(app)
        assert job.result() == "red"


def ask() -> str:
    return "yes" if current_job().wait_event("go", ask="Go on?") else "no"


@pytest.mark.parametrize("options", [{}, {"isolation": "process"}])
def test_a_worker_asks_and_goes_on_with_the_answer(url: str, options: dict[str, Any]) -> None:
    with Headrace(url) as app:
        app.task(name="ask", **options)(ask)
        with app.worker(concurrency=1):
            job = app.enqueue("ask")
            eventually(lambda: app.questions.count() == 1, "the question")
            app.questions.answer(job, True)
            assert job.result(PATIENCE) == "yes"
