"""Tools that change nothing: they list, explain, measure and do dry runs. Secrets are redacted as in the REST API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from headrace import __version__
from headrace.app.app import Headrace
from headrace.app.dead_letters.records import DeadLetter
from headrace.app.doctor import diagnose
from headrace.app.jobs.records import full_record_of, log_of, lowered, record_of, shown_texts
from headrace.app.schedules.records import Schedule
from headrace.cli.mcp.tools import ToolContext, ToolTable
from headrace.core.clock import to_datetime
from headrace.core.jobs.states import State, Trigger, sources
from headrace.core.queues.rules_text import format_rules
from headrace.core.urls import redacted_url
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job

tools = ToolTable()
Limit = Annotated[int, Meta(ge=1, le=200, description="The maximum number of items.")]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Window = Annotated[str, Meta(pattern=r"^[0-9.a-z]+$", max_length=20, description="Such as 90s, 15m, 1h30m or 7d.")]
IndexedArgument = Annotated[
    dict[Name, str | int | float | bool],
    Meta(min_length=1, max_length=1, description='One argument that its task indexes, such as {"order_id": 40199}.'),
]
_SCANNED = 2_000  # jobs that one text search reads
_FIRST_IDS = 20


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class JobId(Struct, frozen=True, forbid_unknown_fields=True):
    """One job."""

    id: Name


class FilterArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs: all given filters must match, and at least one is needed."""

    ids: Annotated[list[Name], Meta(min_length=1, max_length=200)] | None = None
    state: list[State] | None = None
    queue: Name | None = None
    task: Name | None = None
    tag: Name | None = None
    worker: Name | None = None
    flow: Name | None = None
    args: IndexedArgument | None = None
    since: datetime | None = None
    until: datetime | None = None

    def filters(self) -> dict[str, Any]:
        """The given filters."""
        names = FilterArguments.__struct_fields__
        return {name: value for name in names if (value := getattr(self, name)) not in (None, [])}

    def required(self) -> dict[str, Any]:
        """The given filters; none is refused, because an action on every job is hardly meant."""
        if found := self.filters():
            return found
        raise InvalidJob("give at least one filter, such as queue")


