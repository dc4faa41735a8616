"""Jobs: search, submit, inspect and change them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from headrace.app.jobs.records import JobRecord, chunk_of, full_record_of, log_of, record_of
from headrace.core.events.history import HistoryEntry
from headrace.core.events.stream import Chunk
from headrace.core.jobs.explanation import Remedy
from headrace.core.tasks.option_fields import JobPriority, Queue
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry
from headrace.web import text_search
from headrace.web.api.resources.new_job import JobRequest, call_of
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Changed, Cursor, DeleteFilter, JobFilter, JobQuery, Limit, filters_of, given_fields
from headrace.web.bulk import BulkAction, count_affected, run_bulk
from headrace.web.job_stream import END, ChunkStream
from headrace.web.problems import Refused
from headrace.web.security.middleware import RequestContext

table = Table("jobs", "Jobs: search, submit, inspect and change them.")
_FILTER = {"queue": "emails", "state": ["failed"], "dry_run": True}
_SCAN_LIMIT, _TEXT_SCAN_LIMIT = 5_000, 2_000  # jobs a request scans when no index serves the filters
_BOUNDS = ("finished_before", "limit")  # bounds of a deletion, not filters
_NEW = {"task": "emails.send", "kwargs": {"to": "ann@example.com"}, "queue": "emails", "delay": 60}


class JobList(Struct, frozen=True):
    """Jobs, newest first. `cursor` continues after them; it is null only at the end.

    `searched` is the number of jobs that a search without an index looked at, if it stopped before the end; ask again
    with the cursor to search older jobs.
    `total` counts all matches, if requested. Where counting would take too long it is a lower bound, and
    `total_is_exact` is false.
    """

    jobs: list[JobRecord]
    cursor: str | None
    total: int | None = None
    total_is_exact: bool | None = None
    searched: int | None = None


class NewJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to submit in one commit: all or none."""

    jobs: Annotated[list[JobRequest], Meta(max_length=10_000)]


class StoredJobs(Struct, frozen=True):
    """The ids of the jobs, in the given order."""

    ids: list[str]


class JobChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields to change; omitted fields stay."""

    priority: JobPriority = UNSET
    run_at: datetime | UnsetType = UNSET
    queue: Queue = UNSET


class Fork(Struct, frozen=True, forbid_unknown_fields=True):
    """The step to begin with; without one, the new job keeps nothing."""

    from_step: str | None = None


class PayloadQuery(Struct, frozen=True, kw_only=True):
    """Whether to load what is in the payload store."""

    payloads: bool = False


class Why(Struct, frozen=True):
    """Why a job is not running now, or what it is doing, in one sentence; and what can be done about it."""

    id: str
    state: str
    why: str
    remedy: Remedy | None = None


class ChunkQuery(Struct, frozen=True, kw_only=True):
    """`cursor` is that of the last chunk known."""

    cursor: Cursor | None = None
    limit: Limit = 1000


class ChunkList(Struct, frozen=True):
    """Chunks, oldest first. `cursor` continues after them; no more come if `is_over`: the job is finished."""

    chunks: list[Chunk]
    cursor: str | None
    is_over: bool


class StreamQuery(Struct, frozen=True, kw_only=True):
    """`since` is the cursor of the last chunk known."""

    since: Cursor | None = None


@table.get("/jobs")
def find(context: RequestContext, query: JobQuery) -> JobList:
    """List and search jobs, newest first.

    All given filters must match. `state` may be repeated. `arg=order_id=40199` finds jobs by an indexed argument; it
    excludes `tag`. A search without an index, such as for a text, scans some
    thousand jobs per request: a page may have fewer than `limit` jobs, or none, and still a cursor; `searched` says how
    many it scanned. A text search
    covers the id, the task, the reason, the arguments and the metadata, with secrets redacted. `archived` selects
    archived jobs; `since` and `until` then apply to their finish.
    """
    filters = filters_of(query, exclude=("limit", "cursor", "archived", "total"))
    scan_limit = (_TEXT_SCAN_LIMIT if query.text else _SCAN_LIMIT) // (2 if query.total else 1)  # a total scans twice
    page = text_search.find(
        context.app, filters, limit=query.limit, cursor=query.cursor, reach=scan_limit, archived=query.archived
    )
    jobs = [record_of(job) for job in page]
    if not query.total:
        return JobList(jobs, page.cursor, searched=page.searched)
    if query.archived:
        return JobList(jobs, page.cursor, context.app.jobs.count(archived=True, **filters), True)
    total = text_search.count_up_to(context.app, scan_limit, filters)
    return JobList(jobs, page.cursor, total.jobs, total.is_exact, page.searched)


@table.post("/jobs", role="worker", status=201, example=_NEW)
def create(context: RequestContext, body: JobRequest) -> JobRecord:
    """Submit a job.

    The web process need not know the task; if it does, the arguments are checked.
    """
    call = call_of(context.app, body)
    (job,) = context.app.enqueue_many([call])
    return record_of(job)


@table.post("/jobs/bulk", role="worker", status=201, example={"jobs": [_NEW]})
def create_many(context: RequestContext, body: NewJobs) -> StoredJobs:
    """Submit many jobs in one commit: all, or none if one is invalid."""
    stored = context.app.enqueue_many([call_of(context.app, job) for job in body.jobs])
    return StoredJobs([job.id for job in stored])


@table.post("/jobs/cancel", example=_FILTER)
def cancel_many(context: RequestContext, body: JobFilter) -> Changed:
    """Cancel the matching unfinished jobs."""
    return _bulk(context, body, "cancel")


@table.post("/jobs/retry", example=_FILTER)
def retry_many(context: RequestContext, body: JobFilter) -> Changed:
    """Run the matching finished jobs again; without a state, the failed ones."""
    return _bulk(context, body, "retry")


@table.post("/jobs/promote", example={"queue": "emails"})
def promote_many(context: RequestContext, body: JobFilter) -> Changed:
    """Run the matching scheduled, retrying or waiting jobs now."""
    return _bulk(context, body, "promote")


@table.post("/jobs/delete", example=_FILTER)
def delete_many(context: RequestContext, body: DeleteFilter) -> Changed:
    """Delete the matching jobs that are not running.

    `finished_before` selects jobs that finished before that time, oldest first; a dry run can't count these.
    """
    if body.finished_before is not None and body.dry_run:
        raise InvalidJob("dry_run: it can't be combined with finished_before")
    bounds = {name: value for name in _BOUNDS if (value := getattr(body, name)) is not None}
    return _bulk(context, body, "delete", **bounds)


def _bulk(context: RequestContext, body: JobFilter, action: BulkAction, **bounds: Any) -> Changed:
    filters = filters_of(body, exclude=("dry_run", *_BOUNDS))
    if not filters and "finished_before" not in bounds:
        raise InvalidJob("give at least one filter")
    filters = text_search.with_ids_for_text(context.app, filters)
    if body.dry_run:
        count = count_affected(context.app, action, filters)
        return Changed(min(count, bounds.get("limit", count)), True)
    return Changed(run_bulk(context.app, action, {**filters, **bounds}))


@table.get("/jobs/{job_id}/logs")
def logs(context: RequestContext, job_id: str) -> list[LogEntry]:
    """Return the log lines of a job, oldest first."""
    job = context.app.jobs.get(job_id)
    return [log_of(line, job) for line in job.logs()]


@table.get("/jobs/{job_id}/chunks")
def chunks(context: RequestContext, job_id: str, query: ChunkQuery) -> ChunkList:
    """Return chunks that a job has streamed, oldest first, with secrets redacted."""
    job = context.app.jobs.get(job_id)
    reader = context.app.services.stream_of(job.row).reader(query.cursor)
    found: list[Chunk] = []
    while len(found) < query.limit and not reader.is_at_end:
        found += reader.more()
    is_over = reader.is_over and len(found) <= query.limit
    found = found[: query.limit]
    cursor = found[-1].cursor if found else query.cursor
    return ChunkList([chunk_of(chunk, job) for chunk in found], cursor, is_over)


@table.get("/jobs/{job_id}/stream", streams=Chunk)
def stream(context: RequestContext, job_id: str, query: StreamQuery) -> ChunkStream | Response:
    """Stream the chunks of a job as server-sent events, those that it streamed before and those that come.

    Each has its cursor as `id` and its JSON as `data`. When the job is finished, the event `end` has its state, and the
    response ends; the state is null if the job was deleted. After a disconnect, a client continues with
    `Last-Event-ID`, which browsers send by themselves; on the first request, `since` does the same. A client that comes
    back after the end gets 204, which ends an EventSource. A comment is sent after 15 seconds without a chunk, and the
    event `trouble` while the store is unavailable.
    """
    job = context.app.jobs.get(job_id)
    since = None if query.since is None else query.since.removesuffix(END)
    source = context.app.services.stream_of(job.row)
    if since != query.since and job.is_finished and not source.reader(since).more():
        return Response(status_code=204)
    return ChunkStream(context.app, context.live_feeds, job, source.reader(since), since)


@table.get("/jobs/{job_id}/history")
def history(context: RequestContext, job_id: str) -> list[HistoryEntry]:
    """Return the history of a job, oldest first."""
    return context.app.jobs.get(job_id).history()


@table.get("/jobs/{job_id}/why")
def why(context: RequestContext, job_id: str) -> Why:
    """Explain why a job is not running, or what it is doing."""
    job = context.app.jobs.get(job_id)
    found = job.explain()
    return Why(job.id, job.state, found.sentence, found.remedy)


@table.post("/jobs/{job_id}/cancel")
def cancel(context: RequestContext, job_id: str) -> JobRecord:
    """Cancel an unfinished job. A running attempt is asked to stop, and its result is refused."""
    return _act(context.app.jobs.get(job_id), "cancel", "is over")


@table.post("/jobs/{job_id}/retry")
def retry(context: RequestContext, job_id: str) -> JobRecord:
    """Run a finished job again, with fresh attempts."""
    return _act(context.app.jobs.get(job_id), "retry", "is not finished")


@table.post("/jobs/{job_id}/promote")
def promote(context: RequestContext, job_id: str) -> JobRecord:
    """Run a scheduled, retrying or waiting job now."""
    return _act(context.app.jobs.get(job_id), "promote", "is not scheduled, retrying or waiting")


@table.post("/jobs/{job_id}/fork", status=201, example={"from_step": "mail"})
def fork(context: RequestContext, job_id: str, body: Fork) -> JobRecord:
    """Run a finished job anew from a step, as a new job that keeps the results of the steps before it."""
    return record_of(context.app.jobs.fork(job_id, from_step=body.from_step))


@table.get("/jobs/{job_id}")
def get(context: RequestContext, job_id: str, query: PayloadQuery) -> JobRecord:
    """Return everything about one job, with secrets redacted.

    With `payloads`, arguments and results in the payload store are loaded, each up to the setting `max_payload`.
    """
    job = context.app.jobs.get(job_id)
    steps = (
        [] if job.spooled or job.archived else context.app.engine.queries.details(job.id, history=False, logs=0).steps
    )
    return full_record_of(job, steps, most=context.app.settings.max_payload if query.payloads else 0)


@table.patch("/jobs/{job_id}", example={"priority": 50})
def update(context: RequestContext, job_id: str, body: JobChange) -> JobRecord:
    """Change the priority, time or queue of a job that has not started."""
    job = context.app.jobs.get(job_id)
    if not job.update(**given_fields(body)):
        raise _conflict(job, "has started")
    return record_of(job)


@table.delete("/jobs/{job_id}")
def delete(context: RequestContext, job_id: str) -> None:
    """Delete a job that is not running, with its history, also from the archive."""
    job = context.app.jobs.get(job_id)
    if not job.delete():
        raise _conflict(job.refresh(), "is running; cancel it first")


def _act(job: Job[Any], action: str, reason: str) -> JobRecord:
    if not getattr(job, action)():
        raise _conflict(job, reason)
    return record_of(job)


def _conflict(job: Job[Any], reason: str) -> Refused:
    return Refused(409, "wrong-state", f"job {job.id} is {job.state}: it {reason}")
