"""A job: timeline, call, result, errors, logs, dependencies and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.codec.payload_refs import PayloadRef, is_reference, reference_in
from headrace.core.damaged_records import read_or
from headrace.core.events.history import HistoryEntry
from headrace.core.jobs.budgets import Spending, budgets_of
from headrace.core.jobs.questions import fields_of
from headrace.core.jobs.states import FINAL, NOT_STARTED, State
from headrace.core.jobs.steps import is_awaiting
from headrace.core.tasks.option_fields import JOB_OPTIONS
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry
from headrace.web.pages import charts, formatting
from headrace.web.pages.charts import Piece
from headrace.web.pages.forms import form_values
from headrace.web.pages.job_view import arguments, result, summaries, summary_of, truncate
from headrace.web.pages.request import PageRequest
from headrace.web.pages.stream_text import stream_texts
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.questions import question_of

_MAX_RELATED = 50
_MAX_LOG_LINES = 300


class StatePeriod(Struct, frozen=True):
    """A time that the job spent in one state."""

    state: str
    start: datetime
    end: datetime
    attempt: int
    open: bool

    @property
    def seconds(self) -> float:
        return max((self.end - self.start).total_seconds(), 0.0)


class ShownLogLine(Struct, frozen=True):
    at: datetime
    attempt: int
    level: str
    message: str
    fields: str


_CHANGEABLE = {name: JOB_OPTIONS[name] for name in ("priority", "queue", "run_at")}


def show(request: PageRequest) -> Mapping[str, Any]:
    job = request.app.jobs.get(request.path_param("job"))
    history = job.history()
    periods = state_periods(history, job.finished_at, request.now)
    largest = request.app.settings.max_payload
    most = largest if request.query("payloads") else 0
    args, kwargs, unreadable = arguments(job, most)
    lines = [] if job.archived else job.logs()
    parents, children = ([], []) if job.archived else (job.parents(), job.children())
    return {
        "job": summary_of(job),
        "row": job.row,
        "why": job.explain(),
        "periods": periods,
        "timeline": draw_timeline(periods),
        "waited": sum(period.seconds for period in periods if period.state in NOT_STARTED),
        "ran": sum(period.seconds for period in periods if period.state == State.RUNNING),
        "history": history,
        "errors": list(reversed(job.errors)),
        "args": args,
        "kwargs": kwargs,
        "unreadable": unreadable,
        "not_loaded": not most and is_reference(job.row.payload),
        "can_load": not most and any(ref.size <= largest for ref in _references(job)),
        "result": result(job, most) if job.state is State.COMPLETED else None,
        "spending": _spending(job),
        "metadata": formatting.plain_json(job.redacted(job.metadata)) if job.row.metadata else "",
        "expires_at": job.expires_at,
        "lease_until": to_datetime(job.row.lease_until),
        "logs": [_line(job, line) for line in lines[-_MAX_LOG_LINES:]],
        "streamed": stream_texts(request.app, job),
        "more_logs": max(len(lines) - _MAX_LOG_LINES, 0),
        "steps": [] if job.archived else request.app.engine.queries.details(job.id, history=False, logs=0).steps,
        "to_datetime": to_datetime,
        "parents": summaries(parents[:_MAX_RELATED], request.app),
        "children": summaries(children[:_MAX_RELATED], request.app),
        "more_related": max(len(parents) - _MAX_RELATED, 0) + max(len(children) - _MAX_RELATED, 0),
        "question": question_of(request, job.id) if is_awaiting(job.reason) else None,
        "fields_of": fields_of,
        "is_finished": job.state in FINAL,
        "not_started": job.state in NOT_STARTED,
        "can_promote": job.state in (State.SCHEDULED, State.RETRYING, State.WAITING),
        "topics": (f"job:{job.id}",) if job.state is not State.PENDING else (f"job:{job.id}", f"queue:{job.queue}"),
    }


def _references(job: Job[Any]) -> list[PayloadRef]:
    """The payloads of the job that are in the payload store."""
    row = job.full_row
    return [ref for text in (row.payload, row.result) if text and (ref := read_or(reference_in, text, None))]


def _spending(job: Job[Any]) -> Spending | None:
    """The units that it has reported and may report, if it or its flow has a budget."""
    budgets = budgets_of(job.row.options)
    return None if budgets is None else Spending(job.cost, budgets.budget or None)


def _line(job: Job[Any], line: LogEntry) -> ShownLogLine:
    fields = job.redacted(line.fields)
    field_texts = "  ".join(f"{name}={formatting.plain_json(value, indent=0)}" for name, value in fields.items())
    return ShownLogLine(line.at, line.attempt, line.level, truncate(line.message, 2000), truncate(field_texts, 2000))


def state_periods(history: Sequence[HistoryEntry], finished_at: datetime | None, now: datetime) -> list[StatePeriod]:
    """The time in each state; the last state of an unfinished job lasts until now."""
    moves = [entry for entry in history if entry.to_state in tuple(State)]
    found: list[StatePeriod] = []
    for entry, following in zip(moves, [*moves[1:], None], strict=True):
        if following is None and entry.to_state in FINAL:
            break
        end = following.at if following is not None else max(now, entry.at)
        if found and found[-1].state == entry.to_state and found[-1].attempt == entry.attempt:
            start = found.pop().start
        else:
            start = entry.at
        found.append(StatePeriod(entry.to_state, start, end, entry.attempt, following is None))
    return found


def draw_timeline(periods: Sequence[StatePeriod]) -> Markup:
    """The timeline of a job as one bar."""
    pieces = [
        Piece(max(period.seconds, 1e-6), period.state, f"{period.state} for {formatting.span(period.seconds)}")
        for period in periods
    ]
    text = ", ".join(piece.title for piece in pieces[:20])
    return charts.bar(pieces, f"Timeline: {text}" if text else "Timeline", 20)


# -- actions


def _job_action(method: str, done: str, refused: str) -> Callable[[PageRequest], ActionResult]:
    def run(request: PageRequest) -> ActionResult:
        job = request.app.jobs.get(request.path_param("job"))
        if not getattr(job, method)():
            raise InvalidJob(f"Job {job.id} {refused}.")
        return ActionResult(f"Job {job.id} {done}.", target=job.id)

    return run


def _delete(request: PageRequest) -> ActionResult:
    job = request.app.jobs.get(request.path_param("job"))
    if not job.delete():
        raise InvalidJob(f"Job {job.id} is running; cancel it first.")
    return ActionResult(f"Job {job.id} was deleted.", goto=request.url("/jobs"), target=job.id)


def _confirm_delete(request: PageRequest) -> Confirmation:
    job = request.app.jobs.get(request.path_param("job"))
    return Confirmation(
        f"Delete job {job.id}?",
        "Delete the job",
        f"{job.task}, {job.state}. Its history is deleted too; this can’t be undone.",
    )


def _confirm_cancel(request: PageRequest) -> Confirmation | None:
    job = request.app.jobs.get(request.path_param("job"))
    if job.state is not State.RUNNING:
        return None
    return Confirmation(
        f"Cancel {job.task} while it runs?",
        "Cancel the job",
        "Its attempt is asked to stop, and its result is refused.",
    )


def _confirm_retry(request: PageRequest) -> Confirmation | None:
    job = request.app.jobs.get(request.path_param("job"))
    if job.state is not State.COMPLETED:
        return None
    return Confirmation(
        f"Run {job.task} again, though it completed?",
        "Run it again",
        "It runs with the same arguments, and its result is replaced. What it did the first time is not undone.",
    )


def _update(request: PageRequest) -> ActionResult:
    job = request.app.jobs.get(request.path_param("job"))
    given = form_values(request.form, _CHANGEABLE).items()
    changes = {name: value for name, value in given if value != getattr(job, name)}
    if not changes:
        raise InvalidJob("Nothing was changed.")
    if not job.update(**changes):
        raise InvalidJob(f"Job {job.id} has started; it can’t be changed.")
    changed = ", ".join(f"{name} {value}" for name, value in changes.items())
    return ActionResult(f"Job {job.id} has {changed}.", target=job.id)


def _fork(request: PageRequest) -> ActionResult:
    step = request.form_field("from_step")
    forked = request.app.jobs.fork(request.path_param("job"), from_step=step or None)
    return ActionResult(
        f"Job {forked.id} runs from step {step}.", goto=request.url(f"/jobs/{forked.id}"), target=forked.id
    )


VIEWS = [View(path="/jobs/{job:path}", template="jobs/job.html", show=show)]
ACTIONS = [
    Action(
        path="/jobs/{job:path}/retry",
        name="job.retry",
        run=_job_action("retry", "is queued again", "is not finished"),
        confirmation=_confirm_retry,
    ),
    Action(
        path="/jobs/{job:path}/cancel",
        name="job.cancel",
        run=_job_action("cancel", "is cancelled", "is already finished"),
        confirmation=_confirm_cancel,
    ),
    Action(
        path="/jobs/{job:path}/promote",
        name="job.promote",
        run=_job_action("promote", "is pending now", "is not scheduled, retrying or waiting"),
    ),
    Action(path="/jobs/{job:path}/fork", name="job.fork", run=_fork),
    Action(path="/jobs/{job:path}/update", name="job.update", run=_update),
    Action(path="/jobs/{job:path}/delete", name="job.delete", run=_delete, confirmation=_confirm_delete),
]
