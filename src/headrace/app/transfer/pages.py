"""Reads jobs for a copy in pages of bounded size, one page ahead, and counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from headrace.app.transfer.damaged_records import damage_in, damage_of
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, JobRow, LogLine
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.queries import Transfer

T = TypeVar("T")

# A page is to be stored in a moment, since it holds up others there, and to fit into memory and into one statement.
# Arguments and results may be a megabyte each and come in runs, so there is a limit to what a page of unknown weight
# may bring along. Larger pages gain nothing.
MOST = 250
_FIRST = 16
_HEAVY = 4 * 1024 * 1024
_EACH = 300  # what numbers, names and separators come to, about


class RecordCount(Struct, frozen=True):
    """How many jobs of a queue are in a state."""

    queue: str
    state: str
    jobs: int


class StoreContents(Struct):
    """What was found in a store. The names are those of the JSON."""

    jobs: int = 0
    history: int = 0
    logs: int = 0
    dead_letters: int = 0
    bytes: int = 0
    damaged: list[str] = msgspec.field(default_factory=list)  # what can't be read; it is carried as it is
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
        self.bytes += sum(map(weight, page))

    def add_dead(self, page: list[DeadLetterRow]) -> None:
        self.dead_letters += len(page)
        self.damaged += [f"dead letter {record.id}: {what}" for record in page for what in damage_of(record)]
        self.bytes += sum(map(weight_of_dead, page))

    def counts(self) -> list[RecordCount]:
        return [
            RecordCount(queue, state.value, jobs) for (queue, state), jobs in sorted(self.by_queue_and_state.items())
        ]

    def per_queue(self) -> dict[str, int]:
        totals: dict[str, int] = {}
        for (queue, _), jobs in self.by_queue_and_state.items():
            totals[queue] = totals.get(queue, 0) + jobs
        return totals


# -- weight


def weight(job_export: JobExport) -> int:
    """The approximate size of an exported job in bytes."""
    job = job_export.job
    total = _EACH + len(job.payload) + len(job.result or "") + len(job.metadata or "") + len(job.progress or "")
    for history_row in job_export.history:
        total += _EACH + len(history_row.error_message or "") + len(history_row.error_traceback or "")
    for line in job_export.logs:
        total += _EACH + len(line.message) + len(line.fields or "")
    for step in job_export.steps:
        total += _EACH + len(step.value or "")
    return total


def weight_of_dead(record: DeadLetterRow) -> int:
    return _EACH + len(record.snapshot)


# -- pages


def pages(transfer: Transfer, after: int = 0) -> Iterator[list[JobExport]]:
    """Every job behind this one in the order of submission."""
    return _pages(transfer.export_jobs, after, lambda job_export: job_export.job.seq, weight)


def pages_of_dead(transfer: Transfer) -> Iterator[list[DeadLetterRow]]:
    """Every dead letter in the order of the ids."""
    return _pages(transfer.export_dead_letters, "", lambda record: record.id, weight_of_dead)


K = TypeVar("K", int, str)


def _pages(
    read: Callable[[K, int], list[T]], after: K, key: Callable[[T], K], weigh: Callable[[T], int]
) -> Iterator[list[T]]:
    limit = _FIRST
    while page := read(after, limit):
        yield page
        reached = max(map(key, page))
        if reached <= after:  # a damaged index leads back
            return
        after = reached
        each = sum(map(weigh, page)) / len(page)
        limit = max(1, min(MOST, limit * 4, int(_HEAVY / each)))


def portions(page: list[T], weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """The page in parts that are not heavy, for when it turned out to be."""
    portion: list[T] = []
    load = 0
    for item in page:
        own = weigh(item)
        if portion and load + own > 2 * _HEAVY:
            yield portion
            portion, load = [], 0
        portion.append(item)
        load += own
    yield portion


def ahead(source: Iterator[list[T]]) -> Iterator[list[T]]:
    """The same pages; the next one is read while this one is worked on."""
    from concurrent.futures import ThreadPoolExecutor  # deferred: other commands have no use for it

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, source, None)
        while page := coming.result():
            coming = reader.submit(next, source, None)
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
