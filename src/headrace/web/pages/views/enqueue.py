"""Enqueue a job: a new one, or a changed copy of another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.core.codec import codec
from headrace.core.codec.redaction import MASK, unmasked
from headrace.errors import CorruptPayload, InvalidJob
from headrace.web.pages.formatting import plain_json
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View
from headrace.web.pages.views.jobs import known_tasks


def show(visit: PageRequest) -> Mapping[str, Any]:
    model = visit.asked("like")
    job = visit.app.jobs.get(model) if model else None
    args, kwargs = job.redacted_call() if job else ((), {})
    return {
        "model": job,
        "masked": MASK in plain_json(args) or MASK in plain_json(kwargs),
        "task": job.task if job else visit.asked("task") or "",
        "queue": job.queue if job else visit.asked("queue") or "",
        "priority": job.priority if job else "",
        "args": plain_json(args),
        "kwargs": plain_json(kwargs),
        "tasks": known_tasks(visit),
        "queues": [queue.name for queue in visit.page_cache.names()],
        "topics": ("none",),
    }


def _enqueue(visit: PageRequest) -> ActionResult:
    task = visit.said("task")
    if task is None:
        raise InvalidJob("task: required")
    args, kwargs = read_json(visit, "args", list), read_json(visit, "kwargs", dict)
    if model := visit.said("like"):
        job = visit.app.jobs.get(model)
        args, kwargs = unmasked((args, kwargs), job.redacted_call(), (job.args, job.kwargs))
    stored = visit.app.task_by_name(task).using(**_options(visit)).enqueue(*args, **kwargs)
    return ActionResult(f"Job {stored.id} is {stored.state}.", goto=visit.at(f"/jobs/{stored.id}"), target=stored.id)


def read_json(visit: PageRequest, name: str, kind: type) -> Any:
    """A JSON list or object from a form field; empty if the field is empty."""
    text = visit.said(name)
    if text is None:
        return kind()
    try:
        value = codec.decode(text)
    except CorruptPayload as error:
        text_ = str(error).removeprefix("payload can't be read: ")
        raise InvalidJob(f"{name}: this is not valid JSON ({text_})") from None
    if not isinstance(value, kind):
        shape = "a list such as [1, 2]" if kind is list else 'an object such as {"a": 1}'
        raise InvalidJob(f"{name}: expected {shape}")
    return value


def _options(visit: PageRequest) -> dict[str, Any]:
    options: dict[str, Any] = {name: visit.said(name) for name in ("queue",) if visit.said(name)}
    for name, kind in (("priority", int), ("delay", float), ("timeout", float)):
        if text := visit.said(name):
            try:
                options[name] = kind(text)
            except ValueError:
                raise InvalidJob(f"{name}: {text!r} is not a number") from None
    if text := visit.said("run_at"):
        options["run_at"] = moment_of("run_at", text)
    if tags := visit.said("tags"):
        options["tags"] = tuple(tag.strip() for tag in tags.split(",") if tag.strip())
    return options


def moment_of(name: str, text: str) -> datetime:
    """A time from a form field; UTC without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidJob(f"{name}: {text!r} is not a time such as 2025-06-01T12:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


VIEWS = [View(path="/enqueue", template="enqueue.html", show=show)]
ACTIONS = [Action(path="/enqueue", what="job.enqueue", do=_enqueue)]
