"""Reads jobs for a copy in pages of bounded size, one page ahead, and counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from headrace.app.transfer.damaged_records import damage_in, damage_of
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, JobRow, LogLine
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.dead_letters import DeadLetterStore
from headrace.engines.protocol.transfer import Transfer

T = TypeVar("T")

# A page must be stored quickly, because its transaction blocks others, and fit into memory and into one statement.
# Arguments and results may be a megabyte each and often follow each other, so the first page
# is small. Larger pages gain nothing.
MAX_PAGE = 250
_FIRST_PAGE = 16
_MAX_BYTES = 4 * 1024 * 1024
_OVERHEAD = 300  # approximate bytes of numbers, names and separators


class RecordCount(Struct, frozen=True):
    """How many jobs of a queue are in a state."""

    queue: str
    state: str
    jobs: int


class StoreContents(Struct):
    """The contents of a store. The field names are those of the JSON output."""

    jobs: int = 0
    history: int = 0
    logs: int = 0
    dead_letters: int = 0
    bytes: int = 0
    damaged: list[str] = msgspec.field(default_factory=list)  # unreadable values; they are copied unchanged
    by_queue_and_state: dict[tuple[str, State], int] = msgspec.field(default_factory=dict)

    def add(self, page: list[JobExport]) -> None:
        counts = self.by_queue_and_state
        for job_export in page:
            place = (job_export.job.queue, job_export.job.state)
            counts[place] = counts.get(place, 0) + 1
            self.damaged += damage_in(job_export)
        self.jobs += len(page)
        self.history += sum([len(job_export.history) for job_export in page])
        self.logs += sum([len(job_export.logs) for job_export in page])
        self.bytes += sum(map(export_size, page))

    def add_dead(self, page: list[DeadLetterRow]) -> None:
        self.dead_letters += len(page)
        self.damaged += [f"dead letter {record.id}: {what}" for record in page for what in damage_of(record)]
        self.bytes += sum(map(dead_letter_size, page))

    def counts(self) -> list[RecordCount]:
        return [
            RecordCount(queue, state.value, jobs) for (queue, state), jobs in sorted(self.by_queue_and_state.items())
        ]

    def per_queue(self) -> dict[str, int]:
        totals: dict[str, int] = {}
        for (queue, _), jobs in self.by_queue_and_state.items():
            totals[queue] = totals.get(queue, 0) + jobs
        return totals


# -- sizes


def export_size(job_export: JobExport) -> int:
    """The approximate size of an exported job in bytes."""
    job = job_export.job
    total = _OVERHEAD + len(job.payload) + len(job.result or "") + len(job.metadata or "") + len(job.progress or "")
    for history_row in job_export.history:
        total += _OVERHEAD + len(history_row.error_message or "") + len(history_row.error_traceback or "")
    for line in job_export.logs:
        total += _OVERHEAD + len(line.message) + len(line.fields or "")
    for step in job_export.steps:
        total += _OVERHEAD + len(step.value or "")
    return total


def dead_letter_size(record: DeadLetterRow) -> int:
    return _OVERHEAD + len(record.snapshot)


# -- pages


def pages(transfer: Transfer, after: int = 0) -> Iterator[list[JobExport]]:
    """Every job after this seq, in the order of submission."""
    return _pages(transfer.export_jobs, after, lambda job_export: job_export.job.seq, export_size)


def dead_letter_pages(dead_letters: DeadLetterStore) -> Iterator[list[DeadLetterRow]]:
    """Every dead letter in the order of ids."""

    def read(after: str, limit: int) -> list[DeadLetterRow]:
        return dead_letters.find(DeadLetterFilter(), limit, after, oldest_first=True)

    return _pages(read, "", lambda record: record.id, dead_letter_size)


K = TypeVar("K", int, str)


def _pages(
    read: Callable[[K, int], list[T]], after: K, key: Callable[[T], K], size_of: Callable[[T], int]
) -> Iterator[list[T]]:
    limit = _FIRST_PAGE
    while page := read(after, limit):
        yield page
        reached = max(map(key, page))
        if reached <= after:  # a damaged index leads back
            return
        after = reached
        each = sum(map(size_of, page)) / len(page)
        limit = max(1, min(MAX_PAGE, limit * 4, int(_MAX_BYTES / each)))


def portions(page: list[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split a page that is too large."""
    portion: list[T] = []
    load = 0
    for item in page:
        own = size_of(item)
        if portion and load + own > 2 * _MAX_BYTES:
            yield portion
            portion, load = [], 0
        portion.append(item)
        load += own
    yield portion


def read_ahead(source: Iterator[list[T]]) -> Iterator[list[T]]:
    """The same pages; a thread reads the next page while this one is processed."""
    from concurrent.futures import ThreadPoolExecutor  # deferred: other commands have no use for it

    with ThreadPoolExecutor(1) as reader:
        upcoming = reader.submit(next, source, None)
        while page := upcoming.result():
            upcoming = reader.submit(next, source, None)
            yield page


# -- texts


def portable(job_export: JobExport) -> JobExport:
    """The exported job in a form every engine can store: not all allow NUL in a text."""
    job, history, logs = job_export.job, job_export.history, job_export.logs
    if not history and not logs and "\x00" not in (job.reason or ""):
        return job_export
    return JobExport(
        _without_nul(job),
        [_without_nul(entry) for entry in history],
        [_without_nul(line) for line in logs],
        [_without_nul(step) for step in job_export.steps],
    )


R = TypeVar("R", JobRow, HistoryRow, LogLine, Step)


def _without_nul(record: R) -> R:
    texts = {
        name: value.replace("\x00", "\ufffd")
        for name in record.__struct_fields__
        if type(value := getattr(record, name)) is str and "\x00" in value
    }
    return msgspec.structs.replace(record, **texts) if texts else record