class JobArguments(FilterArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, newest first; `text` searches the id, task, reason, arguments and metadata."""

    text: Name | None = None
    limit: Limit = 20
    cursor: Name | None = None


class DeadFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pending dead letters: one of these filters, or `everything`."""

    id: Name | None = None
    fingerprint: Name | None = None
    reason: Name | None = None
    task: Name | None = None
    queue: Name | None = None
    since: datetime | None = None
    until: datetime | None = None
    everything: bool = False
    limit: Annotated[int, Meta(ge=1)] | None = None

    def filters(self) -> dict[str, Any]:
        """The given filters."""
        names = ("fingerprint", "reason", "task", "queue", "since", "until")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class DeadArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters, newest first; pending ones unless a status is given."""

    status: Literal["pending", "requeued", "manually_resolved", "permanently_failed", "cancelled", "expired", "any"] = (
        "pending"
    )
    fingerprint: Name | None = None
    task: Name | None = None
    queue: Name | None = None
    limit: Limit = 20
    cursor: Name | None = None


class Listed(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of items."""

    limit: Limit = 50


class MetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time window and, to get a metric over time, its name."""

    window: Window = "1h"
    series: Name | None = None
    queue: Name | None = None
    task: Name | None = None


class ScheduleArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedules, and how many next runs of each."""

    task: Name | None = None
    runs: Annotated[int, Meta(ge=1, le=20)] = 3
    limit: Limit = 50


@tools.reads
def overview(context: ToolContext, given: Nothing) -> Any:
    """Start here: version, store, jobs by state, workers, pending dead letters, firing alerts and what is wrong."""
    app = context.app
    queues, workers = app.queues(), app.workers()
    return {
        "version": __version__,
        "store": redacted_url(app.engine.url),
        "time": to_datetime(app.clock.now()),
        "jobs": {state.value: sum(getattr(stats, state) for stats in queues) for state in State},
        "queues": len(queues),
        "paused_queues": [stats.queue for stats in queues if stats.paused],
        "open_breakers": {one.name: one.summary for one in app.breakers.list() if one.state == "open"},
        "queues_without_worker": [stats.queue for stats in queues if stats.pending and not stats.workers],
        "workers": {worker.id: worker.condition for worker in workers},
        "dead_letters": app.dead.count(),
        "alerts": [f"{alert.severity}: {alert.rule}" for alert in app.alerts.active()],
        "wrong": [str(finding) for finding in diagnose(app) if not finding.note],
    }


@tools.reads
def find_jobs(context: ToolContext, given: JobArguments) -> Any:
    """List and search jobs, newest first. `cursor` of the answer continues the list; a page may be empty before it.

    By an argument that the task indexes, `args` finds jobs at once, however many there are. `text` reads jobs one by
    one: `searched` says how many this page has read, and `cursor` searches older ones.
    """
    jobs, cursor, searched = _found(context.app, given)
    answer = {"jobs": [record_of(job) for job in jobs], "cursor": cursor}
    return answer if searched is None else {**answer, "searched": searched}


def _found(app: Headrace, given: JobArguments) -> tuple[list[Job[Any]], str | None, int | None]:
    if given.text is None:
        page = app.jobs.find(limit=given.limit, cursor=given.cursor, reach=_SCANNED, **given.filters())
        return list(page), page.cursor, None
    # Jobs as shown: a search in the store would also match redacted secrets.
    page = app.jobs.find(limit=_SCANNED, cursor=given.cursor, reach=_SCANNED, whole=True, **given.filters())
    found: list[Job[Any]] = []
    for place, job in enumerate(page, 1):
        if given.text in shown_texts(job):
            found.append(job)
        if len(found) == given.limit:
            return found, str(job.row.seq), place
    return found, page.cursor, len(page)


@tools.reads
def job(context: ToolContext, given: JobId) -> Any:
    """Everything about one job: arguments, result, errors with tracebacks, steps, history, logs, and why it waits."""
    found = context.app.jobs.get(given.id)
    steps = (
        []
        if found.spooled or found.archived
        else context.app.engine.queries.details(found.id, history=False, logs=0).steps
    )
    logs = [log_of(line, found) for line in found.logs()]
    return {"job": full_record_of(found, steps), "history": found.history(), "logs": logs}


@tools.reads
def why(context: ToolContext, given: JobId) -> Any:
    """Explain in one sentence why a job is not running, or what it is doing."""
    found = context.app.jobs.get(given.id)
    return {"id": found.id, "task": found.task, "state": found.state, "why": found.why()}


@tools.reads
def queues(context: ToolContext, given: Listed) -> Any:
    """List the queues: jobs by state, oldest pending job, live workers, rules, paused or not."""
    found = context.app.queues()[: given.limit]
    return {"queues": [{**msgspec.structs.asdict(stats), "rules": format_rules(stats.rules)} for stats in found]}


@tools.reads
def workers(context: ToolContext, given: Listed) -> Any:
    """List the live workers: host, process, queues, running jobs, CPU, memory, and parts that make no progress."""
    found = context.app.workers()[: given.limit]
    return {"workers": [{"condition": worker.condition, **msgspec.structs.asdict(worker)} for worker in found]}


@tools.reads
def dead_letters(context: ToolContext, given: DeadArguments) -> Any:
    """List dead letters, which are jobs that failed for good, newest first."""
    filters = {name: value for name in ("fingerprint", "task", "queue") if (value := getattr(given, name)) is not None}
    status = None if given.status == "any" else given.status
    page = context.app.dead.list(status=status, limit=given.limit, cursor=given.cursor, **filters)
    return {"dead_letters": [_dead_letter(one) for one in page], "cursor": page.cursor}


@tools.reads
def dead_letter_groups(context: ToolContext, given: Listed) -> Any:
    """Group pending dead letters by the fingerprint of their error, largest group first, and count them by reason."""
    dead = context.app.dead
    return {"groups": dead.groups(limit=given.limit), "by_reason": dead.stats()}


@tools.reads
def metrics(context: ToolContext, given: MetricsQuery) -> Any:
    """Measure: rates, errors, waits and run times of a window by queue, task and worker.

    With `series`, one metric over the window instead, such as throughput, error_rate, wait_p95 or depth.
    """
    if given.series is None:
        return context.app.metrics.snapshot(given.window)
    return context.app.metrics.series(given.series, window=given.window, queue=given.queue, task=given.task)


@tools.reads
def alerts(context: ToolContext, given: Listed) -> Any:
    """List the firing and pending alerts, most severe first, and the latest changes of alerts."""
    return {
        "alerts": context.app.alerts.active(pending=True)[: given.limit],
        "history": context.app.alerts.history(limit=min(given.limit, 20)),
    }


@tools.reads
def schedules(context: ToolContext, given: ScheduleArguments) -> Any:
    """List the schedules with their next runs, the last run and the last error."""
    found = context.app.schedules.list(task=given.task)[: given.limit]
    return {"schedules": [_schedule(context.app, one, given.runs) for one in found]}


@tools.reads
def doctor(context: ToolContext, given: Nothing) -> Any:
    """Check the store, the workers, the queues and the schedules. Each finding says what to do."""
    found = diagnose(context.app)
    return {"ok": all(finding.note for finding in found), "findings": found}


# -- dry runs


@tools.reads
def plan_requeue(context: ToolContext, given: DeadFilter) -> Any:
    """Dry run of requeue_dead_letters: how many would run again, and how many have used up their requeues."""
    if given.id is not None:
        found = context.app.dead.get(given.id)
        return {"dry_run": True, "matched": int(found.is_pending), "dead_letter": _dead_letter(found)}
    return context.app.dead.requeue_where(
        dry_run=True, everything=given.everything, limit=given.limit, **given.filters()
    )


@tools.reads
def plan_cancel(context: ToolContext, given: FilterArguments) -> Any:
    """Dry run of cancel_jobs: how many unfinished jobs match, and the newest of them."""
    return _planned(context.app, given, Trigger.CANCEL)


@tools.reads
def plan_retry(context: ToolContext, given: FilterArguments) -> Any:
    """Dry run of retry_jobs: how many finished jobs match (failed ones if no state is given), and the newest."""
    return _planned(context.app, given, Trigger.REVIVE)


@tools.reads
def plan_retention(context: ToolContext, given: Nothing) -> Any:
    """Dry run of the retention: how many finished jobs would be archived or deleted now."""
    run = context.app.lifecycle.archive(dry_run=True)
    return {**msgspec.structs.asdict(run), "jobs": run.jobs[:_FIRST_IDS]}


def _planned(app: Headrace, given: FilterArguments, trigger: Trigger) -> dict[str, Any]:
    filters = given.required()
    only_failed = trigger is Trigger.REVIVE and not {"state", "ids"} & filters.keys()
    requested = [State.FAILED] if only_failed else filters.get("state", [*State])
    filters["state"] = [state for state in requested if state in sources(trigger)]
    first = app.jobs.find(limit=_FIRST_IDS, **filters)
    return {
        "dry_run": True,
        "matched": app.jobs.count(**filters),
        "newest": [{"id": one.id, "task": one.task, "queue": one.queue, "state": one.state} for one in first],
    }


# -- records


def _dead_letter(found: DeadLetter) -> dict[str, Any]:
    fields = msgspec.structs.asdict(found)
    for name in ("args", "kwargs", "metadata", "progress"):
        fields[name] = lowered(fields[name])
    fields["logs"] = [msgspec.structs.replace(line, fields=lowered(line.fields)) for line in found.logs]
    return fields


def _schedule(app: Headrace, found: Schedule, runs: int) -> dict[str, Any]:
    fields = msgspec.structs.asdict(found)
    fields |= {"args": lowered(found.args), "kwargs": lowered(found.kwargs)}
    for name in ("every", "jitter", "catch_up_window"):
        fields[name] = None if fields[name] is None else fields[name].total_seconds()
    is_next = not found.paused and not found.is_over
    return {**fields, "next_runs": app.schedules.preview(found.id, n=runs) if is_next else []}
