"""Enqueue a job: a new one, with a field for each parameter if the task's code is known, or a changed copy."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.app.parts import declared_task
from headrace.core.codec import codec
from headrace.core.codec.annotations import ANYTHING
from headrace.core.codec.redaction import MASK, unmasked
from headrace.core.tasks.option_fields import JOB_OPTIONS
from headrace.core.tasks.signature import Parameter
from headrace.errors import CorruptPayload, InvalidJob
from headrace.runtime.jobs.job import Job
from headrace.web.pages.formatting import plain_json
from headrace.web.pages.forms import form_values
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View
from headrace.web.pages.views.jobs import known_tasks

_OPTIONS = {name: JOB_OPTIONS[name] for name in ("queue", "priority", "delay", "timeout", "run_at", "tags")}
FIELD = "arg."  # before the name of a parameter
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ParameterField(Struct, frozen=True):
    """A field of the form for one parameter."""

    name: str
    hint: str
    required: bool


def show(request: PageRequest) -> Mapping[str, Any]:
    original_id = request.query("like")
    original = request.app.jobs.get(original_id) if original_id else None
    args, kwargs = original.redacted_call(request.app.settings.max_payload) if original else ((), {})
    task = request.query("task")
    parameters = None if original else _parameters(request, task)
    return {
        "parameters": _declared_fields(request, original, task) if parameters is None else [*map(_field, parameters)],
        "original": original,
        "masked": MASK in plain_json(args) or MASK in plain_json(kwargs),
        "task": original.task if original else task or "",
        "queue": original.queue if original else request.query("queue") or "",
        "priority": original.priority if original else "",
        "args": plain_json(args),
        "kwargs": plain_json(kwargs),
        "tasks": known_tasks(request),
        "own_tasks": sorted(request.app.tasks),
        "queues": [queue.name for queue in request.page_cache.queue_rows()],
        "topics": ("none",),
    }


def _parameters(request: PageRequest, task: str | None) -> Sequence[Parameter] | None:
    """The parameters of a task; None if its code is not known here, or one of them can't be given by name."""
    known = request.app.tasks.get(task or "")
    if known is None or any(parameter.kind not in _BY_NAME for parameter in known.signature.parameters):
        return None
    return known.signature.parameters


def _declared_fields(request: PageRequest, original: Job[Any] | None, task: str | None) -> list[ParameterField] | None:
    """The fields for a task whose code only workers know: they have stored the names of its parameters."""
    if original or not task or task in request.app.tasks:
        return None
    names = request.app.services.parameter_names(task) or ()
    if not names or names[-1].startswith("*"):
        return None
    return [ParameterField(name, "", required=False) for name in names]


def _field(parameter: Parameter) -> ParameterField:
    kind = "" if parameter.shape is ANYTHING else parameter.shape.text.replace(" | None | None", " | None")
    return ParameterField(
        parameter.name, kind if parameter.required else f"{kind}, optional".lstrip(", "), parameter.required
    )


def _named_arguments(request: PageRequest, task: str) -> dict[str, Any]:
    """The arguments in the fields of the parameters. An empty field is not given; a text needs no quotes."""
    known = {parameter.name: parameter for parameter in _parameters(request, task) or ()}
    names = known or (request.app.services.parameter_names(task) or () if task not in request.app.tasks else ())
    return {
        name: _value(known.get(name), text) for name in names if (text := request.form_field(FIELD + name)) is not None
    }


def _value(parameter: Parameter | None, text: str) -> Any:
    if parameter is not None and parameter.shape.exact == frozenset((str,)):
        return text
    try:
        return codec.decode(text)
    except CorruptPayload:
        return text  # the check of the call names a value that does not fit, if the code is known here


def _enqueue(request: PageRequest) -> ActionResult:
    task = request.form_field("task")
    if task is None:
        raise InvalidJob("task: required")
    args, kwargs = read_json(request, "args", list), read_json(request, "kwargs", dict)
    kwargs = {**kwargs, **_named_arguments(request, task)}
    if original_id := request.form_field("like"):
        original = request.app.jobs.get(original_id)
        args, kwargs = unmasked((args, kwargs), original.redacted_call(None), (original.args, original.kwargs))
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
    return {name: value for name, value in form_values(request.form, _OPTIONS).items() if value is not None}


VIEWS = [View(path="/enqueue", template="jobs/enqueue.html", show=show)]
ACTIONS = [Action(path="/enqueue", name="job.enqueue", run=_enqueue)]
