"""`app.questions`: what jobs ask people with `current_job().wait_event(name, ask=...)`, and the answers."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from headrace.app.services.questions import StoredQuestion, question_in, stored_question
from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.jobs.questions import Question, QuestionRecord, check_answer, document_of
from headrace.core.jobs.records import JobRow
from headrace.core.tasks.options import check_limit, check_name, check_text
from headrace.errors import QuestionNotFound
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.questions import is_asked, open_questions

if TYPE_CHECKING:
    from headrace.app.admin.audit import Audit

# How long an answer that was begun and not finished keeps others out; the process that gave it may have died.
_ANSWERING_MS = 60_000


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A question that a job waits with.

    `event` and `number` tell it from other questions of the job: the number counts the waits for this event. `answer`
    is the JSON schema of the answer. `until` is when the wait times out, None without a timeout.
    """

    job: str
    task: str
    queue: str
    event: str
    number: int
    text: str
    to: str | None
    answer: dict[str, Any]
    asked_at: datetime | None
    until: datetime | None


class QuestionKey(NamedTuple):
    """Tells the questions of a job apart; None stands for any."""

    event: str | None = None
    number: int | None = None

    def is_of(self, record: QuestionRecord) -> bool:
        return self.event in (None, record.name) and self.number in (None, record.number)


class Questions:
    """`app.questions`: lists the questions of waiting jobs, and answers them."""

    def __init__(self, services: Services, audit: Callable[[], Audit]) -> None:
        self._services = services
        self._audit = audit

    def list(self, *, to: str | None = None, limit: int = 100) -> builtins.list[OpenQuestion]:
        """The open questions, the oldest job's first; with `to`, those to this person or group."""
        whom = None if to is None else check_name("to", to)
        decrypt = self._services.decrypted
        shown = (
            _open_question(row, record, question_in(record, decrypt, row.id))
            for row, record in open_questions(self._services.engine)
        )
        found = (one for one in shown if whom in (None, one.to))
        return builtins.list(itertools.islice(found, check_limit("limit", limit)))

    def count(self) -> int:
        """How many jobs wait for an answer."""
        return sum(1 for _ in open_questions(self._services.engine))

    def get(self, job: Job[Any] | str) -> OpenQuestion:
        """The question of this job, or QuestionNotFound."""
        row, stored = self._stored(_id_of(job))
        if not is_asked(row, stored.record):
            raise QuestionNotFound(row.id)
        return _open_question(row, stored.record, stored.question)

    def answer(self, question: OpenQuestion | Job[Any] | str, data: Any, *, by: str | None = None) -> None:
        """Answer this question, or the one that this job asks now, once.

        QuestionNotFound if the job does not ask it, or another person has answered. InvalidJob if the answer does not
        have the type that the task declared. `by` is recorded in `app.audit`.
        """
        if isinstance(question, OpenQuestion):
            job_id, key = question.job, QuestionKey(question.event, question.number)
        else:
            job_id, key = _id_of(question), QuestionKey()
        event = self.deliver(job_id, data, by, key)
        if by is not None:
            self._audit().record(by, "questions.answer", job_id, "done", {"event": event, "answer": data})

    def deliver(self, job_id: str, data: Any, by: str | None, key: QuestionKey) -> str:
        """Answer without an entry in the audit trail, for surfaces that write their own; returns the event's name."""
        services = self._services
        row, stored = self._stored(job_id)
        record, now = stored.record, services.clock.now()
        if not key.is_of(record):
            raise QuestionNotFound(job_id, "; it asks another question by now")
        if record.answered_at is not None and now - record.answered_at < _ANSWERING_MS:
            raise QuestionNotFound(job_id, f"; {record.answered_by or 'another person'} is answering it")
        if stored.question is not None:
            check_answer(stored.question.answer, data)
        # Of two people who answer at the same time, one changes the record.
        who = None if by is None else check_text("by", by)
        marked = msgspec.structs.replace(record, answered_by=who, answered_at=now)
        store = services.engine.document_store
        if not store.put([document_of(job_id, marked, stored.version)]):
            raise QuestionNotFound(job_id, "; another person has just answered it")
        is_waiting = services.signal(job_id, record.name, data)
        store.put((), [document_of(job_id, marked, stored.version + 1)])
        if not is_waiting:
            raise QuestionNotFound(job_id, f"; it is {row.state}")
        return record.name

    def _stored(self, job_id: str) -> tuple[JobRow, StoredQuestion]:
        engine = self._services.engine
        stored = stored_question(engine, self._services.decrypted, job_id)
        rows = engine.queries.get([job_id], light=True)
        if stored is None or not rows:
            raise QuestionNotFound(job_id)
        return rows[0], stored

    alist = twin(list)
    acount = twin(count)
    aget = twin(get)
    aanswer = twin(answer)


def _open_question(row: JobRow, record: QuestionRecord, question: Question | None) -> OpenQuestion:
    known = question or Question("(this question can't be read)")
    return OpenQuestion(
        job=row.id,
        task=row.task,
        queue=row.queue,
        event=record.name,
        number=record.number,
        text=known.text,
        to=known.to,
        answer=known.answer,
        asked_at=to_datetime(record.asked_at),
        until=to_datetime(known.until),
    )


def _id_of(job: Job[Any] | str) -> str:
    return check_text("job", job.id if isinstance(job, Job) else job)
