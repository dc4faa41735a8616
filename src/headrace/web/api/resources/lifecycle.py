"""Stale jobs, retention, the archive, lifecycle policies, and erasures."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from headrace.app.admin.erasure import Erasure, erase_jobs
from headrace.app.jobs.records import JobRecord, record_of
from headrace.app.retention.archive_records import ArchiveMonth, ArchivePartition, ArchiveRun, ArchiveStats
from headrace.app.retention.lifecycle_records import LifecyclePolicy, StaleJob, StateAges
from headrace.app.services.filters import as_filter
from headrace.core.jobs.states import State
from headrace.core.retention.policy_fields import POLICY_FIELDS
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Argument, Limit, change_type, filters_of, given_fields
from headrace.web.security.middleware import RequestContext

table = Table("lifecycle", "Stale jobs, retention, the archive, lifecycle policies, and erasures.")


class StaleQuery(Struct, frozen=True, kw_only=True):
    """Filters; `warnings` adds jobs past 75 % of their limit."""

    task: str | None = None
    queue: str | None = None
    warnings: bool = False
    limit: Limit = 1000


class StaleRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stale jobs to handle by their on_stale action; nothing changes unless `dry_run` is false."""

    task: str | None = None
    queue: str | None = None
    limit: Limit = 1000
    dry_run: bool = True


class ArchiveRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing changes unless `dry_run` is false."""

    dry_run: bool = True


class EraseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the jobs to erase, at least one. Nothing changes unless `dry_run` is false."""

    ids: Annotated[list[str], Meta(max_length=10_000)] | None = None
    tag: str | None = None
    key: Annotated[str, Meta(description="A `concurrency_key` or `rate_key`.")] | None = None
    arg: Argument | None = None
    queue: str | None = None
    task: str | None = None
    worker: str | None = None
    flow: str | None = None
    state: list[State] | None = None
    since: datetime | None = None
    until: datetime | None = None
    dry_run: bool = True


class PolicyQuery(Struct, frozen=True):
    """The task, the queue or both whose policy to return; without either, the defaults."""

    task: str | None = None
    queue: str | None = None


PolicyChange = change_type(
    "PolicyChange",
    POLICY_FIELDS,
    'Terms to set for a task or a queue: seconds, null for no limit, "default" to remove a term set before.',
    or_text=True,
    task=str | None,
    queue=str | None,
)


@table.get("/lifecycle/stale")
def stale(context: RequestContext, query: StaleQuery) -> list[StaleJob]:
    """List stale jobs, the most overdue first. Nothing changes."""
    return context.app.lifecycle.detect_stale(
        task=query.task, queue=query.queue, warnings=query.warnings, limit=query.limit
    )


@table.post("/lifecycle/stale", example={"queue": "emails", "dry_run": True})
def deal_with_stale(context: RequestContext, body: StaleRequest) -> list[StaleJob]:
    """Apply the on_stale action of stale jobs; a dry run unless `dry_run` is false."""
    return context.app.lifecycle.detect_stale(dry_run=body.dry_run, task=body.task, queue=body.queue, limit=body.limit)


@table.get("/lifecycle/ages")
def ages(context: RequestContext) -> list[StateAges]:
    """Return how long jobs have been in their state, for each open state and queue."""
    return context.app.lifecycle.ages()


@table.post("/lifecycle/archive", example={"dry_run": True})
def archive(context: RequestContext, body: ArchiveRequest) -> ArchiveRun:
    """Archive or delete finished jobs past their retention now; a dry run unless `dry_run` is false."""
    return context.app.lifecycle.archive(dry_run=body.dry_run)


@table.post("/lifecycle/erase", example={"tag": "user:42", "dry_run": True})
def erase(context: RequestContext, body: EraseRequest) -> Erasure:
    """Erase all that the store and its archive hold about the matching jobs; a dry run unless `dry_run` is false.

    Running jobs are cancelled. If `running` is not 0, call it again when they have ended.
    """
    which = as_filter(filters_of(body, exclude=("dry_run", "key")))
    return erase_jobs(context.app.services, which, body.key, dry_run=body.dry_run)


@table.get("/lifecycle/archive")
def archive_stats(context: RequestContext) -> ArchiveStats:
    """Return the size of the archive and the last retention run of a worker."""
    return context.app.lifecycle.stats()


@table.get("/lifecycle/archive/months")
def archive_months(context: RequestContext) -> list[ArchiveMonth]:
    """Return the number and size of archived jobs by the month they finished in."""
    return context.app.lifecycle.months()


@table.post("/lifecycle/archive/{job_id}/restore")
def restore(context: RequestContext, job_id: str) -> JobRecord:
    """Return an archived job to the store, to run again."""
    return record_of(context.app.lifecycle.restore(job_id))


@table.get("/lifecycle/partitions")
def partitions(context: RequestContext) -> list[ArchivePartition]:
    """List the partitions of the archive, oldest first."""
    return context.app.lifecycle.partitions()


@table.get("/lifecycle/policy")
def policy(context: RequestContext, query: PolicyQuery) -> LifecyclePolicy:
    """Return the lifecycle policy of a task, a queue or all jobs, and where each is set."""
    return context.app.lifecycle.policy(task=query.task, queue=query.queue)


@table.patch(
    "/lifecycle/policy", body=PolicyChange, example={"queue": "emails", "max_pending": 600, "on_stale": "dead"}
)
def configure(context: RequestContext, body: Struct) -> LifecyclePolicy:
    """Change the lifecycle policy of a task or a queue. It overrides code and settings."""
    return context.app.lifecycle.configure(**given_fields(body))
