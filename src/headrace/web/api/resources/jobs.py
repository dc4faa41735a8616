"""Jobs: find them, submit them, look into one, act on one or on many."""

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

table = Table("jobs", "Jobs: find them, submit them, look into one, act on one or on many.")
_FILTER = {"queue": "emails", "state": ["failed"], "dry_run": True}
_REACH, _REACH_OF_TEXT = 5_000, 2_000  # jobs that a request looks at where no index leads to those that are meant
_BOUNDS = ("finished_before", "limit")  # of what is removed; they say nothing of which jobs are meant
_NEW = {"task": "emails.send", "kwargs": {"to": "ann@example.com"}, "queue": "emails", "delay": 60}


class JobList(Struct, frozen=True):
    """Jobs, newest first. `cursor` continues after them; it is null at the end, and only there.

    `total` counts all that match, if it was asked for. Where that would take too long it is the least that it can be,
    and `total_is_exact` is false.
    """

    jobs: list[JobRecord]
    cursor: str | None
    total: int | None = None
    total_is_exact: bool | None = None


class NewJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that are stored together, or not at all."""

    jobs: Annotated[list[JobRequest], Meta(max_length=10_000)]


class StoredJobs(Struct, frozen=True):
    """The ids of the jobs, in the order they were given."""

    ids: list[str]


class JobChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different; what is not named stays."""

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

    Filters that are given must all match. `state` may be repeated. A search that no index helps, as for a text, looks
    at some thousand jobs at a time: a page may hold fewer than `limit`, or none, and still have a cursor that goes on.
    A text is looked for in the id, the task, the reason, the arguments and the metadata, with secrets starred out.
    With `archived`, jobs that have left the store for the archive, where `since` and `until` mean their ends.
    """
    filters = filters_of(query, but=("limit", "cursor", "archived", "total"))
    reach = (_REACH_OF_TEXT if query.text else _REACH) // (2 if query.total else 1)  # it is looked twice for a total
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

    The task need not be known to the web process; where it is, its arguments are checked.
    """
    call = call_of(visit.app, body)
    (job,) = visit.app.enqueue_many([call])
    return record_of(job)


@table.post("/jobs/bulk", role="worker", status=201, example={"jobs": [_NEW]})
def create_many(visit: RequestContext, body: NewJobs) -> StoredJobs:
    """Submit many jobs in one commit: all of them or, if one is not valid, none."""
    stored = visit.app.enqueue_many([call_of(visit.app, job) for job in body.jobs])
    return StoredJobs([job.id for job in stored])


@table.post("/jobs/cancel", example=_FILTER)
def cancel_many(visit: RequestContext, body: JobFilter) -> Changed:
    """Cancel the matching jobs that are not over."""
    return _bulk(visit, body, "cancel")


@table.post("/jobs/retry", example=_FILTER)
def retry_many(visit: RequestContext, body: JobFilter) -> Changed:
    """Run the matching jobs again that are over; without a state, those that failed."""
    return _bulk(visit, body, "retry")


@table.post("/jobs/promote", example={"queue": "emails"})
def promote_many(visit: RequestContext, body: JobFilter) -> Changed:
    """Run the matching scheduled, retrying or waiting jobs now."""
    return _bulk(visit, body, "promote")


@table.post("/jobs/delete", example=_FILTER)
def delete_many(visit: RequestContext, body: DeleteFilter) -> Changed:
    """Remove the matching jobs that are not running.

    With `finished_before` those that ended before that time, the oldest end first, which no dry run can count.
    """
    if body.finished_before is not None and body.dry_run:
        raise InvalidJob("dry_run: it can't count by ends; leave finished_before out")
    told = {name: value for name in _BOUNDS if (value := getattr(body, name)) is not None}
    return _bulk(visit, body, "delete", **told)


def _bulk(visit: RequestContext, body: JobFilter, act: Act, **bounds: Any) -> Changed:
    filters = filters_of(body, but=("dry_run", *_BOUNDS))
    if not filters and "finished_before" not in bounds:
        raise InvalidJob("say which jobs are meant with at least one filter")
    filters = text_search.settled(visit.app, filters)
    if body.dry_run:
        many = would_concern(visit.app, act, filters)
        return Changed(min(many, bounds.get("limit", many)), True)
    return Changed(act_on_many(visit.app, act, {**filters, **bounds}))


@table.get("/jobs/{job_id}/logs")
def logs(visit: RequestContext, job_id: str) -> list[LogEntry]:
    """What a job logged about itself, oldest first."""
    job = visit.app.jobs.get(job_id)
    return [log_of(line, job) for line in job.logs()]


@table.get("/jobs/{job_id}/history")
def history(visit: RequestContext, job_id: str) -> list[HistoryEntry]:
    """Every step of a job's life, oldest first."""
    return visit.app.jobs.get(job_id).history()


@table.get("/jobs/{job_id}/why")
def why(visit: RequestContext, job_id: str) -> Why:
    """Why a job is not running now, or what it is doing."""
    job = visit.app.jobs.get(job_id)
    return Why(job.id, job.state, job.why())


@table.post("/jobs/{job_id}/cancel")
def cancel(visit: RequestContext, job_id: str) -> JobRecord:
    """Cancel a job that is not over; a running attempt is told to stop, and can't change it any more."""
    return _act(visit.app.jobs.get(job_id), "cancel", "is over")


@table.post("/jobs/{job_id}/retry")
def retry(visit: RequestContext, job_id: str) -> JobRecord:
    """Run a finished job again, with fresh attempts."""
    return _act(visit.app.jobs.get(job_id), "retry", "is not over")


@table.post("/jobs/{job_id}/promote")
def promote(visit: RequestContext, job_id: str) -> JobRecord:
    """Run a scheduled, retrying or waiting job now."""
    return _act(visit.app.jobs.get(job_id), "promote", "does not wait for a time or for other jobs")


@table.get("/jobs/{job_id}")
def get(visit: RequestContext, job_id: str) -> JobRecord:
    """Everything about one job, its secrets starred out."""
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
    """Remove a job that is not running, with its history, also from the archive."""
    job = visit.app.jobs.get(job_id)
    if not job.delete():
        raise _conflict(job.refresh(), "is running; cancel it first")


def _act(job: Job[Any], act: str, otherwise: str) -> JobRecord:
    if not getattr(job, act)():
        raise _conflict(job, otherwise)
    return record_of(job)


def _conflict(job: Job[Any], why: str) -> Refused:
    return Refused(409, "wrong-state", f"job {job.id} is {job.state}: it {why}")
