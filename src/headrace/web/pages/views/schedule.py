"""A schedule: next and last runs; create, change, pause, run, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams

from headrace.app.parts import declared_task
from headrace.app.schedules.records import Schedule
from headrace.core.codec.redaction import MASK
from headrace.core.schedules.timing_fields import TIMING
from headrace.core.tasks.arguments import by_name, line_of
from headrace.core.tasks.option_fields import JOB_OPTIONS
from headrace.errors import InvalidSchedule
from headrace.web.pages import formatting
from headrace.web.pages.forms import form_values
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.enqueue import read_json
from headrace.web.pages.views.jobs import known_tasks
from headrace.web.pages.views.schedule_form import as_form, preview_of, timing_text

_JOB_OPTIONS = {name: JOB_OPTIONS[name] for name in ("queue", "priority")}
_MAX_NEXT = 8
_MAX_RUNS = 50


def show(request: PageRequest) -> Mapping[str, Any]:
    schedule = _find_schedule(request)
    return {
        "schedule": schedule,
        "timing": timing_text(schedule),
        "call_line": line_of(
            by_name(request.app.services.parameter_names(schedule.task), schedule.args, schedule.kwargs)
        ),
        "next": [] if schedule.paused or schedule.error else request.app.schedules.preview(schedule.id, n=_MAX_NEXT),
        "runs": request.app.schedules.history(schedule.id, limit=_MAX_RUNS),
        **_editor(request, schedule),
        "topics": ("schedule", f"task:{schedule.task}"),
    }


def show_new(request: PageRequest) -> Mapping[str, Any]:
    return {**_editor(request, None), "topics": ("none",)}


def _editor(request: PageRequest, schedule: Schedule | None) -> dict[str, Any]:
    return {
        "form": as_form(schedule),
        "task": schedule.task if schedule else request.query("task") or "",
        "queue": schedule.queue if schedule else "",
        "priority": schedule.priority if schedule else "",
        "positional": formatting.plain_json(schedule.args if schedule else ()),
        "named": formatting.plain_json(schedule.kwargs if schedule else {}),  # `kwargs` is reserved in a macro
        "masked": schedule is not None and MASK in formatting.plain_json([schedule.args, schedule.kwargs]),
        "preview": preview_of(request),
        "tasks": known_tasks(request),
        "queues": [queue.name for queue in request.page_cache.queue_rows()],
    }


def _find_schedule(request: PageRequest) -> Schedule:
    return request.app.schedules.get(request.path_param("schedule"))


# -- actions


def _create(request: PageRequest) -> ActionResult:
    name, task = request.form_field("id"), request.form_field("task")
    if name is None or task is None:
        raise InvalidSchedule(f"{'task' if name else 'id'}: give the name of the {'task' if name else 'schedule'}")
    args, kwargs = read_json(request, "args", list), read_json(request, "kwargs", dict)
    options = form_values(request.form, {**TIMING, **_JOB_OPTIONS})
    created = request.app.schedules.create(name, task, args=args, kwargs=kwargs, **options)
    when = f"runs {formatting.distance(created.next_run, request.now)}" if created.next_run else "will not fire"
    return ActionResult(
        f"Schedule {created.id} {when}.", goto=request.url(f"/schedules/{created.id}"), target=created.id
    )


def _update(request: PageRequest) -> ActionResult:
    schedule = _find_schedule(request)
    before = {name: one.value for name, one in as_form(schedule).items()}
    fields, fields_before = form_values(request.form, TIMING), form_values(QueryParams(before), TIMING)
    changes: dict[str, Any] = {name: value for name, value in fields.items() if value != fields_before.get(name)}
    if before["jitter"] and "jitter" in request.form and not request.form_field("jitter"):
        changes["jitter"] = 0
    kinds = [name for name in ("cron", "every", "at") if name in fields]
    if len(kinds) > 1:
        raise InvalidSchedule(f"give exactly one of cron, every and at, not {' and '.join(kinds)}")
    options = form_values(request.form, _JOB_OPTIONS).items()
    changes |= {name: value for name, value in options if value != getattr(schedule, name)}
    call = _call(request, schedule, changes)
    if not changes and call is None:
        raise InvalidSchedule("Nothing was changed.")
    after = request.app.schedules.update(schedule.id, call=call, **changes)
    when = f"; it runs {formatting.distance(after.next_run, request.now)}" if after.next_run else ""
    return ActionResult(f"Schedule {schedule.id} was changed{when}.", target=schedule.id)


def _call(request: PageRequest, schedule: Schedule, changes: dict[str, Any]) -> Any:
    """The new task, if the form changes it; changed arguments of the same task are among the changes."""
    task = request.form_field("task") or schedule.task
    args, kwargs = read_json(request, "args", list), read_json(request, "kwargs", dict)
    if task == schedule.task:
        given = {"args": (args, list(schedule.args)), "kwargs": (kwargs, schedule.kwargs)}
        changes |= {name: after for name, (after, before) in given.items() if name in request.form and after != before}
        return None
    if MASK in formatting.plain_json([args, kwargs]):
        raise InvalidSchedule(f"args, kwargs: {MASK} hides a secret, which is not passed to another task; write it out")
    changes.setdefault("queue", schedule.queue)
    changes.setdefault("priority", schedule.priority)
    return declared_task(request.app, task).bind(*args, **kwargs)


def _pause(request: PageRequest) -> ActionResult:
    schedule = request.app.schedules.pause(_find_schedule(request).id)
    return ActionResult(f"Schedule {schedule.id} is paused.", target=schedule.id)


def _resume(request: PageRequest) -> ActionResult:
    schedule = request.app.schedules.resume(_find_schedule(request).id)
    return ActionResult(
        f"Schedule {schedule.id} is resumed; runs missed during the pause are not made up.", target=schedule.id
    )


def _run(request: PageRequest) -> ActionResult:
    schedule = _find_schedule(request)
    job = request.app.schedules.run_now(schedule.id)
    return ActionResult(f"Job {job.id} of schedule {schedule.id} is enqueued.", target=schedule.id)


def _delete(request: PageRequest) -> ActionResult:
    schedule = _find_schedule(request)
    request.app.schedules.delete(schedule.id)
    return ActionResult(f"Schedule {schedule.id} was deleted.", goto=request.url("/schedules"), target=schedule.id)


def _confirm_delete(request: PageRequest) -> Confirmation:
    schedule = _find_schedule(request)
    code_text = (
        " It is declared in code, so the next worker to start creates it again." if schedule.origin == "code" else ""
    )
    return Confirmation(
        f"Delete schedule {schedule.id}?", "Delete the schedule", f"Its history is deleted too.{code_text}"
    )


VIEWS = [
    View(path="/new-schedule", template="schedules/schedule_new.html", show=show_new),
    View(path="/schedules/{schedule:path}", template="schedules/schedule.html", show=show),
]
ACTIONS = [
    Action(path="/new-schedule", name="schedule.create", run=_create),
    Action(path="/schedules/{schedule:path}/pause", name="schedule.pause", run=_pause),
    Action(path="/schedules/{schedule:path}/resume", name="schedule.resume", run=_resume),
    Action(path="/schedules/{schedule:path}/run", name="schedule.run", run=_run),
    Action(path="/schedules/{schedule:path}/update", name="schedule.update", run=_update),
    Action(path="/schedules/{schedule:path}/delete", name="schedule.delete", run=_delete, confirmation=_confirm_delete),
]
