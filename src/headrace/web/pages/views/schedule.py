"""A schedule: next and last runs; create, change, pause, run, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from headrace.app.schedules.records import Schedule
from headrace.core.codec.redaction import MASK
from headrace.core.schedules.dst import Gap, Overlap
from headrace.core.schedules.schedule import CatchUp, RunOverlap
from headrace.errors import InvalidSchedule
from headrace.web.pages import formatting
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.enqueue import read_json
from headrace.web.pages.views.jobs import known_tasks
from headrace.web.pages.views.schedule_form import MOMENTS, as_form, fields_of, in_words, tried

_NEXT = 8
_RUNS = 50


def show(visit: PageRequest) -> Mapping[str, Any]:
    one = _known(visit)
    return {
        "one": one,
        "words": in_words(one),
        "next": [] if one.paused or one.error else visit.app.schedules.preview(one.id, n=_NEXT),
        "runs": visit.app.schedules.history(one.id, limit=_RUNS),
        **_editor(visit, one),
        "topics": ("schedule", f"task:{one.task}"),
    }


def show_new(visit: PageRequest) -> Mapping[str, Any]:
    return {**_editor(visit, None), "topics": ("none",)}


def _editor(visit: PageRequest, one: Schedule | None) -> dict[str, Any]:
    return {
        "form": as_form(one),
        "task": one.task if one else visit.asked("task") or "",
        "queue": one.queue if one else "",
        "priority": one.priority if one else "",
        "positional": formatting.plain_json(one.args if one else ()),
        "named": formatting.plain_json(one.kwargs if one else {}),  # `kwargs` is reserved in a macro
        "masked": one is not None and MASK in formatting.plain_json([one.args, one.kwargs]),
        "trial": tried(visit),
        "tasks": known_tasks(visit),
        "queues": [queue.name for queue in visit.page_cache.names()],
        "catch_ups": get_args(CatchUp),
        "overlaps": get_args(RunOverlap),
        "dst_gaps": get_args(Gap),
        "dst_overlaps": get_args(Overlap),
    }


def _known(visit: PageRequest) -> Schedule:
    return visit.app.schedules.get(visit.name("schedule"))


# -- actions


def _create(visit: PageRequest) -> ActionResult:
    name, task = visit.said("id"), visit.said("task")
    if name is None or task is None:
        raise InvalidSchedule(f"{'task' if name else 'id'}: give the name of the {'task' if name else 'schedule'}")
    args, kwargs = read_json(visit, "args", list), read_json(visit, "kwargs", dict)
    options = {name: value for name, value in _place(visit).items() if value is not None}
    made = visit.app.schedules.create(name, task, args=args, kwargs=kwargs, **fields_of(visit.said), **options)
    when = f"runs {formatting.distance(made.next_run, visit.now)}" if made.next_run else "will not fire"
    return ActionResult(f"Schedule {made.id} {when}.", goto=visit.at(f"/schedules/{made.id}"), target=made.id)


def _update(visit: PageRequest) -> ActionResult:
    one = _known(visit)
    was = as_form(one)
    fields, had = fields_of(visit.said), fields_of(lambda name: was[name] or None)
    changes: dict[str, Any] = {name: value for name, value in fields.items() if value != had.get(name)}
    emptied = [name for name in (*MOMENTS, "limit") if was[name] and name in visit.form and not visit.said(name)]
    changes |= {name: None for name in emptied if name != "at"}
    if was["jitter"] and "jitter" in visit.form and not visit.said("jitter"):
        changes["jitter"] = 0
    kinds = [name for name in ("cron", "every", "at") if name in fields]
    if len(kinds) > 1:
        raise InvalidSchedule(f"give exactly one of cron, every and at, not {' and '.join(kinds)}")
    changes |= {name: value for name, value in _place(visit).items() if value not in (None, getattr(one, name))}
    call = _call(visit, one, changes)
    if not changes and call is None:
        raise InvalidSchedule("Nothing was changed.")
    after = visit.app.schedules.update(one.id, call=call, **changes)
    when = f"; it runs {formatting.distance(after.next_run, visit.now)}" if after.next_run else ""
    return ActionResult(f"Schedule {one.id} was changed{when}.", target=one.id)


def _place(visit: PageRequest) -> dict[str, Any]:
    """Queue and priority of its jobs; None if not given."""
    text = visit.said("priority")
    try:
        return {"queue": visit.said("queue"), "priority": None if text is None else int(text)}
    except ValueError:
        raise InvalidSchedule(f"priority: {text!r} is not a whole number") from None


def _call(visit: PageRequest, one: Schedule, changes: dict[str, Any]) -> Any:
    """The new task, if the form changes it; changed arguments of the same task are among the changes."""
    task = visit.said("task") or one.task
    args, kwargs = read_json(visit, "args", list), read_json(visit, "kwargs", dict)
    if task == one.task:
        given = {"args": (args, list(one.args)), "kwargs": (kwargs, one.kwargs)}
        changes |= {name: now for name, (now, was) in given.items() if name in visit.form and now != was}
        return None
    if MASK in formatting.plain_json([args, kwargs]):
        raise InvalidSchedule(f"args, kwargs: {MASK} hides a secret, which is not passed to another task; write it out")
    changes.setdefault("queue", one.queue)
    changes.setdefault("priority", one.priority)
    return visit.app.task_by_name(task).bind(*args, **kwargs)


def _pause(visit: PageRequest) -> ActionResult:
    one = visit.app.schedules.pause(_known(visit).id)
    return ActionResult(f"Schedule {one.id} is paused.", target=one.id)


def _resume(visit: PageRequest) -> ActionResult:
    one = visit.app.schedules.resume(_known(visit).id)
    return ActionResult(f"Schedule {one.id} is resumed; runs missed during the pause are not made up.", target=one.id)


def _run(visit: PageRequest) -> ActionResult:
    one = _known(visit)
    job = visit.app.schedules.run_now(one.id)
    return ActionResult(f"Job {job.id} of schedule {one.id} is enqueued.", target=one.id)


def _delete(visit: PageRequest) -> ActionResult:
    one = _known(visit)
    visit.app.schedules.delete(one.id)
    return ActionResult(f"Schedule {one.id} was deleted.", goto=visit.at("/schedules"), target=one.id)


def _ask_delete(visit: PageRequest) -> Confirmation:
    one = _known(visit)
    back = " It is declared in code, so the next worker to start creates it again." if one.origin == "code" else ""
    return Confirmation(f"Delete schedule {one.id}?", "Delete the schedule", f"Its history is deleted too.{back}")


VIEWS = [
    View(path="/new-schedule", template="schedule_new.html", show=show_new),
    View(path="/schedules/{schedule:path}", template="schedule.html", show=show),
]
ACTIONS = [
    Action(path="/new-schedule", what="schedule.create", do=_create),
    Action(path="/schedules/{schedule:path}/pause", what="schedule.pause", do=_pause),
    Action(path="/schedules/{schedule:path}/resume", what="schedule.resume", do=_resume),
    Action(path="/schedules/{schedule:path}/run", what="schedule.run", do=_run),
    Action(path="/schedules/{schedule:path}/update", what="schedule.update", do=_update),
    Action(path="/schedules/{schedule:path}/delete", what="schedule.delete", do=_delete, ask=_ask_delete),
]
