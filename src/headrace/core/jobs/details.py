"""What a store keeps beside a job."""

from __future__ import annotations

from msgspec import Struct

from headrace.core.jobs.records import HistoryRow, LogLine
from headrace.core.jobs.steps import Step


class JobDetails(Struct, frozen=True):
    """The history, the newest log lines and the steps of a job, each the oldest first."""

    history: list[HistoryRow]
    logs: list[LogLine]
    steps: list[Step]
