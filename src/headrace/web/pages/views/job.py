"""A job: timeline, call, result, errors, logs, dependencies and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.events.history import HistoryEntry
from headrace.core.jobs.states import FINAL, NOT_STARTED, State
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry
from headrace.web.pages import charts, formatting
from headrace.web.pages.charts import Piece
from headrace.web.pages.job_view import arguments, card, cards, cut, result
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.enqueue import moment_of

_KIN = 50
_LINES = 300


class StatePeriod(Struct, frozen=True):
    """A time that the job spent in one state."""

    state: str
    begun: datetime
    ended: datetime
    attempt: int
    open: bool

    @property
    def seconds(self) -> float:
        return max((self.ended - self.begun).total_seconds(), 0.0)


class ShownLogLine(Struct, frozen=True):
    at: datetime
    attempt: int
    level: str
    message: str
    fields: str


def show(visit: PageRequest) -> Mapping[str, Any]:
    job = visit.app.jobs.get(visit.name("job"))
    history = job.history()
    lived = stays(history, job.finished_at, visit.now)
    args, kwargs, unreadable = arguments(job)
    lines = [] if job.archived else job.logs()
    parents, children = ([], []) if job.archived else (job.parents(), job.children())
    return {
        "job": card(job),
        "row": job.row,
        "why": job.why(),
        "lived": lived,
        "drawn": draw(lived),
        "waited": sum(stay.seconds for stay in lived if stay.state in NOT_STARTED),
        "ran": sum(stay.seconds for stay in lived if stay.state == State.RUNNING),
        "history": history,
        "errors": list(reversed(job.errors)),
        "args": args,
        "kwargs": kwargs,
        "unreadable": unreadable,
        "result": result(job) if job.state is State.COMPLETED else None,
        "metadata": formatting.plain_json(job.redacted(job.metadata)) if job.row.metadata else "",
        "expires_at": job.expires_at,
        "lease_until": to_datetime(job.row.lease_until),
        "logs": [_line(job, line) for line in lines[-_LINES:]],
        "more_logs": max(len(lines) - _LINES, 0),
        "steps": [] if job.archived else visit.app.engine.queries.steps(job.id),
        "to_datetime": to_datetime,
        "parents": cards(parents[:_KIN], visit.app),
        "children": cards(children[:_KIN], visit.app),
        "more_kin": max(len(parents) - _KIN, 0) + max(len(children) - _KIN, 0),
        "over": job.state in FINAL,
        "not_started": job.state in NOT_STARTED,
        "can_promote": job.state in (State.SCHEDULED, State.RETRYING, State.WAITING),
        "topics": (f"job:{job.id}",) if job.state is not State.PENDING else (f"job:{job.id}", f"queue:{job.queue}"),
    }


def _line(job: Job[Any], line: LogEntry) -> ShownLogLine:
    fields = job.redacted(line.fields)
    told = "  ".join(f"{name}={formatting.plain_json(value, indent=0)}" for name, value in fields.items())
    return ShownLogLine(line.at, line.attempt, line.level, cut(line.message, 2000), cut(told, 2000))


def stays(history: Sequence[HistoryEntry], finished_at: datetime | None, now: datetime) -> list[StatePeriod]:
    """The time in each state; the last state of an unfinished job lasts until now."""
    moves = [entry for entry in history if entry.to_state in tuple(State)]
    found: list[StatePeriod] = []
    for entry, following in zip(moves, [*moves[1:], None], strict=True):
        if following is None and entry.to_state in FINAL:
            break
        ended = following.at if following is not None else max(now, entry.at)
        if found and found[-1].state == entry.to_state and found[-1].attempt == entry.attempt:
            entry_begun = found.pop().begun
        else:
            entry_begun = entry.at
        found.append(StatePeriod(entry.to_state, entry_begun, ended, entry.attempt, following is None))
    return found


def draw(lived: Sequence[StatePeriod]) -> Markup:
    """The timeline of a job as one bar."""
    pieces = [
        Piece(max(stay.seconds, 1e-6), stay.state, f"{stay.state} for {formatting.span(stay.seconds)}")
        for stay in lived
    ]
    told = ", ".join(piece.title for piece in pieces[:20])
    return charts.bar(pieces, f"Timeline: {told}" if told else "Timeline", 20)


# -- actions


def _moved(event: str, did: str, refused: str) -> Callable[[PageRequest], ActionResult]:
    def do(visit: PageRequest) -> ActionResult:
        job = visit.app.jobs.get(visit.name("job"))
        if not getattr(job, event)():
            raise InvalidJob(f"Job {job.id} {refused}.")
        return ActionResult(f"Job {job.id} {did}.", target=job.id)

    return do


def _delete(visit: PageRequest) -> ActionResult:
    job = visit.app.jobs.get(visit.name("job"))
    if not job.delete():
        raise InvalidJob(f"Job {job.id} is running; cancel it first.")
    return ActionResult(f"Job {job.id} was deleted.", goto=visit.at("/jobs"), target=job.id)


def _ask_delete(visit: PageRequest) -> Confirmation:
    job = visit.app.jobs.get(visit.name("job"))
    return Confirmation(
        f"Delete job {job.id}?",
        "Delete the job",
        f"{job.task}, {job.state}. Its history is deleted too; this can’t be undone.",
    )


def _ask_cancel(visit: PageRequest) -> Confirmation | None:
    job = visit.app.jobs.get(visit.name("job"))
    if job.state is not State.RUNNING:
        return None
    return Confirmation(
        f"Cancel {job.task} while it runs?",
        "Cancel the job",
        "Its attempt is asked to stop, and its result is refused.",
    )


def _update(visit: PageRequest) -> ActionResult:
    job = visit.app.jobs.get(visit.name("job"))
    changes: dict[str, Any] = {}
    if (text := visit.said("priority")) is not None and text != str(job.priority):
        try:
            changes["priority"] = int(text)
        except ValueError:
            raise InvalidJob(f"priority: {text!r} is not a whole number") from None
    if (queue := visit.said("queue")) is not None and queue != job.queue:
        changes["queue"] = queue
    if text := visit.said("run_at"):
        changes["run_at"] = moment_of("run_at", text)
    if not changes:
        raise InvalidJob("Nothing was changed.")
    if not job.update(**changes):
        raise InvalidJob(f"Job {job.id} has started; it can’t be changed.")
    told = ", ".join(f"{name} {value}" for name, value in changes.items())
    return ActionResult(f"Job {job.id} has {told}.", target=job.id)


VIEWS = [View(path="/jobs/{job:path}", template="job.html", show=show)]
ACTIONS = [
    Action(path="/jobs/{job:path}/retry", what="job.retry", do=_moved("retry", "is queued again", "is not finished")),
    Action(
        path="/jobs/{job:path}/cancel",
        what="job.cancel",
        do=_moved("cancel", "is cancelled", "is already finished"),
        ask=_ask_cancel,
    ),
    Action(
        path="/jobs/{job:path}/promote",
        what="job.promote",
        do=_moved("promote", "is pending now", "is not scheduled, retrying or waiting"),
    ),
    Action(path="/jobs/{job:path}/update", what="job.update", do=_update),
    Action(path="/jobs/{job:path}/delete", what="job.delete", do=_delete, ask=_ask_delete),
]
