"""The page of questions, the form on the page of a job, and what they send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from headrace import Headrace, Job, current_job
from headrace.testing import drain
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_pages import FORM


class Decision(msgspec.Struct):
    approved: bool
    amount: int
    note: str = ""
    level: Literal["low", "high"] = "low"


KINDS: dict[str, Any] = {"yes": bool, "colour": Literal["red", "blue"], "decide": Decision, "free": Any}


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:

        @app.task
        def ask(kind: str) -> Any:
            answer = current_job().wait_event("go", ask=f"<b>{kind}?</b>", to="ann", answer=KINDS[kind])
            return msgspec.to_builtins(answer)

        @app.task
        def often() -> None:
            while current_job().wait_event("go", ask="Once more?"):
                pass

        yield app


@pytest.fixture
def client(app: Headrace) -> Client:
    return Client(app.asgi(), headers={**FORM, "x-requested-with": "test"})


def asked(app: Headrace, kind: str) -> Job[Any]:
    job = app.enqueue("ask", kind)
    drain(app)
    return job


def test_a_page_lists_the_questions_with_a_form_each_and_escaped(app: Headrace, client: Client) -> None:
    assert "No job waits for an answer" in client.get("/questions").text
    jobs = [asked(app, kind) for kind in KINDS]
    page = client.get("/questions").text
    assert page.count('id="answer-') == 4
    assert "&lt;b&gt;yes?&lt;/b&gt;" in page
    assert "<b>yes?" not in page
    assert 'name="answer." value="true"' in page
    assert 'value="blue"' in page
    assert 'name="answer.note"' in page
    assert "Questions to ann" in client.get("/questions?to=ann").text
    own = client.get(f"/jobs/{jobs[0].id}").text
    assert 'id="question"' in own
    assert 'href="/jobs/' in own


@pytest.mark.parametrize(
    ("kind", "form", "result"),
    [
        ("yes", {"answer.": "false"}, False),
        ("colour", {"answer.": "blue"}, "blue"),
        ("free", {"answer.": '{"a": 1}'}, {"a": 1}),
        ("free", {"answer.": "plain text"}, "plain text"),
        (
            "decide",
            {"answer.approved": "true", "answer.amount": "7", "answer.note": "", "answer.level": "high"},
            {"approved": True, "amount": 7, "note": "", "level": "high"},
        ),
    ],
)
def test_a_form_answers_with_the_type_of_the_question(
    app: Headrace, client: Client, kind: str, form: dict[str, str], result: Any
) -> None:
    job = asked(app, kind)
    answer = client.post(f"/jobs/{job.id}/answer", data=form).json()
    assert (answer["ok"], answer["text"]) == (True, f"Answered 'go' of job {job.id}.")
    drain(app)
    assert job.result() == result
    [entry] = app.audit.list()
    assert (entry.what, entry.target, entry.outcome) == ("questions.answer", job.id, "done")


def test_the_form_of_a_question_does_not_answer_the_next_one(app: Headrace, client: Client) -> None:
    job = app.enqueue("often")
    drain(app)
    first = {"answer.": "true", "event": "go", "number": "1"}
    page = client.get("/questions").text
    assert '<input type="hidden" name="event" value="go"><input type="hidden" name="number" value="1">' in page
    assert client.post(f"/jobs/{job.id}/answer", data=first).json()["ok"]
    drain(app)
    late = client.post(f"/jobs/{job.id}/answer", data=first).json()
    assert not late["ok"]
    assert "asks another question by now" in late["text"]
    assert 'name="number" value="2"' in client.get("/questions").text


@pytest.mark.parametrize(
    ("kind", "form", "text"),
    [
        ("yes", {}, "answer: expected boolean, got None"),
        ("colour", {"answer.": "green"}, "expected one of 'blue', 'red'"),
        ("decide", {"answer.approved": "true"}, "'amount' is missing"),
        ("decide", {"answer.approved": "true", "answer.amount": "many"}, "amount: 'many' is not a number"),
    ],
)
def test_a_form_with_another_answer_is_refused(
    app: Headrace, client: Client, kind: str, form: dict[str, str], text: str
) -> None:
    job = asked(app, kind)
    answer = client.post(f"/jobs/{job.id}/answer", data=form).json()
    assert not answer["ok"]
    assert text in answer["text"]
    assert app.questions.count() == 1


def test_a_viewer_sees_questions_without_forms(app: Headrace) -> None:
    asked(app, "yes")
    page = Client(app.asgi(read_only=True)).get("/questions").text
    assert "yes?" in page
    assert 'id="answer-' not in page
