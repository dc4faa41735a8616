"""Dead letters: inspect failed jobs, requeue or resolve them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from headrace.app.dead_letters.records import BulkRequeue, DeadGroup, DeadLetter, DeadStats, RequeueResult
from headrace.app.jobs.records import lowered
from headrace.core.dead_letters.records import BY_HAND, Status
from headrace.core.events.history import HistoryEntry
from headrace.core.queues.rule_fields import RateText
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Changed, Cursor, Limit, Note, decoded, filters_of
from headrace.web.api.values import AtLeastOne, Boost, RequeueLimit
from headrace.web.security.middleware import RequestContext

table = Table("dead", "Dead letters: inspect failed jobs, requeue or resolve them.")
AnyStatus = Literal["pending", "requeued", "manually_resolved", "permanently_failed", "cancelled", "expired", "any"]


class DeadQuery(Struct, frozen=True, kw_only=True):
    """Filters; the status `any` selects all."""

    status: AnyStatus = "pending"
    reason: str | None = None
    task: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class GroupQuery(Struct, frozen=True):
    """The status of the groups, and how many to return."""

    status: AnyStatus = "pending"
    limit: Limit = 50


class DeadList(Struct, frozen=True):
    """Dead letters, newest first. `cursor` continues after them."""

    dead_letters: list[DeadLetter]
    cursor: str | None


class DeadLetterBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job, and a reason of one word."""

    job_id: str
    reason: Annotated[str, Meta(min_length=1, max_length=200)] = BY_HAND
    note: Note | None = None


class Requeue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a requeue; `args` and `kwargs` replace the job's arguments."""

    priority_boost: Boost | None = None
    max_requeues: RequeueLimit | None = None
    note: Note | None = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None


class RequeueMany(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of a bulk requeue: at least one, or `everything`. `rate` ("10/s") spreads the starts of the jobs."""

    reason: str | None = None
    task: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    everything: bool = False
    limit: AtLeastOne | None = None
    rate: RateText | None = None
    priority_boost: Boost | None = None
    max_requeues: RequeueLimit | None = None
    note: Note | None = None
    dry_run: bool = False


class Resolve(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The resolution."""

    status: Literal["manually_resolved", "permanently_failed", "cancelled"]
    note: Note | None = None


class NewNote(Struct, frozen=True, forbid_unknown_fields=True):
    """A note."""

    text: Annotated[Note, Meta(min_length=1)]


class Purge(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Purge dead letters resolved at least `older_than` seconds ago; pending ones only if `status` names them."""

    older_than: Annotated[float, Meta(ge=0)] = 30 * 86_400
    status: list[Status] | None = None
    dry_run: bool = False


@table.get("/dead")
def find(context: RequestContext, query: DeadQuery) -> DeadList:
    """List dead letters, newest first; pending ones unless a status is given."""
    filters = filters_of(query, exclude=("status", "limit", "cursor"))
    page = context.app.dead.list(status=_status(query.status), limit=query.limit, cursor=query.cursor, **filters)
    return DeadList([_shown(dead_letter) for dead_letter in page], page.cursor)


@table.post("/dead", example={"job_id": "0197b6f35c1e7d2a9c3e0a1b2c3d4e5f", "reason": "wrong_total"})
def add(context: RequestContext, body: DeadLetterBody) -> DeadLetter:
    """Make a dead letter of a job by hand. A job that has not started fails."""
    return _shown(context.app.dead.add(body.job_id, reason=body.reason, by=context.caller.name, note=body.note))


@table.get("/dead/groups")
def groups(context: RequestContext, query: GroupQuery) -> list[DeadGroup]:
    """Group dead letters by the fingerprint of their error, largest group first."""
    return context.app.dead.groups(status=_status(query.status), limit=query.limit)


@table.get("/dead/stats")
def stats(context: RequestContext) -> list[DeadStats]:
    """Count dead letters by reason."""
    return context.app.dead.stats()


@table.post("/dead/requeue", example={"fingerprint": "9f2c", "rate": "10/s", "dry_run": True})
def requeue_many(context: RequestContext, body: RequeueMany) -> BulkRequeue:
    """Requeue the pending dead letters that match, newest first."""
    filters = filters_of(
        body, exclude=("everything", "limit", "rate", "priority_boost", "max_requeues", "note", "dry_run")
    )
    return context.app.dead.requeue_where(
        everything=body.everything,
        dry_run=body.dry_run,
        limit=body.limit,
        rate=body.rate,
        priority_boost=body.priority_boost,
        max_requeues=body.max_requeues,
        by=context.caller.name,
        note=body.note,
        **filters,
    )


@table.post("/dead/purge", example={"older_than": 2_592_000, "dry_run": True})
def purge(context: RequestContext, body: Purge) -> Changed:
    """Delete dead letters that were resolved long ago."""
    purged = context.app.dead.purge(older_than=body.older_than, status=body.status, dry_run=body.dry_run)
    return Changed(purged, body.dry_run)


@table.get("/dead/{dead_letter_id}/history")
def history(context: RequestContext, dead_letter_id: str) -> list[HistoryEntry]:
    """Return the history of the job of a dead letter, oldest first."""
    return context.app.dead.history(dead_letter_id)


@table.post("/dead/{dead_letter_id}/requeue", example={"note": "fixed SMTP"})
def requeue(context: RequestContext, dead_letter_id: str, body: Requeue) -> RequeueResult:
    """Run the job of a pending dead letter again, with fresh attempts and a higher priority."""
    return context.app.dead.requeue(
        dead_letter_id,
        priority_boost=body.priority_boost,
        max_requeues=body.max_requeues,
        by=context.caller.name,
        note=body.note,
        args=None if body.args is None else decoded(body.args),
        kwargs=None if body.kwargs is None else decoded(body.kwargs),
    )


@table.post("/dead/{dead_letter_id}/resolve", example={"status": "manually_resolved", "note": "sent by hand"})
def resolve(context: RequestContext, dead_letter_id: str, body: Resolve) -> DeadLetter:
    """Resolve a pending dead letter. Its job does not change."""
    return _shown(context.app.dead.resolve(dead_letter_id, body.status, by=context.caller.name, note=body.note))


@table.post("/dead/{dead_letter_id}/notes", example={"text": "the mail server was down"})
def note(context: RequestContext, dead_letter_id: str, body: NewNote) -> DeadLetter:
    """Add a note to a dead letter of any status."""
    return _shown(context.app.dead.note(dead_letter_id, body.text, by=context.caller.name))


@table.get("/dead/{dead_letter_id}")
def get(context: RequestContext, dead_letter_id: str) -> DeadLetter:
    """Return one dead letter by its id, or the newest of the job with this id."""
    return _shown(context.app.dead.get(dead_letter_id))


@table.delete("/dead/{dead_letter_id}")
def delete(context: RequestContext, dead_letter_id: str) -> None:
    """Delete a dead letter of any status. Its job does not change."""
    context.app.dead.delete(dead_letter_id)


def _status(status: AnyStatus) -> str | None:
    return None if status == "any" else status


def _shown(dead_letter: DeadLetter) -> DeadLetter:
    args, kwargs, metadata = lowered(dead_letter.args), lowered(dead_letter.kwargs), lowered(dead_letter.metadata)
    logs = tuple(structs.replace(line, fields=lowered(line.fields)) for line in dead_letter.logs)
    fields: dict[str, Any] = {"args": args, "kwargs": kwargs, "metadata": metadata, "logs": logs}
    fields["arguments"] = lowered(dead_letter.arguments)
    return structs.replace(dead_letter, progress=lowered(dead_letter.progress), **fields)
