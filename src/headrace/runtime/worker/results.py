"""Gives a claimed job the results it was promised, before it is run: in the stored text of its call.

So they are decoded where all arguments are, in a thread, a coroutine or a sandbox. Who runs it must not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from headrace.core.codec import codec
from headrace.core.codec.encryption import Cipher, opened
from headrace.core.codec.result_refs import MARK, ParentFailure, ParentResult, failure_text, filled, ids_in
from headrace.core.events.history import errors_of
from headrace.core.jobs.records import Claim
from headrace.core.jobs.states import FINAL, State
from headrace.engines.protocol.queries import Queries
from headrace.errors import CorruptPayload, PermanentError
from headrace.runtime.jobs.job import LOST_RESULT

_AT_ONCE = 1000  # results may be large
MISSING = "parent_result_missing"  # the reason of a job that failed for it
UNFIT = "parent_result_unfit"


class MissingResult(PermanentError):
    """A result that the job was promised is not there, and will not be."""


class UnfitResult(CorruptPayload):
    """A result that the job was given is not what its annotation asks for."""


def has_result_refs(claim: Claim) -> bool:
    """Whether the claim has to be fulfilled first. Jobs without promises pay for this test, and nothing else."""
    return MARK in claim.payload


class ResultResolver:
    """Reads the results of one store. `keeps` tells whether a job's result was to be kept at all."""

    def __init__(self, queries: Queries, keeps: Callable[[ParentResult], bool], cipher: Cipher | None = None) -> None:
        self._queries = queries
        self._cipher = cipher
        self._keeps = keeps

    def resolve_results(self, claims: Sequence[Claim]) -> list[Claim | MissingResult]:
        """Each claim with its results in place, or why one of them can't be; all results are read at once."""
        wanted = list(dict.fromkeys(job_id for claim in claims for job_id in ids_in(claim.payload)))
        pages = (wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE))
        rows = {row.id: row for page in pages for row in self._queries.parent_results(page)}
        texts: dict[str, str] = {}

        def text_of(job_id: str) -> str:
            if job_id not in texts:
                texts[job_id] = self._text(job_id, rows.get(job_id))
            return texts[job_id]

        return [_attempted(claim, text_of, self._cipher) for claim in claims]

    def _text(self, job_id: str, row: ParentResult | None) -> str:
        if row is None:
            raise MissingResult(f"the result of its parent {job_id} is gone: that job was deleted")
        parent = f"its parent {job_id} ({row.task})"
        if row.state not in FINAL:
            raise MissingResult(f"{parent} is {row.state} and has no result yet; this job was run before its time")
        if row.state is not State.COMPLETED:
            return failure_text(self._failure(row))
        if row.result is None:
            if self._keeps(row):
                return "null"
            raise MissingResult(f"the result of {parent} was not kept, by keep_result=False; let it be kept")
        try:
            codec.verify(row.result, row.result_checksum or 0)
        except CorruptPayload as error:
            raise MissingResult(f"the result of {parent} is damaged: {error}") from None
        result = self._opened(row.result, job_id, parent)
        if result.startswith(f'{{"{LOST_RESULT}"'):
            raise MissingResult(f"the result of {parent} is lost: {msgspec.json.decode(result)[LOST_RESULT]}")
        return result

    def _opened(self, result: str, job_id: str, parent: str) -> str:
        try:
            return opened(self._cipher, result, "result", job_id)
        except CorruptPayload as error:
            raise MissingResult(f"the result of {parent} is not to be had: {error}") from None

    def _failure(self, row: ParentResult) -> ParentFailure:
        errors = errors_of(self._queries.history(row.id)) if row.state is State.FAILED else []
        if not errors:
            return ParentFailure(row.id, row.task, row.state, None, row.reason)
        return ParentFailure(row.id, row.task, row.state, errors[-1].type, errors[-1].message)


def _attempted(claim: Claim, text_of: Callable[[str], str], cipher: Cipher | None) -> Claim | MissingResult:
    try:
        codec.verify(claim.payload, claim.checksum)
        payload = filled(opened(cipher, claim.payload, "call", claim.task), text_of)
    except CorruptPayload:
        return claim  # whoever runs it finds that out as well, and tells it
    except MissingResult as missing:
        return missing
    return structs.replace(claim, payload=payload, checksum=codec.checksum(payload))
