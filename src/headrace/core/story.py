"""Tells a job's whole history from its row and what was filed about it.

The store writes no line for what can be inferred: a submit, a claim and a success are told by the row itself, and a
version that is missing between two entries was a promotion or a claim that was given back unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.model import Filing, JobRow
from headrace.core.states import Event, State


class Entry(Struct, frozen=True):
    """One step of a job's life."""

    at: datetime
    event: str
    from_state: str | None
    to_state: str
    version: int
    attempt: int
    worker: str | None = None
    message: str | None = None


class AttemptError(Struct, frozen=True):
    """The error of one attempt."""

    at: datetime
    attempt: int
    type: str
    message: str
    traceback: str


def errors_of(filings: Sequence[Filing]) -> list[AttemptError]:
    """Every attempt that ended in an error, oldest first."""
    return [
        AttemptError(_moment(f.at), f.attempt, f.error_type, f.error_message or "", f.error_traceback or "")
        for f in filings
        if f.error_type is not None
    ]


def tell(row: JobRow, filings: Sequence[Filing]) -> list[Entry]:
    """All entries, oldest first."""
    entries = [Entry(_moment(row.created_at), Event.SUBMIT, None, _first_state(row, filings), 1, 0)]
    version = 1
    for filing in filings:
        if filing.event == "lease lost":
            entries.append(_filed(filing))
            continue
        entries += _before(filing, version)
        entries.append(_filed(filing))
        version = filing.version
    return [*entries, *_present(row, version)]


def _first_state(row: JobRow, filings: Sequence[Filing]) -> str:
    delayed = row.run_at > row.created_at and not filings
    return State.SCHEDULED if row.state is State.SCHEDULED or delayed else State.PENDING


def _before(filing: Filing, version: int) -> Iterator[Entry]:
    """The claim that led to a filed end of a run, and what went before it unfiled."""
    if filing.source == State.RUNNING and filing.started_at is not None:
        at, worker = _moment(filing.started_at), filing.worker
        yield from _unfiled(version, filing.version - 1, at, filing.attempt)
        yield Entry(at, Event.CLAIM, State.PENDING, State.RUNNING, filing.version - 1, filing.attempt, worker)
    else:
        yield from _unfiled(version, filing.version, _moment(filing.at), filing.attempt)


def _present(row: JobRow, version: int) -> Iterator[Entry]:
    """The claim and the success that the row itself tells."""
    if row.state is State.COMPLETED and row.finished_at is not None:
        yield from _claim(row, version, row.version - 1)
        at = _moment(row.finished_at)
        yield Entry(at, Event.SUCCEED, State.RUNNING, State.COMPLETED, row.version, row.attempt, row.worker)
    elif row.state is State.RUNNING:
        yield from _claim(row, version, row.version)
    else:
        yield from _unfiled(version, row.version + 1, _moment(row.run_at), row.attempt)


def _claim(row: JobRow, before: int, version: int) -> Iterator[Entry]:
    at = _moment(row.started_at or row.created_at)
    yield from _unfiled(before, version, at, row.attempt)
    yield Entry(at, Event.CLAIM, State.PENDING, State.RUNNING, version, row.attempt, row.worker)


def _unfiled(before: int, after: int, at: datetime, attempt: int) -> Iterator[Entry]:
    missing = after - before - 1
    if missing >= 2:
        times = missing // 2
        message = f"fetched and given back {times} time{'s' if times > 1 else ''} without being begun"
        yield Entry(at, Event.RELEASE, State.RUNNING, State.PENDING, before + 2 * times, attempt, None, message)
    if missing % 2:
        yield Entry(at, Event.PROMOTE, State.SCHEDULED, State.PENDING, after - 1, attempt)


def _filed(filing: Filing) -> Entry:
    said = [part for part in (filing.detail, _error_line(filing)) if part]
    return Entry(
        _moment(filing.at),
        filing.event,
        filing.source,
        filing.target,
        filing.version,
        filing.attempt,
        filing.worker,
        ": ".join(said) or None,
    )


def _error_line(filing: Filing) -> str | None:
    return f"{filing.error_type}: {filing.error_message}" if filing.error_type else None


def _moment(ms: int) -> datetime:
    moment = to_datetime(ms)
    assert moment is not None
    return moment
