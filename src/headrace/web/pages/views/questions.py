"""Questions of jobs that wait for people: the list with a form for each, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.questions import OpenQuestion, QuestionKey
from headrace.core.codec import codec
from headrace.core.jobs.questions import AnswerField, fields_of
from headrace.core.text import short
from headrace.errors import CorruptPayload, HeadraceError, InvalidJob, QuestionNotFound
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View

_MAX_SHOWN = 100
_BADGE_AGE = 10.0  # seconds
_FIELD = "answer."  # before the name of a field
_NUMBERS = {"integer": int, "number": float}


def show(request: PageRequest) -> Mapping[str, Any]:
    to = request.query("to")
    found = request.app.questions.list(to=to, limit=_MAX_SHOWN)
    return {"questions": found, "to": to, "fields_of": fields_of, "topics": ("job",)}


def question_of(request: PageRequest, job_id: str) -> OpenQuestion | None:
    """The question that a job waits with, for its page."""
    try:
        return request.app.questions.get(job_id)
    except QuestionNotFound:
        return None


def waiting(request: PageRequest) -> int:
    """The number of open questions. Must not raise: error pages show the navigation too."""
    try:
        return request.page_cache.shared_or_none(request.app.questions.count, max_age=_BADGE_AGE) or 0
    except HeadraceError:
        return 0


def _answer(request: PageRequest) -> ActionResult:
    question = request.app.questions.get(request.path_param("job"))
    fields = fields_of(question.answer)
    given = {field.name: value for field in fields if (value := _given(request, field)) is not None}
    answer = given.get("") if [field.name for field in fields] == [""] else given
    shown = QuestionKey(request.form_field("event"), _number(request))
    event = request.app.questions.deliver(question.job, answer, request.viewer.name, shown)
    return ActionResult(f"Answered {event!r} of job {question.job}.", target=question.job)


def _number(request: PageRequest) -> int | None:
    number = request.form_field("number") or ""
    return int(number) if number.isdecimal() else None


def _given(request: PageRequest, field: AnswerField) -> Any:
    """The value of a field; None if it is empty."""
    text = request.form_field(_FIELD + field.name)
    if text is None:
        return None
    if field.choices:
        return next((choice for choice in field.choices if str(choice) == text), text)
    if field.kind == "string":
        return text
    if (number := _NUMBERS.get(field.kind)) is not None:
        try:
            return number(text)
        except ValueError:
            raise InvalidJob(f"{field.name or 'answer'}: {short(text)} is not a number") from None
    if field.kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    try:
        return codec.decode(text)
    except CorruptPayload:
        return text  # a text needs no quotes where any type is allowed


VIEWS = [
    View(
        path="/questions",
        template="jobs/questions.html",
        show=show,
        label="Questions",
        icon="question",
        key="u",
        badge=waiting,
    )
]
ACTIONS = [Action(path="/jobs/{job:path}/answer", name="questions.answer", run=_answer)]
