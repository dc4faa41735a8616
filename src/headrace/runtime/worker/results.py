"""Puts parents' results into the stored call of a claimed job before it runs.

The results are then decoded with all other arguments, in a thread, a coroutine or a sandbox; the runner needs to know
nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from headrace.core.codec import codec
from headrace.core.codec.payload_refs import is_reference
from headrace.core.codec.result_refs import (
    MARK,
    MissingResult,
    ParentFailure,
    failure_text,
    filled,
    ids_in,
)
from headrace.core.events.history import errors_of
from headrace.core.jobs.light_rows import lacks_result
from headrace.core.jobs.records import Claim, JobRow
from headrace.core.jobs.states import FINAL, State
from headrace.engines.protocol.engine import Engine
from headrace.errors import CorruptPayload
from headrace.runtime.jobs.stored_result import LOST_RESULT
from headrace.runtime.payloads.payloads import Payloads, loaded

_AT_ONCE = 1000  # results may be large


def has_result_refs(claim: Claim) -> bool:
    """Whether the call refers to parents' results. Other jobs pay only for this test."""
    return MARK in claim.payload


class ResultResolver:
    """Reads parents' results from one store. `keeps` says whether a job's result was stored at all."""

    def __init__(self, engine: Engine, keeps: Callable[[JobRow], bool], payloads: Payloads | None = None) -> None:
        self._engine = engine
        self._payloads = payloads
        self._keeps = keeps

    def resolve_results(self, claims: Sequence[Claim]) -> list[Claim | MissingResult]:
        """Each claim with its results put in, or the error for a missing one; all results are read at once."""
        wanted = list(dict.fromkeys(job_id for claim in claims for job_id in ids_in(claim.payload)))
        pages = (wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE))
        rows = {row.id: row for page in pages for row in self._read(page)}
        texts: dict[str, str] = {}

        def text_of(job_id: str) -> str:
            if job_id not in texts:
                texts[job_id] = self._text(job_id, rows.get(job_id))
            return texts[job_id]

        return [_attempted(claim, text_of, self._payloads) for claim in claims]

    def _read(self, ids: Sequence[str]) -> list[JobRow]:
        """These jobs with their results, but without long arguments."""
        rows = self._engine.queries.get(ids, light=True)
        incomplete = [row.id for row in rows if lacks_result(row)]
        whole = {row.id: row for row in self._engine.queries.get(incomplete)} if incomplete else {}
        return [whole.get(row.id, row) for row in rows]

    def _text(self, job_id: str, row: JobRow | None) -> str:
        if row is None:
            raise MissingResult(f"the result of its parent {job_id} is gone: that job was deleted")
        parent = f"its parent {job_id} ({row.task})"
        if row.state not in FINAL:
            raise MissingResult(f"{parent} is {row.state} and has no result yet; this job ran too early")
        if row.state is not State.COMPLETED:
            return failure_text(self._failure(row))
        if row.result is None:
            if self._keeps(row):
                return "null"
            raise MissingResult(f"the result of {parent} was not stored (keep_result=False); set keep_result=True")
        try:
            codec.verify(row.result, row.result_checksum or 0)
        except CorruptPayload as error:
            raise MissingResult(f"the result of {parent} is damaged: {error}") from None
        result = self._opened(row.result, job_id, parent)
        if result.startswith(f'{{"{LOST_RESULT}"'):
            raise MissingResult(f"the result of {parent} is lost: {msgspec.json.decode(result)[LOST_RESULT]}")
        return result

    def _opened(self, result: str, job_id: str, parent: str) -> str:
        if is_reference(result):  # put in as it is: the runner loads it
            return result
        try:
            return loaded(self._payloads, result, "result", job_id)
        except CorruptPayload as error:
            raise MissingResult(f"the result of {parent} can't be read: {error}") from None

    def _failure(self, row: JobRow) -> ParentFailure:
        errors = (
            errors_of(self._engine.queries.details(row.id, logs=0, steps=False).history)
            if row.state is State.FAILED
            else []
        )
        if not errors:
            return ParentFailure(row.id, row.task, row.state, None, row.reason)
        return ParentFailure(row.id, row.task, row.state, errors[-1].type, errors[-1].message)


def _attempted(claim: Claim, text_of: Callable[[str], str], payloads: Payloads | None) -> Claim | MissingResult:
    try:
        codec.verify(claim.payload, claim.checksum)
        text = claim.payload
        if not is_reference(text):  # else its promises are filled, and the runner loads the rest
            text = loaded(payloads, text, "call", claim.task)
        payload = filled(text, text_of)
    except CorruptPayload:
        return claim  # the runner finds and reports the same error
    except MissingResult as missing:
        return missing
    return structs.replace(claim, payload=payload, checksum=codec.checksum(payload))
