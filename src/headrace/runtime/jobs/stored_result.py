"""The stored result of a job, as a text: verified, loaded and decrypted."""

from __future__ import annotations

import msgspec

from headrace.core.codec import codec
from headrace.core.codec.payload_refs import is_reference
from headrace.core.jobs.records import JobRow
from headrace.errors import CorruptPayload, ResultUnavailable
from headrace.runtime.jobs.services import JobServices

LOST_RESULT = "$lost"


def lost_result(why: str) -> str:
    """What is stored in place of a result that could not be."""
    return msgspec.json.encode({LOST_RESULT: why}).decode()


def stored_result(services: JobServices, row: JobRow) -> str:
    """The result of a completed job that has one; ResultUnavailable if it was not stored, or is gone."""
    if not row.result:
        text = f"job {row.id} completed, but its result is gone: it is damaged, or the job was started again"
        raise ResultUnavailable(text, job_id=row.id)
    codec.verify(row.result, row.result_checksum or 0)
    try:
        text = services.decrypted(row.result, "result", row.id)
    except CorruptPayload as error:
        if not is_reference(row.result):
            raise
        raise ResultUnavailable(f"job {row.id} completed, but its result is gone: {error}", job_id=row.id) from None
    if text.startswith(f'{{"{LOST_RESULT}"'):
        text = f"job {row.id} completed, but {msgspec.json.decode(text)[LOST_RESULT]}"
        raise ResultUnavailable(text, job_id=row.id)
    return text
