"""Reads the question that a job waits with, and says so where a reader asks why the job does not run."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read
from headrace.core.durations import span_text
from headrace.core.jobs.explanation import Explanation, Remedy
from headrace.core.jobs.questions import KIND, Question, QuestionRecord, decoded, record_of
from headrace.core.jobs.records import JobRow
from headrace.engines.protocol.engine import Engine
from headrace.errors import HeadraceError
from headrace.runtime.jobs.questions import is_asked

Decrypt = Callable[[str, str, str], str]


class StoredQuestion(Struct, frozen=True):
    """The record of a question, the version of its document, and the question; None if it can't be read here."""

    record: QuestionRecord
    version: int
    question: Question | None


def stored_question(engine: Engine, decrypt: Decrypt, job_id: str) -> StoredQuestion | None:
    """The stored question of a job, also if the job does not wait for its answer now."""
    documents = engine.document_store.get(KIND, [job_id])
    record = read(record_of, documents[0]) if documents else None
    if record is None:
        return None
    return StoredQuestion(record, documents[0].version, question_in(record, decrypt, job_id))


def question_in(record: QuestionRecord, decrypt: Decrypt, job_id: str) -> Question | None:
    """The question; None if it is damaged, or encrypted with a key that is missing here."""
    try:
        return decoded(decrypt(record.question, f"question {record.name}", job_id))
    except (HeadraceError, msgspec.MsgspecError):
        return None


def explain_question(row: JobRow, stored: StoredQuestion | None, now: int) -> Explanation | None:
    """Why a job that waits for an answer does not run; None if it does not."""
    if stored is None or stored.question is None or not is_asked(row, stored.record):
        return None
    question = stored.question
    to = "" if question.to is None else f" from {question.to}"
    left = "" if question.until is None else f", for at most another {span_text(question.until - now)}"
    remedy = Remedy(
        verb="answer_question", target=row.id, words="answer it with", command=f"headrace questions answer {row.id}"
    )
    return Explanation(f"It waits for an answer{to} to {question.text!r}{left}.", remedy)
