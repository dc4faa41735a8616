"""A queue: states, charts, failures, next jobs, rules and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.app.queues.queues import QueueStats
from headrace.core.clock import to_datetime
from headrace.core.dead_letters.records import DeadLetterFilter, snapshot_of
from headrace.core.jobs.queue_rules import QueueRules
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.jobs.states import NOT_STARTED, State
from headrace.core.queues.limits import STRATEGIES
from headrace.core.queues.rules_text import QUEUE_RULES, format_rate
from headrace.errors import InvalidJob
from headrace.web.pages import chart_data, formatting
from headrace.web.pages.job_view import cards, error_in
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.overview import drained_in

_NEXT = 10
_SAMPLE = 100  # latest failures, grouped for the top ones
_NUMBERS = ("max_length", "weight", "concurrency", "burst", "key_burst", "key_concurrency")


class Failing(Struct, frozen=True):
    """A task and an error, with its count among the latest failures."""

    task: str
    reason: str
    jobs: int
    last: datetime | None
    job_id: str


def show(visit: PageRequest) -> Mapping[str, Any]:
    name = visit.name("queue")
    stats = _stats(visit, name)
    drawn = chart_data.standard(visit, chart_data.window_of(visit), queue=name)
    failed = visit.app.engine.dead_letters.find(DeadLetterFilter(statuses=("pending",), queue=name), _SAMPLE)
    return {
        "stats": stats,
        "count": {state.value: getattr(stats, state) for state in State},
        "drained": drained_in(visit).get(name),
        "figures": drawn,
        "window": chart_data.window_of(visit),
        "windows": chart_data.WINDOWS,
        "failing": _top(failed),
        "sampled": len(failed),
        "tasks": visit.page_cache.tasks(name) or [] if drawn else [],
        "next": cards(visit.app.queue(name).peek(_NEXT), visit.app),
        "running": cards(visit.app.jobs.find(state=State.RUNNING, queue=name, limit=_NEXT), visit.app),
        "workers": [worker for worker in visit.page_cache.workers() if not worker.queues or name in worker.queues],
        "rules": spoken(stats.rules),
        "strategies": STRATEGIES,
        "topics": (f"queue:{name}", "worker"),
    }


def _stats(visit: PageRequest, name: str) -> QueueStats:
    found = (stats for stats in visit.page_cache.queues() if stats.queue == name)
    return next(found, QueueStats(queue=visit.app.queue(name).name, paused=False))


def _top(dead_letters: Sequence[DeadLetterRow]) -> list[Failing]:
    """The most frequent failures by task and kind of error, each with its newest job."""
    kinds: dict[tuple[str, str], list[DeadLetterRow]] = {}
    for letter in dead_letters:
        kinds.setdefault((letter.task, snapshot_of(letter).error_type or letter.reason), []).append(letter)
    ranked = sorted(kinds.values(), key=lambda kind: -len(kind))
    return [
        Failing(
            kind[0].task,
            error_in(kind[0]) or kind[0].reason,
            len(kind),
            to_datetime(kind[0].entered_at),
            kind[0].job_id,
        )
        for kind in ranked[:8]
    ]


def spoken(rules: QueueRules) -> dict[str, str]:
    """The rules for the form."""
    told = {name: getattr(rules, name, None) for name in QUEUE_RULES}
    for rate, burst in (("rate", "burst"), ("key_rate", "key_burst")):
        if (known := told[rate]) is not None:
            told[rate], told[burst] = format_rate(known), known.burst
    if rules.ageing is not None:
        told["ageing"] = f"{rules.ageing / 1000:g}"
    return {name: "" if value is None else str(value) for name, value in told.items()}


# -- actions


def _pause(visit: PageRequest) -> ActionResult:
    queue = visit.app.queue(visit.name("queue"))
    queue.pause()
    return ActionResult(f"Queue {queue.name} is paused; running jobs continue.", target=queue.name)


def _resume(visit: PageRequest) -> ActionResult:
    queue = visit.app.queue(visit.name("queue"))
    queue.resume()
    return ActionResult(f"Queue {queue.name} is open again.", target=queue.name)


def _clear(visit: PageRequest) -> ActionResult:
    queue = visit.app.queue(visit.name("queue"))
    gone = queue.clear()
    return ActionResult(f"{formatting.exact(gone)} jobs were deleted from queue {queue.name}.", target=queue.name)


def _ask_clear(visit: PageRequest) -> Confirmation:
    name = visit.name("queue")
    stats = visit.app.queue(name).stats()
    waiting = sum(getattr(stats, state) for state in NOT_STARTED)
    return Confirmation(
        f"Delete all {formatting.exact(waiting)} jobs of queue {name} that have not started?",
        f"Delete {formatting.exact(waiting)} jobs",
        "Running and finished jobs stay. This can’t be undone.",
    )


def _delete(visit: PageRequest) -> ActionResult:
    queue = visit.app.queue(visit.name("queue"))
    gone = queue.delete()
    return ActionResult(
        f"Queue {queue.name} is deleted, with {formatting.exact(gone)} finished jobs.", target=queue.name
    )


def _ask_delete(visit: PageRequest) -> Confirmation:
    name = visit.name("queue")
    return Confirmation(
        f"Delete queue {name}, its rules and its finished jobs?",
        "Delete the queue",
        "A new job creates it again. A queue with unfinished jobs can’t be deleted.",
    )


def _configure(visit: PageRequest) -> ActionResult:
    queue = visit.app.queue(visit.name("queue"))
    queue.configure(**{name: _rule(name, visit.said(name)) for name in QUEUE_RULES if _is_meant(visit, name)})
    return ActionResult(f"The rules of queue {queue.name} apply to every worker within a second.", target=queue.name)


def _is_meant(visit: PageRequest, name: str) -> bool:
    """A burst needs a rate; with a rate it is optional and defaults to one second's worth."""
    if name in ("burst", "key_burst"):
        return visit.said(name.replace("burst", "rate")) is not None
    return name in visit.form


def _rule(name: str, text: str | None) -> int | float | str | None:
    if text is None or name in ("strategy", "rate", "key_rate"):
        return text
    try:
        return int(text) if name in _NUMBERS else float(text)
    except ValueError:
        raise InvalidJob(f"{name}: {text!r} is not a number") from None


VIEWS = [View(path="/queues/{queue:path}", template="queue.html", show=show)]
ACTIONS = [
    Action(path="/queues/{queue:path}/pause", what="queue.pause", do=_pause),
    Action(path="/queues/{queue:path}/resume", what="queue.resume", do=_resume),
    Action(path="/queues/{queue:path}/clear", what="queue.clear", do=_clear, ask=_ask_clear),
    Action(path="/queues/{queue:path}/delete", what="queue.delete", do=_delete, ask=_ask_delete),
    Action(path="/queues/{queue:path}/configure", what="queue.configure", do=_configure),
]
