"""Questions that jobs ask people, their answers, and events for waiting jobs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from headrace.app.jobs.records import JobRecord, record_of
from headrace.app.questions import OpenQuestion, QuestionKey
from headrace.web.api.route_table import Table
from headrace.web.problems import Refused
from headrace.web.security.middleware import RequestContext

table = Table("questions", "Questions that jobs ask people, their answers, and events for waiting jobs.")


class QuestionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`to` selects the questions to a person or group."""

    to: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer: a value of the type that the question's `answer` describes.

    With the question's `event` and `number`, an answer that comes late is refused, and not taken for the next question.
    """

    answer: Any
    event: str | None = None
    number: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class SignalRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of an event, and its data."""

    event: str
    data: Any = None


@table.get("/questions")
def find(context: RequestContext, query: QuestionQuery) -> list[OpenQuestion]:
    """List the jobs that wait for an answer, the oldest first."""
    return context.app.questions.list(to=query.to, limit=query.limit)


@table.get("/jobs/{job_id}/question")
def get(context: RequestContext, job_id: str) -> OpenQuestion:
    """Return the question that a job waits with."""
    return context.app.questions.get(context.app.jobs.get(job_id))


@table.post("/jobs/{job_id}/answer", example={"answer": {"approved": True}, "event": "approval", "number": 1})
def answer(context: RequestContext, job_id: str, body: AnswerRequest) -> JobRecord:
    """Answer the question of a job, once. The audit trail records who did."""
    job = context.app.jobs.get(job_id)
    context.app.questions.deliver(job.id, body.answer, context.caller.name, QuestionKey(body.event, body.number))
    return record_of(job.refresh())


@table.post("/jobs/{job_id}/signal", example={"event": "paid", "data": {"receipt": 7}})
def signal(context: RequestContext, job_id: str, body: SignalRequest) -> JobRecord:
    """Send an event to a job that waits, or will wait, for it."""
    job = context.app.jobs.get(job_id)
    if not context.app.signal(job, body.event, body.data):
        raise Refused(409, "wrong-state", f"job {job.id} is {job.refresh().state}: it receives no more events")
    return record_of(job.refresh())
