"""The list of queues; one queue: states, charts, failures, next jobs, rules and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.app.queues.queues import QueueStats
from headrace.core.clock import to_datetime
from headrace.core.dead_letters.records import DeadLetterFilter, snapshot_of
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import NOT_STARTED, State
from headrace.core.queues.rule_fields import KEY_RULES, QUEUE_RULES
from headrace.core.queues.rules_text import format_rules, rule_values
from headrace.core.text import counted
from headrace.web.pages import chart_data, formatting
from headrace.web.pages.forms import form_fields, given_rules
from headrace.web.pages.job_view import error_in, summaries
from headrace.web.pages.page_cache import totals
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.overview import drained_in

_MAX_JOBS = 10
_SAMPLE = 100  # latest failures, grouped for the top ones


class Failing(Struct, frozen=True):
    """A task and an error, with its count among the latest failures."""

    task: str
    reason: str
    jobs: int
    last: datetime | None
    job_id: str


def show(request: PageRequest) -> Mapping[str, Any]:
    queues = request.page_cache.queues()
    text = (request.query("q") or "").casefold()
    shown = [stats for stats in queues if text in stats.queue.casefold()]
    return {
        "queues": shown,
        "all": len(queues),
        "count": totals(shown),
        "rules": {stats.queue: format_rules(stats.rules) for stats in shown},
        "drained": drained_in(request),
    }


def show_one(request: PageRequest) -> Mapping[str, Any]:
    name = request.path_param("queue")
    stats = _stats(request, name)
    shown_charts = chart_data.queue_charts(request, chart_data.window_of(request), queue=name)
    failed = request.app.engine.dead_letters.find(DeadLetterFilter(statuses=("pending",), queue=name), _SAMPLE)
    return {
        "stats": stats,
        "count": {state.value: getattr(stats, state) for state in State},
        "drained": drained_in(request).get(name),
        "time_charts": shown_charts,
        "window": chart_data.window_of(request),
        "windows": chart_data.WINDOWS,
        "failing": top_failures(failed),
        "sampled": len(failed),
        "tasks": request.page_cache.tasks(name) or [] if shown_charts else [],
        "next": summaries(request.app.queue(name).peek(_MAX_JOBS), request.app),
        "running": summaries(request.app.jobs.find(state=State.RUNNING, queue=name, limit=_MAX_JOBS), request.app),
        "workers": [worker for worker in request.page_cache.workers() if not worker.queues or name in worker.queues],
        "rules": form_fields(QUEUE_RULES, rule_values(stats.rules)),
        "keys": {key: format_rules(own) for key, own in stats.rules.keys.items()},
        "key_rules": form_fields(KEY_RULES, {}),
        "topics": (f"queue:{name}", "worker"),
    }


def _stats(request: PageRequest, name: str) -> QueueStats:
    found = (stats for stats in request.page_cache.queues() if stats.queue == name)
    return next(found, QueueStats(queue=request.app.queue(name).name, paused=False))


def top_failures(dead_letters: Sequence[DeadLetterRow]) -> list[Failing]:
    """The most frequent failures by task and kind of error, each with its newest job."""
    failures: dict[tuple[str, str], list[DeadLetterRow]] = {}
    for dead_letter in dead_letters:
        failures.setdefault((dead_letter.task, snapshot_of(dead_letter).error_type or dead_letter.reason), []).append(
            dead_letter
        )
    by_count = sorted(failures.values(), key=lambda failure: -len(failure))
    return [
        Failing(
            failure[0].task,
            error_in(failure[0]) or failure[0].reason,
            len(failure),
            to_datetime(failure[0].entered_at),
            failure[0].job_id,
        )
        for failure in by_count[:8]
    ]


# -- actions


def _pause(request: PageRequest) -> ActionResult:
    queue = request.app.queue(request.path_param("queue"))
    queue.pause()
    return ActionResult(f"Queue {queue.name} is paused; running jobs continue.", target=queue.name)


def _resume(request: PageRequest) -> ActionResult:
    queue = request.app.queue(request.path_param("queue"))
    queue.resume()
    return ActionResult(f"Queue {queue.name} is open again.", target=queue.name)


def _clear(request: PageRequest) -> ActionResult:
    queue = request.app.queue(request.path_param("queue"))
    deleted = counted(queue.clear(), "job was", "jobs were")
    return ActionResult(f"{deleted} deleted from queue {queue.name}.", target=queue.name)


def _confirm_clear(request: PageRequest) -> Confirmation:
    name = request.path_param("queue")
    stats = request.app.queue(name).stats()
    waiting = sum(getattr(stats, state) for state in NOT_STARTED)
    return Confirmation(
        f"Delete {counted(waiting, 'job')} of queue {name}, all that have not started?",
        f"Delete {counted(waiting, 'job')}",
        "Scheduled and retrying jobs go too; running and finished ones stay. This can’t be undone.",
    )


def _delete(request: PageRequest) -> ActionResult:
    queue = request.app.queue(request.path_param("queue"))
    deleted = queue.delete()
    return ActionResult(
        f"Queue {queue.name} is deleted, with {formatting.exact(deleted)} finished jobs.", target=queue.name
    )


def _confirm_delete(request: PageRequest) -> Confirmation:
    name = request.path_param("queue")
    return Confirmation(
        f"Delete queue {name}, its rules and its finished jobs?",
        "Delete the queue",
        "A new job creates it again. A queue with unfinished jobs can’t be deleted.",
    )


def _configure(request: PageRequest) -> ActionResult:
    queue = request.app.queue(request.path_param("queue"))
    queue.configure(**given_rules(request, QUEUE_RULES))
    return ActionResult(f"The rules of queue {queue.name} apply to every worker within a second.", target=queue.name)


def _configure_key(request: PageRequest) -> ActionResult:
    queue, key = request.app.queue(request.path_param("queue")), request.form_field("key") or ""
    own = queue.configure_key(key, **dict.fromkeys(KEY_RULES) | given_rules(request, KEY_RULES))
    return ActionResult(
        f"Key {key} of queue {queue.name} has {format_rules(own) or 'no rules of its own'}.", target=queue.name
    )


VIEWS = [
    View(path="/queues", template="queues/queues.html", show=show, label="Queues", icon="queues", key="q"),
    View(path="/queues/{queue:path}", template="queues/queue.html", show=show_one),
]
ACTIONS = [
    Action(path="/queues/{queue:path}/pause", name="queue.pause", run=_pause),
    Action(path="/queues/{queue:path}/resume", name="queue.resume", run=_resume),
    Action(path="/queues/{queue:path}/clear", name="queue.clear", run=_clear, confirmation=_confirm_clear),
    Action(path="/queues/{queue:path}/delete", name="queue.delete", run=_delete, confirmation=_confirm_delete),
    Action(path="/queues/{queue:path}/configure", name="queue.configure", run=_configure),
    Action(path="/queues/{queue:path}/keys", name="queue.configure_key", run=_configure_key),
]
