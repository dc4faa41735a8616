"""A dead letter: its job, error, notes and similar failures; requeue, resolve, note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.dead_letters.records import DeadLetter
from headrace.core.codec.redaction import MASK, unmasked
from headrace.core.dead_letters.records import RESOLUTIONS
from headrace.errors import InvalidJob, JobNotFound
from headrace.web.pages.formatting import plain_json
from headrace.web.pages.job_view import cut
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View
from headrace.web.pages.views.enqueue import read_json


def show(visit: PageRequest) -> Mapping[str, Any]:
    letter = visit.app.dead.get(visit.name("letter"))
    return {
        "letter": letter,
        "args": cut(plain_json(letter.args)),
        "kwargs": cut(plain_json(letter.kwargs)),
        "metadata": plain_json(letter.metadata) if letter.metadata else "",
        "progress": cut(plain_json(letter.progress)),
        "history": visit.app.dead.history(letter.id),
        "alike": visit.app.dead.count(status="pending", fingerprint=letter.fingerprint),
        "job_state": _state_of(visit, letter),
        "resolutions": RESOLUTIONS,
        "topics": (f"job:{letter.job_id}", "dead"),
    }


def _state_of(visit: PageRequest, letter: DeadLetter) -> str | None:
    """The job; None if it is deleted."""
    try:
        return visit.app.jobs.get(letter.job_id).state
    except JobNotFound:
        return None


def _requeue(visit: PageRequest) -> ActionResult:
    letter = visit.app.dead.get(visit.name("letter"))
    done = visit.app.dead.requeue(letter.id, by=visit.visitor.name, note=visit.said("note"), **_edited(visit, letter))
    return ActionResult(f"{done.message[0].upper()}{done.message[1:]}", ok=done.requeued, target=letter.id)


def _edited(visit: PageRequest, letter: DeadLetter) -> dict[str, Any]:
    """The changed arguments; a remaining mask stands for the original secret."""
    changed: dict[str, Any] = {}
    for name, kind, was in (("args", list, list(letter.args)), ("kwargs", dict, letter.kwargs)):
        if name in visit.form and (now := read_json(visit, name, kind)) != was:
            changed[name] = now
    if MASK in plain_json(list(changed.values())):
        try:
            job = visit.app.jobs.get(letter.job_id)
        except JobNotFound:
            raise InvalidJob(f"The job is deleted, so {MASK} can't be resolved: write the secrets out.") from None
        shown = {"args": letter.args, "kwargs": letter.kwargs}
        changed = unmasked(changed, shown, {"args": job.args, "kwargs": job.kwargs})
    return changed


def _resolve(visit: PageRequest) -> ActionResult:
    status = visit.said("status") or RESOLUTIONS[0]
    letter = visit.app.dead.resolve(visit.name("letter"), status, by=visit.visitor.name, note=visit.said("note"))
    return ActionResult(f"This dead letter is {letter.status.replace('_', ' ')}.", target=letter.id)


def _note(visit: PageRequest) -> ActionResult:
    letter = visit.app.dead.note(visit.name("letter"), visit.said("text") or "", by=visit.visitor.name)
    return ActionResult("Noted.", target=letter.id)


VIEWS = [View(path="/dead/{letter:path}", template="letter.html", show=show)]
ACTIONS = [
    Action(path="/dead/{letter:path}/requeue", what="dead.requeue", do=_requeue),
    Action(path="/dead/{letter:path}/resolve", what="dead.resolve", do=_resolve),
    Action(path="/dead/{letter:path}/note", what="dead.note", do=_note),
]
