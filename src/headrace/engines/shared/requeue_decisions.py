"""Pure decisions about dead letters that are requeued or resolved."""

from __future__ import annotations

from typing import NamedTuple

from headrace.core.dead_letters.records import (
    REQUEUABLE,
    REQUEUED_TOO_OFTEN,
    DeadLetterResolution,
    Requeued,
    RequeueRequest,
    Status,
    used_up_text,
    with_note,
)
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import State


class RequeueDecision(NamedTuple):
    """The result of a request, and what becomes of the dead letter."""

    result: Requeued
    resolution: DeadLetterResolution | None = None


def decide(
    request: RequeueRequest, row: DeadLetterRow | None, state: State | None, by: str | None, note: str | None, at: int
) -> RequeueDecision:
    """The decision for this dead letter; `state` is that of its job, None if the job is gone."""
    if row is None or not row.job_id:  # a damaged one may have lost its job
        return RequeueDecision(Requeued(request.id, "", "missing"))
    if row.status != "pending":
        return RequeueDecision(Requeued(request.id, row.job_id, "resolved", row.requeues))
    if row.requeues >= request.most:
        notes = with_note(row.notes, note, by, at)
        why = with_note(notes, used_up_text(row.requeues, request.most), None, at)
        used_up = DeadLetterResolution(row.id, "permanently_failed", at, REQUEUED_TOO_OFTEN, row.requeues, why)
        return RequeueDecision(Requeued(request.id, row.job_id, "used_up", row.requeues), used_up)
    if state is not None and state not in REQUEUABLE:
        return RequeueDecision(Requeued(request.id, row.job_id, "busy", row.requeues))
    result = Requeued(request.id, row.job_id, "requeued" if state else "stored_anew", row.requeues + 1)
    return RequeueDecision(result, resolution_of(row, "requeued", by, note, at, row.requeues + 1))


def resolution_of(
    row: DeadLetterRow, status: Status | None, by: str | None, note: str | None, at: int, requeues: int | None = None
) -> DeadLetterResolution:
    """A resolution by hand; without a status, only a note. The number of requeues stays, if it is not given."""
    counted = row.requeues if requeues is None else requeues
    notes = with_note(row.notes, note, by, at)
    if status is None:
        return DeadLetterResolution(row.id, row.status, row.resolved_at, row.resolved_by, counted, notes)
    return DeadLetterResolution(row.id, status, at, by, counted, notes)
