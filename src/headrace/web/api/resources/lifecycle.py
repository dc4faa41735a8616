"""How long jobs may stay: those that stay too long, the archive, the terms."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from headrace.app.jobs.records import JobRecord, record_of
from headrace.app.retention.archive_records import ArchiveMonth, ArchivePartition, ArchiveRun, ArchiveStats
from headrace.app.retention.lifecycle_records import LifecyclePolicy, StaleJob, StateAges
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Limit, said
from headrace.web.security.middleware import RequestContext

table = Table("lifecycle", "How long jobs may stay: those that stay too long, the archive, the terms.")


class StaleQuery(Struct, frozen=True, kw_only=True):
    """Which jobs; `warnings` adds those that are nearly stale."""

    task: str | None = None
    queue: str | None = None
    warnings: bool = False
    limit: Limit = 1000


class StaleOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to deal with as their terms say; nothing is changed unless `dry_run` is false."""

    task: str | None = None
    queue: str | None = None
    limit: Limit = 1000
    dry_run: bool = True


class ArchiveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing is changed unless `dry_run` is false."""

    dry_run: bool = True


class TermsQuery(Struct, frozen=True):
    """Whose terms: those of a task, of a queue, of both together, or of any job."""

    task: str | None = None
    queue: str | None = None


class TermsChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Terms to order for a task or a queue: seconds, null for no limit, "default" to take an order back."""

    task: str | None = None
    queue: str | None = None
    max_scheduled: float | str | UnsetType | None = UNSET
    max_waiting: float | str | UnsetType | None = UNSET
    max_pending: float | str | UnsetType | None = UNSET
    max_retrying: float | str | UnsetType | None = UNSET
    max_running: float | str | UnsetType | None = UNSET
    max_age: float | str | UnsetType | None = UNSET
    on_stale: str | UnsetType = UNSET
    keep_completed: float | str | UnsetType | None = UNSET
    keep_failed: float | str | UnsetType | None = UNSET
    keep_cancelled: float | str | UnsetType | None = UNSET
    archive: bool | str | UnsetType = UNSET
    remove_on_complete: bool | int | str | UnsetType = UNSET
    remove_on_fail: bool | int | str | UnsetType = UNSET


@table.get("/lifecycle/stale")
def stale(visit: RequestContext, query: StaleQuery) -> list[StaleJob]:
    """The jobs that stay too long, those that are over their threshold by most first. It changes nothing."""
    return visit.app.lifecycle.detect_stale(
        task=query.task, queue=query.queue, warnings=query.warnings, limit=query.limit
    )


@table.post("/lifecycle/stale", example={"queue": "emails", "dry_run": True})
def deal_with_stale(visit: RequestContext, body: StaleOrder) -> list[StaleJob]:
    """Do with the jobs that stay too long what their terms say; a dry run unless told otherwise."""
    return visit.app.lifecycle.detect_stale(dry_run=body.dry_run, task=body.task, queue=body.queue, limit=body.limit)


@table.get("/lifecycle/ages")
def ages(visit: RequestContext) -> list[StateAges]:
    """How long jobs have been where they are, for each open state and queue."""
    return visit.app.lifecycle.ages()


@table.post("/lifecycle/archive", example={"dry_run": True})
def archive(visit: RequestContext, body: ArchiveOrder) -> ArchiveRun:
    """Have every finished job whose time has come leave the store now; a dry run unless told otherwise."""
    return visit.app.lifecycle.archive(dry_run=body.dry_run)


@table.get("/lifecycle/archive")
def archive_stats(visit: RequestContext) -> ArchiveStats:
    """What the archive holds, and what the last sweep of a worker did."""
    return visit.app.lifecycle.stats()


@table.get("/lifecycle/archive/months")
def archive_months(visit: RequestContext) -> list[ArchiveMonth]:
    """How many archived jobs ended in each month, and the space they take."""
    return visit.app.lifecycle.months()


@table.post("/lifecycle/archive/{job_id}/restore")
def restore(visit: RequestContext, job_id: str) -> JobRecord:
    """Bring an archived job back, to run again."""
    return record_of(visit.app.lifecycle.restore(job_id))


@table.get("/lifecycle/partitions")
def partitions(visit: RequestContext) -> list[ArchivePartition]:
    """The partitions of the archive, the oldest first."""
    return visit.app.lifecycle.partitions()


@table.get("/lifecycle/terms")
def terms(visit: RequestContext, query: TermsQuery) -> LifecyclePolicy:
    """How long jobs of a task, of a queue or of any may stay, and who says so."""
    return visit.app.lifecycle.terms(task=query.task, queue=query.queue)


@table.patch("/lifecycle/terms", example={"queue": "emails", "max_pending": 600, "on_stale": "dead"})
def configure(visit: RequestContext, body: TermsChange) -> LifecyclePolicy:
    """Order terms for a task or for a queue, over what code and settings say."""
    fields: dict[str, Any] = said(body, but=("task", "queue"))
    return visit.app.lifecycle.configure(task=body.task, queue=body.queue, **fields)
