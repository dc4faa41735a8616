"""The arguments of a job on the command line: JSON texts, and the name of a task."""

from __future__ import annotations

import difflib
from typing import Any

import click

from headrace.app.app import Headrace
from headrace.cli.output import remark
from headrace.core.codec import codec
from headrace.errors import CorruptPayload


def json_argument(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """The value of an argument that is given as JSON."""
    if value is None:
        return None
    try:
        return codec.decode(value)
    except CorruptPayload as error:
        text = str(error).removeprefix("payload can't be read: ")
        hint = "write '[1, \"two\"]' or '{\"name\": 3}', in single quotes"
        raise click.BadParameter(f"{value!r} is not valid JSON ({text}); {hint}", ctx, param) from None


def call_arguments(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments of a call. A single object is the named ones."""
    if kwargs is None and isinstance(args, dict):
        args, kwargs = [], args
    positional, named = [] if args is None else args, {} if kwargs is None else kwargs
    if not isinstance(positional, list):
        raise click.UsageError(f"ARGS must be a JSON list, such as '[1, 2]', not {positional!r}")
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named):
        raise click.UsageError(f"KWARGS must be a JSON object, such as '{{\"a\": 1}}', not {named!r}")
    return positional, named


def warn_if_unknown(app: Headrace, app_name: str | None, task: str) -> None:
    """Say so if the app does not know the task. The name is allowed, and most often a slip."""
    if app_name is None or app.find_task(task) is not None:
        return
    near = difflib.get_close_matches(task, app.tasks, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    remark(f"note: {app_name} has no task {task!r}{hint}; the job waits for a worker that has it")
