"""Reconstructs a job's whole history from its row and its history rows.

The store writes no history for what can be inferred: the row itself shows a submit, a claim and a success, and a
missing version between two entries was a promotion or a claim that was released unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.jobs.records import HistoryRow, JobRow
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.jobs.steps import KINDS

_ASIDE = frozenset({Trigger.LEASE_LOST, Trigger.REVIEW, Trigger.SUPERSEDE})
_MOVES_NOTHING = _ASIDE | {Trigger(kind) for kind in KINDS}


class HistoryEntry(Struct, frozen=True):
    """One entry of a job's history."""

    at: datetime
    event: Trigger
    from_state: State | None
    to_state: State
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


def errors_of(history_rows: Sequence[HistoryRow]) -> list[AttemptError]:
    """Every attempt that ended in an error, oldest first."""
    return [
        AttemptError(_moment(f.at), f.attempt, f.error_type, f.error_message or "", f.error_traceback or "")
        for f in history_rows
        if f.error_type is not None
    ]


def timeline(row: JobRow, history_rows: Sequence[HistoryRow]) -> list[HistoryEntry]:
    """All entries, oldest first."""
    entries: list[HistoryEntry] = []
    notes: list[HistoryEntry] = []  # since the last recorded state change
    first = version = _first_version(row, history_rows)
    state: State | None = None
    attempt = 0
    for history_row in _whole(history_rows):
        entry = _recorded(history_row)
        if entry.event in _MOVES_NOTHING:  # so it says nothing of earlier ones
            notes.append(entry)
            continue
        if history_row.attempt > attempt + 1 and entry.from_state is State.RUNNING:
            version = history_row.version - 2  # the runs in between are no longer kept: only the claim is known
        entries += _merged(_before(history_row, version, state), notes)
        entries.append(entry)
        version, state, attempt, notes = history_row.version, entry.to_state, history_row.attempt, []
    entries += _merged(_present(row, version, state), notes)
    return [HistoryEntry(_moment(row.created_at), Trigger.SUBMIT, None, _first_state(row, entries), first, 0), *entries]


def _merged(moves: Iterator[HistoryEntry], notes: list[HistoryEntry]) -> Iterator[HistoryEntry]:
    """Notes, in recorded order, among the inferred state changes."""
    move = next(moves, None)
    for note in notes:
        while move is not None and not _is_later(move, note):
            yield move
            move = next(moves, None)
        yield note
    if move is not None:
        yield move
    yield from moves


def _is_later(move: HistoryEntry, note: HistoryEntry) -> bool:
    """A run's own steps have its version. Those from another run have any version, and sort by time."""
    return move.at > note.at if note.event in _ASIDE else move.version > note.version


def _first_version(row: JobRow, history_rows: Sequence[HistoryRow]) -> int:
    """The first version of this job: 1, or its time of creation if the user gave its id."""
    known = min((history_row.version for history_row in history_rows), default=row.version)
    return row.created_at if known >= row.created_at else 1


def _first_state(row: JobRow, entries: list[HistoryEntry]) -> State:
    first = next((entry.from_state for entry in entries if entry.event not in _MOVES_NOTHING), row.state)
    return State.PENDING if first is None or first == State.RUNNING else first


def _before(history_row: HistoryRow, version: int, state: State | None) -> Iterator[HistoryEntry]:
    """The claim, and the success, that led to this history row; and the unrecorded steps before them."""
    if history_row.version == version + 1:
        return  # all before was recorded: also a success, where children were open
    if history_row.source == State.RUNNING and history_row.started_at is not None:
        yield from _claim(history_row, version, history_row.version - 1, state)
    elif history_row.source == State.COMPLETED and history_row.finished_at is not None:
        yield from _claim(history_row, version, history_row.version - 2, state)
        yield _success(history_row, history_row.finished_at, history_row.version - 1)
    else:
        yield from _unrecorded(version, history_row.version, _moment(history_row.at), history_row.attempt, state)


def _present(row: JobRow, version: int, state: State | None) -> Iterator[HistoryEntry]:
    """The claim and the success that the row itself shows."""
    if row.version == version:
        return  # as above
    if row.state is State.COMPLETED and row.finished_at is not None:
        yield from _claim(row, version, row.version - 1, state)
        yield _success(row, row.finished_at, row.version)
    elif row.state is State.RUNNING:
        yield from _claim(row, version, row.version, state)
    else:
        yield from _unrecorded(version, row.version + 1, _moment(row.run_at), row.attempt, state)


def _claim(run: JobRow | HistoryRow, before: int, version: int, state: State | None) -> Iterator[HistoryEntry]:
    at = _moment(run.started_at or 0)
    yield from _unrecorded(before, version, at, run.attempt, state)
    yield HistoryEntry(at, Trigger.CLAIM, State.PENDING, State.RUNNING, version, run.attempt, run.worker)


def _success(run: JobRow | HistoryRow, finished_at: int, version: int) -> HistoryEntry:
    at = _moment(finished_at)
    return HistoryEntry(at, Trigger.SUCCEED, State.RUNNING, State.COMPLETED, version, run.attempt, run.worker)


def _unrecorded(before: int, after: int, at: datetime, attempt: int, state: State | None) -> Iterator[HistoryEntry]:
    """Promotions and unused claims, from the missing versions. `state` is the job's state before, if known."""
    missing = 0 if state in FINAL else after - before - 1  # only a recorded step leaves a final state
    if missing and (state in (State.SCHEDULED, State.RETRYING) or (state is None and missing % 2)):
        yield HistoryEntry(at, Trigger.PROMOTE, state or State.SCHEDULED, State.PENDING, before + 1, attempt)
        before, missing = before + 1, missing - 1
    if times := missing // 2:
        message = f"fetched and given back {times} time{'s' if times > 1 else ''} without being begun"
        yield HistoryEntry(
            at, Trigger.RELEASE, State.RUNNING, State.PENDING, before + 2 * times, attempt, None, message
        )
    if missing % 2:  # one of them was a promotion
        yield HistoryEntry(at, Trigger.PROMOTE, State.SCHEDULED, State.PENDING, after - 1, attempt)


def _recorded(history_row: HistoryRow) -> HistoryEntry:
    parts = [part for part in (history_row.detail, _error_line(history_row)) if part]
    return HistoryEntry(
        _moment(history_row.at),
        Trigger(history_row.event),
        State(history_row.source),
        State(history_row.target),
        history_row.version,
        history_row.attempt,
        history_row.worker,
        ": ".join(parts) or None,
    )


def recorded_entries(history_rows: Sequence[HistoryRow]) -> list[HistoryEntry]:
    """The recorded history of a job whose row is gone, without the steps that a row would add."""
    return [_recorded(history_row) for history_row in _whole(history_rows)]


_EVENTS, _STATES = frozenset(Trigger), frozenset(State)


def _whole(history_rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """The valid rows: a damaged one has no known event or state."""
    return [one for one in history_rows if is_whole(one)]


def is_whole(history_row: HistoryRow) -> bool:
    return history_row.event in _EVENTS and history_row.source in _STATES and history_row.target in _STATES


def _error_line(history_row: HistoryRow) -> str | None:
    return f"{history_row.error_type}: {history_row.error_message}" if history_row.error_type else None


def _moment(ms: int) -> datetime:
    moment = to_datetime(ms)
    assert moment is not None
    return moment
