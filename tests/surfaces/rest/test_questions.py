"""Questions, answers and events over REST."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace, Job, current_job
from headrace.testing import drain
from tests.surfaces.rest.kit import Api


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:

        @app.task
        def pay() -> bool:
            answer: bool = current_job().wait_event("approval", ask="Pay?", to="finance")
            return answer

        @app.task
        def twice() -> list[bool]:
            job = current_job()
            return [job.wait_event("go", ask="Go on?"), job.wait_event("go", ask="And now?")]

        @app.task
        def order() -> object:
            return current_job().wait_event("paid")

        yield app


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None), headers={"x-requested-with": "x"})


def waiting(app: Headrace, task: str) -> Job[object]:
    job = app.enqueue(task)
    drain(app)
    return job


def test_a_question_is_listed_shown_and_answered(app: Headrace, api: Api) -> None:
    job = waiting(app, "pay")
    [question] = api.ask("GET", "/questions")
    assert (question["job"], question["text"], question["answer"]) == (job.id, "Pay?", {"type": "boolean"})
    assert api.ask("GET", f"/jobs/{job.id}/question") == question
    assert api.ask("GET", "/questions?to=finance") == [question]
    assert api.ask("GET", "/questions?to=ann") == []
    why = api.ask("GET", f"/jobs/{job.id}/why")
    assert (why["remedy"]["verb"], why["remedy"]["target"]) == ("answer_question", job.id)
    assert api.ask("POST", f"/jobs/{job.id}/answer", json={"answer": True})["state"] == "pending"
    drain(app)
    assert job.result() is True
    [entry] = app.audit.list()
    assert (entry.who, entry.target, entry.outcome, entry.detail) == ("local", job.id, "done", {"answer": True})


def test_what_is_no_answer_is_refused(app: Headrace, api: Api) -> None:
    job = waiting(app, "pay")
    kind, detail = api.refused("POST", f"/jobs/{job.id}/answer", 422, json={"answer": "yes"})
    assert (kind, detail) == ("invalid-job", "answer: expected boolean, got 'yes'")
    assert api.refused("POST", f"/jobs/{job.id}/answer", 422, json={})[0] == "invalid-body"
    api.ask("POST", f"/jobs/{job.id}/answer", json={"answer": False})
    kind, detail = api.refused("POST", f"/jobs/{job.id}/answer", 404, json={"answer": True})
    assert (kind, "does not wait for this answer" in detail) == ("question-not-found", True)
    assert api.refused("GET", f"/jobs/{job.id}/question", 404)[0] == "question-not-found"
    assert api.refused("POST", "/jobs/nobody/answer", 404, json={"answer": True})[0] == "job-not-found"
    drain(app)
    assert job.result() is False


def test_an_answer_names_its_question(app: Headrace, api: Api) -> None:
    job = waiting(app, "twice")
    [question] = api.ask("GET", "/questions")
    answer = {"answer": True, "event": question["event"], "number": question["number"]}
    api.ask("POST", f"/jobs/{job.id}/answer", json=answer)
    drain(app)
    for late in (answer, {"answer": True, "number": 1}, {"answer": True, "event": "stop"}):
        kind, detail = api.refused("POST", f"/jobs/{job.id}/answer", 404, json=late)
        assert (kind, "asks another question by now" in detail) == ("question-not-found", True)
    api.ask("POST", f"/jobs/{job.id}/answer", json={**answer, "answer": False, "number": 2})
    drain(app)
    assert job.result() == [True, False]


def test_an_event_is_sent_to_a_job(app: Headrace, api: Api) -> None:
    job = waiting(app, "order")
    assert api.ask("GET", "/questions") == []
    stored = api.ask("POST", f"/jobs/{job.id}/signal", json={"event": "paid", "data": {"receipt": 7}})
    assert stored["state"] == "pending"
    drain(app)
    assert job.result() == {"receipt": 7}
    kind, detail = api.refused("POST", f"/jobs/{job.id}/signal", 409, json={"event": "paid"})
    assert (kind, "receives no more events" in detail) == ("wrong-state", True)
    assert api.refused("POST", f"/jobs/{job.id}/signal", 422, json={"event": ""})[0] == "invalid-job"
