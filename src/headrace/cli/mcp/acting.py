"""Tools that change the store, for a server that was started with `--allow-actions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from headrace.cli.mcp.reading import DeadFilter, FilterArguments, Name
from headrace.cli.mcp.tools import WHO, ToolContext, ToolTable
from headrace.errors import InvalidJob

tools = ToolTable()
Note = Annotated[str, Meta(max_length=10_000)]


class RequeueArguments(DeadFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pending dead letters; `rate` (10/s) spreads the starts of their jobs."""

    rate: Name | None = None
    note: Note | None = None


class ResolveArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dead letter, and how it is resolved."""

    id: Name
    status: Literal["manually_resolved", "permanently_failed", "cancelled"] = "manually_resolved"
    note: Note | None = None


class QueueName(Struct, frozen=True, forbid_unknown_fields=True):
    """One queue."""

    queue: Name


@tools.acts("dead.requeue_many")
def requeue_dead_letters(context: ToolContext, given: RequeueArguments) -> Any:
    """Run the jobs of pending dead letters again, by id or filter. Call plan_requeue first."""
    if given.id is not None:
        if given.filters() or given.everything or given.rate:
            raise InvalidJob("id: give an id or filters, not both")
        return context.app.dead.requeue(given.id, by=WHO, note=given.note)
    return context.app.dead.requeue_where(
        everything=given.everything,
        limit=given.limit,
        rate=given.rate,
        by=WHO,
        note=given.note,
        **given.filters(),
    )


@tools.acts("dead.resolve", destroys=True)
def resolve_dead_letter(context: ToolContext, given: ResolveArguments) -> Any:
    """Resolve a pending dead letter without running its job again."""
    found = context.app.dead.resolve(given.id, given.status, by=WHO, note=given.note)
    return {"id": found.id, "job_id": found.job_id, "status": found.status}


@tools.acts("jobs.retry_many")
def retry_jobs(context: ToolContext, given: FilterArguments) -> Any:
    """Run finished jobs again with fresh attempts; without a state, the failed ones. Call plan_retry first."""
    return {"changed": context.app.jobs.retry(**given.required())}


@tools.acts("jobs.cancel_many", destroys=True)
def cancel_jobs(context: ToolContext, given: FilterArguments) -> Any:
    """Cancel unfinished jobs; running ones are asked to stop. Call plan_cancel first."""
    return {"changed": context.app.jobs.cancel(**given.required())}


@tools.acts("queues.pause")
def pause_queue(context: ToolContext, given: QueueName) -> Any:
    """Pause a queue: workers start none of its jobs. Running jobs continue."""
    context.app.queue(given.queue).pause()
    return {"queue": given.queue, "paused": True}


@tools.acts("queues.resume")
def resume_queue(context: ToolContext, given: QueueName) -> Any:
    """Resume a paused queue."""
    context.app.queue(given.queue).resume()
    return {"queue": given.queue, "paused": False}
