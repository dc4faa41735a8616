"""Jobs: search, submit, inspect and change them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.app.jobs.records import JobRecord, full_record_of, log_of, record_of
from headrace.core.events.history import HistoryEntry
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry
from headrace.web import text_search
from headrace.web.api.resources.new_job import JobRequest, call_of
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Changed, DeleteFilter, JobFilter, JobQuery, filters_of, said
from headrace.web.api.values import Priority, QueueName
from headrace.web.bulk import Act, act_on_many, would_concern
from headrace.web.problems import Refused
from headrace.web.security.middleware import RequestContext

table = Table("jobs", "Jobs: search, submit, inspect and change them.")
_FILTER = {"queue": "emails", "state": ["failed"], "dry_run": True}
_REACH, _REACH_OF_TEXT = 5_000, 2_000  # jobs a request scans when no index serves the filters
_BOUNDS = ("finished_before", "limit")  # bounds of a deletion, not filters
_NEW = {"task": "emails.send", "kwargs": {"to": "ann@example.com"}, "queue": "emails", "delay": 60}


class JobList(Struct, frozen=True):
    """Jobs, newest first. `cursor` continues after them; it is null only at the end.

    `total` counts all matches, if requested. Where counting would take too long it is a lower bound, and
    `total_is_exact` is false.
    """

    jobs: list[JobRecord]
    cursor: str | None
    total: int | None = None
    total_is_exact: bool | None = None


class NewJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to submit in one commit: all or none."""

    jobs: Annotated[list[JobRequest], Meta(max_length=10_000)]


class StoredJobs(Struct, frozen=True):
    """The ids of the jobs, in the given order."""

    ids: list[str]


class JobChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields to change; omitted fields stay."""

    priority: Priority | UnsetType = UNSET
    run_at: datetime | UnsetType = UNSET
    queue: QueueName | UnsetType = UNSET


class Why(Struct, frozen=True):
    """Why a job is not running now, or what it is doing, in one sentence."""

    id: str
    state: str
    why: str


@table.get("/jobs")
def find(visit: RequestContext, query: JobQuery) -> JobList:
    """List and search jobs, newest first.

    All given filters must match. `state` may be repeated. A search without an index, such as for a text, scans some
    thousand jobs per request: a page may have fewer than `limit` jobs, or none, and still a cursor. A text search
    covers the id, the task, the reason, the arguments and the metadata, with secrets redacted. `archived` selects
    archived jobs; `since` and `until` then apply to their finish.
    """
    filters = filters_of(query, but=("limit", "cursor", "archived", "total"))
    reach = (_REACH_OF_TEXT if query.text else _REACH) // (2 if query.total else 1)  # a total scans twice
    page = text_search.find(
        visit.app, filters, limit=query.limit, cursor=query.cursor, reach=reach, archived=query.archived
    )
    jobs = [record_of(job) for job in page]
    if not query.total:
        return JobList(jobs, page.cursor)
    if query.archived:
        return JobList(jobs, page.cursor, visit.app.jobs.count(archived=True, **filters), True)
    counted = text_search.count_up_to(visit.app, reach, filters)
    return JobList(jobs, page.cursor, counted.jobs, counted.is_exact)


@table.post("/jobs", role="worker", status=201, example=_NEW)
def create(visit: RequestContext, body: JobRequest) -> JobRecord:
    """Submit a job.

    The web process need not know the task; if it does, the arguments are checked.
    """
    call = call_of(visit.app, body)
    (job,) = visit.app.enqueue_many([call])
    return record_of(job)


@table.post("/jobs/bulk", role="worker", status=201, example={"jobs": [_NEW]})
def create_many(visit: RequestContext, body: NewJobs) -> StoredJobs:
    """Submit many jobs in one commit: all, or none if one is invalid."""
    stored = visit.app.enqueue_many([call_of(visit.app, job) for job in body.jobs])
    return StoredJobs([job.id for job in stored])


@table.post("/jobs/cancel", example=_FILTER)
def cancel_many(visit: RequestContext, body: JobFilter) -> Changed:
    """Cancel the matching unfinished jobs."""
    return _bulk(visit, body, "cancel")


@table.post("/jobs/retry", example=_FILTER)
def retry_many(visit: RequestContext, body: JobFilter) -> Changed:
    """Run the matching finished jobs again; without a state, the failed ones."""
    return _bulk(visit, body, "retry")


@table.post("/jobs/promote", example={"queue": "emails"})
def promote_many(visit: RequestContext, body: JobFilter) -> Changed:
    """Run the matching scheduled, retrying or waiting jobs now."""
    return _bulk(visit, body, "promote")


@table.post("/jobs/delete", example=_FILTER)
def delete_many(visit: RequestContext, body: DeleteFilter) -> Changed:
    """Delete the matching jobs that are not running.

    `finished_before` selects jobs that finished before that time, oldest first; a dry run can't count these.
    """
    if body.finished_before is not None and body.dry_run:
        raise InvalidJob("dry_run: it can't be combined with finished_before")
    told = {name: value for name in _BOUNDS if (value := getattr(body, name)) is not None}
    return _bulk(visit, body, "delete", **told)


def _bulk(visit: RequestContext, body: JobFilter, act: Act, **bounds: Any) -> Changed:
    filters = filters_of(body, but=("dry_run", *_BOUNDS))
    if not filters and "finished_before" not in bounds:
        raise InvalidJob("give at least one filter")
    filters = text_search.settled(visit.app, filters)
    if body.dry_run:
        many = would_concern(visit.app, act, filters)
        return Changed(min(many, bounds.get("limit", many)), True)
    return Changed(act_on_many(visit.app, act, {**filters, **bounds}))


@table.get("/jobs/{job_id}/logs")
def logs(visit: RequestContext, job_id: str) -> list[LogEntry]:
    """Return the log lines of a job, oldest first."""
    job = visit.app.jobs.get(job_id)
    return [log_of(line, job) for line in job.logs()]


@table.get("/jobs/{job_id}/history")
def history(visit: RequestContext, job_id: str) -> list[HistoryEntry]:
    """Return the history of a job, oldest first."""
    return visit.app.jobs.get(job_id).history()


@table.get("/jobs/{job_id}/why")
def why(visit: RequestContext, job_id: str) -> Why:
    """Explain why a job is not running, or what it is doing."""
    job = visit.app.jobs.get(job_id)
    return Why(job.id, job.state, job.why())


@table.post("/jobs/{job_id}/cancel")
def cancel(visit: RequestContext, job_id: str) -> JobRecord:
    """Cancel an unfinished job. A running attempt is asked to stop, and its result is refused."""
    return _act(visit.app.jobs.get(job_id), "cancel", "is over")


@table.post("/jobs/{job_id}/retry")
def retry(visit: RequestContext, job_id: str) -> JobRecord:
    """Run a finished job again, with fresh attempts."""
    return _act(visit.app.jobs.get(job_id), "retry", "is not finished")


@table.post("/jobs/{job_id}/promote")
def promote(visit: RequestContext, job_id: str) -> JobRecord:
    """Run a scheduled, retrying or waiting job now."""
    return _act(visit.app.jobs.get(job_id), "promote", "is not scheduled, retrying or waiting")


@table.get("/jobs/{job_id}")
def get(visit: RequestContext, job_id: str) -> JobRecord:
    """Return everything about one job, with secrets redacted."""
    job = visit.app.jobs.get(job_id)
    steps = [] if job.spooled or job.archived else visit.app.engine.queries.steps(job.id)
    return full_record_of(job, steps)


@table.patch("/jobs/{job_id}", example={"priority": 50})
def update(visit: RequestContext, job_id: str, body: JobChange) -> JobRecord:
    """Change the priority, time or queue of a job that has not started."""
    job = visit.app.jobs.get(job_id)
    if not job.update(**said(body)):
        raise _conflict(job, "has started")
    return record_of(job)


@table.delete("/jobs/{job_id}")
def delete(visit: RequestContext, job_id: str) -> None:
    """Delete a job that is not running, with its history, also from the archive."""
    job = visit.app.jobs.get(job_id)
    if not job.delete():
        raise _conflict(job.refresh(), "is running; cancel it first")


def _act(job: Job[Any], act: str, otherwise: str) -> JobRecord:
    if not getattr(job, act)():
        raise _conflict(job, otherwise)
    return record_of(job)


def _conflict(job: Job[Any], why: str) -> Refused:
    return Refused(409, "wrong-state", f"job {job.id} is {job.state}: it {why}")
