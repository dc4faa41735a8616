"""The records of open questions in the store: one document for each job that waits for an answer.

The worker writes a record before the job is suspended, so no waiting job is missing. A record may outlive its wait;
`open_questions` shows only those whose job waits, and deletes those whose job is over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from headrace.core.damaged_records import read
from headrace.core.documents import Document
from headrace.core.jobs.questions import KIND, QuestionRecord, document_of, record_of
from headrace.core.jobs.records import JobRow
from headrace.core.jobs.states import FINAL, State
from headrace.core.jobs.steps import Step, awaiting
from headrace.engines.protocol.documents import DocumentStore
from headrace.engines.protocol.engine import Engine
from headrace.runtime.documents import documents_of

_BATCH = 500


def announce(store: DocumentStore, job_id: str, step: Step) -> None:
    """Store the record of a question, unless it exists; again if an answer to the one before changed it meanwhile."""
    while True:
        stored = store.get(KIND, [job_id])
        known = read(record_of, stored[0]) if stored else None
        if known is not None and (known.name, known.number) == (step.name, step.number):
            return
        record = QuestionRecord(step.name, step.number, step.at, step.value or "")
        if store.put([document_of(job_id, record, stored[0].version if stored else 0)]):
            return


def open_questions(engine: Engine) -> Iterator[tuple[JobRow, QuestionRecord]]:
    """The questions of the jobs that wait for an answer now, oldest job first."""
    documents = documents_of(engine.document_store, KIND)
    while batch := list(itertools.islice(documents, _BATCH)):
        yield from _open(engine, batch)


def _open(engine: Engine, documents: Sequence[Document]) -> list[tuple[JobRow, QuestionRecord]]:
    rows = {row.id: row for row in engine.queries.get([document.key for document in documents], light=True)}
    found: list[tuple[JobRow, QuestionRecord]] = []
    for document in documents:
        row, record = rows.get(document.key), read(record_of, document)
        if row is None or row.state in FINAL:
            engine.document_store.put((), [document])
        elif record is not None and is_asked(row, record):
            found.append((row, record))
    return found


def is_asked(row: JobRow, record: QuestionRecord) -> bool:
    """Whether the job is suspended until this question is answered."""
    return row.state is State.SCHEDULED and row.reason == awaiting(record.name)
