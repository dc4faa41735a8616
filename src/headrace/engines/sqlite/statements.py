"""The engine's SQL, loaded once."""

from __future__ import annotations

from msgspec import Struct

from headrace.core.model import Claim, Filing, JobRow, Lease, LogLine, NewJob, Note, Outcome, WorkerRow
from headrace.engines.sql import load_statements


class Completion(Struct, frozen=True, array_like=True, gc=False):
    """The few fields of a success: half of a settle's cost is taking its batch apart."""

    id: str
    version: int
    result: str | None
    result_checksum: int | None
    finished_at: int | None


_RECORDS = (Claim, Completion, Filing, JobRow, Lease, LogLine, NewJob, Note, Outcome, WorkerRow)
SQL: dict[str, str] = load_statements("headrace.engines.sqlite", {record.__name__: record for record in _RECORDS})
