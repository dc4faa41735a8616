"""Enqueue a job: a new one, or a changed copy of another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.app.parts import declared_task
from headrace.core.codec import codec
from headrace.core.codec.redaction import MASK, unmasked
from headrace.errors import CorruptPayload, InvalidJob
from headrace.web.pages.formatting import plain_json
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View
from headrace.web.pages.views.jobs import known_tasks


def show(request: PageRequest) -> Mapping[str, Any]:
    original_id = request.query("like")
    original = request.app.jobs.get(original_id) if original_id else None
    args, kwargs = original.redacted_call() if original else ((), {})
    return {
        "original": original,
        "masked": MASK in plain_json(args) or MASK in plain_json(kwargs),
        "task": original.task if original else request.query("task") or "",
        "queue": original.queue if original else request.query("queue") or "",
        "priority": original.priority if original else "",
        "args": plain_json(args),
        "kwargs": plain_json(kwargs),
        "tasks": known_tasks(request),
        "queues": [queue.name for queue in request.page_cache.queue_rows()],
        "topics": ("none",),
    }


def _enqueue(request: PageRequest) -> ActionResult:
    task = request.form_field("task")
    if task is None:
        raise InvalidJob("task: required")
    args, kwargs = read_json(request, "args", list), read_json(request, "kwargs", dict)
    if original_id := request.form_field("like"):
        original = request.app.jobs.get(original_id)
        args, kwargs = unmasked((args, kwargs), original.redacted_call(), (original.args, original.kwargs))
    stored = declared_task(request.app, task).using(**_options(request)).enqueue(*args, **kwargs)
    return ActionResult(f"Job {stored.id} is {stored.state}.", goto=request.url(f"/jobs/{stored.id}"), target=stored.id)


def read_json(request: PageRequest, name: str, kind: type) -> Any:
    """A JSON list or object from a form field; empty if the field is empty."""
    text = request.form_field(name)
    if text is None:
        return kind()
    try:
        value = codec.decode(text)
    except CorruptPayload as error:
        reason = str(error).removeprefix("payload can't be read: ")
        raise InvalidJob(f"{name}: this is not valid JSON ({reason})") from None
    if not isinstance(value, kind):
        expected = "a list such as [1, 2]" if kind is list else 'an object such as {"a": 1}'
        raise InvalidJob(f"{name}: expected {expected}")
    return value


def _options(request: PageRequest) -> dict[str, Any]:
    options: dict[str, Any] = {name: request.form_field(name) for name in ("queue",) if request.form_field(name)}
    for name, kind in (("priority", int), ("delay", float), ("timeout", float)):
        if text := request.form_field(name):
            try:
                options[name] = kind(text)
            except ValueError:
                raise InvalidJob(f"{name}: {text!r} is not a number") from None
    if text := request.form_field("run_at"):
        options["run_at"] = moment_of("run_at", text)
    if tags := request.form_field("tags"):
        options["tags"] = tuple(tag.strip() for tag in tags.split(",") if tag.strip())
    return options


def moment_of(name: str, text: str) -> datetime:
    """A time from a form field; UTC without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidJob(f"{name}: {text!r} is not a time such as 2025-06-01T12:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


VIEWS = [View(path="/enqueue", template="jobs/enqueue.html", show=show)]
ACTIONS = [Action(path="/enqueue", name="job.enqueue", run=_enqueue)]
