"""What a store keeps beside a job."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headrace.core.jobs.records import HistoryRow, LogLine
from headrace.core.jobs.steps import Step

# The level of the lines that hold a job's stream: see core.events.stream. They are no lines of its log.
STREAM = "stream"


class StreamRange(Struct, frozen=True):
    """At most `limit` lines of a stream, from the line number `first` on; the newest ones if it is None."""

    first: int | None
    limit: int


def log_and_stream(lines: Sequence[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
    """The lines of a job's log, and those of its stream."""
    return [line for line in lines if line.level != STREAM], [line for line in lines if line.level == STREAM]


class JobDetails(Struct, frozen=True):
    """The history, the newest log lines and the steps of a job, and a range of its stream, each the oldest first."""

    history: list[HistoryRow]
    logs: list[LogLine]
    steps: list[Step]
    stream: list[LogLine] = []
