"""Records of a copy of all jobs from one store to another."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from headrace.core.jobs.records import HistoryRow, JobRow, LogLine
from headrace.core.jobs.steps import Step


class JobExport(Struct, frozen=True, array_like=True):
    """One job with everything that was filed about it, as it is carried from one store to another."""

    job: JobRow
    history: list[HistoryRow]
    logs: list[LogLine]
    steps: list[Step] = []


class StoreStatus(Struct, frozen=True):
    """What hangs at the door of a store while its jobs are carried over, and afterwards.

    Nobody claims at either, and at one that has `moved` nobody enqueues. `other` is the other, without its password.
    """

    kind: Literal["moved", "arriving"]
    other: str
    at: int
