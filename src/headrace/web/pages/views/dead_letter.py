"""A dead letter: its job, error, notes and similar failures; requeue, resolve, note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.dead_letters.records import DeadLetter
from headrace.core.codec.redaction import MASK, unmasked
from headrace.core.dead_letters.records import RESOLUTIONS
from headrace.errors import InvalidJob, JobNotFound
from headrace.web.pages.formatting import plain_json
from headrace.web.pages.job_view import split_arguments, truncate
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View
from headrace.web.pages.views.enqueue import read_json


def show(request: PageRequest) -> Mapping[str, Any]:
    dead_letter = request.app.dead.get(request.path_param("dead_letter"))
    unnamed, named = split_arguments(dead_letter.arguments)
    return {
        "dead_letter": dead_letter,
        "unnamed": unnamed,
        "named": named,
        "args": truncate(plain_json(dead_letter.args)),
        "kwargs": truncate(plain_json(dead_letter.kwargs)),
        "metadata": plain_json(dead_letter.metadata) if dead_letter.metadata else "",
        "progress": truncate(plain_json(dead_letter.progress)),
        "history": request.app.dead.history(dead_letter.id),
        "similar": request.app.dead.count(status="pending", fingerprint=dead_letter.fingerprint),
        "job_state": _state_of(request, dead_letter),
        "resolutions": RESOLUTIONS,
        "topics": (f"job:{dead_letter.job_id}", "dead"),
    }


def _state_of(request: PageRequest, dead_letter: DeadLetter) -> str | None:
    """The state of the job; None if it is deleted."""
    try:
        return request.app.jobs.get(dead_letter.job_id).state
    except JobNotFound:
        return None


def _requeue(request: PageRequest) -> ActionResult:
    dead_letter = request.app.dead.get(request.path_param("dead_letter"))
    done = request.app.dead.requeue(
        dead_letter.id,
        by=request.viewer.name,
        note=request.form_field("note"),
        **_changed_arguments(request, dead_letter),
    )
    return ActionResult(f"{done.message[0].upper()}{done.message[1:]}", ok=done.requeued, target=dead_letter.id)


def _changed_arguments(request: PageRequest, dead_letter: DeadLetter) -> dict[str, Any]:
    """The changed arguments; a remaining mask stands for the original secret."""
    changed: dict[str, Any] = {}
    for name, kind, before in (("args", list, list(dead_letter.args)), ("kwargs", dict, dead_letter.kwargs)):
        if name in request.form and (after := read_json(request, name, kind)) != before:
            changed[name] = after
    if MASK in plain_json(list(changed.values())):
        try:
            job = request.app.jobs.get(dead_letter.job_id)
        except JobNotFound:
            raise InvalidJob(f"The job is deleted, so {MASK} can't be resolved: write the secrets out.") from None
        shown = {"args": dead_letter.args, "kwargs": dead_letter.kwargs}
        changed = unmasked(changed, shown, {"args": job.args, "kwargs": job.kwargs})
    return changed


def _resolve(request: PageRequest) -> ActionResult:
    status = request.form_field("status") or RESOLUTIONS[0]
    dead_letter = request.app.dead.resolve(
        request.path_param("dead_letter"), status, by=request.viewer.name, note=request.form_field("note")
    )
    return ActionResult(f"This dead letter is {dead_letter.status.replace('_', ' ')}.", target=dead_letter.id)


def _note(request: PageRequest) -> ActionResult:
    dead_letter = request.app.dead.note(
        request.path_param("dead_letter"), request.form_field("text") or "", by=request.viewer.name
    )
    return ActionResult("Noted.", target=dead_letter.id)


VIEWS = [View(path="/dead/{dead_letter:path}", template="dead_letters/dead_letter.html", show=show)]
ACTIONS = [
    Action(path="/dead/{dead_letter:path}/requeue", name="dead.requeue", run=_requeue),
    Action(path="/dead/{dead_letter:path}/resolve", name="dead.resolve", run=_resolve),
    Action(path="/dead/{dead_letter:path}/note", name="dead.note", run=_note),
]
