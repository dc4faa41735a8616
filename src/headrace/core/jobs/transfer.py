"""Records of a copy of all jobs from one store to another."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from headrace.core.jobs.records import HistoryRow, JobRow, LogLine
from headrace.core.jobs.steps import Step


class JobExport(Struct, frozen=True, array_like=True):
    """One job with its history, the lines of its log and its stream, and its steps, as it is copied."""

    job: JobRow
    history: list[HistoryRow]
    logs: list[LogLine]
    steps: list[Step] = []


class StoreStatus(Struct, frozen=True):
    """Why a store is closed: it has moved, or is being filled from another store.

    Neither allows a claim, and one that has `moved` refuses new jobs. `other` is the URL of the other store, without
    its password.
    """

    kind: Literal["moved", "arriving"]
    other: str
    at: int
